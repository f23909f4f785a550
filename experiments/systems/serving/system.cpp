#include "experiments/systems/serving/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/serving/expected_error.hpp"
#include "experiments/systems/serving/load/program_load.hpp"
#include "experiments/systems/serving/load/workload.hpp"
#include "experiments/systems/serving/observe/early_end.hpp"
#include "experiments/systems/serving/observe/files.hpp"
#include "experiments/systems/serving/observe/token_times.hpp"
#include "experiments/systems/serving/programs/files.hpp"
#include "experiments/systems/serving/read.hpp"
#include "experiments/systems/serving/restate.hpp"

namespace orrery::experiments {

std::vector<std::filesystem::path> serving_inputs(const ServingConfig& config) {
  std::vector<std::filesystem::path> files{config.model_file};
  if (!config.draft_file.empty()) files.push_back(config.draft_file);
  for (const DevicePart& part : config.parts) {
    files.push_back(part.file);
    if (part.attention) files.push_back(part.attention_file);
  }
  for (const std::filesystem::path& file : config.expert_files) files.push_back(file);
  for (const std::filesystem::path& file : config.platform_files)
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  sim::Node root = config.resolved;
  sim::for_each_path<ServingParams>(*config.registries, root, [&](sim::Node& path) {
    const std::filesystem::path file = path.as_string();
    if (std::filesystem::is_directory(file)) {  // of operator tables
      for (const char* name : {"dense.csv", "per_sequence.csv", "attention.csv", "moe.csv"})
        if (std::filesystem::is_regular_file(file / name)) files.push_back(file / name);
      return;
    }
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  });
  return files;
}

sim::Node serving_identity(const ServingConfig& config) {
  sim::Node root = config.resolved;
  sim::for_each_path<ServingParams>(*config.registries, root,
                                    [](sim::Node& path) { path = sim::Node::string("an input"); });
  sim::Node parts = sim::Node::array();
  for (const DevicePart& part : config.parts)
    parts.push(std::visit([](const auto& params) { return sim::write_params(params); }, part.device.part));
  root.set("parts", std::move(parts));  // their files may build on others
  return root;
}

ServingResult run_watched(const ServingConfig& config, const ServingSetup& setup, RunObserver* observer,
                          const std::function<void(const Progress&)>& progress, const RunChange& change) {
  TokenTimes times(observer);
  const auto scaled = [&](const std::optional<double>& target_s) {
    return target_s ? std::optional(*target_s * change.slo_scale) : std::nullopt;
  };
  LatencyCauses causes({scaled(config.slo.ttft_s), scaled(config.slo.tbt_s), config.run.tick_s}, &times);
  ServingResult result = setup.run(&causes, progress, change);
  if (config.slo.ttft_s || config.slo.tbt_s) result.binds = causes.binding(result.watched());
  result.prompt_time_share = times.prompt_share();
  return result;
}

std::vector<std::string> serving_notes(const ServingConfig& config, const ServingSetup& setup) {
  std::vector<std::string> notes;
  if (config.replica.max_context > setup.model_positions())
    notes.push_back(fmt::format("replica.max_context is above the {} positions of the model", setup.model_positions()));
  for (const DevicePart& part : config.parts) {
    std::string note = fmt::format("{} has no units for products in {}: they run at the rate of another format",
                                   part.device.name, sim::to_string(config.model.dtype));
    if (!part.device.has_units_for(config.model.dtype) && std::ranges::find(notes, note) == notes.end())
      notes.push_back(std::move(note));
  }
  const auto by_expert = [](const ReplicaGroup& group) { return group.batching.name == policies::kReadMe; };
  if (config.router_choices == nullptr && std::ranges::any_of(config.groups, by_expert))
    notes.emplace_back(
        "policies.batching read_me goes by admission: without workload.router nobody knows which experts tokens "
        "choose");
  return notes;
}

namespace {

std::optional<TimelineFacts> wanted_timeline(const TimelineParams& params) {
  if (!params.enabled) return {};
  return TimelineFacts{
      .options = timeline_options(params.begin_s, params.end_s, params.counter_interval_s, params.limit_bytes),
      .iterations = params.iterations,
      .operators = params.operators,
      .operators_begin_ns = sim::TickScale(1000).duration(params.operators_begin_s).ticks};
}

ServedKind served_kind(const ServingConfig& config) {
  ServedKind kind;
  for (const DevicePart& part : config.parts) {
    const std::string name = part.file.stem().string();
    if (!kind.part.empty() && kind.part != name) {
      kind.part.clear();
      break;
    }
    kind.part = name;
  }
  const bool beside =
      std::ranges::any_of(config.parts, [](const DevicePart& part) { return part.attention.has_value(); });
  if (beside || config.fabric) kind.part.clear();  // no engine was measured with either
  kind.batching = config.policies.batching.name;
  kind.experts = models::load_model(config.model_file.string(), {}).experts.count > 0;
  return kind;
}

class ServingExperiment final : public Experiment {
 public:
  /// Reads the first request too, so that a trace that cannot be used is found before anything is written.
  explicit ServingExperiment(ServingConfig config) : config_(std::move(config)), setup_(config_) {
    if (config_.workload.program) {
      (void)config_.workload.program->does.make();
      return;
    }
    traces::TraceRecord first;
    (void)open_workload(config_, static_cast<std::uint64_t>(config_.run.seed))->next(first);
  }

