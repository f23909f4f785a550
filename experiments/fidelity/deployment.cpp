#include "experiments/fidelity/deployment.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {
namespace {

constexpr double kMostLoad = 0.9;  ///< of a queue: a closed loop has no more

std::int64_t whole(double value) {
  return std::max<std::int64_t>(0, std::llround(value));
}

/// The device with the time that the engine's kernels take to sort tokens.
hw::GpuParams with_sort(const DeploymentParams& p) {
  hw::GpuParams gpu = p.gpu;
  const std::int64_t bits = hw::bits_64ths(p.formats.experts);
  if (bits > 0 && bits < 64 * 8) gpu.moe.sort_s = p.expert_sort_s;
  return gpu;
}

}  // namespace

DeploymentModel::DeploymentModel(DeploymentParams params)
    : p_(std::move(params)),
      t_(models::build_transformer(p_.model, p_.formats, p_.split, p_.router)),
      cost_(hw::make_cost_model("tiled", with_sort(p_))) {}

double DeploymentModel::collective_s(const models::Communication& c) const {
  const double library_s = hw::library_collective(p_.gpu.link, library_call(c.kind), c.ranks, c.bytes).time_s;
  const double ranks = static_cast<double>(c.ranks), bytes = static_cast<double>(c.bytes);
  // Bytes that a rank reads from others when each fetches what it needs: all buffers, or all but its own share.
  const double read = c.kind == models::Collective::all_reduce ? (ranks - 1) * bytes : (ranks - 1) / ranks * bytes;
  return std::min(library_s, p_.direct_base_s + read / (p_.gpu.link.bandwidth * p_.direct_share));
}

void DeploymentModel::add(const models::Launches& launches, double times, Price& sum) const {
  for (const hw::Kernel& kernel : launches.kernels) {
    if (kernel.op == hw::OpClass::residual) continue;
    sum.device_s += times * cost_->cost(kernel).time_s;
    sum.kernels += times;
  }
  for (const models::Communication& c : launches.communications) {
    sum.device_s += times * collective_s(c);
    sum.kernels += times;
  }
}

double DeploymentModel::step_s(double decodes, double context, double prompts, double prompt_tokens) const {
  const std::int64_t n = whole(decodes), k = whole(prompts), length = std::max<std::int64_t>(1, whole(prompt_tokens));
  if (n + k == 0) return 0;
  models::BatchDims batch;
  batch.tokens = n + k * length;
  batch.logit_rows = n + k;
  for (std::int64_t i = 0; i < k; ++i) batch.prefill.add(length, 0);
  batch.decode = {n, n * std::max<std::int64_t>(1, whole(context))};
  models::Launches out;
  Price sum;
  for (std::size_t kind = 0; kind < t_.kinds.size(); ++kind) {
    out.clear();
    models::lower_layer(t_, kind, batch, out);
    add(out, static_cast<double>(t_.kinds[kind].count), sum);
  }
  out.clear();
  models::lower_edges(t_, batch, true, true, out);
  add(out, 1, sum);
  const double latent_layers = p_.model.latent.kv_rank > 0 ? static_cast<double>(p_.model.layers) : 0;
  const double host_s = k > 0 ? sum.kernels * p_.overheads.kernel_s + latent_layers * p_.overheads.latent_s : 0;
  return std::max(sum.device_s, host_s) + p_.overheads.step_s + static_cast<double>(n + k) * p_.overheads.sequence_s;
}

double DeploymentModel::capacity(double tokens) const {
  const double room =
      static_cast<double>(p_.gpu.memory_bytes) * p_.memory_share - static_cast<double>(weight_bytes(t_));
  return room / (static_cast<double>(kv_bytes_per_token(t_)) * std::max(1.0, tokens) +
                 static_cast<double>(state_bytes_per_sequence(t_)));
}

double DeploymentModel::prompt_s(double decodes, double context, double tokens) const {
  // A prompt longer than a step allows takes several, each with the decodes in it.
  const double steps = std::ceil(tokens / static_cast<double>(p_.batched_tokens));
  const double alone = step_s(decodes, context, 0, 0);
  return steps * (step_s(decodes, context, 1, tokens / steps) - alone);
}

double DeploymentModel::burst_s(double clients, double tokens) const {
  // Mean wait of requests that come at once, behind half of the others' prompts.
  const double together = std::max(1.0, std::floor(static_cast<double>(p_.batched_tokens) / tokens));
  const double batch = std::min(together, clients);
  const double each = batch > 1 ? step_s(0, 0, batch, tokens) / batch : prompt_s(0, 0, tokens);
  return (clients - 1) / 2 * each;
}

double DeploymentModel::queue_s(const ClosedLoop& loop, double others, double prompt_s, double cycle_s,
                                double burst_s) {
  double sum = burst_s;
  const double apart = 2 * burst_s;  // the first round ends as it was let in, one prompt after the other
  for (int round = 1; round < static_cast<int>(loop.rounds); ++round) {
    const double strewn = loop.spread * std::sqrt(static_cast<double>(round)) * cycle_s;
    const double width = std::min(cycle_s, std::sqrt(apart * apart + strewn * strewn));
    const double load = std::min(kMostLoad, others * prompt_s / width);
    const double chance = std::min(1.0, strewn / width);  // of the order that the first round left
    sum += chance * load * prompt_s / (2 * (1 - load));
  }
  return sum / loop.rounds;
}

LoopLatency DeploymentModel::disaggregated(const ClosedLoop& loop, const DeploymentModel& prefill,
                                           const PrefillPool& pool) const {
  const double context = loop.prompt_tokens + loop.output_tokens / 2;
  LoopLatency out;
  out.requests = capacity(context);
  const double per_worker = loop.clients / pool.decode_workers;
  const double prompt = prefill.prompt_s(0, 0, loop.prompt_tokens);
  const double share = loop.clients / pool.workers;  // clients of a prefill worker
  const double burst = share > 1 ? prefill.burst_s(share, loop.prompt_tokens) : 0;
  double n = std::min(per_worker, std::max(1.0, out.requests));
  for (int i = 0; i < 20; ++i) {
    out.tpot_s = step_s(std::max(1.0, n), context, 0, 0);
    const double y = loop.output_tokens * out.tpot_s, cycle = out.ttft_s + y;
    double next = p_.overheads.request_s + prompt + out.tpot_s +
                  queue_s(loop, std::max(0.0, share - 1), prompt, std::max(cycle, share * prompt), burst);
    // More prompts than the workers can take: requests wait until the rate falls to theirs.
    next = std::max(next, share * prompt - y);
    out.ttft_s = i == 0 ? next : (out.ttft_s + next) / 2;
    n = (n + per_worker * y / (out.ttft_s + y)) / 2;
  }
  return out;
}

}  // namespace orrery::experiments
