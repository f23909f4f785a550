#include "policies/placement/slapo_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/autodiff/autodiff.hpp"
#include "policies/fusion/marks.hpp"
#include "policies/placement/placement.hpp"

namespace orrery::policies::slapo {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::Phase;
using models::TensorId;
using models::TensorRole;

void Place::fail(std::string_view field, const std::string& message, const std::string& hint) const {
  std::string pointer = fmt::format("/slapo/schedule/{}/{}", entry, primitive);
  if (!field.empty()) pointer += fmt::format("/{}", field);
  sim::throw_fault({{}, pointer}, message, hint);
}

namespace {

/// One piece of a path against a pattern in which `*` stands for any run of characters.
bool piece_fits(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*')
    return !text.empty() && pattern.front() == text.front() && piece_fits(pattern.substr(1), text.substr(1));
  for (std::size_t taken = 0; taken <= text.size(); ++taken)
    if (piece_fits(pattern.substr(1), text.substr(taken))) return true;
  return false;
}

/// Kinds of a chain written "a+b+c", or of a list. Fails at `place`.
std::vector<OpKind> kinds_of(const std::vector<std::string>& names, const Place& place) {
  std::vector<OpKind> kinds;
  for (const std::string& name : names) {
    const std::optional<OpKind> kind = models::op_kind_of(name);
    if (!kind)
      place.fail("ops", fmt::format("expected a kind of op, got '{}'", name), sim::name_hint(name, op_kind_names()));
    kinds.push_back(*kind);
  }
  return kinds;
}

OpGraph contracted(const OpGraph& graph, const models::Grouping& groups, const Place& place) {
  if (!models::is_convex(graph, groups))
    place.fail("scope", "expected ops that can run as one: a path leaves them and comes back",
               "name the kinds that the kernel takes over in 'ops'");
  return models::fuse_groups(graph, groups);
}

}  // namespace

std::optional<std::string> module_of(std::string_view pattern, std::string_view scope) {
  std::string module;
  while (true) {
    const std::size_t p = pattern.find('.'), s = scope.find('.');
    if (scope.empty() || !piece_fits(pattern.substr(0, p), scope.substr(0, s))) return std::nullopt;
    module += (module.empty() ? "" : ".") + std::string(scope.substr(0, s));
    if (p == std::string_view::npos) return module;
    pattern.remove_prefix(p + 1);
    scope.remove_prefix(s == std::string_view::npos ? scope.size() : s + 1);
  }
}

std::vector<std::string> modules(const OpGraph& graph, const std::string& pattern, const Place& place) {
  std::vector<std::string> found, scopes;
  for (const OpId op : graph.ops()) {
    const std::string& scope = graph.op(op).scope;
    if (std::find(scopes.begin(), scopes.end(), scope) != scopes.end()) continue;
    scopes.push_back(scope);
    const std::optional<std::string> module = module_of(pattern, scope);
    if (module && std::find(found.begin(), found.end(), *module) == found.end()) found.push_back(*module);
  }
  if (found.empty())
    place.fail("scope", fmt::format("expected a module of the model, got '{}'", pattern),
               sim::name_hint(pattern, std::move(scopes)));
  return found;
}

OpGraph replace(const OpGraph& graph, const ReplaceParams& params, const Place& place) {
  const std::vector<std::string> named = modules(graph, params.scope, place);
  const std::vector<OpKind> kinds = kinds_of(params.ops.items, place);
  models::GraphCopy copy(graph);
  models::Grouping groups(graph.op_count(), -1);
  for (const OpId op : graph.ops()) {
    const OpId now = copy.copy(op);
    const OpNode& node = graph.op(op);
    const std::optional<std::string> module = module_of(params.scope, node.scope);
    const bool taken = kinds.empty() || std::find(kinds.begin(), kinds.end(), node.kind) != kinds.end();
    if (!module || !taken) continue;
    // The forward and the backward pass of a module are two kernels.
    const auto number = std::find(named.begin(), named.end(), *module) - named.begin();
    groups[index(op)] = static_cast<std::int32_t>(2 * number) + (node.phase == Phase::forward ? 0 : 1);
    copy.to().annotate(now).dialect = params.kernel;
  }
  return contracted(copy.finish(), groups, place);
}

OpGraph fuse(const OpGraph& graph, const FuseParams& params, const Place& place) {
  static_cast<void>(modules(graph, params.scope, place));
  const std::vector<OpKind> kinds = kinds_of(split(params.ops, '+'), place);
  models::Grouping groups(graph.op_count(), -1);
  bool any = false;
  for (const OpId first : graph.ops()) {
    if (!module_of(params.scope, graph.op(first).scope) || groups[index(first)] >= 0) continue;
    const std::vector<OpId> chain = match_chain(graph, first, kinds);
    if (chain.empty() || std::any_of(chain.begin(), chain.end(), [&](OpId op) {
          return groups[index(op)] >= 0 || !module_of(params.scope, graph.op(op).scope);
        }))
      continue;
    any = true;
    for (const OpId op : chain) groups[index(op)] = static_cast<std::int32_t>(index(first));
  }
  if (!any)
    place.fail("ops", fmt::format("expected a chain that is in '{}', got '{}'", params.scope, params.ops),
               "inner tensors of a chain have one reader");
  return models::fuse_groups(graph, groups);
}

namespace {

/// Copies forward ops a second time, in front of the first backward op that reads what they made.
class Recomputation {
 public:
  Recomputation(const OpGraph& graph, std::map<OpId, std::string> module_of_op)
      : copy_(graph), graph_(graph), module_of_(std::move(module_of_op)), again_(graph.tensor_count()) {}