  const sim::Node& resolved() const override { return config_.resolved; }
  std::int64_t seed() const override { return config_.run.seed; }

  std::vector<std::filesystem::path> inputs() const override { return serving_inputs(config_); }
  sim::Node identity() const override { return serving_identity(config_); }
  std::vector<std::pair<std::string, std::string>> restated() const override {
    auto lines = restate_serving(config_.resolved);
    if (std::string error = expected_error(served_kind(config_)); !error.empty())
      lines.emplace_back("accuracy", std::move(error));
    return lines;
  }

  Outcome run(const RunSink& sink) const override {
    try {
      return run_in_range(sink);
    } catch (const EndedEarly& early) {
      return Outcome::ended(early);
    } catch (const std::overflow_error& error) {
      sim::throw_fault({config_.file, ""}, error.what());
    }
  }

 private:
  /// Throws std::overflow_error for a time past the reach of the tick.
  Outcome run_in_range(const RunSink& sink) const {
    Outcome outcome;
    if (setup_.infeasible()) {
      outcome.summary = summarise(*setup_.infeasible());
      return outcome;
    }
    const sim::TickScale scale = tick_scale(config_.run.tick_s);
    const MachineFacts& machine = setup_.machine();
    std::optional<ServingFiles> files;
    if (sink.folder) {
      files.emplace(*sink.folder, FileFacts{scale, scale.duration(config_.run.series_interval_s),
                                            wanted_timeline(config_.run.timeline), streams()});
    }
    RunObserver* const observer = files ? &*files : nullptr;
    const bool targets = config_.slo.ttft_s || config_.slo.tbt_s;
    const ServingResult result = targets ? run_watched(config_, setup_, observer, sink.progress, {.ends = sink.ends})
                                         : setup_.run(observer, sink.progress, {.ends = sink.ends});
    outcome.summary = summarise(result, scale);
    outcome.events = result.events;
    if (config_.run.replications > 1) replicate(scale, sink, outcome);
    outcome.notes = serving_notes(config_, setup_);
    if (result.skipped.total() > 0)
      outcome.notes.push_back(fmt::format("lines of the trace that were skipped: {}", result.skipped.text()));
    if (files) {
      files->finish(result.end);
      for (std::string& note : files->notes(result.metrics.iterations)) outcome.notes.push_back(std::move(note));
      write_energy(*sink.folder / "energy.csv", result.replicas, machine, result.simulated_s);
      write_distributions(*sink.folder / "distributions.csv", result.metrics);
      if (result.programs) write_programs_table(*sink.folder / "programs.csv", *result.programs, scale);
    }
    return outcome;
  }

  /// What files show of each replica.
  std::vector<StreamFacts> streams() const {
    const MachineFacts& machine = setup_.machine();
    double unused = 0;
    for (const DeviceFacts& device : machine.devices)
      unused += device.idle_watts * static_cast<double>(device.devices - device.used);
    std::vector<StreamFacts> streams;
    std::int32_t replica = 0;
    for (const GroupFacts& group : machine.groups) {
      const double idle =
          machine.devices[static_cast<std::size_t>(group.device_group)].idle_watts * static_cast<double>(group.devices);
      for (std::int64_t i = 0; i < group.replicas; ++i, ++replica) {
        for (std::int64_t lane = 0; lane < group.lanes; ++lane)
          streams.push_back({.replica = replica,
                             .name = group.lanes == 1 ? fmt::format("replica {}", replica)
                                                      : fmt::format("replica {} lane {}", replica, lane),
                             .idle_watts = lane == 0 ? idle : 0,  // energy of devices stands with the first lane
                             .other_watts = lane == 0 && replica == 0 ? unused : 0,
                             .stages = group.stages});
      }
    }
    return streams;
  }

  /// The further replications, without files.
  void replicate(const sim::TickScale& scale, const RunSink& sink, Outcome& outcome) const {
    std::vector<sim::Node> summaries{outcome.summary};
    for (std::int64_t i = 1; i < config_.run.replications; ++i) {
      const ServingResult result = setup_.run(nullptr, sink.progress, i);
      summaries.push_back(summarise(result, scale));
      outcome.events += result.events;
    }
    outcome.summary.set("replications", summarise_replications(summaries));
  }

  ServingConfig config_;
  ServingSetup setup_;
};

}  // namespace

System serving_system() {
  return {.name = "serving",
          .doc = "Serves a language model to a stream of requests on one group of devices.",
          .fields = describe_sections<ServingParams>,
          .figures = serving_figures(),
          .read = [](const sim::Node& root, const Systems& systems,
                     sim::Faults& faults) { return read_serving(root, systems.registries(), faults, {}); },
          .ends_on = end_figures()};
}

std::unique_ptr<Experiment> read_serving(const sim::Node& root, const SharedRegistries& registries, sim::Faults& faults,
                                         const std::function<void(ServingConfig&)>& change) {
  ServingConfig config = read_serving_config(root, registries, faults);
  faults.throw_if_any();
  if (change) change(config);
  return std::make_unique<ServingExperiment>(std::move(config));
}

}  // namespace orrery::experiments
