#include "models/graph/op_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace orrery::models {
namespace {

using Dims = std::vector<SymExpr>;

bool is_view(const OpNode& op) {
  return info(op.kind).pattern == Pattern::view;
}

/// What a tensor was before views of all of it.
TensorId unexpanded(const OpGraph& graph, TensorId tensor) {
  for (std::optional<OpId> op = graph.producer(tensor); op; op = graph.producer(tensor)) {
    const OpKind kind = graph.op(*op).kind;
    if (kind != OpKind::expand && kind != OpKind::reshape && kind != OpKind::transpose) break;
    tensor = graph.op(*op).inputs.front();
  }
  return tensor;
}

/// A dimension in numbers; GraphError if there is no such size.
std::int64_t size_of(const Tensor& tensor, const SymExpr& dim, const Bindings& bindings) {
  const std::int64_t size = dim.eval(bindings);
  if (size < 0)
    throw GraphError(fmt::format("tensor '{}': a dimension ({}) has size {}", tensor.name, dim.to_string(), size));
  return size;
}

/// Sizes of a graph's tensors: as they stand, or as constants where bindings are given.
class Shapes {
 public:
  Shapes(const OpGraph& graph, const Bindings* bindings) : graph_(graph), bindings_(bindings) {}
  const OpGraph& graph() const { return graph_; }
  const Bindings* bindings() const { return bindings_; }

  SymExpr of(const SymExpr& expression) const {
    return bindings_ == nullptr || expression.constant() ? expression : SymExpr(expression.eval(*bindings_));
  }
  Dims dims(TensorId tensor) const {
    Dims all = graph_.tensor(tensor).shape;
    for (SymExpr& dim : all) dim = size(graph_.tensor(tensor), dim);
    return all;
  }
  SymExpr elements(TensorId tensor) const {
    SymExpr count = 1;
    for (const SymExpr& dim : graph_.tensor(tensor).shape) count *= size(graph_.tensor(tensor), dim);
    return count;
  }
  SymExpr bytes(TensorId tensor) const { return elements(tensor) * bytes_of(graph_.tensor(tensor).type); }
  /// Bytes that reading the tensor moves: an expanded tensor is as big as what it was expanded from.
  SymExpr traffic(TensorId tensor) const {
    for (std::optional<OpId> maker = graph_.producer(tensor); maker; maker = graph_.producer(tensor)) {
      const OpNode& op = graph_.op(*maker);
      if (op.kind == OpKind::expand || op.kind == OpKind::reshape || op.kind == OpKind::transpose) {
        tensor = op.inputs.front();
      } else if (op.kind == OpKind::fused) {  // the view may stand at the end of its region
        const OpGraph& region = *op.regions.front();
        const auto place = std::find(op.outputs.begin(), op.outputs.end(), tensor) - op.outputs.begin();
        const TensorId root = unexpanded(region, region.outputs()[static_cast<std::size_t>(place)]);
        if (region.producer(root)) return Shapes(region, bindings_).traffic(root);
        const std::vector<TensorId> entries = region.with_role(TensorRole::input);
        const auto entry = std::find(entries.begin(), entries.end(), root);
        if (entry == entries.end()) break;
        tensor = op.inputs[static_cast<std::size_t>(entry - entries.begin())];
      } else {
        break;
      }
    }
    return bytes(tensor);
  }

 private:
  SymExpr size(const Tensor& tensor, const SymExpr& dim) const {
    return bindings_ == nullptr ? dim : SymExpr(size_of(tensor, dim, *bindings_));
  }

