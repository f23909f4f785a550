// Operator dialects: which library or compiler runs each op, and what fuses because of it.
//
// Decides, in this order (RAF, docs/explain/raf.md):
//   base ops      a product's bias is an op of its own, as in the base dialect (`split_bias`)
//   FuseDialect   groups that match declared patterns become one kernel of the pattern's dialect; an op alone never
//                 does, so a lone matmul is left to the vendor's library
//   dispatch      every op gets the enabled dialect of the highest registered priority that has it
//   FuseTVM       what was given to the compiler (`fuse`) is fused by rule: elementwise, broadcast and injective ops
//                 into each other and into reductions (policies/fusion/loop_fusion.cpp without epilogues)
// Priorities are registered, not measured: cuBLAS 15, cuDNN 15, TVM 10 are RAF's; ops that the table of a dialect does
// not name are not its. Nothing is fused across phases.
#include <algorithm>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/fusion_rule.hpp"
#include "policies/fusion/pattern_match.hpp"

namespace orrery::policies {

void add_loop_fusion(PassRegistry& registry);

namespace {

using namespace models;

struct DialectEntry {
  std::string dialect;
  sim::TextList ops;  ///< kinds, or patterns of op_kinds ("elementwise"); "*": all
  std::int64_t priority = 10;

  static constexpr auto fields() {
    using D = DialectEntry;
    return sim::FieldTable{
        sim::required(sim::field("dialect", &D::dialect, "Name of the dialect, a library or compiler.")),
        sim::required(sim::field(
            "ops", &D::ops, "Op kinds that the dialect has, classes of them (such as elementwise), or * for all.")),
        sim::field("priority", &D::priority, sim::Unit::none, sim::any_value(),
                   "Priority of the dialect; an op goes to the enabled dialect with the highest one."),
    };
  }
};

std::vector<DialectEntry> registered() {
  return {{"cublas", {{"matmul", "grouped_matmul"}}, 15},
          {"cudnn",
           {{"conv2d", "conv2d_grad_input", "conv2d_grad_weight", "softmax", "softmax_grad", "batch_norm",
             "batch_norm_grad", "max_pool2d", "avg_pool2d", "max_pool2d_grad", "avg_pool2d_grad", "dropout",
             "dropout_grad"}},
           15},
          {"tvm", {{"*"}}, 10}};
}

struct RafDialectParams {
  sim::TextList enabled{{"cublas", "cudnn", "cutlass", "tvm"}};
  sim::TextList patterns{{"bias_activation"}};
  std::vector<DialectEntry> registry = registered();
  std::string fuse = "tvm";
  bool split_bias = true;

  static constexpr auto fields() {
    using P = RafDialectParams;
    return sim::FieldTable{
        sim::field("enabled", &P::enabled, "Dialects that may be used."),
        sim::field("patterns", &P::patterns,
                   "Declared patterns, as names of shipped fusion rules; they are used only if cutlass is enabled."),
        sim::field("registry", &P::registry, "Ops and priority of each dialect."),
        sim::field("fuse", &P::fuse, "Dialect whose ops are fused by rules; empty: none."),
        sim::field("split_bias", &P::split_bias,
                   "Whether the bias of a matrix product is first made an op of its own."),
    };
  }
};

bool has(const sim::TextList& list, std::string_view name) {
  return std::find(list.items.begin(), list.items.end(), name) != list.items.end();
}

/// Products without a bias, and an addition after each that had one.
OpGraph without_biases(const OpGraph& graph) {
  GraphCopy copy(graph);
  for (const OpId id : graph.ops()) {
    if (graph.op(id).kind != OpKind::matmul || graph.op(id).inputs.size() < 3) {
      copy.copy(id);
      continue;
    }
    OpNode product = copy.node(id);
    const TensorId bias = product.inputs.back();
    product.inputs.pop_back();
    OpNode sum = product;
    const Tensor out = graph.tensor(graph.op(id).outputs.front());
    product.name += ".product";
    Tensor bare = out;
    bare.name += ".product";
    bare.saved = false;
    sum.kind = OpKind::add;
    sum.attributes.clear();
    sum.inputs = {copy.to().op(copy.to().add(std::move(product), {std::move(bare)})).outputs.front(), bias};
    copy.put(graph.op(id).outputs.front(), copy.to().op(copy.to().add(std::move(sum), {out})).outputs.front());
  }
  return copy.finish();
}

bool covers(const DialectEntry& entry, const OpNode& op) {
  return has(entry.ops, "*") || has(entry.ops, to_string(op.kind)) || has(entry.ops, to_string(info(op.kind).pattern));
}

class RafDialect final : public GraphPass {
 public:
  explicit RafDialect(RafDialectParams params) : p_(std::move(params)) {
    if (!p_.patterns.items.empty() && has(p_.enabled, "cutlass")) rules_ = load_rules({p_.patterns, {}, {}});
    if (!p_.fuse.empty() && has(p_.enabled, p_.fuse)) fuser_ = make_fuser();
  }

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    PassReport inner;
    OpGraph now = p_.split_bias ? without_biases(graph) : graph;
    const auto before = static_cast<double>(now.op_count());
    if (!rules_.empty()) now = apply_rules(now, rules_, context, true, inner);
    const auto patterned = static_cast<double>(now.op_count());
    for (const OpId id : now.ops()) dispatch(now.annotate(id));
    if (fuser_) now = fuser_->run(now, context, inner);
    report.tell("base_ops", before);
    report.tell("fused_by_pattern", before - patterned);
    report.tell("fused_by_rule", patterned - static_cast<double>(now.op_count()));
    std::vector<std::pair<std::string, double>> kernels;
    for (const std::string& dialect : p_.enabled.items) kernels.emplace_back(dialect, 0);
    for (const OpId id : now.ops())
      for (auto& [dialect, count] : kernels)
        if (!launches_nothing(now.op(id)) && now.op(id).dialect == dialect) count += 1;
    for (const auto& [dialect, count] : kernels) report.tell(dialect + "_kernels", count);
    return now;
  }

 private:
  static std::unique_ptr<GraphPass> make_fuser() {
    PassRegistry registry("pass");
    add_loop_fusion(registry);
    sim::Faults faults;
    sim::Node params = sim::Node::object();
    params.set("epilogues", sim::Node::boolean(false));
    return registry.prepare("loop_fusion", &params, {}, faults).make();
  }

  /// The enabled entry of the highest priority; the first of equals. Views need nobody.
  void dispatch(OpNode& op) const {
    if (!op.dialect.empty() || launches_nothing(op)) return;
    const DialectEntry* best = nullptr;
    for (const DialectEntry& entry : p_.registry)
      if (has(p_.enabled, entry.dialect) && covers(entry, op) && (best == nullptr || entry.priority > best->priority))
        best = &entry;
    if (best == nullptr)
      throw GraphError("raf_dialect: no enabled dialect has " + std::string(to_string(op.kind)) + " '" + op.name + "'");
    op.dialect = best->dialect;
  }

  RafDialectParams p_;
  std::vector<FusionRule> rules_;
  std::unique_ptr<GraphPass> fuser_;
};

}  // namespace

void add_raf_dialect(PassRegistry& registry) {
  registry.add<RafDialectParams>("raf_dialect",
                                 "Declared patterns, libraries by registered priority, then rule-based fusion (RAF).",
                                 [](const RafDialectParams& params) { return std::make_unique<RafDialect>(params); });
}

}  // namespace orrery::policies
