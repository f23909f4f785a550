#include "experiments/uneven/prices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "experiments/systems/training/run.hpp"
#include "sim/relative_line.hpp"

namespace orrery::experiments::uneven {
namespace {

/// Tokens of a device come in pieces of this: a sixteenth of them is a sequence of pairs.
constexpr std::int64_t kPiece = 64;
/// More than this no device is filled with, whatever its memory.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;

/// One micro-batch of a rank.
struct Pass {
  training::StageCosts stage;
  training::StageMemory memory;
  const training::ChunkCosts& chunk() const { return stage.chunks.front(); }
  template <class Member>
  double sum(Member member) const {
    const training::ChunkCosts& c = chunk();
    return c.forward.*member + c.again.*member + c.backward_input.*member + c.backward_weight.*member;
  }
};

/// Prices passes of a model whose weights, gradients and states all devices share out.
class Passes {
 public:
  Passes(const training::TrainingConfig& config, const PlanParams& plan)
      : machine_(config.machine), plan_(plan), model_(config.model), table_(machine_, model_) {
    (void)table_.graph(1, false);  // passes decide for the training system's length, not for the first that is priced
  }

  /// `batch` sequences of `length` tokens, each on `degree` devices.
  Pass pass(std::int64_t degree, std::int64_t batch, std::int64_t length) {
    model_.sequence = length;
    table_.forget_prices();
    training::Plan plan;
    plan.context = degree;
    plan.data = machine_.devices / degree;
    plan.micro_batch = batch;
    plan.exchange = plan_.exchange;
    plan.zero = training::Zero::weights;
    plan.recompute = plan_.recompute;
    plan.gradients_fp32 = plan_.gradients_fp32;
    const training::ModelCosts& costs = table_.costs(plan.share());
    Pass made{.stage = training::stage_costs(costs, machine_, plan, 0, costs.layers)};
    made.memory = training::stage_memory(costs, made.stage, plan, made.chunk().kept_bytes);
    return made;
  }

  std::optional<std::string> obstacle(std::int64_t degree, std::int64_t length) {
    model_.sequence = length;
    training::LayerShare share;
    share.context = degree;
    share.exchange = plan_.exchange;
    return table_.obstacle(share);
  }

  bool fits(std::int64_t tokens) { return pass(1, 1, tokens).memory.total() <= machine_.device.memory_bytes; }

  /// The most tokens that a device has memory for, in whole pieces.
  std::int64_t room() {
    std::int64_t low = 0, high = 1;
    while (high * kPiece <= kMostTokens && fits(high * kPiece)) low = std::exchange(high, 2 * high);
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(middle * kPiece) ? low : high) = middle;
    }
    return low * kPiece;
  }

 private:
  const training::TrainingMachine& machine_;
  const PlanParams& plan_;
  training::TrainedModel model_;
  training::CostTable table_;
};

}  // namespace

Prices stated_prices(const StatedCostParams& params) {
  const double room = static_cast<double>(params.memory_bytes) -
                      params.state_bytes * params.parameters / static_cast<double>(params.devices);
  Prices prices{.costs = {.square_s = params.square_s,
                          .linear_s = params.linear_s,
                          .fixed_s = params.fixed_s,
                          .exchange_s = {0},
                          .device_tokens = room / params.token_bytes}};
  const double bytes = 4.0 * 2 * 2 * static_cast<double>(params.layers) * static_cast<double>(params.hidden);
  for (const double bandwidth : params.exchange) prices.costs.exchange_s.push_back(bytes / bandwidth);
  return prices;
}

Prices priced(const training::TrainingConfig& config, const PlanParams& plan, std::int64_t longest) {
  Passes passes(config, plan);
  Prices prices;
  const std::int64_t devices = config.machine.devices, room = passes.room();
  if (room == 0) {
    prices.obstacle = fmt::format("a device has no memory for model states and {} tokens", kPiece);
    return prices;
  }
  prices.costs.device_tokens = static_cast<double>(room);
  const auto of_token = [&](const Pass& pass, double training::PassCost::*what) {
    return pass.sum(what) / static_cast<double>(room);
  };
  std::vector<sim::LinePoint> points;  // kernels' time of a token in a sequence of that length
  for (const std::int64_t packed : {std::int64_t{16}, std::int64_t{4}})
    points.push_back({static_cast<double>(room / packed),
                      of_token(passes.pass(1, packed, room / packed), &training::PassCost::kernel_s)});
  for (std::int64_t degree = 1; degree <= devices; degree *= 2) {
    if (degree > 1)
      if (auto why = passes.obstacle(degree, degree * room)) {
        if (degree / 2 * room < longest)
          prices.obstacle = fmt::format("the longest sequences want more than {} tokens: {}", degree / 2 * room, *why);
        break;
      }
    const Pass pass = passes.pass(degree, 1, degree * room);
    // Sequences far beyond the longest are not drawn: their attention would bend the fit.
    if (degree == 1 || degree * room <= 2 * longest)
      points.push_back({static_cast<double>(degree * room), of_token(pass, &training::PassCost::kernel_s)});
    prices.costs.exchange_s.push_back(of_token(pass, &training::PassCost::collective_s));
    if (degree > 1) continue;
    const training::ChunkCosts& chunk = pass.chunk();
    const double gathers = chunk.gathers_beside_s, sums = chunk.scatters_beside_s;
    const double forward_host = chunk.forward.host_s;
    const double backward_host = chunk.again.host_s + chunk.backward_input.host_s + chunk.backward_weight.host_s;
    if (plan.overlap) {
      prices.costs.fixed_s = chunk.gathers_exposed_s + chunk.scatters_exposed_s;
      prices.costs.floor_s = std::max(gathers, forward_host) + std::max(gathers + sums, backward_host);
    } else {
      const double alone = config.machine.in_situ.overlapped;  // of these alone, as fast as all collectives
      prices.costs.fixed_s = (2 * gathers + sums) * alone;
      prices.costs.floor_s = forward_host + backward_host;
    }
    prices.update_s = pass.stage.optimizer_s;
  }
  const sim::RelativeLine line = sim::fit_relative_line(points);
  prices.costs.linear_s = line.start;
  prices.costs.square_s = line.slope;
  prices.fit_error = line.furthest;
  return prices;
}

}  // namespace orrery::experiments::uneven
