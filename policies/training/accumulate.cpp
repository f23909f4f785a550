// Gradient accumulation: the forward and backward ops of a training graph run for several micro-batches, one after the
// other, before the optimizer's steps.
//
// The sizes of the graph are those of one micro-batch. Inputs of the model exist once a micro-batch ("x", "x.micro1"
// ..), what depends on no input (casts of weights) is done once. From the second micro-batch on every parameter
// gradient is added to the sum so far where it is made. The gradient of the loss (the constant "loss.gradient") is
// meant to be one part in as many, so the sums are means.
#include <algorithm>

#include "models/autodiff/autodiff.hpp"
#include "policies/base/graph_pass.hpp"

namespace orrery::policies {
namespace {

using namespace models;

struct AccumulateParams {
  std::int64_t micro_batches = 2;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("micro_batches", &AccumulateParams::micro_batches, sim::Unit::count, sim::between(1, 4096),
                   "Number of micro-batches, each with a forward and a backward pass, per optimizer step.")};
  }
};

class Repeater {
 public:
  explicit Repeater(const OpGraph& graph) : copy_(graph), summed_(graph.tensor_count(), false), fixed_(summed_) {
    for (const OpId id : graph.ops()) {
      const OpNode& op = graph.op(id);
      if (op.phase == models::Phase::optimizer)
        for (const TensorId input : op.inputs) summed_[index(input)] = graph.producer(input).has_value();
    }
    for (const TensorId id : graph.tensors())
      if (!graph.producer(id)) fixed_[index(id)] = graph.tensor(id).role != TensorRole::input;
    for (const OpId id : graph.ops()) {
      const OpNode& op = graph.op(id);
      const bool same = op.phase == models::Phase::forward &&
                        std::ranges::all_of(op.inputs, [&](TensorId input) { return fixed_[index(input)]; });
      for (const TensorId output : op.outputs) fixed_[index(output)] = same;
    }
  }

  OpGraph run(std::int64_t times) {
    const OpGraph& graph = copy_.from();
    std::vector<TensorId> sums(graph.tensor_count());
    for (std::int64_t k = 0; k < times; ++k) {
      suffix_ = ".micro" + std::to_string(k);
      if (k > 0) next_inputs();
      for (const OpId id : graph.ops()) {
        if (graph.op(id).phase == models::Phase::optimizer) continue;
        if (k > 0 && is_fixed(id)) continue;
        if (k == 0)
          copy_.copy(id);
        else
          repeat(id);
        for (const TensorId output : graph.op(id).outputs) {
          if (summed_[index(output)])
            sums[index(output)] = k == 0 ? copy_.at(output) : sum(sums[index(output)], output);
          if (graph.is_output(output)) copy_.to().mark_output(copy_.at(output));
        }
      }
    }
    for (const TensorId id : graph.tensors())
      if (summed_[index(id)]) copy_.put(id, sums[index(id)]);
    for (const OpId id : graph.ops())
      if (graph.op(id).phase == models::Phase::optimizer) copy_.copy(id);
    OpGraph done = copy_.finish();
    mark_saved(done);
    return done;
  }

 private:
  bool is_fixed(OpId id) const {
    const std::vector<TensorId>& outputs = copy_.from().op(id).outputs;
    return !outputs.empty() && fixed_[index(outputs.front())];
  }

  void next_inputs() {
    for (const TensorId id : copy_.from().with_role(TensorRole::input)) {
      Tensor next = copy_.from().tensor(id);
      next.name += suffix_;
      copy_.put(id, copy_.to().add_tensor(std::move(next)));
    }
  }

  void repeat(OpId id) {
    OpNode node = copy_.node(id);
    node.name += suffix_;
    std::vector<Tensor> outputs;
    const std::vector<TensorId> old = copy_.from().op(id).outputs;
    for (const TensorId output : old) {
      outputs.push_back(copy_.from().tensor(output));
      outputs.back().name += suffix_;
    }
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < old.size(); ++i) copy_.put(old[i], copy_.to().op(added).outputs[i]);
  }

  TensorId sum(TensorId so_far, TensorId output) {
    const OpNode& maker = copy_.from().op(*copy_.from().producer(output));
    OpNode node;
    node.kind = OpKind::add;
    node.name = copy_.from().tensor(output).name + ".sum" + suffix_;
    node.inputs = {so_far, copy_.at(output)};
    node.scope = maker.scope;
    node.phase = models::Phase::backward;
    node.op_class = maker.op_class;
    return copy_.to().op(copy_.to().add(std::move(node))).outputs.front();
  }

  GraphCopy copy_;
  std::vector<bool> summed_, fixed_;  ///< by tensor: read by the optimizer; the same for all micro-batches
  std::string suffix_;
};

class AccumulatePass final : public GraphPass {
 public:
  explicit AccumulatePass(const AccumulateParams& params) : p_(params) {}

  OpGraph run(const OpGraph& graph, const PassContext&, PassReport& report) const override {
    if (std::ranges::none_of(graph.ops(), [&](OpId id) { return graph.op(id).phase == models::Phase::optimizer; }))
      throw GraphError("accumulate: expected a training graph with optimizer steps; run autodiff before");
    report.tell("micro_batches", static_cast<double>(p_.micro_batches));
    return p_.micro_batches == 1 ? graph : Repeater(graph).run(p_.micro_batches);
  }

 private:
  AccumulateParams p_;
};

}  // namespace

void add_accumulate(PassRegistry& registry) {
  registry.add<AccumulateParams>(
      "accumulate", "Gradients of several micro-batches are summed before the optimizer's steps.",
      [](const AccumulateParams& params) { return std::make_unique<AccumulatePass>(params); });
}

}  // namespace orrery::policies
