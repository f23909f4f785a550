#include "experiments/fidelity/training_step.hpp"

#include <fmt/format.h>

#include "hw/cost/cost_model.hpp"

namespace orrery::experiments {

struct StepPredictor::Trained {
  training::TrainedModel model;
  std::unique_ptr<training::CostTable> table;
};

StepPredictor::StepPredictor(const PartShelf& parts, const hw::GpuParams& gpu, const MeasuredSystem& system) {
  machine_.device = hw::device_of(gpu);
  machine_.node_devices = system.node_gpus;
  if (const auto* nic = parts.find<hw::NicPart>(system.nic)) machine_.nics = training::NodeNics{nic->part, system.nics};
  machine_.host = system.host;
  machine_.in_situ = system.in_situ;
  models::register_builders(builders_);
  policies::register_schedules(schedules_);
  policies::register_graph_passes(passes_);
}

StepPredictor::~StepPredictor() = default;

StepPredictor::Trained& StepPredictor::trained(const GptSizes& sizes) {
  std::unique_ptr<Trained>& slot = models_[sizes];
  if (slot) return *slot;
  slot = std::make_unique<Trained>();
  sim::Node params = sim::Node::object();
  const auto set = [&](const char* name, std::int64_t value) { params.set(name, sim::Node::integer(value)); };
  set("layers", sizes.layers);
  set("hidden", sizes.hidden);
  set("heads", sizes.heads);
  set("intermediate", 4 * sizes.hidden);
  set("vocab", sizes.vocabulary);
  set("positions", sizes.sequence);
  params.set("attention", sim::Node::string(sizes.flash ? "sdpa" : "eager"));
  params.set("loss", sim::Node::boolean(true));
  params.set("wide_softmax", sim::Node::boolean(!sizes.fused_softmax));
  params.set("wide_loss", sim::Node::boolean(true));
  params.set("dropout", sim::Node::real(sizes.flash ? 0 : 0.1));
  sim::Faults faults;
  const auto choice = builders_.prepare("gpt2", &params, {"training table", ""}, faults);
  faults.throw_if_any();
  slot->model.forward = choice.make()->build();
  slot->model.sequence = sizes.sequence;
  if (!sizes.flash) {  // what Megatron-LM fuses: scale, mask and softmax; bias and GELU; dropout and residual
    sim::Node fusion = sim::Node::object();
    fusion.set("epilogues", sim::Node::boolean(false));
    slot->model.passes.push_back(
        {"loop_fusion", passes_.prepare("loop_fusion", &fusion, {"training table", ""}, faults), false});
  }
  slot->table = std::make_unique<training::CostTable>(machine_, slot->model);
  return *slot;
}

std::optional<StepPredictor::Prediction> StepPredictor::predict(const MeasuredStep& step, std::string& why) {
  std::optional<std::string> obstacle;
  machine_.devices = step.gpus;
  const training::Plan plan = training::make_plan(step.plan, step.gpus, step.global_batch, obstacle);
  Trained& model = trained(step.model);
  if (!obstacle) obstacle = model.table->obstacle(plan.share());
  if (!obstacle && plan.pipeline * plan.chunks > step.model.layers)
    obstacle = fmt::format("{} stages of {} layers", plan.pipeline * plan.chunks, step.model.layers);
  if (obstacle) {
    why = *obstacle;
    return std::nullopt;
  }
  std::vector<std::int64_t> layers;
  for (std::int64_t s = 0; s < plan.pipeline; ++s)
    layers.push_back(step.model.layers * (s + 1) / plan.pipeline - step.model.layers * s / plan.pipeline);
  sim::Faults faults;
  const auto schedule = schedules_.prepare(step.schedule, nullptr, {"training table", ""}, faults);
  faults.throw_if_any();
  Prediction out;
  out.costs = training::step_costs(*model.table, machine_, plan, layers);
  out.run = training::run_step(out.costs, *schedule.make(), sim::TickScale(1000));
  out.closed = training::closed_form(out.costs);
  return out;
}

}  // namespace orrery::experiments
