// Products in fp8: what the weighted products of a transformer read is cast to 8 bits, forward and backward.
//
// As the recipes of Transformer Engine and torchao have it: operands of the products that have weights (q, k, v, the
// way back, the feed-forward, experts) are fp8, what they make and what they sum in is not; embedding, head, attention
// and norms stay as they are. A tensor is cast once and the cast kept for the backward pass, in place of the tensor. A
// scale comes with each cast: from earlier steps (`delayed`: nothing more is read), from the tensor itself (`tensor`:
// its largest value is looked for first, one more pass over it; `row`: for rows and for columns apart, so a tensor is
// read and written once for the product along each), or from blocks of it (`block`: within the cast).
// A gather of tensor parallelism that only such products read brings the cast. Weights are cast where they are read
// (`cast`), or kept and gathered in fp8 (`kept`), the optimizer having its own. Left out: exponents of gradients (the
// byte is the same), sums of maxima over ranks (a message of some bytes).
#include <algorithm>
#include <map>
#include <span>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/graph_rewrite.hpp"
#include "policies/base/graph_pass.hpp"

namespace orrery::policies {
namespace {

using namespace models;

enum class Scaling : std::uint8_t { delayed, tensor, row, block };
constexpr auto enum_names(Scaling) {
  using enum Scaling;
  return sim::names<Scaling>({{"delayed", delayed}, {"tensor", tensor}, {"row", row}, {"block", block}});
}
enum class Weights : std::uint8_t { cast, kept };
constexpr auto enum_names(Weights) {
  using enum Weights;
  return sim::names<Weights>({{"cast", cast}, {"kept", kept}});
}

struct Fp8Params {
  Scaling scaling = Scaling::delayed;
  Weights weights = Weights::cast;
  static constexpr auto fields() {
    using P = Fp8Params;
    return sim::FieldTable{
        sim::field("scaling", &P::scaling, "Where the scale of a cast comes from."),
        sim::field("weights", &P::weights, "Whether weights are cast where they are read, or kept.")};
  }
};

bool has_weights(const OpNode& op) {
  if (op.kind != OpKind::matmul && op.kind != OpKind::grouped_matmul && op.kind != OpKind::grouped_matmul_grad_weight)
    return false;
  using hw::OpClass;
  switch (op.op_class) {
    case OpClass::qkv_proj:
    case OpClass::out_proj:
    case OpClass::ffn_up:
    case OpClass::ffn_down:
    case OpClass::expert_up:
    case OpClass::expert_down:
      return true;
    default:
      return false;
  }
}

class Fp8Caster {
 public:
  Fp8Caster(const OpGraph& graph, const Fp8Params& params) : copy_(graph), params_(params) {}

  OpGraph run() {
    if (params_.weights == Weights::kept) keep_weights();
    for (const OpId id : copy_.from().ops()) visit(id);
    OpGraph done = copy_.finish();
    for (const OpId id : done.ops())
      if (done.op(id).phase == models::Phase::backward) {
        mark_saved(done);
        break;
      }
    return done;
  }
  double casts = 0, products = 0;

 private:
  void keep_weights() {
    for (const OpId id : copy_.from().ops()) {
      const OpNode& op = copy_.from().op(id);
      if (op.phase == models::Phase::forward && has_weights(op) &&
          copy_.from().tensor(op.inputs[1]).role == TensorRole::parameter && is_wide(copy_.at(op.inputs[1])))
        copy_.to().annotate(copy_.at(op.inputs[1])).type = ElementType::fp8;
    }
  }

  bool is_wide(TensorId id) const {
    const ElementType type = copy_.from().tensor(id).type;
    return type == ElementType::fp16 || type == ElementType::bf16 || type == ElementType::fp32;
  }

  /// A gather whose readers all cast what it brings: 8 bits travel. Scales of rows would have to travel too.
  bool gathers_eight(const OpNode& op) const {
    if (op.kind != OpKind::all_gather || params_.scaling == Scaling::row) return false;
    const TensorId gathered = op.outputs.front();
    const std::span<const OpId> readers = copy_.from().consumers(gathered);
    return !readers.empty() && std::ranges::all_of(readers, [&](OpId reader) {
      const OpNode& node = copy_.from().op(reader);
      return has_weights(node) && (node.inputs[0] == gathered || node.inputs[1] == gathered);
    });
  }

