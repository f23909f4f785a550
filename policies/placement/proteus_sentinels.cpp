#include "policies/placement/proteus_sentinels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace orrery::policies::proteus {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::ShapeRule;
using models::Subgraph;
using models::SymExpr;
using models::Tensor;
using models::TensorId;
using models::TensorRole;

/// What a part looks like: operands an op, how far back they are made, how many come from outside.
struct Likeness {
  std::vector<std::size_t> operands, distances;
  std::vector<Tensor> inputs;
  double outside = 0;
};

namespace {

bool is_bound(const Tensor& tensor) {
  return tensor.role == TensorRole::parameter || tensor.role == TensorRole::constant ||
         tensor.role == TensorRole::state;
}

bool alike(const Tensor& a, const Tensor& b) {
  return a.type == b.type && a.shape == b.shape;
}

Likeness likeness(const OpGraph& part) {
  Likeness seen;
  std::size_t uses = 0, foreign = 0;
  for (const OpId op : part.ops()) {
    std::vector<TensorId> free;
    for (const TensorId input : part.op(op).inputs)
      if (!is_bound(part.tensor(input)) && std::find(free.begin(), free.end(), input) == free.end())
        free.push_back(input);
    seen.operands.push_back(std::max<std::size_t>(1, free.size()));
    for (const TensorId input : free) {
      ++uses;
      const auto maker = part.producer(input);
      if (!maker)
        ++foreign;
      else
        seen.distances.push_back(index(op) - index(*maker));
    }
  }
  for (const TensorId id : part.with_role(TensorRole::input)) seen.inputs.push_back(part.tensor(id));
  if (seen.distances.empty()) seen.distances.push_back(1);
  seen.outside = uses == 0 ? 1 : static_cast<double>(foreign) / static_cast<double>(uses);
  return seen;
}

}  // namespace

/// One sentinel in the making.
class SentinelBuilder {
 public:
  SentinelBuilder(const SentinelMaker& maker, const Subgraph& part, sim::RandomStream& random)
      : maker_(maker), like_(likeness(part.graph)), random_(random) {
    graph_.name = part.graph.name + ".sentinel";
    graph_.facts = part.graph.facts;
    if (like_.inputs.empty()) {  // a part that starts from parameters alone
      Tensor any = part.graph.tensor(static_cast<TensorId>(0));
      any.role = TensorRole::input;
      like_.inputs.push_back(std::move(any));
    }
  }

  OpGraph run(std::size_t ops) {
    for (std::size_t i = 0; i < ops; ++i) grow();
    for (const TensorId id : made_)
      if (graph_.consumers(id).empty()) graph_.mark_output(id);
    return std::move(graph_);
  }

 private:
  template <class T>
  const T& any(const std::vector<T>& list) {
    return list[random_.below(list.size())];
  }

  TensorId outside() {
    Tensor tensor = any(like_.inputs);
    tensor.name = fmt::format("in{}", inputs_++);
    tensor.role = TensorRole::input;
    return graph_.add_tensor(std::move(tensor));
  }

  TensorId operand() {
    if (made_.empty() || random_.uniform() < like_.outside) return outside();
    return made_[made_.size() - std::min(made_.size(), any(like_.distances))];
  }

  void grow() {
    std::vector<TensorId> operands(any(like_.operands));
    for (TensorId& id : operands) id = operand();
    while (true) {
      for (int attempt = 0; attempt < 24; ++attempt)
        if (place(operands)) return;
      if (operands.size() > 1) {
        operands.pop_back();
        continue;
      }
      OpNode node;  // nothing of the model takes this operand: a copy of it does no harm
      node.kind = OpKind::copy;
      node.inputs = operands;
      take(graph_.add(std::move(node)));
      return;
    }
  }

