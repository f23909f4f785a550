#include "experiments/capacity/reason.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/capacity/search.hpp"

namespace orrery::experiments::capacity {
namespace {

using sim::Node;

// How far a suggestion is searched: enough to tell it from the answer.
constexpr double kGain = 1.05;
constexpr double kTolerance = 0.05;
constexpr std::int64_t kRequests = 20'000;
constexpr double kMostGain = 1024;

/// The first criterion that is not met; null if all are.
const Criterion* unmet(const Probe& probe, std::size_t& index) {
  for (index = 0; index < probe.criteria.size(); ++index)
    if (!probe.criteria[index].met()) return &probe.criteria[index];
  return nullptr;
}

/// Parameters by which batching policies say how many tokens an iteration, and how many sequences a replica, may have.
constexpr std::array kTokenBudgets{"token_budget", "max_num_batched_tokens"};
constexpr std::array kMostSequences{"max_num_seqs", "max_sequences"};

struct Parameter {
  std::string path;  ///< from the root of the config
  std::string name;
  std::int64_t value = 0;
};

template <std::size_t N>
std::optional<Parameter> parameter(const Node& resolved, const std::array<const char*, N>& names) {
  const Node* policy = resolved.at("policies.batching.policy");
  if (policy == nullptr || !policy->is_string()) return {};
  const std::string block = "policies.batching." + policy->as_string();
  for (const char* name : names) {
    const std::string path = block + "." + name;
    if (const Node* value = resolved.at(path); value != nullptr && value->is_number())
      return Parameter{path, name, static_cast<std::int64_t>(value->as_number())};
  }
  return {};
}

Change changed(const Parameter& parameter, std::int64_t value) {
  return {{fmt::format("{}={}", parameter.path, value)}, fmt::format("{} {}", parameter.name, value)};
}

void add_smaller(const std::optional<Parameter>& parameter, std::int64_t least, std::vector<Change>& changes) {
  if (!parameter) return;
  for (std::int64_t value = parameter->value / 2; value >= least; value /= 2)
    changes.push_back(changed(*parameter, value));
}

void add_larger(const std::optional<Parameter>& parameter, std::int64_t most, std::vector<Change>& changes) {
  if (!parameter) return;
  for (std::int64_t value = parameter->value * 2; value <= most; value *= 2)
    changes.push_back(changed(*parameter, value));
}

/// More experts in device memory, as long as there are others.
void add_slots(const Node& resolved, std::vector<Change>& changes) {
  constexpr const char* kShare = "replica.expert_memory.share";
  const Node* share = resolved.at(kShare);
  if (share == nullptr || !share->is_number()) return;
  for (const double times : {1.5, 2.0, 3.0}) {
    const double more = std::min(1.0, std::round(std::max(0.05, share->as_number()) * times * 100) / 100);
    if (more > share->as_number())
      changes.push_back({{fmt::format("{}={:g}", kShare, more)}, fmt::format("{} {:g}", kShare, more)});
    if (more >= 1) break;
  }
}

}  // namespace

Binding binding_at(const ServingConfig& config, const ServingSetup& setup, const CapacityParams& params,
                   const Probe& probe) {
  std::size_t index = 0;
  const Criterion* criterion = unmet(probe, index);
  if (criterion == nullptr) return {};
  LatencyBounds bounds{config.slo.ttft_s, config.slo.tbt_s, config.run.tick_s};
  const LimitParams* limit = index < params.limits.size() ? &params.limits[index] : nullptr;
  const bool of_gaps = limit != nullptr && (limit->metric == Metric::tbt || limit->metric == Metric::tpot);
  if (limit != nullptr) (of_gaps ? bounds.tbt_s : bounds.ttft_s) = limit->most_s;
  LatencyCauses causes(bounds, nullptr);
  const ServingResult result = setup.run(&causes, {}, {.rate_scale = probe.rate_scale, .requests = probe.requests});
  if (limit == nullptr) return causes.binding(result.watched());
  Binding binding = of_gaps ? causes.tbt(result.watched()) : causes.ttft(result.watched());
  binding.target = criterion->name;
  return binding;
}

Node binding_node(const Binding& binding) {
  Node node = Node::object();
  node.set("target", Node::string(binding.target));
  node.set("cause", Node::string(std::string(sim::to_string(binding.cause))));
  node.set("text", Node::string(binding.text));
  return node;
}

std::vector<Change> changes_for(Cause cause, const Node& resolved) {
  const auto budget = parameter(resolved, kTokenBudgets);
  const auto sequences = parameter(resolved, kMostSequences);
  std::vector<Change> changes;
  switch (cause) {
    case Cause::prompt_chunk:
      add_smaller(budget, 64, changes);
      if (budget) break;
      [[fallthrough]];
    case Cause::prompt_first:
      for (const int tokens : {512, 256, 128})
        changes.push_back(
            {{"policies.batching.policy=sarathi", fmt::format("policies.batching.sarathi.token_budget={}", tokens)},
             fmt::format("sarathi with token_budget {}", tokens)});
      break;
    case Cause::decode_batch:
    case Cause::preemption:
      add_smaller(sequences, 4, changes);
      break;
    case Cause::queueing:
    case Cause::prompt:
      add_larger(budget, 16384, changes);
      add_larger(sequences, 4096, changes);
      break;
    case Cause::kv_blocks:
      add_smaller(sequences, 16, changes);
      break;
    case Cause::host_memory:
      add_slots(resolved, changes);
      break;
    case Cause::none:
    case Cause::host:
    case Cause::rejection:
      break;
  }
  return changes;
}

namespace {

/// Highest rate from `start` on with a change; 0 if that one is too high already, or the change does not fit.
double capacity_with(const Change& change, const Node& root, const Systems& systems, const CapacityParams& params,
                     double start) {
  Node changed = root;
  for (const std::string& assignment : change.assignments) sim::assign(changed, assignment);
  sim::Faults faults;
  const ServingConfig config = read_serving_config(changed, systems.registries(), faults);
  if (!faults.empty()) return 0;
  const ServingSetup setup(config);
  if (setup.infeasible()) return 0;
  Prober prober(config, setup, params);
  const Bracket bracket =
      highest_rate({.start = start, .least = start, .most = start * kMostGain, .tolerance = kTolerance},
                   [&](double rate) { return prober.at(rate).holds(); });
  return bracket.meets.value_or(0);
}

}  // namespace

std::optional<Suggestion> suggest(const Node& root, const Systems& systems, const CapacityParams& params,
                                  const std::vector<Change>& changes, double capacity_per_s) {
  CapacityParams quick = params;
  quick.max_requests = std::min(params.max_requests, kRequests);
  quick.replications = std::min<std::int64_t>(params.replications, 2);
  std::optional<Suggestion> best;
  for (const Change& change : changes) {
    const double least = kGain * (best ? best->capacity_per_s : capacity_per_s);
    const double rate = capacity_with(change, root, systems, quick, least);
    if (rate > least * 0.999) best = Suggestion{change, rate};
  }
  return best;
}

}  // namespace orrery::experiments::capacity
