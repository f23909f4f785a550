#include "models/iteration_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <unordered_map>

namespace orrery::models {
namespace {

void append(const Attribute& attribute, std::string& out) {
  if (const auto* expr = std::get_if<SymExpr>(&attribute)) {
    out += expr->to_string();
  } else if (const auto* number = std::get_if<double>(&attribute)) {
    out += fmt::format("{}", *number);
  } else if (const auto* text = std::get_if<std::string>(&attribute)) {
    out += *text;
  } else {
    for (const SymExpr& each : std::get<std::vector<SymExpr>>(attribute)) out += each.to_string() + ',';
  }
}

/// Shape, type and origin of an operand: what its traffic depends on (a view reads what it was made of).
void append(const OpGraph& graph, TensorId id, std::string& out) {
  for (;;) {
    const Tensor& tensor = graph.tensor(id);
    for (const SymExpr& dim : tensor.shape) out += dim.to_string() + ',';
    out += static_cast<char>('a' + static_cast<int>(tensor.type));
    out += static_cast<char>('a' + static_cast<int>(tensor.layout));
    const std::optional<OpId> maker = graph.producer(id);
    if (!maker || info(graph.op(*maker).kind).pattern != Pattern::view) return;
    out += to_string(graph.op(*maker).kind);
    id = graph.op(*maker).inputs.front();
  }
}

/// Ops with equal signatures do equal work. `local`: operands are named by number too (inside of a region).
std::string signature(const OpGraph& graph, const OpNode& op, bool local) {
  std::string out = fmt::format("{} {} {} {} {}(", to_string(op.kind), static_cast<int>(op.op_class),
                                static_cast<int>(op.phase), op.dialect, op.target);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (local) out += fmt::format("#{}:", index(op.inputs[i]));
    // An operand that is read twice is read once.
    const auto earlier = op.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    out += fmt::format("{}|", std::find(op.inputs.begin(), earlier, op.inputs[i]) - op.inputs.begin());
    append(graph, op.inputs[i], out);
    out += ';';
  }
  out += ')';
  for (const TensorId output : op.outputs) append(graph, output, out);
  for (const auto& [name, attribute] : op.attributes) {
    out += name + '=';
    append(attribute, out);
    out += ';';
  }
  for (const auto& region : op.regions) {
    out += '{';
    for (const OpId inner : region->ops()) out += signature(*region, region->op(inner), true);
    for (const TensorId output : region->outputs()) out += fmt::format("#{}", index(output));
    out += '}';
  }
  return out;
}

/// The tensor that holds an activation's bytes: through views and writes in place.
TensorId memory_of(const OpGraph& graph, TensorId tensor) {
  for (;;) {
    tensor = storage_of(graph, tensor);
    const std::optional<OpId> maker = graph.producer(tensor);
    if (!maker || graph.op(*maker).kind != OpKind::kv_write) return tensor;
    tensor = graph.op(*maker).inputs.front();
  }
}

/// Bytes alive at each op that may be the most: what one of the others provably exceeds is left out.
std::vector<SymExpr> live_bytes(const OpGraph& graph) {
  const std::size_t steps = graph.op_count();
  std::vector<std::size_t> last(graph.tensor_count(), 0);
  for (const TensorId id : graph.tensors()) {
    const TensorId root = memory_of(graph, id);
    std::size_t& end = last[index(root)];
    for (const OpId reader : graph.consumers(id)) end = std::max(end, index(reader));
    if (graph.is_output(id)) end = steps;
  }
  std::vector<SymExpr> born(steps), dead(steps + 1);
  for (const TensorId id : graph.tensors()) {
    const std::optional<OpId> maker = graph.producer(id);
    if (!maker || memory_of(graph, id) != id) continue;
    const SymExpr bytes = graph.tensor(id).bytes();
    born[index(*maker)] += bytes;
    dead[std::max(last[index(id)], index(*maker))] += bytes;
  }
  SymExpr alive;
  std::set<SymExpr> levels;
  for (std::size_t i = 0; i < steps; ++i) {
    alive += born[i];
    if (!born[i].is_zero()) levels.insert(alive);
    alive -= dead[i];
  }
  std::vector<SymExpr> out;
  for (const SymExpr& level : levels) {
    if (std::any_of(out.begin(), out.end(),
                    [&](const SymExpr& o) { return provably_greater_equal(o, level, graph.facts); }))
      continue;
    std::erase_if(out, [&](const SymExpr& o) { return provably_greater_equal(level, o, graph.facts); });
    out.push_back(level);
  }
  return out;
}

}  // namespace

std::vector<OpGroup> group_ops(const OpGraph& graph) {
  std::vector<OpGroup> groups;
  std::unordered_map<std::string, std::size_t> known;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (launches_nothing(op)) continue;
    const auto [at, fresh] = known.try_emplace(signature(graph, op, false), groups.size());
    if (fresh) groups.push_back({.first = id, .work = work(graph, id)});
    ++groups[at->second].count;
    groups[at->second].members.push_back(id);
  }
  return groups;
}

IterationProgram::IterationProgram(const OpGraph& graph) : inputs_(graph.symbols()) {
  OpWork sum;
  for (const OpGroup& group : group_ops(graph)) {
    const OpWork& w = group.work;
    sum += {w.matrix_flops * group.count, w.vector_flops * group.count, w.read_bytes * group.count,
            w.write_bytes * group.count};
  }
  SymExpr parameters, held;
  for (const TensorId id : graph.tensors()) {
    const TensorRole role = graph.tensor(id).role;
    if (role == TensorRole::activation) continue;
    (role == TensorRole::input || role == TensorRole::state ? held : parameters) += graph.tensor(id).bytes();
  }
  std::vector<SymExpr> outputs{sum.matrix_flops, sum.vector_flops, sum.read_bytes, sum.write_bytes, parameters, held};
  const std::vector<SymExpr> live = live_bytes(graph);
  if (outputs.size() + live.size() > kMaxOutputs)
    throw GraphError(
        fmt::format("graph '{}': {} steps may each be the one with most bytes alive, at most {} can be "
                    "told apart",
                    graph.name, live.size(), kMaxOutputs - kSums));
  outputs.insert(outputs.end(), live.begin(), live.end());
  program_ = ExprProgram(outputs, inputs_);
}

IterationWork IterationProgram::evaluate(std::span<const std::int64_t> sizes) const {
  std::array<std::int64_t, kMaxOutputs> out;  // NOLINT(*-member-init): as many as there are outputs are written
  program_.evaluate(sizes, out);
  IterationWork work{out[0], out[1], out[2], out[3], out[4], out[5], 0};
  for (std::size_t i = kSums; i < program_.outputs(); ++i) work.live_bytes = std::max(work.live_bytes, out[i]);
  return work;
}

IterationWork IterationProgram::evaluate(const Bindings& bindings) const {
  std::vector<std::int64_t> sizes;
  for (const Symbol input : inputs_) sizes.push_back(bindings.at(input));
  return evaluate(sizes);
}

}  // namespace orrery::models
