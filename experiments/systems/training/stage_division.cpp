#include "experiments/systems/training/stage_division.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "experiments/systems/training/run.hpp"

namespace orrery::experiments::training {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a stage may be: so many layers, of which so many run again.
struct Option {
  std::int64_t layers = 0, again = 0;
  double time_s = 0, update_s = 0;
  HostShares shares;
};
using StageOptions = std::vector<Option>;

Option option_of(const StageCosts& stage, std::int64_t layers, std::int64_t again, const HostShares& shares) {
  // What of its gradients a host waits for, that the backward pass has no time for.
  const double waits = stage.host_gradients_wait ? std::max(0.0, stage.host_gradients_s - stage.backward_waits_s()) : 0;
  return {layers, again, stage.forward_s() + stage.backward_s(), waits + stage.optimizer_s + stage.gathers_s, shares};
}

/// Stage `s` of the plan, which has its shares, with so many layers and as few of them run again as fit, or more where
/// the way of activations to the host is longer than that; nothing where it never fits.
std::optional<Option> fitting(CostTable& table, const TrainingMachine& machine, const Plan& plan, std::int64_t s,
                              std::int64_t layers, bool may_run_again) {
  Plan own = plan.of_stage(s);
  own.recompute = Recompute::full;
  own.stage_recompute_layers.clear();
  const ModelCosts& model = table.costs(own.share());
  const auto stage_of = [&](std::int64_t again) {
    own.recompute = again > 0 ? Recompute::full : Recompute::none;
    own.recompute_layers = again;
    return stage_costs(model, machine, own, s, layers);
  };
  const auto fits = [&](std::int64_t again) {
    const StageCosts stage = stage_of(again);
    if (stage_memory(model, stage, own, most_kept(stage, own, s)).total() > machine.device.memory_bytes) return false;
    // Of the host's memory each rank has its part, whatever others leave.
    const std::int64_t ranks = std::min(plan.ranks(), machine.node_devices);
    return !machine.host_memory ||
           ranks * stage.host_bytes(most_kept(stage, own, s, &ChunkCosts::host_bytes)) <= *machine.host_memory;
  };
  const HostShares shares = plan.host_shares(s);
  std::int64_t fewest = 0;
  // One layer that runs again holds its activations while it does: none may fit where one does not.
  if (!fits(0)) {
    fewest = layers;
    if (!may_run_again || !fits(fewest)) return std::nullopt;
    for (std::int64_t less = 0; fewest - less > 1;) {  // `fewest` fits, `less` does not
      const std::int64_t middle = (fewest + less) / 2;
      (fits(middle) ? fewest : less) = middle;
    }
  }
  Option best = option_of(stage_of(fewest), layers, fewest, shares);
  for (std::int64_t again = fewest + 1; may_run_again && shares.activations > 0 && again <= layers; ++again)
    if (const Option more = option_of(stage_of(again), layers, again, shares); more.time_s < best.time_s && fits(again))
      best = more;
  return best;
}

/// Leaves those out whose passes and update another of as many layers does as fast.
void keep_unbeaten(StageOptions& same) {
  std::stable_sort(same.begin(), same.end(), [](const Option& a, const Option& b) {
    return std::pair(a.time_s, a.update_s) < std::pair(b.time_s, b.update_s);
  });
  double least = kNever;
  std::erase_if(same, [&](const Option& option) {
    if (option.update_s >= least) return true;
    least = option.update_s;
    return false;
  });
}

/// The shortest sum of stage times with all layers placed, no stage longer than `limit` and every update shorter than
/// `update_s`; kNever where none is. `chosen`: the option of each stage.
double shortest(const std::vector<StageOptions>& options, std::int64_t layers, double limit, double update_s,
                std::vector<std::size_t>& chosen) {
  const std::size_t stages = options.size(), width = static_cast<std::size_t>(layers) + 1;
  std::vector<std::vector<double>> sum(stages + 1, std::vector<double>(width, kNever));
  std::vector<std::vector<std::size_t>> taken(stages, std::vector<std::size_t>(width, 0));
  sum[0][0] = 0;
  for (std::size_t s = 0; s < stages; ++s)
    for (std::size_t placed = 0; placed < width; ++placed) {
      if (sum[s][placed] == kNever) continue;
      for (std::size_t o = 0; o < options[s].size(); ++o) {
        const Option& option = options[s][o];
        const std::size_t now = placed + static_cast<std::size_t>(option.layers);
        if (option.time_s > limit || option.update_s >= update_s || now >= width) continue;
        if (sum[s][placed] + option.time_s >= sum[s + 1][now]) continue;
        sum[s + 1][now] = sum[s][placed] + option.time_s;
        taken[s][now] = o;
      }
    }
  if (sum[stages][width - 1] == kNever) return kNever;
  chosen.assign(stages, 0);
  std::size_t placed = width - 1;
  for (std::size_t s = stages; s-- > 0;) {
    chosen[s] = taken[s][placed];
    placed -= static_cast<std::size_t>(options[s][chosen[s]].layers);
  }
  return sum[stages][width - 1];
}

/// Whether stages no longer than `limit` have room for all layers: where they have not, no division is looked for.
bool holds(const std::vector<StageOptions>& options, std::int64_t layers, double limit) {
  std::int64_t room = 0;
  for (const StageOptions& stage : options) {
    std::int64_t most = 0;
    for (const Option& option : stage)
      if (option.time_s <= limit) most = std::max(most, option.layers);
    room += most;
  }
  return room >= layers;
}

}  // namespace

