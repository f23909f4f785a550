#include "experiments/fidelity/deployment_loop.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "experiments/fidelity/replay.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments {
namespace {

constexpr std::int64_t kStepKnots = 8;    ///< of a size that a step with prompts is priced at, an octave
constexpr std::int64_t kCacheBlock = 32;  ///< of the cache

/// The nearest of kStepKnots steps an octave.
std::int64_t knot(std::int64_t size) {
  if (size <= 2 * kStepKnots) return size;
  const auto octave = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
  const std::int64_t step = (std::int64_t{1} << octave) / kStepKnots;
  return (size + step / 2) / step * step;
}

class DeploymentIteration final : public IterationModel {
 public:
  explicit DeploymentIteration(const DeploymentModel& model) : model_(model) {}

  void cost(const BatchShape& shape, IterationCost& out) override {
    out = {};
    const Segment& s = shape.segments.front();
    const std::int64_t n = s.decode.sequences, context = n > 0 ? s.decode.context_tokens / n : 0;
    if (s.prefill.sequences == 0) {
      out.time_ps = picoseconds(model_.step_s(static_cast<double>(n), static_cast<double>(context), 0, 0));
      return;
    }
    const auto key = std::tuple(knot(n), knot(context), s.prefill.sequences, knot(s.prefill.q_tokens));
    const auto [at, isnew] = mixed_.try_emplace(key, 0);
    if (isnew) {
      const auto& [decodes, tokens, prompts, all] = key;
      at->second = picoseconds(model_.step_s(static_cast<double>(decodes), static_cast<double>(tokens),
                                             static_cast<double>(prompts),
                                             static_cast<double>(all) / static_cast<double>(prompts)));
    }
    out.time_ps = at->second;
  }

 private:
  static std::int64_t picoseconds(double seconds) { return std::llround(seconds * 1e12); }

  const DeploymentModel& model_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::int64_t> mixed_;
};

}  // namespace

LoopLatency simulate_loop(const DeploymentModel& model, const ClosedLoop& loop,
                          const policies::BatchingRegistry::Choice& batching) {
  LoopLatency out;
  out.requests = model.capacity(loop.prompt_tokens + loop.output_tokens / 2);
  if (out.requests < 1) return out;
  const auto clients = std::max<std::int64_t>(1, std::llround(loop.clients));
  const auto rounds = static_cast<std::int64_t>(loop.rounds);
  sim::RandomStream random(1, "deployment.lengths");
  const auto length = [&](double mean) {
    const double longest = mean / (1 - loop.spread / 2);
    const double drawn = loop.spread > 0 ? random.uniform(longest * (1 - loop.spread), longest) : longest;
    return std::max<std::int64_t>(2, std::llround(drawn));
  };
  std::vector<ReplayRequest> requests;
  for (std::int64_t round = 0; round < rounds; ++round)
    for (std::int64_t client = 0; client < clients; ++client) {
      ReplayRequest request{0, length(loop.prompt_tokens), length(loop.output_tokens), {}};
      if (round > 0) request.after = static_cast<std::size_t>((round - 1) * clients + client);
      requests.push_back(request);
    }
  DeploymentIteration exact(model);
  TabulatedIteration prices(exact, 1);
  HostStages stages;
  stages.request_s = model.overheads().request_s;
  const StagedHostTime host(stages, {.ahead = true});
  ReplayParts parts;
  parts.model = &prices;
  parts.host = &host;
  parts.batching = batching;
  sim::Faults faults;
  policies::KvCacheRegistry caches("kvcache");
  policies::register_kv_caches(caches);
  parts.kvcache = caches.prepare("paged", nullptr, {}, faults);
  faults.throw_if_any();
  parts.geometry.bytes_per_token = 1;
  const double tokens = out.requests * (loop.prompt_tokens + loop.output_tokens / 2);
  parts.geometry.bytes_available = static_cast<std::int64_t>(tokens) / kCacheBlock * kCacheBlock;
  parts.limits = {std::int64_t{1} << 20, 1};
  double answered = 0;
  const auto times = replay(parts, requests);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!times[i]) continue;
    out.ttft_s += times[i]->first_token_s;
    out.tpot_s +=
        (times[i]->last_token_s - times[i]->first_token_s) / static_cast<double>(requests[i].output_tokens - 1);
    answered += 1;
  }
  if (answered > 0) out.ttft_s /= answered, out.tpot_s /= answered;
  return out;
}

}  // namespace orrery::experiments
