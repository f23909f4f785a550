#include "experiments/systems/training/layer_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "models/graph/graph_rewrite.hpp"
#include "models/graph/op_work.hpp"

namespace orrery::experiments::training {
namespace {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::Phase;
using models::SymExpr;
using models::TensorId;
using models::TensorRole;

constexpr std::string_view kLayer = "layer.";
constexpr const char* kBefore = "embed.";  ///< in front of scopes of layers that come before those that are alike

/// Number of the layer that a scope lies in; -1: none.
std::int64_t layer_of(std::string_view scope) {
  if (!scope.starts_with(kLayer)) return -1;
  scope.remove_prefix(kLayer.size());
  std::int64_t number = 0;
  std::size_t digits = 0;
  for (; digits < scope.size() && scope[digits] >= '0' && scope[digits] <= '9' && digits < 9; ++digits)
    number = 10 * number + (scope[digits] - '0');
  return digits > 0 ? number : -1;
}

/// The part that a scope, or the name of a parameter, lies in.
PartName part_of(std::string_view scope) {
  if (layer_of(scope) >= 0) return PartName::layer;
  return scope.starts_with("head") ? PartName::head : PartName::embedding;
}

bool attends(const OpNode& op) {
  return op.kind == OpKind::attention || op.kind == OpKind::attention_grad;
}

/// Tokens that a layer's ops of attention look back on, 0: all; nothing if one looks further than another.
std::optional<std::int64_t> window_of(const OpGraph& graph, const std::vector<OpId>& ops) {
  std::optional<std::int64_t> window;
  for (const OpId id : ops) {
    if (!attends(graph.op(id))) continue;
    const std::int64_t own = graph.op(id).integer("window", 0);
    if (window && *window != own) return std::nullopt;
    window = own;
  }
  return window ? window : 0;
}

/// What two alike layers have in common: kinds and shapes, in order, and windows where they differ inside of the layer.
std::string layer_text(const OpGraph& graph, const std::vector<OpId>& ops) {
  std::string text;
  if (!window_of(graph, ops))
    for (const OpId id : ops)
      if (attends(graph.op(id))) text += fmt::format("window {};", graph.op(id).integer("window", 0));
  for (const OpId id : ops) {
    const OpNode& op = graph.op(id);
    text += models::to_string(op.kind);
    for (const TensorId output : op.outputs) text += models::shape_string(graph.tensor(output));
    text += ';';
  }
  return text;
}

/// The tensor of a layer that others read: there is one, the stream of activations.
TensorId stream_of(const OpGraph& graph, std::int64_t layer, const std::vector<OpId>& ops) {
  std::optional<TensorId> found;
  for (const OpId id : ops)
    for (const TensorId output : graph.op(id).outputs) {
      const auto readers = graph.consumers(output);
      const bool leaves = std::any_of(readers.begin(), readers.end(),
                                      [&](OpId reader) { return layer_of(graph.op(reader).scope) != layer; });
      if (!leaves && !graph.is_output(output)) continue;
      if (found) throw models::GraphError(fmt::format("layer {} hands on more than one tensor", layer));
      found = output;
    }
  if (!found) throw models::GraphError(fmt::format("nobody reads what layer {} makes", layer));
  return *found;
}

/// Backward ops that lead to the gradient of what the part before reads: all others are weights' gradients.
std::vector<bool> leads_to_input(const OpGraph& graph) {
  // An op of a layer leads on if an op of the embedding's backward pass needs it; one of the head, if a layer's does.
  const auto rank = [&](OpId id) {
    const std::string& scope = graph.op(id).scope;
    return layer_of(scope) >= 0 ? 1 : scope.starts_with("head") ? 2 : 0;
  };
  std::vector<bool> leads(graph.op_count(), false);
  for (std::size_t i = graph.op_count(); i-- > 0;) {
    const auto id = static_cast<OpId>(i);
    const OpNode& op = graph.op(id);
    if (op.phase != Phase::backward) continue;
    for (const TensorId output : op.outputs)
      for (const OpId reader : graph.consumers(output)) {
        if (graph.op(reader).phase != Phase::backward) continue;
        // What sums the gradients of a table that two parts share is the optimizer's affair: of weights, whose sizes
        // are numbers where those of activations go by batch and tokens.
        const bool of_weights = graph.op(reader).kind == OpKind::add_n && graph.tensor(output).elements().constant();
        if (rank(reader) < rank(id) && !of_weights) leads[i] = true;
        if (rank(reader) == rank(id) && leads[index(reader)]) leads[i] = true;
      }
  }
  return leads;
}

}  // namespace

OneLayer one_layer(const OpGraph& model) {
  std::map<std::int64_t, std::vector<OpId>> layers;
  for (const OpId id : model.ops())
    if (const std::int64_t layer = layer_of(model.op(id).scope); layer >= 0) layers[layer].push_back(id);
  if (layers.empty())
    throw models::GraphError(
        "expected ops in scopes layer.0, layer.1 …: a model without layers cannot be cut into stages");
  // Layers before those that are alike to the end belong to the embedding, where they are the fewer ones.
  const std::string typical = layer_text(model, layers.rbegin()->second);
  auto first = std::prev(layers.end());
  while (first != layers.begin() && layer_text(model, std::prev(first)->second) == typical) --first;
  const std::int64_t before = std::distance(layers.begin(), first), count = std::ssize(layers);
  if (2 * before >= count)
    throw models::GraphError(
        fmt::format("layer {} is not like layer {}", layers.rbegin()->first, std::prev(first)->first));
  const TensorId kept = stream_of(model, first->first, first->second);
  const TensorId last = stream_of(model, layers.rbegin()->first, layers.rbegin()->second);
  models::GraphCopy copy(model);
  for (const OpId id : model.ops()) {
    if (layer_of(model.op(id).scope) > first->first) continue;
    copy.copy(id);
    const auto& outputs = model.op(id).outputs;
    if (std::find(outputs.begin(), outputs.end(), kept) != outputs.end()) copy.put(last, copy.at(kept));
  }
  OpGraph graph = copy.finish();
  const auto is_before = [&](const std::string& scope) {
    const std::int64_t layer = layer_of(scope);
    return layer >= 0 && layer < first->first;
  };
  for (const OpId id : graph.ops())
    if (is_before(graph.op(id).scope)) graph.annotate(id).scope.insert(0, kBefore);
  for (const TensorId id : graph.tensors())
    if (is_before(graph.tensor(id).name)) graph.annotate(id).name.insert(0, kBefore);
  std::map<std::int64_t, std::int64_t> windows;
  for (auto layer = first; layer != layers.end(); ++layer) ++windows[window_of(model, layer->second).value_or(0)];
  return {std::move(graph), count - before, before, std::move(windows)};
}

hw::DType product_type(const OpGraph& model) {
  hw::DType type = hw::DType::fp16;
  std::int64_t most = 0;
  for (const TensorId id : model.with_role(TensorRole::parameter)) {
    const std::int64_t elements = model.tensor(id).elements().eval(models::Bindings{});
    if (elements > most) most = elements, type = models::dtype_of(model.tensor(id).type);
  }
  return type;
}

namespace {

bool is_weighted_product(const OpGraph& graph, const OpNode& op) {
  if (op.kind != OpKind::matmul || op.inputs.size() < 2) return false;
  TensorId weight = models::storage_of(graph, op.inputs[1]);
  if (const auto cast = graph.producer(weight); cast && graph.op(*cast).kind == OpKind::cast)
    weight = models::storage_of(graph, graph.op(*cast).inputs.front());
  return graph.tensor(weight).role == TensorRole::parameter;
}

}  // namespace

LayerGraph placed_graph(OpGraph graph, std::int64_t layers) {
  std::int64_t products = 0;  // of the layer's forward pass, so far
  const std::vector<bool> leads = leads_to_input(graph);
  std::vector<OpPlace> places;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    OpPlace place;
    place.part = part_of(op.scope);
    if (op.phase == Phase::optimizer) {
      place.phase = StepPhase::optimizer;
      place.part = part_of(graph.tensor(op.inputs.front()).name);  // a step has its parameter's
    } else if (op.phase == Phase::backward)
      place.phase = leads[index(id)] ? StepPhase::backward_input : StepPhase::backward_weight;
    if (op.phase == Phase::forward && place.part == PartName::layer) {
      const bool probabilities = op.kind == OpKind::dropout &&
                                 graph.tensor(op.inputs.front()).shape.size() == 4;  // [batch, heads, tokens, tokens]
      place.core = op.op_class == hw::OpClass::softmax || probabilities ||
                   (op.op_class == hw::OpClass::attention_prefill && op.kind == OpKind::matmul);
      const bool kept = op.kind == OpKind::attention || op.kind == OpKind::reduce_scatter ||
                        (is_weighted_product(graph, op) && products++ % 2 == 0);
      place.by_op = !kept;
    }
    places.push_back(place);
  }
  return {std::move(graph), std::move(places), layers};
}

OpGraph with_window(OpGraph graph, std::int64_t window) {
  for (const OpId id : graph.ops())
    if (layer_of(graph.op(id).scope) >= 0 && attends(graph.op(id))) graph.annotate(id).set("window", SymExpr(window));
  return graph;
}

}  // namespace orrery::experiments::training
