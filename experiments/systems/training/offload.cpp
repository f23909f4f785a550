#include "experiments/systems/training/offload.hpp"

#include <algorithm>

#include "policies/offload/update_run.hpp"

namespace orrery::experiments::training {
namespace {

std::int64_t share_of(double share, std::int64_t bytes) {
  return static_cast<std::int64_t>(share * static_cast<double>(bytes));
}

/// Of a chunk's parts, one by one.
struct Ways {
  std::int64_t bytes = 0, messages = 0;
  std::int64_t first = 0, last = 0;  ///< in the order of the forward pass
  std::int64_t most = 0;             ///< of two neighbours
};

Ways ways(double share, const ChunkParts& parts, const ChunkCosts& chunk, std::int64_t KeptBytesOfPart::*of) {
  const std::int64_t layer = share_of(share, parts.layer.*of);
  Ways all{.bytes = chunk.layers * layer, .messages = chunk.layers, .first = layer, .last = layer};
  all.most = std::min<std::int64_t>(2, chunk.layers) * layer;
  const auto edge = [&](const KeptBytesOfPart& part, std::int64_t& end) {
    end = share_of(share, part.*of);
    all.bytes += end;
    ++all.messages;
    all.most = std::max(all.most, end + layer);
  };
  if (chunk.first) edge(parts.embedding, all.first);
  if (chunk.last) edge(parts.head, all.last);
  return all;
}

}  // namespace

void offload_activations(const TrainingMachine& machine, double share, ChunkCosts& chunk) {
  if (!machine.host_link || share <= 0 || chunk.layers == 0) return;
  chunk.host_bytes = share_of(share, chunk.kept_bytes);
  chunk.kept_bytes -= chunk.host_bytes;
  const hw::LinkPart& link = *machine.host_link;
  chunk.forward_host.out_s += hw::transfer_time(link, chunk.host_bytes, chunk.layers, hw::LinkDirection::reverse);
  // The first layer's activations come before anything else can run; the others beside what runs.
  chunk.backward_host.in_s += hw::transfer_time(link, chunk.host_bytes, chunk.layers);
  chunk.backward_host.first_s += hw::transfer_time(link, chunk.host_bytes / chunk.layers);
  chunk.shared_j += 2 * hw::transfer_energy(link, chunk.host_bytes, chunk.layers);
}

std::int64_t offload_parameters(const TrainingMachine& machine, const HostShares& shares, const ChunkParts& parts,
                                bool sums, ChunkCosts& chunk) {
  if (!machine.host_link) return 0;
  const hw::LinkPart& link = *machine.host_link;
  std::int64_t held = 0;
  if (shares.weights > 0) {
    const Ways weights = ways(shares.weights, parts, chunk, &KeptBytesOfPart::weights);
    const double all = hw::transfer_time(link, weights.bytes, weights.messages);
    chunk.forward_host.in_s += all;
    chunk.forward_host.first_s += hw::transfer_time(link, weights.first);
    chunk.backward_host.in_s += all;
    chunk.backward_host.first_s += hw::transfer_time(link, weights.last);
    chunk.shared_j += 2 * hw::transfer_energy(link, weights.bytes, weights.messages);
    held += weights.most;
  }
  if (shares.gradients > 0) {
    const Ways gradients = ways(shares.gradients, parts, chunk, &KeptBytesOfPart::gradients);
    const auto down = hw::LinkDirection::reverse;
    if (sums) chunk.backward_host.in_s += hw::transfer_time(link, gradients.bytes, gradients.messages);
    chunk.backward_host.out_s += hw::transfer_time(link, gradients.bytes, gradients.messages, down);
    chunk.backward_host.last_s += hw::transfer_time(link, gradients.first, 1, down);
    chunk.shared_j += (sums ? 2 : 1) * hw::transfer_energy(link, gradients.bytes, gradients.messages);
    held += gradients.most;
  }
  return held;
}

void offload_update(const TrainingMachine& machine, const HostShares& shares, std::int64_t all_ranks,
                    std::int64_t parameters, bool weights_shared, StageCosts& stage) {
  if (!machine.host_link || parameters <= 0) return;
  if (shares.optimizer <= 0 && shares.weights <= 0 && shares.gradients <= 0) return;
  const auto count = static_cast<double>(parameters), all = static_cast<double>(stage.parameters);
  policies::UpdateRates rates{.device_s = stage.optimizer_s / count,
                              .state_bytes = static_cast<double>(stage.state_bytes) / count,
                              .weight_bytes = static_cast<double>(stage.weight_bytes) / all,
                              .gradient_bytes = static_cast<double>(stage.gradient_bytes) / all,
                              .link = &*machine.host_link};
  if (const auto& host = machine.host_update) {
    const std::int64_t ranks = std::min(all_ranks, machine.node_devices);
    const double own = std::min(host->rank_share, 1 / static_cast<double>(ranks));
    rates.host_s = 1 / (own * host->adam_per_s);
    rates.cast_s = 1 / (own * host->cast_per_s);
    rates.widen_s = 1 / (own * host->widen_per_s);
    rates.stage_s = 1 / host->staging_bytes_per_s;
  }
  // Copies that share out states have all new weights once these are gathered: then they go to the host.
  const bool gathered = parameters < stage.parameters && !weights_shared;
  const policies::OffloadView view{parameters, shares.optimizer, gathered ? 0 : shares.weights, shares.gradients};
  const policies::UpdateOrder order = machine.offload ? machine.offload->order(view) : policies::streamed_order(view);
  const policies::UpdateRun run = policies::update_run(order, view, rates);
  stage.optimizer_s = run.update_s;
  stage.host_gradients_s = run.gradients_s;
  stage.host_gradients_wait = run.gradients_wait;
  stage.host_state_bytes = share_of(shares.optimizer, stage.state_bytes);
  stage.state_bytes -= stage.host_state_bytes;
  stage.network_j += hw::transfer_energy(*machine.host_link, run.up_bytes + run.down_bytes);
  if (gathered) {
    const std::int64_t bytes = share_of(shares.weights, stage.weight_bytes);
    stage.gathers_s =
        std::max(stage.gathers_s, hw::transfer_time(*machine.host_link, bytes, 1, hw::LinkDirection::reverse));
    stage.network_j += hw::transfer_energy(*machine.host_link, bytes);
  }
}

void offload_kept(const HostShares& shares, StageCosts& stage) {
  stage.host_weight_bytes = share_of(shares.weights, stage.weight_bytes);
  stage.weight_bytes -= stage.host_weight_bytes;
  // Gradients of states that the host updates go there as they are made.
  const double away = std::max(shares.gradients, stage.host_gradients_s > 0 ? shares.optimizer : 0);
  stage.host_gradient_bytes = share_of(away, stage.gradient_bytes);
  stage.gradient_bytes -= stage.host_gradient_bytes;
}

std::int64_t fullest_host(const Plan& plan, std::int64_t node_devices, const std::vector<std::int64_t>& stage_bytes) {
  std::int64_t most = 0, node = 0, room = node_devices;
  for (std::int64_t s = 0; s < std::ssize(stage_bytes); ++s) {
    const std::int64_t own = stage_bytes[static_cast<std::size_t>(s)];
    for (std::int64_t left = plan.of_stage(s).stage_ranks(); left > 0;) {
      const std::int64_t here = std::min(left, room);
      most = std::max(most, node += here * own);
      left -= here;
      room -= here;
      if (room == 0) node = 0, room = node_devices;
    }
  }
  return most;
}

}  // namespace orrery::experiments::training