  const OpGraph& graph_;
  const Bindings* bindings_;
};

/// Base-2 logarithm of a size that must be known, rounded up.
std::int64_t log2_of(const OpNode& op, std::string_view attribute) {
  const std::int64_t size = op.integer(attribute, 1);
  std::int64_t bits = 0;
  while ((std::int64_t{1} << bits) < size && bits < 62) ++bits;
  return bits;
}

const Dims& checked_rank(const OpNode& op, const Dims& dims, std::size_t rank) {
  if (dims.size() < rank)
    throw GraphError(fmt::format("{} '{}': expected an operand of {} dimensions, got {}", to_string(op.kind), op.name,
                                 rank, dims.size()));
  return dims;
}

/// Twice the pairs of query and key: s new queries over t keys, causal or all with all.
SymExpr twice_pairs(const OpNode& op, const SymExpr& s, const SymExpr& t) {
  if (op.integer("causal", 0) == 0) return s * t * 2;
  const SymExpr pairs = s * (t * 2 - s + 1);
  const std::int64_t window = op.integer("window", 0);
  if (window == 0) return pairs;
  // The query in place p lacks max(0, p - window) keys; p goes from t - s + 1 to t.
  const SymExpr last = max(t - window, 0), before = max(t - s - window, 0);
  return pairs - (last * (last + 1) - before * (before + 1));
}

SymExpr attention_flops(const Shapes& shapes, const OpNode& op, bool gradient) {
  const Dims q = checked_rank(op, shapes.dims(op.inputs[0]), 3), k = checked_rank(op, shapes.dims(op.inputs[1]), 3);
  const Dims v = checked_rank(op, shapes.dims(op.inputs[2]), 3);
  SymExpr heads = 1;
  for (std::size_t i = 0; i + 2 < q.size(); ++i) heads *= q[i];
  const SymExpr pairs = twice_pairs(op, q[q.size() - 2], k[k.size() - 2]) * heads;
  return gradient ? pairs * (q.back() * 3 + v.back() * 2) : pairs * (q.back() + v.back());
}

SymExpr matrix_flops(const Shapes& shapes, const OpNode& op) {
  switch (op.kind) {
    case OpKind::matmul: {
      const Dims a = checked_rank(op, shapes.dims(op.inputs[0]), 2);
      const SymExpr k = op.integer("trans_a", 0) != 0 ? a[a.size() - 2] : a.back();
      // A product of complex numbers is four products of their halves.
      return shapes.elements(op.outputs[0]) * k * (is_complex(shapes.graph().tensor(op.inputs[0]).type) ? 8 : 2);
    }
    case OpKind::grouped_matmul: {
      const Dims a = checked_rank(op, shapes.dims(op.inputs[0]), 2);
      return shapes.elements(op.outputs[0]) * a.back() * 2;
    }
    case OpKind::grouped_matmul_grad_weight: {  // of (x, dy)
      const Dims dy = checked_rank(op, shapes.dims(op.inputs[1]), 2);
      return shapes.elements(op.inputs[0]) * dy.back() * 2;
    }
    case OpKind::attention:
      return attention_flops(shapes, op, false);
    case OpKind::attention_grad:
      return attention_flops(shapes, op, true);
    case OpKind::conv2d: {
      const Dims w = checked_rank(op, shapes.dims(op.inputs[1]), 4);
      return shapes.elements(op.outputs[0]) * w[1] * w[2] * w[3] * 2;
    }
    case OpKind::conv2d_grad_input: {  // of (dy, w)
      const Dims w = checked_rank(op, shapes.dims(op.inputs[1]), 4);
      return shapes.elements(op.inputs[0]) * w[1] * w[2] * w[3] * 2;
    }
    case OpKind::conv2d_grad_weight: {  // of (x, dy)
      const Dims w = checked_rank(op, shapes.dims(op.outputs[0]), 4);
      return shapes.elements(op.inputs[1]) * w[1] * w[2] * w[3] * 2;
    }
    case OpKind::spmm:
    case OpKind::sddmm: {
      const Dims x = checked_rank(op, shapes.dims(op.inputs[1]), 2);
      return shapes.of(op.expr("nonzeros", 0)) * x.back() * 2;
    }
    default:
      return 0;
  }
}

std::int64_t optimizer_flops(const OpNode& op) {
  const std::string_view name = op.text("optimizer");
  return name == "adamw" ? 16 : name == "adam" ? 14 : name == "sgd_momentum" ? 4 : 2;
}

SymExpr vector_flops(const Shapes& shapes, const OpNode& op) {
  if (op.outputs.empty()) return 0;
  switch (op.kind) {
    case OpKind::fft: {  // 5 N log2 N a transform of N complex points, half of that for real ones
      const std::int64_t points = op.integer("n0", 1) * op.integer("n1", 1);
      const std::int64_t logs = log2_of(op, "n0") + log2_of(op, "n1");
      const SymExpr flops = shapes.of(op.expr("transforms", 1)) * (5 * points * logs);
      return op.text("form") == "complex" ? flops : floor_div(flops, 2);
    }
    case OpKind::optimizer_step: {  // parameters come first
      SymExpr count = 0;
      const std::int64_t parameters = op.integer("parameters", 1);
      if (parameters < 0 || parameters > std::ssize(op.inputs))
        throw GraphError(fmt::format("{} '{}': attribute 'parameters' is {}, of {} inputs", to_string(op.kind), op.name,
                                     parameters, op.inputs.size()));
      for (std::size_t i = 0; i < static_cast<std::size_t>(parameters); ++i) count += shapes.elements(op.inputs[i]);
      return count * optimizer_flops(op);
    }
    case OpKind::matmul:  // a bias
      return op.inputs.size() > 2 ? shapes.elements(op.outputs[0]) : SymExpr(0);
    case OpKind::grouped_matmul:
      return op.integer("bias", 0) != 0 ? shapes.elements(op.outputs[0]) : SymExpr(0);
    case OpKind::grouped_matmul_grad_weight:  // the sum over a group's rows for its bias
      return op.outputs.size() > 1 ? shapes.elements(op.inputs[op.integer("summed", 1) == 0 ? 0 : 1]) : SymExpr(0);
    case OpKind::conv2d:
      return op.inputs.size() > 2 ? shapes.elements(op.outputs[0]) : SymExpr(0);
    case OpKind::add_n:
      return shapes.elements(op.outputs[0]) * (static_cast<std::int64_t>(op.inputs.size()) - 1);
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      return shapes.elements(op.outputs[0]) * (op.integer("kernel", 2) * op.integer("kernel", 2));
    case OpKind::combine:
      return shapes.elements(op.outputs[0]) * 2 * shapes.of(op.expr("k", 1));
    case OpKind::custom:
      return shapes.of(op.expr("flops", 0));
    default:
      break;
  }
  const OpInfo& row = info(op.kind);
  if (row.flops == 0) return 0;
  return (row.pattern == Pattern::reduction && !op.inputs.empty() ? shapes.elements(op.inputs[0])
                                                                  : shapes.elements(op.outputs[0])) *
         row.flops;
}

/// What views of all of a tensor were made of; a slice is a tensor of its own, since others may read other slices.
TensorId whole_of(const OpGraph& graph, TensorId tensor) {
  for (std::optional<OpId> op = graph.producer(tensor);
       op && is_view(graph.op(*op)) && graph.op(*op).kind != OpKind::slice; op = graph.producer(tensor))
    tensor = graph.op(*op).inputs.front();
  return tensor;
}

/// Bytes that the op reads of input `slot`.
SymExpr input_traffic(const Shapes& shapes, const OpNode& op, std::size_t slot) {
  const TensorId input = op.inputs[slot];
  if (slot > 0 && info(op.kind).pattern == Pattern::communication) return 0;  // waited for, not moved
  switch (op.kind) {
    case OpKind::embedding:  // (table, ids): the rows that are picked
    case OpKind::gather:     // (source, indices)
      if (slot == 0) return shapes.elements(op.outputs[0]) * bytes_of(shapes.graph().tensor(input).type);
      break;
    case OpKind::scatter_add:  // (target, updates, indices): the rows that are touched
      if (slot == 0 && op.inputs.size() > 1) return shapes.traffic(op.inputs[1]);
      break;
    case OpKind::kv_write:  // (cache, new …): the cache is written, not read
      if (slot == 0) return 0;
      break;
    case OpKind::grouped_matmul:  // (rows, weights of all groups): weights of the groups that have rows
      if (slot == 0 && op.integer("indexed", 0) != 0)
        return shapes.dims(op.outputs[0]).front() * shapes.dims(input).back() *
               bytes_of(shapes.graph().tensor(input).type);
      if (slot == 1 || (slot == 2 && op.integer("bias", 0) != 0)) {
        const Dims w = checked_rank(op, shapes.dims(input), 3);
        const SymExpr active = min(shapes.of(op.expr("active_groups", w[0])), w[0]);
        return active * w[1] * w[2] * bytes_of(shapes.graph().tensor(input).type);
      }
      break;
    case OpKind::attention:
    case OpKind::attention_grad: {  // of keys and values those that lie in a query's window
      const std::int64_t window = op.integer("causal", 0) != 0 ? op.integer("window", 0) : 0;
      if (window == 0 || (slot != 1 && slot != 2)) break;
      const Dims q = checked_rank(op, shapes.dims(op.inputs[0]), 3), k = checked_rank(op, shapes.dims(input), 3);
      const SymExpr& tokens = k[k.size() - 2];
      return floor_div(shapes.traffic(input), tokens) * min(tokens, q[q.size() - 2] + (window - 1));
    }
    case OpKind::spmm:  // (values, features): 4-byte columns beside the values, and a row pointer a row
    case OpKind::sddmm:
      if (slot == 0)
        return shapes.traffic(input) + shapes.of(op.expr("nonzeros", 0)) * 4 + shapes.of(op.expr("rows", 0)) * 4;
      break;
    default:
      break;
  }
  return shapes.traffic(input);
}

/// Bytes that the op writes of output `place`.
SymExpr output_traffic(const Shapes& shapes, const OpNode& op, std::size_t place) {
  if (op.kind == OpKind::kv_write || op.kind == OpKind::scatter_add) {
    SymExpr written = 0;
    const std::size_t last =
        op.kind == OpKind::scatter_add ? std::min<std::size_t>(2, op.inputs.size()) : op.inputs.size();
    for (std::size_t i = 1; i < last; ++i) written += shapes.bytes(op.inputs[i]);
    return place == 0 ? written : SymExpr(0);
  }
  return shapes.bytes(op.outputs[place]);
}

OpWork op_work(const Shapes& shapes, const OpNode& op);

OpWork region_work(const OpGraph& region, const Bindings* bindings) {
  OpWork sum;
  const Shapes shapes(region, bindings);
  for (const OpId id : region.ops()) sum += op_work(shapes, region.op(id));
  return sum;
}

/// A branch's condition, if it is there and its symbols have values.
std::optional<std::int64_t> known_condition(const Shapes& shapes, const OpNode& op) {
  if (op.find("condition") == nullptr) return std::nullopt;
  try {
    return shapes.of(op.expr("condition", 1)).constant();
  } catch (const UnboundSymbol&) {
    return std::nullopt;
  }
}

/// One kernel made of a region: FLOPs add up; what enters is read once and what leaves is written once.
OpWork fused_work(const Shapes& outer, const OpNode& fused) {
  const OpGraph& region = *fused.regions.front();
  const Shapes shapes(region, outer.bindings());
  OpWork sum;
  std::map<TensorId, SymExpr> read;
  for (const OpId id : region.ops()) {
    const OpNode& op = region.op(id);
    if (is_view(op)) continue;
    const OpWork own = op_work(shapes, op);
    sum.matrix_flops += own.matrix_flops;
    sum.vector_flops += own.vector_flops;
    if (op.kind == OpKind::loop || op.kind == OpKind::branch) {  // its region's traffic stays
      sum.read_bytes += own.read_bytes;
      sum.write_bytes += own.write_bytes;
      continue;
    }
    for (std::size_t slot = 0; slot < op.inputs.size(); ++slot) {
      if (region.producer(storage_of(region, op.inputs[slot]))) continue;
      const SymExpr bytes = input_traffic(shapes, op, slot);
      const auto [place, fresh] = read.try_emplace(whole_of(region, op.inputs[slot]), bytes);
      if (!fresh) place->second = max(place->second, bytes);
    }
  }
  const std::vector<TensorId> entries = region.with_role(TensorRole::input);
  for (std::size_t i = 0; i < std::min(entries.size(), fused.inputs.size()); ++i) {
    // What was expanded before it came in is no bigger here.
    const SymExpr small = outer.traffic(fused.inputs[i]);
    const auto entry = read.find(entries[i]);
    if (entry != read.end() && !(small == outer.bytes(fused.inputs[i]))) entry->second = min(entry->second, small);
  }
  for (const auto& [tensor, bytes] : read) sum.read_bytes += bytes;
  std::vector<TensorId> written;
  for (const TensorId output : region.outputs()) {
    const TensorId root = storage_of(region, output);
    const std::optional<OpId> maker = region.producer(root);
    if (!maker || std::find(written.begin(), written.end(), root) != written.end()) continue;
    written.push_back(root);
    if (region.op(*maker).kind == OpKind::loop || region.op(*maker).kind == OpKind::branch) continue;
    const std::vector<TensorId>& made = region.op(*maker).outputs;
    const auto place = static_cast<std::size_t>(std::find(made.begin(), made.end(), root) - made.begin());
    sum.write_bytes += output_traffic(shapes, region.op(*maker), place);
  }
  return sum;
}

OpWork op_work(const Shapes& shapes, const OpNode& op) {
  OpWork own;
  if (is_view(op)) return own;
  if (op.kind == OpKind::fused) return fused_work(shapes, op);
  if (op.kind == OpKind::loop) {
    own = region_work(*op.regions.front(), shapes.bindings());
    const SymExpr trips = shapes.of(op.expr("trips", 1));
    return {own.matrix_flops * trips, own.vector_flops * trips, own.read_bytes * trips, own.write_bytes * trips};
  }
  if (op.kind == OpKind::branch) {  // the side that runs if that is known, else the costlier
    if (const std::optional<std::int64_t> condition = known_condition(shapes, op))
      return region_work(*op.regions[*condition != 0 ? 0 : 1], shapes.bindings());
    const OpWork a = region_work(*op.regions[0], shapes.bindings()), b = region_work(*op.regions[1], shapes.bindings());
    return {max(a.matrix_flops, b.matrix_flops), max(a.vector_flops, b.vector_flops), max(a.read_bytes, b.read_bytes),
            max(a.write_bytes, b.write_bytes)};
  }
  own.matrix_flops = matrix_flops(shapes, op);
  own.vector_flops = vector_flops(shapes, op);
  for (std::size_t slot = 0; slot < op.inputs.size(); ++slot) {
    const auto earlier = op.inputs.begin() + static_cast<std::ptrdiff_t>(slot);
    if (std::find(op.inputs.begin(), earlier, op.inputs[slot]) == earlier)
      own.read_bytes += input_traffic(shapes, op, slot);
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) own.write_bytes += output_traffic(shapes, op, i);
  // An eager loss is several kernels: logarithms of probabilities are written; their gradient is written, and read for
  // its sum and for the logits' gradient.
  if (op.kind == OpKind::cross_entropy || op.kind == OpKind::cross_entropy_grad) {
    const SymExpr logits = shapes.of(op.expr("scratch", 0));
    own.write_bytes += logits;
    if (op.kind == OpKind::cross_entropy_grad) own.read_bytes += logits * 2;
  }
  return own;
}

OpWork sum_of(const OpGraph& graph, const Bindings* bindings) {
  const Shapes shapes(graph, bindings);
  OpWork sum;
  for (const OpId id : graph.ops()) {
    try {
      sum += op_work(shapes, graph.op(id));
    } catch (const std::overflow_error& error) {
      throw std::overflow_error(fmt::format("op '{}': {}", graph.op(id).name, error.what()));
    }
  }
  return sum;
}

}  // namespace