  void gather_eight(OpId id) {
    OpNode node = copy_.node(id);
    node.inputs.front() = cast(node.inputs.front(), 0, node);
    std::vector<Tensor> outputs{copy_.from().tensor(copy_.from().op(id).outputs.front())};
    outputs.front().type = copy_.to().tensor(node.inputs.front()).type;
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    copy_.put(copy_.from().op(id).outputs.front(), copy_.to().op(added).outputs.front());
  }

  void visit(OpId id) {
    const OpNode& old = copy_.from().op(id);
    if (gathers_eight(old)) return gather_eight(id);
    if (!has_weights(old)) {
      copy_.copy(id);
      return;
    }
    OpNode node = copy_.node(id);
    std::vector<Tensor> outputs;
    for (const TensorId output : old.outputs) outputs.push_back(copy_.from().tensor(output));
    for (std::size_t slot = 0; slot < 2; ++slot) node.inputs[slot] = cast(node.inputs[slot], slot, node);
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < old.outputs.size(); ++i) copy_.put(old.outputs[i], copy_.to().op(added).outputs[i]);
    products += 1;
  }

  /// Whether the product runs along the tensor's last axis.
  static bool along_rows(const OpNode& product, std::size_t slot) {
    return slot == 0 ? product.integer("trans_a", 0) == 0 : product.integer("trans_b", 0) != 0;
  }

  TensorId cast(TensorId id, std::size_t slot, const OpNode& reader) {
    const ElementType type = copy_.to().tensor(id).type;
    if (type != ElementType::fp16 && type != ElementType::bf16 && type != ElementType::fp32) return id;
    const bool rows = params_.scaling != Scaling::row || along_rows(reader, slot);
    const auto made = casts_.find({id, rows});
    if (made != casts_.end()) return made->second;
    const auto node = [&](OpKind kind, const char* suffix) {
      OpNode op;
      op.kind = kind;
      op.name = copy_.to().tensor(id).name + suffix;
      op.inputs = {id};
      op.scope = reader.scope;
      op.phase = reader.phase;
      op.op_class = hw::OpClass::quantise;
      return op;
    };
    if (params_.scaling == Scaling::tensor) {
      OpNode largest = node(OpKind::reduce_max, ".amax");
      std::vector<SymExpr> axes;
      for (std::size_t axis = 0; axis < copy_.to().tensor(id).shape.size(); ++axis)
        axes.emplace_back(static_cast<std::int64_t>(axis));
      largest.attributes = {{"axes", std::move(axes)}};
      copy_.to().add(std::move(largest));
    }
    OpNode op = node(OpKind::cast, rows ? ".fp8" : ".fp8_columns");
    op.attributes = {{"to", std::string(to_string(ElementType::fp8))}};
    const TensorId now = copy_.to().op(copy_.to().add(std::move(op))).outputs.front();
    casts += 1;
    return casts_[{id, rows}] = now;
  }

  GraphCopy copy_;
  Fp8Params params_;
  std::map<std::pair<TensorId, bool>, TensorId> casts_;
};

class Fp8Pass final : public GraphPass {
 public:
  explicit Fp8Pass(Fp8Params params) : p_(params) {}
  OpGraph run(const OpGraph& graph, const PassContext&, PassReport& report) const override {
    Fp8Caster caster(graph, p_);
    OpGraph done = caster.run();
    report.tell("casts", caster.casts);
    report.tell("products", caster.products);
    return done;
  }

 private:
  Fp8Params p_;
};

}  // namespace

void add_fp8(PassRegistry& registry) {
  registry.add<Fp8Params>("fp8", "Products with weights read fp8: casts of operands, or weights kept so.",
                          [](const Fp8Params& params) { return std::make_unique<Fp8Pass>(params); });
}

}  // namespace orrery::policies
