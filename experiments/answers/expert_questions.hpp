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
                   "Model it is of, catalog:NAME or a config.json, which it is checked against; empty: none."),
        sim::field("tokens", &P::tokens, Unit::text, sim::any_value(), "Tokens that count, \"0:4000\"; empty: all."),
        sim::field("layers", &P::layers, Unit::count, sim::at_least(0), "Layers that count; none: all."),
        sim::field("experts", &P::experts, Unit::count, sim::between(0, traces::kMostExpertsOfLayer),
                   "Experts of a layer; 0: as the model, else the file, says."),
        sim::field("context", &P::context, Unit::tokens, sim::at_least(0), "Tokens of a text; 0: as the file says.")};
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
                       "Cache policies; none: all that can be made for the trace."),
            sim::field("slots", &P::slots, Unit::count, sim::at_least(1),
                       "Experts of a layer that stay; none: from a sixteenth of the layer to three quarters."),
            sim::field("look_up", &P::look_up,
                       "Whether the experts of a token are looked up together, those in use staying, or one by one."),
            sim::field("batch", &P::batch, Unit::count, sim::between(1, 1 << 20),
                       "Texts side by side; the experts of all their tokens are looked up together."),
            sim::field("parameters", &P::parameters, "Of cache policies, by their names.")});
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
            sim::field("policy", &P::policy, Unit::text, sim::any_value(), "Placement policies; none: all."),
            sim::field("gpus", &P::gpus, Unit::count, sim::between(1, 1 << 14), "GPUs that share the experts."),
            sim::field("nodes", &P::nodes, Unit::count, sim::between(1, 1 << 14), "Nodes that they stand in."),
            sim::field("slots", &P::slots, Unit::count, sim::between(0, 1 << 20),
                       "Experts of a layer that all GPUs hold together; 0: each once."),
            sim::field("groups", &P::groups, Unit::count, sim::between(1, 1 << 14),
                       "Groups of experts that routing limited to groups keeps on one node."),
            sim::field("batch", &P::batch, Unit::tokens, sim::at_least(0),
                       "Tokens of a batch that is judged; 0: all at once."),
            sim::field("plan", &P::plan, Unit::text, sim::any_value(),
                       "Tokens that a placement is planned on; empty: the first half."),
            sim::field("judge", &P::judge, Unit::text, sim::any_value(),
                       "Tokens that it is judged on; empty: the second half."),
            sim::field("out", &P::out, Unit::path, sim::any_value(), "CSV file for the slots of the best placement."),
            sim::field("parameters", &P::parameters, "Of placement policies, by their names."),
            sim::field("force", &P::force, "Whether the file is replaced if it exists.")});
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
