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

traces::RouterTrace open_router_source(const sim::Node& router, RouterSource& source, const models::ModelConfig& model,
                                       std::int64_t& tokens, sim::Faults& faults) {
  traces::RouterTrace trace;
  if (source.trace.has_value() == source.generator.has_value()) {
    faults.add(router.origin(), "expected either a 'trace' or a 'generator'");
    return trace;
  }
  const models::ExpertConfig& experts = model.experts;
  if (source.generator) {
    traces::RouterGenerator& generator = *source.generator;
    const sim::Node node = section(router, "generator");
    if (node.find("experts") == nullptr) generator.experts = experts.count;
    if (node.find("top_k") == nullptr) generator.top_k = experts.per_token;
    if (node.find("layers") == nullptr) generator.layers = expert_layers(model);
    traces::check_router_generator(node, generator, faults);
    if (!faults.empty()) return trace;
    trace.experts = generator.experts;
    trace.top_k = generator.top_k;
    tokens = generator.tokens;
  } else {
    trace = traces::read_router_trace(*source.trace, {.else_experts = experts.count});
    tokens = trace.tokens();
  }
  // The layers of a trace are those with experts, whatever their numbers.
  if (trace.experts != experts.count || trace.top_k != experts.per_token)
    faults.add(router.origin(),
               fmt::format("a router trace of another model: expected {} of {} experts a token as {} "
                           "has, got {} of {}",
                           experts.per_token, experts.count, shown_name(model.name), trace.top_k, trace.experts));
  return trace;
}

}  // namespace orrery::experiments