std::int64_t most_kept(const StageCosts& stage, const Plan& plan, std::int64_t s, std::int64_t ChunkCosts::*of) {
  const std::int64_t later = plan.pipeline - 1 - s, micro = plan.micro_batches, chunks = plan.chunks;
  if (chunks == 1) return std::min(micro, later + 1) * stage.chunks.front().*of;
  const std::int64_t total = micro * chunks, round = plan.pipeline * chunks;
  const std::int64_t warm = std::min(total, 2 * later + (chunks - 1) * plan.pipeline);
  const auto kept = [&](std::int64_t chunk) { return stage.chunks[static_cast<std::size_t>(chunk)].*of; };
  // What happens in the third round happens in all.
  const std::int64_t passes = std::min(total, warm + 2 * round);
  std::int64_t now = 0, most = 0;
  for (std::int64_t i = 0; i < passes; ++i) {
    most = std::max(most, now += kept(i % round / plan.pipeline));
    if (i >= warm) now -= kept(chunks - 1 - (i - warm) % round / plan.pipeline);
  }
  return most;
}

namespace {

/// What prices a stage, and about how many layers it should have.
struct StagePrices {
  CostTable& table;
  const TrainingMachine& machine;
  std::int64_t layers = 0;
};

std::optional<StageDivision> divide(const std::vector<StagePrices>& stages, const Plan& plan, std::int64_t layers,
                                    std::int64_t reach, StageAgain again, const std::vector<HostShares>& shares) {
  std::vector<StageOptions> options(static_cast<std::size_t>(plan.pipeline));
  std::vector<double> limits;
  double least_update = 0;  // that some stage needs whatever is chosen
  // A plan for each choice of shares.
  std::vector<Plan> plans(std::max<std::size_t>(1, shares.size()), plan);
  for (std::size_t i = 0; i < shares.size(); ++i) plans[i].set_host_shares({shares[i]});
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const auto& [table, machine, about] = stages[static_cast<std::size_t>(s)];
    StageOptions& own = options[static_cast<std::size_t>(s)];
    double fastest = kNever;
    for (std::int64_t count = std::max<std::int64_t>(1, about - reach); count <= std::min(layers, about + reach);
         ++count) {
      StageOptions same;
      for (const Plan& choice : plans)
        if (const auto option = fitting(table, machine, choice, s, count, again == StageAgain::fewest_that_fit))
          same.push_back(*option);
      keep_unbeaten(same);
      for (const Option& option : same) {
        limits.push_back(option.time_s);
        fastest = std::min(fastest, option.update_s);
      }
      own.insert(own.end(), same.begin(), same.end());
    }
    least_update = std::max(least_update, fastest);
  }
  // The longest stage is one of these; under each limit the shortest sum decides.
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::optional<StageDivision> best;
  std::vector<std::size_t> chosen;
  for (const double limit : limits) {
    const double longest = static_cast<double>(plan.micro_batches - 1) * limit + least_update;
    if (best && longest >= best->objective_s) break;
    if (!holds(options, layers, limit)) continue;
    // The shortest passes first, then those with ever shorter updates, until passes alone are too long.
    for (double update = kNever;;) {
      const double sum = shortest(options, layers, limit, update, chosen);
      if (sum == kNever || (best && longest + sum >= best->objective_s)) break;
      update = 0;
      for (std::size_t s = 0; s < chosen.size(); ++s) update = std::max(update, options[s][chosen[s]].update_s);
      const double objective = static_cast<double>(plan.micro_batches - 1) * limit + sum + update;
      if (best && objective >= best->objective_s) continue;
      best = StageDivision{.objective_s = objective};
      for (std::size_t s = 0; s < chosen.size(); ++s) {
        const Option& option = options[s][chosen[s]];
        best->layers.push_back(option.layers);
        best->again.push_back(option.again);
        best->shares.push_back(option.shares);
      }
    }
  }
  return best;
}

}  // namespace

std::optional<StageDivision> divide_stages(CostTable& table, const TrainingMachine& machine, const Plan& plan,
                                           std::int64_t layers, std::int64_t reach, StageAgain again,
                                           const std::vector<HostShares>& shares) {
  std::vector<StagePrices> stages;
  for (std::int64_t s = 0; s < plan.pipeline; ++s)
    stages.push_back({table, machine, even_layers(layers, plan.pipeline, s)});
  return divide(stages, plan, layers, reach, again, shares);
}

std::optional<StageDivision> divide_stages(StageTables& tables, const Plan& plan, std::int64_t layers,
                                           std::int64_t reach, StageAgain again,
                                           const std::vector<HostShares>& shares) {
  std::vector<double> speeds;  // layers a second
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const Plan own = plan.of_stage(s);
    const PartCosts& layer = tables.table(plan, s).costs(own.share()).part(PartName::layer);
    speeds.push_back(1 /
                     (layer.forward.length_s() + layer.backward_input.length_s() + layer.backward_weight.length_s()));
  }
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<StagePrices> stages;
  double before = 0;
  std::int64_t placed = 0;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    before += speeds[static_cast<std::size_t>(s)];
    const auto until = static_cast<std::int64_t>(std::llround(before / all * static_cast<double>(layers)));
    stages.push_back({tables.table(plan, s), tables.machine(plan, s),
                      tables.alike() ? even_layers(layers, plan.pipeline, s) : until - placed});
    placed = until;
  }
  return divide(stages, plan, layers, reach, again, shares);
}

}  // namespace orrery::experiments::training
