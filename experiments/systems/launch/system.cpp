#include "experiments/systems/launch/system.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "experiments/systems/launch/files.hpp"
#include "experiments/systems/launch/summary.hpp"

namespace orrery::experiments {
namespace launch {
namespace {

class LaunchExperiment final : public Experiment {
 public:
  explicit LaunchExperiment(LaunchConfig config) : config_(std::move(config)) {}

  const sim::Node& resolved() const override { return config_.resolved; }
  std::vector<std::filesystem::path> inputs() const override { return config_.inputs; }
  sim::Node identity() const override { return config_.resolved; }
  std::int64_t seed() const override { return config_.run.seed; }

  std::string description() const override {
    std::string text;
    for (const hw::Platform& platform : config_.platforms)
      text += fmt::format(
          "{}: an operator of one kernel takes {:.2f} us of the thread, a kernel starts {:.2f} us after "
          "its call\n",
          platform.name, (hw::dispatch_time(platform, 0) + platform.params.launch.call_s) * 1e6,
          platform.params.launch.latency_s * 1e6);
    return text;
  }

  Outcome run(const RunSink& sink) const override {
    try {
      const LaunchResult result = run_launch(config_, sink.progress);
      if (sink.folder) write_files(*sink.folder, config_, result);
      Outcome outcome;
      outcome.summary = summarise(config_, result);
      outcome.events = result.events;
      return outcome;
    } catch (const std::overflow_error& error) {
      sim::throw_fault({config_.file, ""}, error.what());
    }
  }

 private:
  LaunchConfig config_;
};

}  // namespace
}  // namespace launch

System launch_system() {
  return {
      .name = "launch",
      .doc = "Launches the kernels of models from a CPU thread on a GPU, by batch size, and compares platforms.",
      .fields = describe_sections<launch::LaunchParams>,
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        launch::LaunchConfig config = launch::read_launch_config(root, *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<launch::LaunchExperiment>(std::move(config));
      }};
}

}  // namespace orrery::experiments
