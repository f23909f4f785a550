#include "experiments/job/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "experiments/base/config_parts.hpp"
#include "sim/csv_table.hpp"

namespace orrery::experiments::job {
namespace {

using sim::Node;

constexpr double kDay = 86400;
constexpr std::int64_t kMostFailures = 20'000'000, kMostCheckpoints = 200'000'000;

/// What the training system reads of it.
Node training_part(const Node& root) {
  Node own = root;
  for (const char* name : {"job", "failures", "checkpoint", "recovery"}) own.erase(name);
  if (Node* policies = own.find("policies"); policies != nullptr && policies->is_object()) policies->erase("recovery");
  return own;
}

void read_components(const FailuresParams& params, Failures& failures) {
  std::vector<ComponentParams> all = params.components;
  if (all.empty()) all.push_back({"node", params.per_1000_node_days, std::nullopt});
  for (const ComponentParams& one : all) {
    failures.names.push_back(one.name);
    failures.per_node_s.push_back(one.per_1000_node_days / (1000 * kDay));
    failures.repair_s.push_back(one.repair_s.value_or(params.repair_s));
  }
  failures.per_job_s = params.per_job_day / kDay;
}

/// Failures of a file; faults name its line.
void read_trace(const std::filesystem::path& path, std::int64_t nodes, Failures& failures, sim::Faults& faults) {
  failures.traced = true;
  const sim::CsvTable table = sim::CsvTable::read(path.parent_path(), path.filename().string());
  const auto place = [&](std::size_t row) { return sim::Origin{fmt::format("{}:row {}", path.string(), row + 1), ""}; };
  double before = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    TracedFailure failure{.time_s = table.number(row, "time_s")};
    if (!(failure.time_s >= before)) {
      faults.add(place(row), fmt::format("expected failures in order, {} s after {} s", failure.time_s, before));
      return;
    }
    before = failure.time_s;
    if (table.has("node")) failure.node = table.integer(row, "node");
    if (failure.node < -1 || failure.node >= nodes) {
      faults.add(place(row), fmt::format("expected a node from 0 to {}, got {}", nodes - 1, failure.node));
      return;
    }
    if (table.has("component")) {
      const std::string& name = table.text(row, "component");
      const auto known = std::ranges::find(failures.names, name);
      failure.component = known - failures.names.begin();
      if (known == failures.names.end()) {
        failures.names.push_back(name);
        failures.per_node_s.push_back(0);
        failures.repair_s.push_back(failures.repair_s.front());
      }
    }
    if (table.has("repair_s")) {
      failure.repair_s = table.number(row, "repair_s");
      if (!(*failure.repair_s >= 0)) {
        faults.add(place(row), fmt::format("expected a repair of 0 s or more, got {}", *failure.repair_s));
        return;
      }
    }
    failures.trace.push_back(failure);
  }
}

/// What a job without a machine must say.
void check_stated(const Node& job, const JobParams& params, sim::Faults& faults) {
  if (params.step_s <= 0)
    faults.add(place_of(job, "step"), "expected a time above 0, or a machine and a model that say what a step takes");
  if (params.nodes < 1) {
    faults.add(place_of(job, "nodes"), "expected at least 1, or a machine that has them");
    return;
  }
  if (params.copies * params.stages > params.nodes * params.node_devices)
    faults.add(
        place_of(job, "copies"),
        fmt::format("expected copies and stages that fit {} devices, {} copies of {} stages are {}",
                    params.nodes * params.node_devices, params.copies, params.stages, params.copies * params.stages));
}

/// Work that the config asks for.
void check_bounds(const Node& root, const JobConfig& config, double nodes, sim::Faults& faults) {
  const JobParams& job = config.params.job;
  const double seconds = job.duration_s * static_cast<double>(std::max<std::int64_t>(1, job.histories));
  const double failures = (nodes * config.failures.per_node() + config.failures.per_job_s) * seconds;
  if (failures > static_cast<double>(kMostFailures))
    faults.add(
        place_of(section(root, "job"), "duration"),
        fmt::format("expected at most {} failures in all histories, these rates give {:.3g}", kMostFailures, failures));
  const double checkpoints = seconds / config.params.checkpoint.interval_s;
  if (checkpoints > static_cast<double>(kMostCheckpoints))
    faults.add(place_of(section(root, "checkpoint"), "interval"),
               fmt::format("expected at most {} checkpoints in all histories, this interval gives {:.3g}",
                           kMostCheckpoints, checkpoints));
}

}  // namespace

double Failures::per_node() const {
  return std::accumulate(per_node_s.begin(), per_node_s.end(), 0.0);
}

JobConfig read_job_config(const Node& root, std::string_view system, const sim::RegistrySet& registries,
                          sim::Faults& faults) {
  JobConfig config;
  config.file = root.origin().file;
  config.params = read_sections<JobSections>(root, registries, faults);
  if (!faults.empty()) return config;  // the training system would tell those of its sections again
  const JobParams& job = config.params.job;
  std::int64_t nodes = job.nodes;
  const auto given = [&](const char* name) { return root.find(name) != nullptr && !root.find(name)->is_null(); };
  if (given("machine") || given("model")) {
    config.training = training::read_training_config(training_part(root), registries, faults);
    config.inputs = config.training->inputs;
    config.notes = config.training->notes;
    config.params.policies.passes = config.training->params.policies.passes;
    const std::int64_t own = config.training->machine.node_devices;
    nodes = (config.training->machine.devices + own - 1) / own;
    if (job.nodes != 0) faults.add(place_of(section(root, "job"), "nodes"), "expected none: the machine has them");
  } else {
    check_stated(section(root, "job"), job, faults);
  }
  if (!faults.empty()) return config;
  read_components(config.params.failures, config.failures);
  if (!config.params.failures.trace.empty()) {
    const std::filesystem::path path = config.params.failures.trace;
    config.inputs.push_back(path);
    read_trace(path, nodes, config.failures, faults);
  }
  check_bounds(root, config, static_cast<double>(nodes), faults);
  if (!faults.empty()) return config;
  config.resolved = resolved_config(system, config.params);
  return config;
}

}  // namespace orrery::experiments::job