  OpGraph run() {
    for (const OpId op : graph_.ops()) {
      if (graph_.op(op).phase == Phase::forward) {
        copy_.copy(op);
        continue;
      }
      OpNode node = copy_.node(op);
      for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
        const TensorId old = graph_.op(op).inputs[slot];
        if (graph_.producer(old) && module_of_.contains(*graph_.producer(old))) node.inputs[slot] = made_again(old);
      }
      std::vector<models::Tensor> outputs;
      for (const TensorId output : graph_.op(op).outputs) outputs.push_back(graph_.tensor(output));
      const OpId added = copy_.to().add(std::move(node), std::move(outputs));
      for (std::size_t i = 0; i < graph_.op(op).outputs.size(); ++i)
        copy_.put(graph_.op(op).outputs[i], copy_.to().op(added).outputs[i]);
    }
    OpGraph graph = copy_.finish();
    models::mark_saved(graph);
    return graph;
  }

 private:
  /// True if the forward pass reads it outside of its module: such a tensor is kept, it is another module's input.
  bool leaves(TensorId tensor, const std::string& module) const {
    const std::span<const OpId> readers = graph_.consumers(tensor);
    return graph_.is_output(tensor) || std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
             const auto own = module_of_.find(reader);
             return graph_.op(reader).phase == Phase::forward && (own == module_of_.end() || own->second != module);
           });
  }

  /// The tensor made a second time, from what the module takes from outside.
  TensorId made_again(TensorId old) {
    if (again_[index(old)]) return *again_[index(old)];
    const OpId maker = *graph_.producer(old);
    const std::string& module = module_of_.at(maker);
    if (leaves(old, module)) return copy_.at(old);
    OpNode node = graph_.op(maker);
    for (TensorId& input : node.inputs) {
      const std::optional<OpId> before = graph_.producer(input);
      const auto inside = before ? module_of_.find(*before) : module_of_.end();
      input = inside != module_of_.end() && inside->second == module ? made_again(input) : copy_.at(input);
    }
    node.name += ".again";
    node.phase = Phase::backward;
    node.outputs.clear();
    std::vector<models::Tensor> outputs;
    for (const TensorId output : graph_.op(maker).outputs) {
      outputs.push_back(graph_.tensor(output));
      outputs.back().name += ".again";
    }
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < graph_.op(maker).outputs.size(); ++i)
      again_[index(graph_.op(maker).outputs[i])] = copy_.to().op(added).outputs[i];
    return *again_[index(old)];
  }

  models::GraphCopy copy_;
  const OpGraph& graph_;
  std::map<OpId, std::string> module_of_;
  std::vector<std::optional<TensorId>> again_;
};

}  // namespace

OpGraph checkpoint(const OpGraph& graph, const CheckpointParams& params, const Place& place) {
  std::vector<std::string> named = modules(graph, params.scope, place);
  const auto kept = static_cast<std::size_t>(params.ratio * static_cast<double>(named.size()) + 0.5);
  named.resize(kept);
  std::map<OpId, std::string> module_of_op;
  bool trains = false;
  for (const OpId op : graph.ops()) {
    trains = trains || graph.op(op).phase == Phase::backward;
    const std::optional<std::string> module = module_of(params.scope, graph.op(op).scope);
    if (module && graph.op(op).phase == Phase::forward && std::find(named.begin(), named.end(), *module) != named.end())
      module_of_op.emplace(op, *module);
  }
  if (!trains) place.fail("", "expected a training graph", "put 'autodiff' before 'slapo' in the order of passes");
  return Recomputation(graph, std::move(module_of_op)).run();
}

