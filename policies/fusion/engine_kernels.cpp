// Engine kernels: passes over memory as the libraries of inference engines launch them.
//
// Decides: rotations of queries and keys by the same angles become one kernel that goes row by row, a token a row; a
// gate (silu of one half times the other) likewise; keys and values that a layer writes into its cache become one
// write. Ops keep their work: FLOPs add up, and what enters is read once. Rows that are copied by expert become a sort
// of the choices, by which the grouped products then pick their rows (`indexed`), and the weighted sum of experts' rows
// is the library's. Each is one op of dialect `engine`, whose attributes `pass` and `rows` say which library kernel it
// is (hw::Pass). Linear in ops.
// After vLLM: csrc/pos_encoding_kernels.cu (rotary_embedding), csrc/activation_kernels.cu (silu_and_mul),
// csrc/cache_kernels.cu (reshape_and_cache), csrc/moe (moe_align_block_size, fused_moe, moe_sum). Left out: the
// residual sum in the norm after it (pattern_fusion, rule add_norm), activations in 8 bits.
#include "policies/fusion/engine_kernels.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "models/graph/graph_rewrite.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/fusion/finish.hpp"

namespace orrery::policies {
namespace {

using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::SymExpr;
using models::TensorId;

/// Rows of a tensor whose last axis is a token's: tokens of [batch, tokens, width], and of [batch, heads, tokens,
/// width] without the heads.
SymExpr token_rows(const models::Tensor& tensor) {
  const std::size_t rank = tensor.shape.size();
  if (rank == 4) return tensor.shape[0] * tensor.shape[2];
  SymExpr rows = 1;
  for (std::size_t i = 0; i + 1 < rank; ++i) rows *= tensor.shape[i];
  return rows;
}

/// Groups of ops, and the library kernel that each is.
class Groups {
 public:
  explicit Groups(const OpGraph& graph) : graph_(graph), group_(graph.op_count(), -1) {}

  void add(OpId first, OpId second, const char* pass, SymExpr rows) {
    const auto number = static_cast<std::int32_t>(kernels_.size());
    group_[index(first)] = group_[index(second)] = number;
    kernels_.push_back({graph_.tensor(graph_.op(second).outputs.front()).name, pass, std::move(rows)});
  }
  bool taken(OpId op) const { return group_[index(op)] >= 0; }

  /// Whether no path leaves a group and comes back.
  bool convex() const { return is_convex(graph_, group_); }

  OpGraph fused() const {
    OpGraph out = fuse_groups(graph_, group_);
    for (const Kernel& kernel : kernels_) {
      const auto tensor = out.find_tensor(kernel.tensor);
      models::OpNode& op = out.annotate(*out.producer(*tensor));
      op.dialect = "engine";
      op.set("pass", std::string(kernel.pass));
      op.set("rows", kernel.rows);
    }
    return out;
  }

 private:
  struct Kernel {
    std::string tensor;  ///< that it makes
    const char* pass;
    SymExpr rows;
  };
  const OpGraph& graph_;
  models::Grouping group_;
  std::vector<Kernel> kernels_;
};

/// The op of that kind which makes one of a product's factors and is read by nobody else.
std::optional<OpId> only_factor(const OpGraph& graph, const models::OpNode& product, OpKind kind) {
  for (const TensorId input : product.inputs) {
    const auto maker = graph.producer(input);
    if (maker && graph.op(*maker).kind == kind && graph.consumers(input).size() == 1 && !graph.is_output(input))
      return maker;
  }
  return std::nullopt;
}

}  // namespace

namespace {

/// Whether the op copies rows by the choices of a router for grouped products, and for nothing else.
bool copies_to_experts(const OpGraph& graph, const models::OpNode& op) {
  if (op.kind != OpKind::gather || op.inputs.size() != 2 || graph.is_output(op.outputs.front())) return false;
  const auto choice = graph.producer(op.inputs[1]);
  if (!choice || graph.op(*choice).kind != OpKind::router) return false;
  const auto readers = graph.consumers(op.outputs.front());
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
    const models::OpNode& product = graph.op(reader);
    const std::size_t own = product.integer("bias", 0) != 0 ? 3 : 2;
    return product.kind == OpKind::grouped_matmul && product.inputs.size() == own &&
           product.inputs[0] == op.outputs.front() && product.inputs[1] != op.outputs.front();
  });
}

