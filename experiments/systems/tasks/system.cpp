#include "experiments/systems/tasks/system.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "experiments/base/config_experiment.hpp"
#include "experiments/systems/tasks/summary.hpp"

namespace orrery::experiments {
namespace tasks {
namespace {

class TasksExperiment final : public ConfigExperiment {
 public:
  explicit TasksExperiment(TasksConfig config) : config_(std::move(config)) {
    resolved_ = config_.resolved;
    inputs_ = config_.inputs;
    seed_ = config_.params.run.seed;
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const hw::Topology& topology = *config_.network.topology;
    return {{"traces", fmt::format("{}, {} ranks", config_.params.workload.traces, config_.ranks.size())},
            {"network", fmt::format("{} of {} hosts", topology.kind, topology.hosts)},
            {"compute", config_.device ? config_.device->name : "as recorded"},
            {"collectives", config_.params.workload.algorithm.name}};
  }

  Outcome run(const RunSink& sink) const override {
    try {
      const TasksResult result = replay(config_);
      if (sink.folder) {
        write_tasks(*sink.folder / "tasks.csv", config_, result);
        if (config_.params.run.timeline) write_timeline(*sink.folder / "timeline.pftrace", config_, result);
      }
      return {.summary = summarise(config_, result), .events = result.events};
    } catch (const std::overflow_error& error) {
      sim::throw_fault({config_.file, ""}, error.what());
    }
  }

 private:
  TasksConfig config_;
};

}  // namespace
}  // namespace tasks

System tasks_system() {
  return {
      .name = "tasks",
      .doc = "Replays execution traces of many ranks: computation, messages and collectives over a network.",
      .fields = describe_sections<tasks::TasksParams>,
      .figures = tasks::tasks_figures(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        tasks::TasksConfig config = tasks::read_tasks_config(root, *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<tasks::TasksExperiment>(std::move(config));
      }};
}

}  // namespace orrery::experiments
