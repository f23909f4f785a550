// What expert caches hit and how placements load GPUs, on a router trace (docs/explain/experts.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/experts/cache_trial.hpp"
#include "experiments/experts/placement_trial.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

/// Which tokens and layers of which trace; what file and model say is checked against each other.
struct RouterChoice {
  std::string trace, model, tokens;
  std::vector<std::int64_t> layers;
  std::int64_t experts = 0, context = 0;
  static constexpr auto fields() {
    using P = RouterChoice;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("trace", &P::trace, Unit::path, sim::any_value(), "Router trace (CSV or binary).")),
        sim::field("model", &P::model, Unit::text, sim::any_value(),
                   "Model of the trace, catalog:NAME or a config.json, used to check the trace; empty: none."),
        sim::field("tokens", &P::tokens, Unit::text, sim::any_value(),
                   "Tokens of the trace to use, e.g. \"0:4000\"; empty: all."),
        sim::field("layers", &P::layers, Unit::count, sim::at_least(0), "Layers of the trace to use; empty: all."),
        sim::field("experts", &P::experts, Unit::count, sim::between(0, traces::kMostExpertsOfLayer),
                   "Experts per layer; 0: as the model says, or else the file."),
        sim::field("context", &P::context, Unit::tokens, sim::at_least(0), "Tokens per text; 0: as the file says.")};
  }
};

struct ExpertCacheParams : RouterChoice {
  std::vector<std::string> cache;
  std::vector<std::int64_t> slots;
  LookUp look_up = LookUp::token;
  std::int64_t batch = 1;
  sim::Node parameters = sim::Node::object();
  static constexpr auto fields() {
    using P = ExpertCacheParams;
    using sim::Unit;
    return sim::joined(
        sim::inherited<P>(RouterChoice::fields()),
        sim::FieldTable{
            sim::field("cache", &P::cache, Unit::text, sim::any_value(),
                       "Cache policies to compare; empty: all that the trace allows."),
            sim::field(
                "slots", &P::slots, Unit::count, sim::at_least(1),
                "Experts per layer that fit in the cache; empty: from a sixteenth of the layer to three quarters."),
            sim::field(
                "look_up", &P::look_up,
                "How experts are looked up: those of a token together, with those in use staying, or one by one."),
            sim::field("batch", &P::batch, Unit::count, sim::between(1, 1 << 20),
                       "Texts in a batch; the experts of all their tokens are looked up together."),
            sim::field("parameters", &P::parameters, "Parameters of cache policies, by policy name.")});
  }
};

struct ExpertCacheAnswer {
  struct Row {
    std::string cache;
    std::int64_t slots = 0;
    policies::ExpertCounts counts;
  };
  traces::RouterTrace trace;  ///< without choices
  std::int64_t tokens = 0, layers = 0;
  std::vector<std::string> caches;  ///< in the order of columns
  std::vector<std::int64_t> slots;
  std::vector<Row> rows;  ///< by slots, then caches
  std::vector<std::string> notes;
  std::optional<double> expert_bytes;  ///< of the model's weights
  std::int64_t model_layers = 0;       ///< with experts
};

/// Throws sim::ConfigError.
ExpertCacheAnswer ask_expert_caches(const ExpertCacheParams& params, const policies::ExpertCacheRegistry& registry);
sim::Node expert_cache_node(const ExpertCacheAnswer& answer);
std::string expert_cache_text(const ExpertCacheAnswer& answer);

struct ExpertPlaceParams : RouterChoice {
  std::vector<std::string> policy;
  std::int64_t gpus = 8, nodes = 1, slots = 0, groups = 1, batch = 0;
  std::string plan, judge, out;
  sim::Node parameters = sim::Node::object();
  bool force = false;
  static constexpr auto fields() {
    using P = ExpertPlaceParams;
    using sim::Unit;
    return sim::joined(
        sim::inherited<P>(RouterChoice::fields()),
        sim::FieldTable{
            sim::field("policy", &P::policy, Unit::text, sim::any_value(),
                       "Placement policies to compare; empty: all."),
            sim::field("gpus", &P::gpus, Unit::count, sim::between(1, 1 << 14),
                       "GPUs that the experts are divided among."),
            sim::field("nodes", &P::nodes, Unit::count, sim::between(1, 1 << 14), "Nodes that these GPUs are in."),
            sim::field("slots", &P::slots, Unit::count, sim::between(0, 1 << 20),
                       "Expert slots per layer over all GPUs, replicas included; 0: each expert once."),
            sim::field("groups", &P::groups, Unit::count, sim::between(1, 1 << 14),
                       "Groups of experts for group-limited routing; each group is kept on one node."),
            sim::field("batch", &P::batch, Unit::tokens, sim::at_least(0),
                       "Tokens per batch when judging; 0: all at once."),
            sim::field("plan", &P::plan, Unit::text, sim::any_value(),
                       "Tokens that placements are planned on; empty: the first half."),
            sim::field("judge", &P::judge, Unit::text, sim::any_value(),
                       "Tokens that placements are judged on; empty: the second half."),
            sim::field("out", &P::out, Unit::path, sim::any_value(), "CSV file for the slots of the best placement."),
            sim::field("parameters", &P::parameters, "Parameters of placement policies, by policy name."),
            sim::field("force", &P::force, "Whether to replace the file if it exists.")});
  }
};

struct ExpertPlaceAnswer {
  struct Row {
    std::string policy;
    PlacementJudgement planned, judged;  ///< on the tokens that it was planned on, and on those that follow
    std::vector<policies::LayerPlacement> placement;
  };
  std::vector<Row> rows;
  TokenRange plan, judge;
  std::int64_t experts = 0, gpus = 0, slots = 0, layers = 0, batch = 0;
  std::vector<std::int64_t> layer_numbers;
  std::string written_by;  ///< the policy whose slots were written; empty: none
  std::vector<std::string> notes;
};

/// Places, and writes `out`. Throws sim::ConfigError.
ExpertPlaceAnswer ask_expert_placements(const ExpertPlaceParams& params,
                                        const policies::ExpertPlacementRegistry& registry);
sim::Node expert_place_node(const ExpertPlaceAnswer& answer);
std::string expert_place_text(const ExpertPlaceAnswer& answer);

}  // namespace orrery::experiments
