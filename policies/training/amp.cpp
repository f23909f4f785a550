// Automatic mixed precision: each kind of op computes in the type that it stands, and casts go between.
//
// Rules by kind (after the lists of torch.autocast): products, convolutions and attention in 16 bits; exponentials,
// powers, sums, softmax, normalisations and losses in fp32; everything else in the widest type of its operands, read as
// they are. Weights stay fp32 and are cast once a step, where they are first read; a tensor is cast to a type once, and
// what is asked back in the type that it was cast from is that tensor. Statistics that attention keeps stay fp32.
// Works on forward and on training graphs; optimizer steps get gradients in the type of their parameter.
// Left out: scaling of the loss (one multiplication), overflow checks.
#include <algorithm>
#include <map>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/op_graph.hpp"
#include "policies/base/graph_pass.hpp"

namespace orrery::policies {
namespace {

using namespace models;

struct AmpParams {
  FloatType dtype = FloatType::fp16;
  sim::TextList low, wide;

  static constexpr auto fields() {
    using P = AmpParams;
    return sim::FieldTable{
        sim::field("dtype", &P::dtype, "Type that matrix products compute in: fp16 or bf16."),
        sim::field("low", &P::low, sim::Unit::text, sim::any_value(), "Further op kinds that compute in that type."),
        sim::field("wide", &P::wide, sim::Unit::text, sim::any_value(), "Further op kinds that compute in fp32."),
    };
  }
};

enum class Rule : std::uint8_t { low, wide, widest };

Rule rule_of(const OpNode& op) {
  switch (op.kind) {
    case OpKind::matmul:
    case OpKind::grouped_matmul:
    case OpKind::grouped_matmul_grad_weight:
    case OpKind::attention:
    case OpKind::attention_grad:
    case OpKind::conv2d:
    case OpKind::conv2d_grad_input:
    case OpKind::conv2d_grad_weight:
      return Rule::low;
    case OpKind::exp:
    case OpKind::log:
    case OpKind::pow:
    case OpKind::rsqrt:
    case OpKind::softmax:
    case OpKind::softmax_grad:
    case OpKind::layer_norm:
    case OpKind::layer_norm_grad:
    case OpKind::rms_norm:
    case OpKind::rms_norm_grad:
    case OpKind::group_norm:
    case OpKind::group_norm_grad:
    case OpKind::cross_entropy:
    case OpKind::cross_entropy_grad:
    case OpKind::fft:
      return Rule::wide;
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:  // sums of gradients follow their operand
      return op.phase == models::Phase::forward ? Rule::wide : Rule::widest;
    default:
      return Rule::widest;
  }
}

bool is_real(ElementType type) {
  return type == ElementType::fp32 || type == ElementType::fp16 || type == ElementType::bf16;
}

/// Tensors that keep their type whatever the op computes in: row sums of attention.
bool keeps_input(const OpNode& op, std::size_t slot) {
  return op.kind == OpKind::attention_grad && slot == 4;
}
bool keeps_output(const OpNode& op, std::size_t place) {
  return op.kind == OpKind::attention && place > 0;
}

class Caster {
 public:
  Caster(const OpGraph& graph, ElementType low, std::map<OpKind, Rule> rules)
      : copy_(graph), low_(low), rules_(std::move(rules)) {}

  OpGraph run() {
    for (const OpId id : copy_.from().ops()) visit(id);
    OpGraph done = copy_.finish();
    if (std::ranges::any_of(done.ops(), [&](OpId id) { return done.op(id).phase == models::Phase::backward; }))
      mark_saved(done);
    return done;
  }
  double casts = 0, weight_casts = 0, low_ops = 0;

 private:
  void visit(OpId id) {
    const OpNode& old = copy_.from().op(id);
    OpNode node = copy_.node(id);
    if (!node.regions.empty() || node.phase == models::Phase::optimizer) {  // types as they were
      for (std::size_t slot = 0; slot < node.inputs.size(); ++slot)
        node.inputs[slot] = cast(node.inputs[slot], copy_.from().tensor(old.inputs[slot]).type, node);
      return add(id, std::move(node), std::nullopt);
    }
    if (node.kind == OpKind::cast) return visit_cast(id, std::move(node));
    const auto special = rules_.find(node.kind);
    const Rule rule = special != rules_.end() ? special->second : rule_of(node);
    if (rule == Rule::widest) {
      const std::optional<ElementType> type = widest(node);
      return add(id, std::move(node), type);
    }
    const ElementType type = rule == Rule::low ? low_ : ElementType::fp32;
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot)
      if (is_real(type_of(node.inputs[slot])) && !keeps_input(node, slot))
        node.inputs[slot] = cast(node.inputs[slot], type, node);
    low_ops += rule == Rule::low ? 1 : 0;
    add(id, std::move(node), type);
  }

