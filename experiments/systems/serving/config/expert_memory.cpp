#include "experiments/systems/serving/config/expert_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {

sim::FieldRows<ExpertMemoryParams> ExpertMemoryParams::fields() {
  using P = ExpertMemoryParams;
  static const auto table = sim::joined(
      sim::FieldTable{
          sim::required(sim::field("share", &P::share, sim::Unit::ratio, sim::between(0, 1),
                                   "Share of the experts for which the devices of a replica have slots; the KV cache "
                                   "gets the memory of the others."))},
      sim::inherited<P>(ExpertMemoryPolicies::fields()),
      sim::FieldTable{
          sim::field("host", &P::host, "CPUs and their memory, which hold the experts that have no slots."),
          sim::field("link", &P::link, sim::Unit::reference, sim::any_value(),
                     "Link from the catalog between host and each device."),
          names_part(sim::field(
              "storage", &P::storage, sim::Unit::reference, sim::any_value(),
              "Drive that holds all experts if host memory does not, a memory part from the catalog; empty: none."))});
  return table;
}

namespace {

/// What a cache of experts needs to know of a run, as far as it can.
void check_cache(const sim::Node& node, const ServingConfig& config, sim::Faults& faults) {
  const ExpertMemoryParams& params = *config.replica.expert_memory;
  const traces::RouterTrace& trace = *config.router_choices;
  const bool scores = !trace.layers.front().scores.empty(), pooled = params.spread == SlotSpread::pooled;
  policies::ExpertCacheSetup setup{.experts = trace.experts,
                                   .slots = 1,
                                   .top_k = trace.top_k,
                                   .past = trace.choices(0, 0, config.planned_tokens),
                                   .scores = scores && !pooled,
                                   .foretold = params.prefetch.accuracy > 0};
  const auto refused = [&]() -> std::optional<std::string> {
    try {
      params.cache.make(setup);
      return std::nullopt;
    } catch (const sim::ConfigError& error) {
      return error.faults().front().message;
    }
  };
  const std::optional<std::string> why = refused();
  if (!why) return;
  // What would have to be otherwise.
  std::string hint;
  setup.scores = scores;
  if (!refused()) hint = "one cache for all layers is told no scores: spread even or front";
  setup.past = trace.choices(0, 0, 1);
  if (hint.empty() && !refused()) hint = "workload.router.planned above 0 shows it other tokens";
  setup.future = setup.past;
  if (hint.empty() && !refused()) hint = "nobody knows what the requests of a serving run will choose";
  faults.add(place_of(node, "cache"), *why, hint);
}

}  // namespace

void read_expert_memory(const sim::Node& root, ServingConfig& config, sim::Faults& faults) {
  if (!config.replica.expert_memory || !faults.empty()) return;
  const ExpertMemoryParams& params = *config.replica.expert_memory;
  const sim::Node replica = section(root, "replica"), node = section(replica, "expert_memory");
  const sim::Origin where = node.origin();
  if (config.router_choices == nullptr)
    return faults.add(where, "expected workload.router, which says what experts tokens choose");
  const traces::RouterTrace& trace = *config.router_choices;
  if (config.replica.host_weights)
    faults.add(where, "expected none beside replica.host_weights, which takes a share of all weights");
  if (config.policies.rebalance || config.policies.redundant > 0)
    faults.add(where, "expected none beside policies.redundant and policies.rebalance, whose experts are on all ranks");
  if (std::ranges::any_of(config.parts, [](const DevicePart& part) { return !part.at_clocks.empty(); }))
    faults.add(where, "expected none beside 'clocks' of devices, at which the experts' products are not priced");
  if (params.prefetch.across)
    faults.add(place_of(section(node, "prefetch"), "across"),
               "expected false: who is in the next iteration is decided after this one");
  if (params.schedule.name != "fetch" && params.host.part.empty())
    faults.add(place_of(node, "schedule"),
               fmt::format("expected a host that computes experts beside {}", params.schedule.name),
               "replica.expert_memory.host.part, or schedule fetch");
  const bool numbered = params.spread == SlotSpread::pooled || !params.storage.empty();
  const std::int64_t layers = config.expert_layers;
  if (numbered && layers * trace.experts > (1 << 16))
    faults.add(place_of(node, "spread"),
               fmt::format("expected at most 65,536 experts in one cache, the model has {} in {} layers", trace.experts,
                           layers));
  if (params.host_share && params.storage.empty())
    faults.add(place_of(node, "host_share"), "expected a storage, which has the others");
  if (!params.storage.empty() && params.host.part.empty() && !params.host_share)
    faults.add(place_of(node, "host_share"),
               "expected a share of the experts that the host's memory keeps, for no host is named");
  check_cache(node, config, faults);
  config.expert_home = read_expert_home(node, params.host, params.link, params.storage, config.machine.cost,
                                        place_of(section(root, "machine"), "cost"), config.expert_files, faults);
}

void name_expert_parts(sim::Node& memory, const std::string& file,
                       const std::function<std::string(const std::filesystem::path&)>& reference) {
  const auto name = [&](sim::Node& section, const char* member) {
    sim::Faults found;  // it was read before
    if (const std::string part = section.find(member)->as_string(); !part.empty())
      section.set(member, sim::Node::string(reference(part_file(part, {file, ""}, found))));
  };
  name(*memory.find("host"), "part");
  name(memory, "link");
  name(memory, "storage");
}

}  // namespace orrery::experiments