OpWork& OpWork::operator+=(const OpWork& other) {
  matrix_flops += other.matrix_flops;
  vector_flops += other.vector_flops;
  read_bytes += other.read_bytes;
  write_bytes += other.write_bytes;
  return *this;
}

OpWork work(const OpGraph& graph, OpId op) {
  return op_work(Shapes(graph, nullptr), graph.op(op));
}
OpWork work(const OpGraph& graph, OpId op, const Bindings& bindings) {
  return op_work(Shapes(graph, &bindings), graph.op(op));
}
OpWork total_work(const OpGraph& graph) {
  return sum_of(graph, nullptr);
}
OpWork total_work(const OpGraph& graph, const Bindings& bindings) {
  return sum_of(graph, &bindings);
}

bool launches_nothing(const OpNode& op) {
  if (is_view(op)) return true;
  if (op.kind != OpKind::fused) return false;
  for (const OpId id : op.regions.front()->ops())
    if (!launches_nothing(op.regions.front()->op(id))) return false;
  return true;
}

TensorId storage_of(const OpGraph& graph, TensorId tensor) {
  for (std::optional<OpId> op = graph.producer(tensor); op && is_view(graph.op(*op)); op = graph.producer(tensor))
    tensor = graph.op(*op).inputs.front();
  return tensor;
}

std::vector<std::int64_t> sizes(const OpGraph& graph, TensorId tensor, const Bindings& bindings) {
  std::vector<std::int64_t> all;
  for (const SymExpr& dim : graph.tensor(tensor).shape) all.push_back(size_of(graph.tensor(tensor), dim, bindings));
  return all;
}

std::int64_t bytes_of(const OpGraph& graph, TensorId tensor, const Bindings& bindings) {
  return *Shapes(graph, &bindings).bytes(tensor).constant();
}

}  // namespace orrery::models