/// The stage of each op. Modules lie as their first op does, forward and backward. A step of the optimizer is where its
/// parameter is first read; gradients of one tensor are summed where they were made, if that is one stage, and those of
/// a parameter that stages share where it is first read.
static std::vector<std::int64_t> stages_of(const OpGraph& graph, const std::vector<std::size_t>& first) {
  std::map<std::string, std::int64_t> stage_of;
  for (const OpId op : graph.ops())
    stage_of.emplace(graph.op(op).scope, std::upper_bound(first.begin(), first.end(), index(op)) - first.begin());
  std::vector<std::int64_t> stages(graph.ops().size());
  for (const OpId op : graph.ops()) {
    const OpNode& node = graph.op(op);
    std::int64_t& stage = stages[index(op)] = stage_of.at(node.scope);
    std::vector<std::int64_t> made;
    for (const TensorId input : node.inputs) {
      if (const std::optional<OpId> maker = graph.producer(input)) made.push_back(stages[index(*maker)]);
      if (node.phase == models::Phase::optimizer && graph.tensor(input).role == TensorRole::parameter)
        stage = stages[index(graph.consumers(input).front())];
    }
    if (node.phase != models::Phase::backward || node.kind != OpKind::add_n || made.empty()) continue;
    const auto [least, most] = std::ranges::minmax(made);
    if (least == most || node.scope.empty()) stage = least;
  }
  return stages;
}

OpGraph pipeline(const OpGraph& graph, const PipelineParams& params, const Place& place) {
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < params.cuts.items.size(); ++i) {
    const std::string& cut = params.cuts.items[i];
    static_cast<void>(modules(graph, cut, place));
    for (const OpId op : graph.ops())
      if (first.size() == i && module_of(cut, graph.op(op).scope)) first.push_back(index(op));
    if (i > 0 && first[i] <= first[i - 1])
      place.fail("cuts", fmt::format("expected modules in order of execution, got '{}' after '{}'", cut,
                                     params.cuts.items[i - 1]));
  }
  const std::vector<std::int64_t> stages = stages_of(graph, first);
  models::GraphCopy copy(graph);
  std::map<std::pair<TensorId, std::int64_t>, TensorId> received;
  const auto stage = [&](OpId op) { return stages[index(op)]; };
  const auto move = [&](TensorId tensor, std::int64_t from, std::int64_t to, const OpNode& as) {
    for (const auto& [kind, at] : {std::pair(OpKind::send, from), std::pair(OpKind::recv, to)}) {
      OpNode node;
      node.kind = kind;
      node.inputs = {tensor};
      node.name = fmt::format("{}.{}.stage{}", copy.to().tensor(tensor).name, models::to_string(kind), to);
      node.scope = as.scope;
      node.phase = as.phase;
      node.target = fmt::format("stage.{}", at);
      models::Tensor moved = copy.to().tensor(tensor);
      moved.name = node.name;
      tensor = copy.to().op(copy.to().add(std::move(node), {moved})).outputs.front();
    }
    return tensor;
  };
  for (const OpId op : graph.ops()) {
    OpNode node = copy.node(op);
    const std::int64_t own = stage(op);
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const TensorId old = graph.op(op).inputs[slot];
      const std::optional<OpId> maker = graph.producer(old);
      if (!maker || stage(*maker) == own) continue;
      const auto known = received.find({old, own});
      if (known == received.end())
        node.inputs[slot] = received[{old, own}] = move(node.inputs[slot], stage(*maker), own, graph.op(*maker));
      else
        node.inputs[slot] = known->second;
    }
    node.target = fmt::format("stage.{}", own);
    std::vector<models::Tensor> outputs;
    for (const TensorId output : graph.op(op).outputs) outputs.push_back(graph.tensor(output));
    const OpId added = copy.to().add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < graph.op(op).outputs.size(); ++i)
      copy.put(graph.op(op).outputs[i], copy.to().op(added).outputs[i]);
  }
  return copy.finish();
}

OpGraph cudagraph(const OpGraph& graph, const CudagraphParams& params, const Place& place) {
  const std::vector<std::string> named = modules(graph, params.scope, place);
  std::int64_t first = 0;  // past the captures that the graph has
  for (const OpId op : graph.ops())
    if (graph.op(op).find(kCaptureMark) != nullptr) first = std::max(first, graph.op(op).integer(kCaptureMark, 0) + 1);
  models::GraphCopy copy(graph);
  for (const OpId op : graph.ops()) {
    const OpNode& node = graph.op(op);
    const std::optional<std::string> module = module_of(params.scope, node.scope);
    const OpId now = copy.copy(op);
    if (!module) continue;
    // The forward and the backward pass of a module are two captures.
    const auto number = 2 * (std::find(named.begin(), named.end(), *module) - named.begin());
    copy.to().annotate(now).set(kCaptureMark, models::SymExpr(first + number + (node.phase == Phase::forward ? 0 : 1)));
  }
  return copy.finish();
}

}  // namespace orrery::policies::slapo