/// The graph with choices sorted in the place of rows copied; `sorts` counts them.
OpGraph with_sorted_experts(const OpGraph& graph, std::int64_t& sorts) {
  models::GraphCopy copy(graph);
  std::map<TensorId, TensorId> sorted;  // the copied rows, to the indices in the new graph
  for (const OpId id : graph.ops()) {
    const models::OpNode& op = graph.op(id);
    if (copies_to_experts(graph, op)) {
      models::OpNode sort;
      sort.kind = OpKind::custom;
      sort.inputs = {copy.at(op.inputs[1])};
      sort.op_class = op.op_class;
      sort.scope = op.scope;
      sort.dialect = "engine";
      sort.set("pass", std::string("expert_sort"));
      sort.set("rows", token_rows(graph.tensor(op.inputs[0])));
      const models::Tensor& choices = graph.tensor(op.inputs[1]);
      const OpId added = copy.to().add(std::move(sort), {{.shape = choices.shape, .type = choices.type}});
      sorted[op.outputs.front()] = copy.to().op(added).outputs.front();
      copy.put(op.outputs.front(), copy.at(op.inputs[0]));
      ++sorts;
    } else if (op.kind == OpKind::grouped_matmul && sorted.contains(op.inputs[0])) {
      models::OpNode product = copy.node(id);
      product.inputs.push_back(sorted.at(op.inputs[0]));
      product.set("indexed", SymExpr(1));
      const OpId added = copy.to().add(std::move(product), {graph.tensor(op.outputs.front())});
      copy.put(op.outputs.front(), copy.to().op(added).outputs.front());
    } else {
      const OpId added = copy.copy(id);
      if (op.kind != OpKind::combine) continue;
      models::OpNode& sum = copy.to().annotate(added);
      sum.dialect = "engine";
      sum.set("pass", std::string("expert_sum"));
      sum.set("rows", graph.tensor(op.inputs[0]).shape.front());
    }
  }
  return copy.finish();
}

/// Groups of gates, and of rotations and writes that stand `side_by_side` in a module.
Groups groups_of(const OpGraph& graph, bool side_by_side, EngineKernels& made) {
  made = {};
  Groups groups(graph);
  std::map<std::pair<std::string, TensorId>, OpId> rotation;  // by scope and angles: one that waits for its fellow
  std::map<std::string, OpId> write;                          // by scope
  for (const OpId id : graph.ops()) {
    const models::OpNode& op = graph.op(id);
    if (op.kind == OpKind::mul) {
      const auto gate = only_factor(graph, op, OpKind::silu);
      if (!gate || groups.taken(*gate)) continue;
      groups.add(*gate, id, "gated_activation", token_rows(graph.tensor(op.outputs.front())));
      ++made.gates;
    } else if (side_by_side && op.kind == OpKind::rope && op.inputs.size() > 1) {
      const auto [place, first] = rotation.try_emplace({op.scope, op.inputs[1]}, id);
      if (first) continue;
      groups.add(place->second, id, "rope", token_rows(graph.tensor(op.outputs.front())));
      rotation.erase(place);
      ++made.rotations;
    } else if (side_by_side && op.kind == OpKind::kv_write && op.inputs.size() == 2) {
      const auto [place, first] = write.try_emplace(op.scope, id);
      if (first) continue;
      groups.add(place->second, id, "elementwise", 0);
      write.erase(place);
      ++made.cache_writes;
    }
  }
  return groups;
}

}  // namespace

OpGraph with_engine_kernels(const OpGraph& graph, EngineKernels& made) {
  std::int64_t sorts = 0;
  const OpGraph sorted = with_sorted_experts(graph, sorts);
  const Groups all = groups_of(sorted, true, made);
  OpGraph out = all.convex() ? all.fused() : groups_of(sorted, false, made).fused();  // one rotation feeds another
  made.expert_sorts = sorts;
  return out;
}

namespace {

struct EngineKernelsParams {
  static constexpr auto fields() { return sim::FieldTable<EngineKernelsParams, 0>(); }
};

class EngineKernelsPass final : public GraphPass {
 public:
  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    EngineKernels made;
    OpGraph out = with_engine_kernels(graph, made);
    report.tell("rotations", static_cast<double>(made.rotations));
    report.tell("gates", static_cast<double>(made.gates));
    report.tell("cache_writes", static_cast<double>(made.cache_writes));
    report.tell("expert_sorts", static_cast<double>(made.expert_sorts));
    tell_gains(graph, out, context, report);
    return out;
  }
};

}  // namespace

void add_engine_kernels(PassRegistry& registry) {
  registry.add<EngineKernelsParams>(
      "engine_kernels",
      "Rotary embeddings, gates and cache writes become the kernels that an inference engine's libraries launch.",
      [](const EngineKernelsParams&) { return std::make_unique<EngineKernelsPass>(); });
}

}  // namespace orrery::policies
