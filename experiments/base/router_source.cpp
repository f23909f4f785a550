#include "experiments/base/router_source.hpp"

#include <fmt/format.h>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/shown_name.hpp"

namespace orrery::experiments {

std::int64_t expert_layers(const models::ModelConfig& model) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) count += model.has_experts(layer) ? 1 : 0;
  return count;
}

traces::RouterTrace open_router_source(const sim::Node& router, RouterSource& source, const traces::RoutedModel& model,
                                       std::int64_t& tokens, sim::Faults& faults) {
  traces::RouterTrace trace;
  if (source.trace.has_value() == source.generator.has_value()) {
    faults.add(router.origin(), "expected either a 'trace' or a 'generator'");
    return trace;
  }
  if (source.generator) {
    traces::RouterGenerator& generator = *source.generator;
    const sim::Node node = section(router, "generator");
    if (node.find("experts") == nullptr) generator.experts = model.experts;
    if (node.find("top_k") == nullptr) generator.top_k = model.top_k;
    if (node.find("layers") == nullptr) generator.layers = model.layers;
    traces::check_router_generator(node, generator, faults);
    if (!faults.empty()) return trace;
    trace.experts = generator.experts;
    trace.top_k = generator.top_k;
    tokens = generator.tokens;
  } else {
    trace = traces::read_router_trace(*source.trace, {.else_experts = model.experts});
    tokens = trace.tokens();
  }
  // The layers of a trace are those with experts, whatever their numbers.
  if (trace.experts != model.experts || trace.top_k != model.top_k)
    faults.add(router.origin(),
               fmt::format("a router trace of another model: expected {} of {} experts a token as {} "
                           "has, got {} of {}",
                           model.top_k, model.experts, shown_name(model.name), trace.top_k, trace.experts));
  return trace;
}

traces::RoutedModel routed_model(const models::ModelConfig& model) {
  return {model.name, model.experts.count, model.experts.per_token, expert_layers(model)};
}

traces::RouterTrace read_replayed_router(const sim::Node& router, ReplayedRouter& source,
                                         const traces::RoutedModel& model, std::int64_t seed,
                                         std::int64_t& planned_tokens, sim::Faults& faults) {
  std::int64_t tokens = 0;
  traces::RouterTrace trace = open_router_source(router, source, model, tokens, faults);
  if (!faults.empty()) return trace;
  if (source.generator) trace = traces::generate_router_trace(*source.generator, static_cast<std::uint64_t>(seed));
  planned_tokens = static_cast<std::int64_t>(static_cast<double>(trace.tokens()) * source.planned);
  return trace;
}

}  // namespace orrery::experiments