  /// A cast that is in the graph already: none is needed where the operand has the type.
  void visit_cast(OpId id, OpNode node) {
    const std::optional<ElementType> to = sim::value_named<ElementType>(node.text("to"));
    if (to && is_real(*to) && is_real(type_of(node.inputs.front())))
      copy_.put(copy_.from().op(id).outputs.front(), cast(node.inputs.front(), *to, node));
    else
      add(id, std::move(node), std::nullopt);
  }

  ElementType type_of(TensorId id) { return copy_.to().tensor(id).type; }

  /// The widest real type among the operands; nothing where none is real.
  std::optional<ElementType> widest(const OpNode& node) {
    std::optional<ElementType> type;
    for (const TensorId input : node.inputs)
      if (is_real(type_of(input)) && (!type || *type != ElementType::fp32)) type = type_of(input);
    return type;
  }

  /// Adds the op; its real outputs have `type` (nothing: the type that they had).
  void add(OpId id, OpNode node, std::optional<ElementType> type) {
    const std::vector<TensorId> old = copy_.from().op(id).outputs;
    std::vector<Tensor> outputs;
    for (std::size_t place = 0; place < old.size(); ++place) {
      outputs.push_back(copy_.from().tensor(old[place]));
      if (type && is_real(outputs.back().type) && !keeps_output(node, place)) outputs.back().type = *type;
    }
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    for (std::size_t place = 0; place < old.size(); ++place) copy_.put(old[place], copy_.to().op(added).outputs[place]);
  }

  TensorId cast(TensorId id, ElementType to, const OpNode& reader) {
    if (type_of(id) == to || !is_real(type_of(id)) || !is_real(to)) return id;
    const auto made = casts_.find({id, to});
    if (made != casts_.end()) return made->second;
    OpNode node;
    node.kind = OpKind::cast;
    node.name = copy_.to().tensor(id).name + "." + std::string(to_string(to));
    node.inputs = {id};
    node.attributes = {{"to", std::string(to_string(to))}};
    node.scope = reader.scope;
    node.phase = reader.phase == models::Phase::forward ? models::Phase::forward : models::Phase::backward;
    node.op_class = reader.op_class;
    const TensorId now = copy_.to().op(copy_.to().add(std::move(node))).outputs.front();
    casts += 1;
    weight_casts += copy_.to().tensor(id).role == TensorRole::parameter ? 1 : 0;
    casts_[{id, to}] = now;
    casts_[{now, type_of(id)}] = id;
    return now;
  }

  GraphCopy copy_;
  ElementType low_;
  std::map<OpKind, Rule> rules_;
  std::map<std::pair<TensorId, ElementType>, TensorId> casts_;
};

class AmpPass final : public GraphPass {
 public:
  explicit AmpPass(AmpParams params) : p_(std::move(params)) {}

  OpGraph run(const OpGraph& graph, const PassContext&, PassReport& report) const override {
    if (element_type(p_.dtype) != ElementType::fp16 && element_type(p_.dtype) != ElementType::bf16)
      throw GraphError("amp: dtype: expected fp16 or bf16, got " + std::string(to_string(element_type(p_.dtype))));
    std::map<OpKind, Rule> rules;
    for (const auto& [list, rule] : {std::pair(&p_.low, Rule::low), std::pair(&p_.wide, Rule::wide)})
      for (const std::string& name : list->items) {
        const std::optional<OpKind> kind = op_kind_of(name);
        if (!kind) throw GraphError("amp: '" + name + "' is no kind of op");
        rules[*kind] = rule;
      }
    Caster caster(graph, element_type(p_.dtype), std::move(rules));
    OpGraph done = caster.run();
    report.tell("casts", caster.casts);
    report.tell("weight_casts", caster.weight_casts);
    report.tell("low_ops", caster.low_ops);
    return done;
  }

 private:
  AmpParams p_;
};

}  // namespace

void add_amp(PassRegistry& registry) {
  registry.add<AmpParams>(
      "amp", "Automatic mixed precision: casts between ops by rules for each op kind; weights are cast once per step.",
      [](const AmpParams& params) { return std::make_unique<AmpPass>(params); });
}

}  // namespace orrery::policies
