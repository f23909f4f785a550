// Products in fp8: what the weighted products of a transformer read is cast to 8 bits, forward and backward.
//
// As the recipes of Transformer Engine and torchao have it: operands of the products that have weights (q, k, v, the
// way back, the feed-forward, experts) are fp8, what they make and what they sum in is not; embedding, head, attention
// and norms stay as they are. A tensor is cast once and the cast kept for the backward pass, in place of the tensor. A
// scale comes with each cast: from earlier steps (`delayed`: nothing more is read), from the tensor itself (`tensor`:
// its largest value is looked for first, one more pass over it), from rows (`row`) or from blocks of a row (`block`):
// these follow the axis that the product sums over, so a tensor is cast once for either axis.
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

enum class Fp8Scaling : std::uint8_t { delayed, tensor, row, block };
constexpr auto enum_names(Fp8Scaling) {
  using enum Fp8Scaling;
  return sim::names<Fp8Scaling>({{"delayed", delayed}, {"tensor", tensor}, {"row", row}, {"block", block}});
}
enum class Fp8Weights : std::uint8_t { cast, kept };
constexpr auto enum_names(Fp8Weights) {
  using enum Fp8Weights;
  return sim::names<Fp8Weights>({{"cast", cast}, {"kept", kept}});
}

struct Fp8Params {
  Fp8Scaling scaling = Fp8Scaling::delayed;
  Fp8Weights weights = Fp8Weights::cast;
  static constexpr auto fields() {
    using P = Fp8Params;
    return sim::FieldTable{sim::field("scaling", &P::scaling,
                                      "Source of a cast's scale: earlier steps (delayed), the whole tensor (tensor), "
                                      "its rows (row), or blocks of rows (block)."),
                           sim::field("weights", &P::weights,
                                      "Whether weights are cast where they are read (cast), or kept in fp8 (kept).")};
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
  Fp8Caster(const OpGraph& graph, const Fp8Params& params) : from_(graph), copy_(graph), params_(params) {}

  OpGraph run() {
    if (params_.weights == Fp8Weights::kept) keep_weights();
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

  /// Whether all that read a tensor are products that cast it; reshapes are looked through.
  bool all_cast(TensorId tensor) const {
    const std::span<const OpId> readers = from_.consumers(tensor);
    return !readers.empty() && std::ranges::all_of(readers, [&](OpId reader) {
      const OpNode& node = from_.op(reader);
      if (node.kind == OpKind::reshape) return all_cast(node.outputs.front());
      return has_weights(node) && (node.inputs[0] == tensor || node.inputs[1] == tensor);
    });
  }

  /// A gather whose readers all cast what it brings: 8 bits travel. Scales of rows would have to travel too.
  bool gathers_eight(const OpNode& op) const {
    return op.kind == OpKind::all_gather && params_.scaling != Fp8Scaling::row && all_cast(op.outputs.front());
  }

  void gather_eight(OpId id) {
    OpNode node = copy_.node(id);
    node.inputs.front() = as_read(node.inputs.front(), true, node);
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

  /// The tensor in fp8 as a product wants it: along the axis that it sums over (the one layout that Hopper's fp8
  /// products read), so a tensor that is read along either axis is there twice.
  TensorId cast(TensorId id, std::size_t slot, const OpNode& reader) {
    return as_read(id, along_rows(reader, slot), reader);
  }

  TensorId as_read(TensorId id, bool rows, const OpNode& reader) {
    const Tensor& tensor = copy_.to().tensor(id);
    if (tensor.type == ElementType::fp8 && (rows || tensor.role == TensorRole::parameter)) return id;
    if (const auto made = casts_.find({id, rows}); made != casts_.end()) return made->second;
    const auto maker = copy_.to().producer(id);
    TensorId now{};
    if (maker && copy_.to().op(*maker).kind == OpKind::reshape) {
      now = view_of_cast(id, *maker, rows, reader);
    } else if (tensor.type == ElementType::fp8) {
      now = turned(id, reader);
    } else {
      const auto other = casts_.find({id, !rows});
      const bool one_scale = params_.scaling == Fp8Scaling::delayed || params_.scaling == Fp8Scaling::tensor;
      now = one_scale && other != casts_.end() ? turned(other->second, reader) : new_cast(id, rows, reader);
    }
    return casts_[{id, rows}] = now;
  }

  OpNode node_of(OpKind kind, TensorId input, const char* suffix, const OpNode& reader) {
    OpNode op;
    op.kind = kind;
    op.name = copy_.to().tensor(input).name + suffix;
    op.inputs = {input};
    op.scope = reader.scope;
    op.phase = reader.phase;
    op.op_class = hw::OpClass::quantise;
    return op;
  }

  /// A copy of an fp8 tensor that lies along its other axis.
  TensorId turned(TensorId id, const OpNode& reader) {
    return copy_.to().op(copy_.to().add(node_of(OpKind::copy, id, ".turned", reader))).outputs.front();
  }

  /// Of a view: the same view of the cast of what it shows, so that a tensor is cast once however it is looked at.
  TensorId view_of_cast(TensorId id, OpId maker, bool rows, const OpNode& reader) {
    OpNode view = copy_.to().op(maker);
    view.inputs.front() = as_read(view.inputs.front(), rows, reader);
    view.outputs.clear();
    Tensor shown = copy_.to().tensor(id);
    shown.type = ElementType::fp8;
    return copy_.to().op(copy_.to().add(std::move(view), {std::move(shown)})).outputs.front();
  }

  TensorId new_cast(TensorId id, bool rows, const OpNode& reader) {
    // The largest value of a tensor, or of its columns, is known once all rows are read; that of a row with the row.
    const bool columns = params_.scaling == Fp8Scaling::row && !rows;
    if (params_.scaling == Fp8Scaling::tensor || columns) {
      OpNode largest = node_of(OpKind::reduce_max, id, ".amax", reader);
      std::vector<SymExpr> axes;
      const std::size_t rank = copy_.to().tensor(id).shape.size() - (columns ? 1 : 0);
      for (std::size_t axis = 0; axis < rank; ++axis) axes.emplace_back(static_cast<std::int64_t>(axis));
      largest.attributes = {{"axes", std::move(axes)}};
      copy_.to().add(std::move(largest));
    }
    OpNode op = node_of(OpKind::cast, id, rows ? ".fp8" : ".fp8_columns", reader);
    op.attributes = {{"to", std::string(to_string(ElementType::fp8))}};
    casts += 1;
    return copy_.to().op(copy_.to().add(std::move(op))).outputs.front();
  }

  const OpGraph& from_;
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
  registry.add<Fp8Params>("fp8",
                          "Matrix products with weights read fp8: their operands are cast, or weights are kept in fp8.",
                          [](const Fp8Params& params) { return std::make_unique<Fp8Pass>(params); });
}

}  // namespace orrery::policies
