// Where router choices of a workload come from: a file, or drawn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/transformer/hf_config.hpp"
#include "sim/base/params.hpp"
#include "traces/router/generator.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::experiments {

/// One of the two.
struct RouterSource {
  std::optional<std::string> trace;
  std::optional<traces::RouterGenerator> generator;
  static constexpr auto fields() {
    using R = RouterSource;
    return sim::FieldTable{
        sim::field(
            "trace", &R::trace, sim::Unit::path, sim::any_value(),
            "Router trace. Its layers stand for those of the model, starting again with the first after the last."),
        sim::field("generator", &R::generator,
                   "Generator of a router trace, in place of a file; experts, top_k and layers default to those of the "
                   "model.")};
  }
};

/// Router choices beside other work. The first tokens show a placement what to expect; the others are replayed.
struct ReplayedRouter : RouterSource {
  double planned = 0.25;
  static constexpr auto fields() {
    using R = ReplayedRouter;
    return sim::joined(sim::inherited<R>(RouterSource::fields()),
                       sim::FieldTable{sim::field(
                           "planned", &R::planned, sim::Unit::ratio, sim::between(0, 0.9),
                           "Share of the trace (its first tokens) that policies.placement is planned on and that is "
                           "not replayed.")});
  }
};

/// Layers of a model that have experts.
std::int64_t expert_layers(const models::ModelConfig& model);

/// What a router of the model must be like.
traces::RoutedModel routed_model(const models::ModelConfig& model);

/// The trace of the source for a model; of one that is drawn all but the layers, and the generator's blanks are filled
/// in. `router` is the source's node, `tokens` how many there are or will be. Faults where it is not one of the two, or
/// of another model.
traces::RouterTrace open_router_source(const sim::Node& router, RouterSource& source, const traces::RoutedModel& model,
                                       std::int64_t& tokens, sim::Faults& faults);

/// The same, drawn where it is a generator's; `planned_tokens`: those that show a placement what to expect.
traces::RouterTrace read_replayed_router(const sim::Node& router, ReplayedRouter& source,
                                         const traces::RoutedModel& model, std::int64_t seed,
                                         std::int64_t& planned_tokens, sim::Faults& faults);

}  // namespace orrery::experiments
