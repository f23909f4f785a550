#include "traces/router/router_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/fault.hpp"

namespace orrery::traces {

void check_router_trace(const RouterTrace& trace, const RoutedModel& model, const std::string& where) {
  if (trace.experts != model.experts || trace.top_k != model.top_k)
    sim::throw_fault({where, ""},
                     fmt::format("a router trace of another model: expected {} of {} experts a token as {} has, got {} "
                                 "of {}",
                                 model.top_k, model.experts, model.name, trace.top_k, trace.experts));
  for (const RouterLayer& layer : trace.layers)
    if (layer.layer >= model.layers)
      sim::throw_fault({where, ""}, fmt::format("a router trace of another model: layer {} where {} has layers 0 to {}",
                                                layer.layer, model.name, model.layers - 1));
}

RouterTrace part_of(const RouterTrace& trace, std::int64_t first, std::int64_t last) {
  RouterTrace out{.experts = trace.experts, .top_k = trace.top_k};
  if (trace.context > 0 && first % trace.context == 0) out.context = trace.context;
  for (std::size_t l = 0; l < trace.layers.size(); ++l) {
    const RouterLayer& from = trace.layers[l];
    const auto choices = trace.choices(l, first, last);
    RouterLayer layer{.layer = from.layer, .choices = {choices.begin(), choices.end()}, .scores = {}};
    if (!from.scores.empty())
      layer.scores.assign(from.scores.begin() + first * trace.experts, from.scores.begin() + last * trace.experts);
    out.layers.push_back(std::move(layer));
  }
  return out;
}

RouterTrace side_by_side(const RouterTrace& trace, std::int64_t texts) {
  std::int64_t each = trace.tokens() / texts;
  if (trace.context > 0 && each > trace.context) each -= each % trace.context;
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < each; ++t)
    for (std::int64_t text = 0; text < texts; ++text) tokens.push_back(text * each + t);
  return in_order(trace, tokens);
}

RouterTrace in_order(const RouterTrace& trace, std::span<const std::int64_t> tokens) {
  RouterTrace out{.experts = trace.experts, .top_k = trace.top_k};
  for (std::size_t l = 0; l < trace.layers.size(); ++l) {
    const RouterLayer& from = trace.layers[l];
    RouterLayer layer{.layer = from.layer, .choices = {}, .scores = {}};
    for (const std::int64_t token : tokens) {
      const auto choices = trace.choices(l, token, token + 1);
      layer.choices.insert(layer.choices.end(), choices.begin(), choices.end());
      if (from.scores.empty()) continue;
      const auto scores = from.scores.begin() + token * trace.experts;
      layer.scores.insert(layer.scores.end(), scores, scores + trace.experts);
    }
    out.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace orrery::traces
