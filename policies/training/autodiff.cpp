// Differentiation as a pass: the forward graph becomes the graph of one training step (models/autodiff/autodiff.hpp).
//
// Decides nothing beside its parameters: what is minimised, which optimizer updates the parameters and whether in one
// kernel or one each, and whether 16-bit weights have a copy in fp32.
#include "models/autodiff/autodiff.hpp"

#include "policies/base/graph_pass.hpp"

namespace orrery::policies {
namespace {

using namespace models;

struct AutodiffParams {
  LossKind loss = LossKind::automatic;
  OptimizerKind optimizer = OptimizerKind::adamw;
  bool fused_step = false, master_weights = false;
  std::int64_t step_casts = 0;

  static constexpr auto fields() {
    using P = AutodiffParams;
    return sim::FieldTable{
        sim::field(
            "loss", &P::loss,
            "What is minimised; automatic: outputs that are single numbers, or else the cross entropy of all outputs."),
        sim::field("optimizer", &P::optimizer, "Update rule of the parameters; none: the gradients are outputs."),
        sim::field("fused_step", &P::fused_step,
                   "Whether one kernel updates all parameters, instead of one kernel for each."),
        sim::field("master_weights", &P::master_weights,
                   "Whether 16-bit parameters are updated through a copy in fp32."),
        sim::field("step_casts", &P::step_casts, sim::Unit::count, sim::between(0, 2),
                   "Casts of the update that are separate kernels. 0: none; 1: of weights back to 16 bits; 2: also of "
                   "gradients."),
    };
  }
};

class AutodiffPass final : public GraphPass {
 public:
  explicit AutodiffPass(const AutodiffParams& params) : p_(params) {}

  OpGraph run(const OpGraph& graph, const PassContext&, PassReport& report) const override {
    for (const OpId id : graph.ops())
      if (graph.op(id).phase != models::Phase::forward)
        throw GraphError("autodiff: expected a forward graph; it has been differentiated already");
    TrainingGraph training = differentiate(graph, {.loss = p_.loss,
                                                   .optimizer = p_.optimizer,
                                                   .fused_step = p_.fused_step,
                                                   .master_weights = p_.master_weights,
                                                   .step_casts = p_.step_casts});
    double backward = 0, saved = 0;
    for (const OpId id : training.graph.ops())
      backward += training.graph.op(id).phase == models::Phase::backward ? 1 : 0;
    for (const TensorId id : training.graph.tensors()) saved += training.graph.tensor(id).saved ? 1 : 0;
    report.tell("gradients", static_cast<double>(training.gradients.size()));
    report.tell("unreached", static_cast<double>(training.unreached.size()));
    report.tell("backward_ops", backward);
    report.tell("saved_tensors", saved);
    if (!training.unreached.empty())
      report.notes.push_back("the loss does not depend on parameter '" +
                             training.graph.tensor(training.unreached.front()).name +
                             (training.unreached.size() == 1 ? "'" : "' and others"));
    return std::move(training.graph);
  }

 private:
  AutodiffParams p_;
};

}  // namespace

void add_autodiff(PassRegistry& registry) {
  registry.add<AutodiffParams>("autodiff", "Training step of a forward graph: loss, backward pass, optimizer.",
                               [](const AutodiffParams& params) { return std::make_unique<AutodiffPass>(params); });
}

}  // namespace orrery::policies
