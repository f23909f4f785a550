#include "experiments/systems/serving/config/config_registries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/programs/config.hpp"

namespace orrery::experiments {
namespace {

using sim::FieldInfo;

std::vector<std::string> catalog_references(const std::vector<std::string>& names) {
  std::vector<std::string> references;
  for (const std::string& name : names) references.push_back("catalog:" + name);
  return references;
}

}  // namespace

std::vector<FieldInfo> serving_fields() {
  std::vector<FieldInfo> machine = sim::describe_params<MachineParams>();
  FieldInfo& cost = find_field(machine, "cost");
  cost = policy_field("cost", cost.doc, cost_models().components(), kCostModel);
  std::vector<FieldInfo>& device = find_field(machine, "devices").nested;
  find_field(device, "part").suggestions = catalog_references(part_names());
  find_field(device, "override").nested = sim::describe_params<hw::GpuParams>();
  std::vector<FieldInfo> model = sim::describe_params<ModelParams>();
  find_field(model, "config").suggestions = catalog_references(model_names());
  std::vector<FieldInfo> workload = sim::describe_params<WorkloadParams>();
  const traces::GeneratorRegistries& registries = trace_generators();
  find_field(workload, "trace").nested = sim::describe_params<traces::TraceParams>();
  FieldInfo& format = find_field(find_field(workload, "trace").nested, "format");
  format.choices = trace_formats().names();
  std::vector<FieldInfo>& generator = find_field(workload, "generator").nested;
  generator = sim::describe_params<traces::GeneratorParams>();
  generator.push_back(policy_field("arrivals", "When requests arrive.", registries.arrivals.components(), nullptr));
  generator.push_back(
      policy_field("lengths", "How long prompts and answers are.", registries.lengths.components(), nullptr));
  find_field(workload, "arrivals").policies = registries.arrivals.components();
  find_field(workload, "program").nested = programs_fields(registries.arrivals);
  std::vector<FieldInfo> sections;
  sections.push_back(object_field("machine", "The hardware.", std::move(machine)));
  sections.back().required = true;
  sections.push_back(object_field("model", "The model that is served.", std::move(model)));
  sections.back().required = true;
  sections.push_back(object_field("workload", "The requests: a trace to replay or a generator.", std::move(workload)));
  sections.back().required = true;
  sections.push_back(object_field(
      "policies", "Who decides what.",
      {policy_field("batching", "Which sequences advance in an iteration.", batchings().components(), kBatching),
       policy_field("kvcache", "How the KV cache is handed out.", kv_caches().components(), kKvCache),
       policy_field("admission", "Whether a request may come in.", admissions().components(), kAdmission),
       policy_field("scaling", "How many replicas are up.", scalings().components(), kScaling),
       policy_field("power", "At which of its clocks a device runs.", clock_policies().components(), kPower),
       policy_field("decode_scaling", "How many replicas of role decode are up.", scalings().components(), kScaling),
       policy_field("routing", "Which replica a request goes to.", routers().components(), kRouter),
       policy_field("migration", "Which running requests move to another replica.", migrations().components(),
                    kMigration),
       policy_field("decode_routing", "Which replica of role decode a prefilled request goes to.",
                    routers().components(), kDecodeRouter),
       policy_field("speculation", "Who proposes tokens for decodes, and how many.", speculators().components(),
                    kSpeculation)}));
  std::vector<FieldInfo> cluster = sim::describe_params<ClusterParams>();
  std::vector<FieldInfo>& group = find_field(cluster, "replicas").nested;
  find_field(group, "batching").policies = batchings().components();
  find_field(group, "kvcache").policies = kv_caches().components();
  sections.push_back(object_field("cluster", "Which replicas there are.", std::move(cluster)));
  sections.push_back(
      object_field("replica", "How the model is laid out on the machine.", sim::describe_params<ReplicaParams>()));
  sections.push_back(object_field("migration", "The link that running requests migrate over (policies.migration).",
                                  sim::describe_params<MigrationParams>()));
  sections.push_back(object_field("layouts", "Parallel layouts that a policy switches a replica between (Seesaw).",
                                  sim::describe_params<LayoutsParams>()));
  sections.push_back(object_field("kv_tiers", "Memories behind a device that KV is copied to.",
                                  sim::describe_params<KvTiersParams>()));
  sections.push_back(policy_field("host", "What the CPU does for an iteration.", host_times().components(), kHost));
  sections.push_back(object_field("slo", "Latency targets of a request.", sim::describe_params<SloParams>()));
  sections.push_back(object_field("run", "Seed, resolution and length of the run.", sim::describe_params<RunParams>()));
  return sections;
}

}  // namespace orrery::experiments
