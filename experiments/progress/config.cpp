#include "experiments/progress/config.hpp"

#include "experiments/base/config_parts.hpp"

namespace orrery::experiments::progress {
namespace {

using sim::Node;

/// What the job reads of it.
Node job_part(const Node& root) {
  Node own = root;
  own.erase("progress");
  if (Node* policies = own.find("policies"); policies != nullptr && policies->is_object()) policies->erase("rate");
  return own;
}

}  // namespace

namespace {

/// What only the quadratic has.
void check_law(const Node& root, const Node& progress, sim::Faults& faults) {
  for (const char* own : {"modes", "condition", "noise", "start", "peak", "peaks", "lowest"})
    if (progress.find(own) != nullptr)
      faults.add(place_of(progress, own), "expected none beside progress.law: it is the quadratic's");
  if (const Node* policies = root.find("policies"); policies != nullptr && policies->find("rate") != nullptr)
    faults.add(place_of(*policies, "rate"),
               "expected none beside progress.law, which is of rates that fall to nothing at the end");
}

}  // namespace

ProgressConfig read_progress_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  ProgressConfig config;
  config.params = read_sections<ProgressSections>(root, registries, faults);
  const ProgressParams& progress = config.params.progress;
  const Node node = section(root, "progress");
  const int budgets = (progress.steps > 0) + (progress.time_s > 0) + (progress.cost > 0);
  if (budgets != 1) faults.add(place_of(node, "steps"), "expected one budget above 0 of steps, time and cost");
  if (!progress.peak && progress.lowest >= 2) faults.add(place_of(node, "lowest"), "expected less than 2");
  if (progress.law) check_law(root, node, faults);
  if (progress.law && !progress.law->parameters && root.find("model") == nullptr)
    faults.add(place_of(node, "law"), "expected law.parameters, or a section model that has them");
  if (progress.cost > 0 && config.params.workload.price_per_hour <= 0)
    faults.add(place_of(section(root, "workload"), "price"), "expected the price of a device, which a cost is at");
  const auto given = [&](const char* name) { return root.find(name) != nullptr && !root.find(name)->is_null(); };
  const bool timed = given("machine") || given("model") || config.params.job.step_s > 0 || progress.steps == 0;
  if (timed && faults.empty()) {
    config.job = job::read_job_config(job_part(root), "progress", registries, faults);
    if (config.job->training) config.params.policies.passes = config.job->params.policies.passes;
  }
  if (faults.empty()) config.resolved = resolved_config("progress", config.params);
  return config;
}

}  // namespace orrery::experiments::progress
