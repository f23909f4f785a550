#include "experiments/systems/training/system.hpp"

#include <fmt/format.h>

#include <memory>

#include "experiments/base/config_experiment.hpp"
#include "experiments/systems/training/summary.hpp"

namespace orrery::experiments {
namespace training {
namespace {

class TrainingExperiment final : public ConfigExperiment {
 public:
  explicit TrainingExperiment(TrainingConfig config) : config_(std::move(config)) {
    resolved_ = config_.resolved;
    inputs_ = config_.inputs;
    seed_ = config_.params.run.seed;
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const TrainingParams& p = config_.params;
    return {{"model", config_.model.forward.name},
            {"machine", fmt::format("{}, {} a node", devices_text(config_.machine),
                                    std::min(config_.machine.devices, config_.machine.node_devices))},
            {"batch", fmt::format("{} sequences of {} tokens", p.workload.global_batch, p.workload.sequence)},
            {"schedule", p.policies.schedule.name}};
  }

  Outcome run(const RunSink& sink) const override {
    const TrainingResult result = train_or_fault(config_);
    if (sink.folder && result.timed) {
      write_passes(*sink.folder / "passes.csv", config_, result);
      write_stages(*sink.folder / "stages.csv", config_, result);
      write_activations(*sink.folder / "activations.csv", config_, result);
      if (config_.params.run.timeline) write_timeline(*sink.folder / "timeline.pftrace", config_, result);
    }
    return {.summary = summarise(config_, result), .events = result.run.events, .notes = config_.notes};
  }

 private:
  TrainingConfig config_;
};

}  // namespace
}  // namespace training

System training_system() {
  return {
      .name = "training",
      .doc = "A training step of a model under a parallel plan: time, memory and energy, stage by stage.",
      .fields = describe_sections<training::TrainingParams>,
      .figures = training::training_figures(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        training::TrainingConfig config = training::read_training_config(root, *systems.registries(), faults, true);
        faults.throw_if_any();
        return std::make_unique<training::TrainingExperiment>(std::move(config));
      }};
}

}  // namespace orrery::experiments