  bool place(std::vector<TensorId> operands) {
    if (random_.uniform() < maker_.foreign_) return place_foreign(operands);
    if (maker_.templates_.empty()) return false;
    const SentinelMaker::Template& choice = any(maker_.templates_);
    if (choice.free != operands.size()) return false;
    return models::info(choice.op.kind).rule == ShapeRule::given ? place_as_seen(choice, operands)
                                                                 : place_by_rule(choice, operands);
  }

  bool place_foreign(const std::vector<TensorId>& operands) {
    const std::vector<OpKind>& kinds = operands.size() == 1 ? maker_.foreign_unary_ : maker_.foreign_binary_;
    if (operands.size() > 2 || kinds.empty()) return false;
    if (operands.size() == 2 && !alike(graph_.tensor(operands[0]), graph_.tensor(operands[1]))) return false;
    OpNode node;
    node.kind = any(kinds);
    node.inputs = operands;
    take(graph_.add(std::move(node)));
    return true;
  }

  /// Tensor that looks like `wanted`, from `given` on backwards through what is made; nothing: there is none.
  std::optional<TensorId> relinked(TensorId given, const Tensor& wanted) const {
    if (alike(graph_.tensor(given), wanted)) return given;
    for (std::size_t i = made_.size(); i-- > 0;)
      if (alike(graph_.tensor(made_[i]), wanted)) return made_[i];
    return std::nullopt;
  }

  /// The op with the operands that it has in the model, and the results that it has there.
  bool place_as_seen(const SentinelMaker::Template& choice, const std::vector<TensorId>& operands) {
    OpNode node = copied(choice);
    std::size_t next = 0;
    std::vector<std::pair<std::size_t, Tensor>> bound;
    for (std::size_t slot = 0; slot < choice.operands.size(); ++slot) {
      node.inputs.push_back({});
      if (choice.bound[slot]) continue;
      const auto found = relinked(operands[next++], choice.operands[slot]);
      if (!found) return false;
      node.inputs[slot] = *found;
    }
    for (std::size_t slot = 0; slot < choice.operands.size(); ++slot)
      if (choice.bound[slot]) node.inputs[slot] = bind(choice.operands[slot]);
    std::vector<Tensor> results = choice.results;
    for (Tensor& result : results) result.name.clear();
    take(graph_.add(std::move(node), std::move(results)));
    return true;
  }

  /// The op with parameters made to fit its first operand.
  bool place_by_rule(const SentinelMaker::Template& choice, const std::vector<TensorId>& operands) {
    if (choice.bound.empty() || choice.bound.front()) return false;
    const Tensor first = graph_.tensor(operands[0]);
    if (first.type != choice.operands.front().type || first.shape.size() != choice.operands.front().shape.size())
      return false;
    OpNode node = copied(choice);
    std::vector<Tensor> made_to_fit;
    std::size_t next = 0;
    for (std::size_t slot = 0; slot < choice.operands.size(); ++slot) {
      node.inputs.push_back({});
      if (choice.bound[slot]) {
        Tensor tensor = choice.operands[slot];
        if (!fit(choice, slot, first, tensor)) return false;
        made_to_fit.push_back(std::move(tensor));
      } else if (next == 0) {
        node.inputs[slot] = operands[next++];
      } else {
        const Tensor& mate = models::info(choice.op.kind).rule == ShapeRule::matmul ? choice.operands[slot] : first;
        const auto found = relinked(operands[next++], mate);
        if (!found) return false;
        node.inputs[slot] = *found;
      }
    }
    next = 0;
    for (std::size_t slot = 0; slot < choice.operands.size(); ++slot)
      if (choice.bound[slot]) node.inputs[slot] = bind(made_to_fit[next++]);
    return add_if_it_fits(std::move(node));
  }

  bool add_if_it_fits(OpNode node) {
    try {
      const std::vector<Tensor> results = models::infer_outputs(graph_, node);
      for (const Tensor& result : results)
        for (const SymExpr& dim : result.shape)
          if (models::bounds(dim, graph_.facts).hi.value_or(1) < 1) return false;  // a window past the image
      take(graph_.add(std::move(node)));
      return true;
    } catch (const models::GraphError&) {
      return false;
    }
  }

