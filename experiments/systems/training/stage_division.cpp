#include "experiments/systems/training/stage_division.hpp"

#include <algorithm>
#include <limits>

#include "experiments/systems/training/run.hpp"

namespace orrery::experiments::training {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a stage may be: so many layers, of which so many run again.
struct Option {
  std::int64_t layers = 0, again = 0;
  double time_s = 0;
};

double passes_s(const StageCosts& stage) {
  return stage.forward_s() + stage.backward_s();
}

/// Stage `s` with so many layers and as few of them run again as fit; nothing where it never fits.
std::optional<Option> fitting(CostTable& table, const TrainingMachine& machine, const Plan& plan, std::int64_t s,
                              std::int64_t layers) {
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
    return stage_memory(model, stage, own, most_kept(stage, own, s)).total() <= machine.device.memory_bytes;
  };
  // One layer that runs again holds its activations while it does: none may fit where one does not.
  if (fits(0)) return Option{layers, 0, passes_s(stage_of(0))};
  std::int64_t most = layers, least = 0;  // `most` fits, `least` does not
  if (!fits(most)) return std::nullopt;
  while (most - least > 1) {
    const std::int64_t middle = (most + least) / 2;
    (fits(middle) ? most : least) = middle;
  }
  return Option{layers, most, passes_s(stage_of(most))};
}

/// Stage `s` with so many layers, of which so many run again as the plan says.
std::optional<Option> planned(CostTable& table, const TrainingMachine& machine, const Plan& plan, std::int64_t s,
                              std::int64_t layers) {
  const Plan own = plan.of_stage(s);
  return Option{layers, own.again(s, layers), passes_s(stage_costs(table.costs(own.share()), machine, own, s, layers))};
}

/// The shortest sum of stage times with all layers placed and no stage longer than `limit`; kNever where none is.
/// `chosen`: the option of each stage.
double shortest(const std::vector<std::vector<Option>>& options, std::int64_t layers, double limit,
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
        if (option.time_s > limit || now >= width || sum[s][placed] + option.time_s >= sum[s + 1][now]) continue;
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
bool holds(const std::vector<std::vector<Option>>& options, std::int64_t layers, double limit) {
  std::int64_t room = 0;
  for (const std::vector<Option>& stage : options) {
    std::int64_t most = 0;
    for (const Option& option : stage)
      if (option.time_s <= limit) most = std::max(most, option.layers);
    room += most;
  }
  return room >= layers;
}

}  // namespace

std::int64_t most_kept(const StageCosts& stage, const Plan& plan, std::int64_t s) {
  const std::int64_t later = plan.pipeline - 1 - s, micro = plan.micro_batches, chunks = plan.chunks;
  if (chunks == 1) return std::min(micro, later + 1) * stage.chunks.front().kept_bytes;
  const std::int64_t total = micro * chunks, round = plan.pipeline * chunks;
  const std::int64_t warm = std::min(total, 2 * later + (chunks - 1) * plan.pipeline);
  const auto kept = [&](std::int64_t chunk) { return stage.chunks[static_cast<std::size_t>(chunk)].kept_bytes; };
  // What happens in the third round happens in all.
  const std::int64_t passes = std::min(total, warm + 2 * round);
  std::int64_t now = 0, most = 0;
  for (std::int64_t i = 0; i < passes; ++i) {
    most = std::max(most, now += kept(i % round / plan.pipeline));
    if (i >= warm) now -= kept(chunks - 1 - (i - warm) % round / plan.pipeline);
  }
  return most;
}

std::optional<StageDivision> divide_stages(CostTable& table, const TrainingMachine& machine, const Plan& plan,
                                           std::int64_t layers, std::int64_t reach, StageAgain again) {
  std::vector<std::vector<Option>> options(static_cast<std::size_t>(plan.pipeline));
  std::vector<double> limits;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const std::int64_t even = even_layers(layers, plan.pipeline, s);
    for (std::int64_t count = std::max<std::int64_t>(1, even - reach); count <= std::min(layers, even + reach); ++count)
      if (const auto option = again == StageAgain::as_planned ? planned(table, machine, plan, s, count)
                                                              : fitting(table, machine, plan, s, count)) {
        options[static_cast<std::size_t>(s)].push_back(*option);
        limits.push_back(option->time_s);
      }
  }
  // The longest stage is one of these; under each limit the shortest sum decides.
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::optional<StageDivision> best;
  std::vector<std::size_t> chosen;
  for (const double limit : limits) {
    if (best && static_cast<double>(plan.micro_batches - 1) * limit >= best->objective_s) break;
    if (!holds(options, layers, limit)) continue;
    const double sum = shortest(options, layers, limit, chosen);
    const double objective = static_cast<double>(plan.micro_batches - 1) * limit + sum;
    if (sum == kNever || (best && objective >= best->objective_s)) continue;
    best = StageDivision{.objective_s = objective};
    for (std::size_t s = 0; s < chosen.size(); ++s) {
      best->layers.push_back(options[s][chosen[s]].layers);
      best->again.push_back(options[s][chosen[s]].again);
    }
  }
  return best;
}

}  // namespace orrery::experiments::training