  /// Sizes of a parameter beside a first operand that is not the model's.
  static bool fit(const SentinelMaker::Template& choice, std::size_t slot, const Tensor& first, Tensor& parameter) {
    const Tensor& usual = choice.operands.front();
    if (alike(first, usual)) return true;
    const ShapeRule rule = models::info(choice.op.kind).rule;
    if (rule == ShapeRule::matmul && slot == 1 && parameter.shape.size() >= 2 && choice.op.integer("trans_a", 0) == 0) {
      parameter.shape[parameter.shape.size() - (choice.op.integer("trans_b", 0) != 0 ? 1 : 2)] = first.shape.back();
      return true;
    }
    if (rule == ShapeRule::conv && slot == 1) {
      if (choice.op.integer("groups", 1) != 1 || first.shape.size() != 4) return false;
      parameter.shape[1] = first.shape[1];
      return true;
    }
    if (rule == ShapeRule::matmul || rule == ShapeRule::conv) return true;  // a bias follows the results
    for (SymExpr& dim : parameter.shape) {  // scales and shifts of a norm, a bias: the size that they go along
      if (dim == usual.shape.back())
        dim = first.shape.back();
      else if (usual.shape.size() > 1 && dim == usual.shape[1])
        dim = first.shape[1];
    }
    return true;
  }

  static OpNode copied(const SentinelMaker::Template& choice) {
    OpNode node = choice.op;
    node.name.clear();
    node.inputs.clear();
    node.outputs.clear();
    return node;
  }

  TensorId bind(Tensor tensor) {
    tensor.name = fmt::format("p{}", bound_++);
    return graph_.add_tensor(std::move(tensor));
  }

  void take(OpId op) { made_.push_back(graph_.op(op).outputs.front()); }

  const SentinelMaker& maker_;
  Likeness like_;
  sim::RandomStream& random_;
  OpGraph graph_;
  std::vector<TensorId> made_;
  int inputs_ = 0, bound_ = 0;
};

SentinelMaker::SentinelMaker(const OpGraph& model, double foreign) : foreign_(foreign) {
  std::array<bool, models::kOpKinds> seen{};
  for (const OpId op : model.ops()) {
    const OpNode& node = model.op(op);
    seen[static_cast<std::size_t>(node.kind)] = true;
    if (!node.regions.empty() || node.outputs.empty()) continue;
    Template& entry = templates_.emplace_back();
    entry.op = node;
    std::vector<TensorId> distinct;
    for (const TensorId input : node.inputs) {
      entry.operands.push_back(model.tensor(input));
      entry.bound.push_back(is_bound(model.tensor(input)));
      entry.free += entry.bound.back() ? 0 : 1;
    }
    for (const TensorId output : node.outputs) entry.results.push_back(model.tensor(output));
    if (entry.free == 0) templates_.pop_back();
  }
  constexpr std::array kUnary{OpKind::tanh, OpKind::sigmoid, OpKind::silu, OpKind::abs, OpKind::sqrt, OpKind::exp};
  constexpr std::array kBinary{OpKind::sub, OpKind::mul, OpKind::div, OpKind::maximum};
  for (const OpKind kind : kUnary)
    if (!seen[static_cast<std::size_t>(kind)]) foreign_unary_.push_back(kind);
  for (const OpKind kind : kBinary)
    if (!seen[static_cast<std::size_t>(kind)]) foreign_binary_.push_back(kind);
}

OpGraph SentinelMaker::make(const Subgraph& part, sim::RandomStream random) const {
  const auto real = static_cast<double>(part.graph.op_count());
  const double drawn = real * random.uniform(0.8, 1.2) + 0.5;
  SentinelBuilder builder(*this, part, random);
  return builder.run(std::max<std::size_t>(1, static_cast<std::size_t>(drawn)));
}

}  // namespace orrery::policies::proteus
