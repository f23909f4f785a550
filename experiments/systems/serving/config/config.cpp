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
using sim::Node;

/// What section `policies` may hold.
constexpr std::array<std::string_view, 10> kPolicies{"batching",    "kvcache",  "routing", "decode_routing",
                                                     "admission",   "scaling",  "power",   "decode_scaling",
                                                     "speculation", "migration"};
/// A policy block inside a section; absent means the fallback with its defaults.
template <class Registry>
typename Registry::Choice choose(const Registry& registry, const Node& parent, std::string_view name,
                                 const std::string& fallback, sim::Faults& faults) {
  return registry.parse_block(section(parent, name), fallback, faults);
}

void read_workload(const Node& node, ServingConfig& config, sim::Faults& faults) {
  if (!node.is_object()) return;  // reported already
  const auto present = [&](const char* key) {
    const Node* child = node.find(key);
    return child != nullptr && !child->is_null();
  };
  if (present("trace") + present("generator") + present("program") != 1) {
    const bool several = present("trace") || present("generator");
    faults.add(node.origin(), several ? "expected one of 'trace', 'generator' and 'program', got several"
                                      : "missing: expected 'trace', 'generator' or 'program'");
    return;
  }
  if (config.workload.program.is_object())
    config.program =
        std::make_shared<ProgramsConfig>(read_programs(*node.find("program"), trace_generators().arrivals, faults));
  if (config.workload.generator.is_object())
    config.generator = traces::parse_generator(config.workload.generator, trace_generators(), faults);
  if (config.workload.trace.is_object()) {
    config.trace = traces::parse_trace(config.workload.trace, trace_formats(), faults);
    const Node* path = config.workload.trace.find("path");
    if (path != nullptr && path->is_string() && !std::filesystem::is_regular_file(config.trace->path))
      faults.add(path->origin(), fmt::format("expected a trace file, found none at '{}'", config.trace->path));
  }
  if (config.program && config.workload.clients)
    faults.add(node.find("clients")->origin(), "expected no 'clients' beside a program",
               "workload.program has its own");
  if (!present("arrivals")) return;
  const Node& arrivals = *node.find("arrivals");
  if (!present("trace")) {
    const char* what = config.program ? "a program" : "a generator";
    faults.add(arrivals.origin(), fmt::format("expected no 'arrivals' beside {}", what), "it has arrivals of its own");
    return;
  }
  config.arrivals = trace_generators().arrivals.parse_block(arrivals, "poisson", faults);
}

/// The part at a clock; one that it does not reach is a fault.
hw::GpuParams clocked(const hw::GpuParams& gpu, double clock_hz, const sim::Origin& where, sim::Faults& faults) {
  if (clock_hz >= gpu.dvfs.lowest_clock_hz && clock_hz <= gpu.clock_hz) return hw::at_clock(gpu, clock_hz);
  faults.add(
      where,
      fmt::format("expected a clock from {} to {}, got {}", sim::humanise(gpu.dvfs.lowest_clock_hz, sim::Unit::hertz),
                  sim::humanise(gpu.clock_hz, sim::Unit::hertz), sim::humanise(clock_hz, sim::Unit::hertz)));
  return gpu;
}

/// Sets the clock of a group of devices, or those that it may choose from.
void set_clocks(const Node& group, const DeviceGroup& params, DevicePart& device, sim::Faults& faults) {
  const hw::GpuParams whole = device.gpu;
  if (params.clock_hz) device.gpu = clocked(whole, *params.clock_hz, place_of(group, "clock"), faults);
  const sim::Origin where = place_of(group, "clocks");
  if (params.clock_hz && !params.clocks_hz.empty()) faults.add(where, "expected no 'clocks' beside 'clock'");
  for (std::size_t i = 0; i < params.clocks_hz.size(); ++i) {
    if (i > 0 && params.clocks_hz[i] >= params.clocks_hz[i - 1])
      faults.add(where, "expected clocks from the highest down, each once");
    device.at_clocks.push_back(clocked(whole, params.clocks_hz[i], where, faults));
  }
  if (!device.at_clocks.empty()) device.gpu = device.at_clocks.front();
}

/// Finds the files of part and model, and reads the part with its overrides, so that what is wrong is reported where it
/// stands.
void read_references(const Node& machine, const Node& model, ServingConfig& config, sim::Faults& faults) {
  const Node* devices = machine.find("devices");
  config.parts.resize(config.machine.devices.size());
  for (std::size_t i = 0; i < config.parts.size(); ++i) {
    const Node& group = devices->items()[i];
    DevicePart& device = config.parts[i];
    const Node* part = group.find("part");
    if (part != nullptr && part->is_string()) device.file = part_file(part->as_string(), part->origin(), faults);
    if (device.file.empty()) continue;
    Node node = sim::read_config(device.file);
    const Node& changes = config.machine.devices[i].override_;
    if (changes.is_object()) sim::merge_over(node, changes);
    device.gpu = hw::parse_part<hw::GpuParams>(node, faults).part;
    set_clocks(group, config.machine.devices[i], device, faults);
  }
  const Node* reference = model.find("config");
  if (reference != nullptr && reference->is_string())
    config.model_file = model_file(reference->as_string(), reference->origin(), faults);
}

/// Clocks need somebody to choose them, and whoever chooses needs clocks; tables of measured operators have one.
void check_power(const Node& policies, const Node& machine, const ServingConfig& config, sim::Faults& faults) {
  const bool any = std::any_of(config.parts.begin(), config.parts.end(),
                               [](const DevicePart& part) { return !part.at_clocks.empty(); });
  if (config.power.name != kPower && !any)
    faults.add(place_of(policies, "power"), "expected 'clocks' of a group of machine.devices to choose from");
  if (any && config.machine.profile.path)
    faults.add(place_of(machine, "profile"), "expected no measured tables beside 'clocks' of devices");
}

/// Bounds of what scales against the replicas there are.
void check_scaling(const Node& node, const ServingConfig& config, sim::Faults& faults) {
  std::int64_t decoding = 0, others = 0;
  for (const ReplicaGroup& group : config.groups)
    (group.params.role == Role::decode ? decoding : others) += group.params.count;
  const auto check = [&](const char* section, const ScalingParams& params, bool scales, std::int64_t most) {
    if (scales && params.least > most)
      faults.add(node.find(section)->find("least")->origin(),
                 fmt::format("expected at most the {} replicas there are, got {}", most, params.least));
  };
  check("scaling", config.cluster.scaling, config.scaling.name != kScaling, others);
  if (config.decode_scaling.name != kScaling && decoding == 0)
    faults.add(node.origin(),
               "expected a group of role 'decode' in 'replicas' where policies.decode_scaling is not 'fixed'");
  else
    check("decode_scaling", config.cluster.decode_scaling, config.decode_scaling.name != kScaling, decoding);
}

/// Reads the section `cluster` and makes the groups of replicas, one where the section has none.
void read_cluster(const Node& node, ServingConfig& config, sim::Faults& faults) {
  config.cluster = sim::parse_params<ClusterParams>(node, faults);
  if (!faults.empty()) return;  // what follows builds on what was read
  std::vector<ReplicaGroupParams> groups = config.cluster.replicas;
  const Node* written = node.find("replicas");
  if (groups.empty()) {
    ReplicaGroupParams one;
    const std::int64_t devices = config.machine.devices.front().count;
    one.tensor_parallel = config.replica.tensor_parallel.value_or(devices);
    if (!config.layouts.modes.empty()) {  // as many replicas of these devices as there are
      one.tensor_parallel = config.layouts.modes.front().devices();
      one.count = std::max<std::int64_t>(1, devices / *one.tensor_parallel);
    }
    groups.push_back(one);
  }
  bool prefill = false, decode = false;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ReplicaGroup group;
    group.params = groups[i];
    group.tensor_parallel = groups[i].tensor_parallel.value_or(config.replica.tensor_parallel.value_or(1));
    group.batching = config.batching;
    group.kvcache = config.kvcache;
    if (groups[i].batching.is_object()) group.batching = batchings().parse_block(groups[i].batching, kBatching, faults);
    if (groups[i].kvcache.is_object()) group.kvcache = kv_caches().parse_block(groups[i].kvcache, kKvCache, faults);
    if (static_cast<std::size_t>(groups[i].device_group) >= config.machine.devices.size())
      faults.add(written->items()[i].find("device_group")->origin(),
                 fmt::format("expected the number of a group of machine.devices, 0 to {}, got {}",
                             config.machine.devices.size() - 1, groups[i].device_group));
    if (!config.layouts.modes.empty() && groups[i].data_parallel * groups[i].pipeline_parallel > 1)
      faults.add(written->items()[i].origin(), "expected no pipeline or data parallelism of its own beside 'layouts'");
    if (groups[i].data_parallel > 1 && groups[i].pipeline_parallel > 1)
      faults.add(written->items()[i].find("data_parallel")->origin(),
                 "expected 1 beside pipeline_parallel: lanes share the stages or the experts, not both");
    prefill = prefill || groups[i].role == Role::prefill;
    decode = decode || groups[i].role == Role::decode;
    config.groups.push_back(std::move(group));
  }
  std::int64_t replicas = 0;
  for (const ReplicaGroupParams& group : groups) replicas += group.count;
  const std::vector<OutageParams>& outages = config.cluster.failures.at;
  for (std::size_t i = 0; i < outages.size(); ++i)
    if (outages[i].replica >= replicas)
      faults.add(node.find("failures")->find("at")->items()[i].origin(),
                 fmt::format("expected the number of a replica, 0 to {}, got {}", replicas - 1, outages[i].replica));
  check_scaling(node, config, faults);
  if (prefill != decode)
    faults.add(written->origin(), prefill ? "expected a group of role 'decode' beside that of role 'prefill'"
                                          : "expected a group of role 'prefill' beside that of role 'decode'");
}

void read_speculation(const Node& block, ServingConfig& config, sim::Faults& faults) {
  config.speculation = speculators().parse_block(block, kSpeculation, faults);
  const Node* model = config.speculation.params.find("model");
  if (model == nullptr) return;
  const Node* params = block.find(config.speculation.name);
  const sim::Origin where = params != nullptr ? place_of(*params, "model") : block.origin_of(config.speculation.name);
  if (model->is_string() && !model->as_string().empty()) {
    config.draft_file = model_file(model->as_string(), where, faults);
  } else if (params == nullptr) {
    faults.add(where, "missing: expected the parameters of the draft model, its 'model' at least");
  }
}

/// How a config names a file: "catalog:NAME" for what ships, else its path.
std::string reference_of(const std::filesystem::path& file, const char* catalog) {
  return file.parent_path() == home_folder() / catalog ? "catalog:" + file.stem().string() : file.string();
}

/// The config again, every default filled in.
Node write_resolved(const ServingConfig& config) {
  Node root = resolved_header("serving");
  Node machine = sim::write_params(config.machine);
  machine.set("cost", hw::CostModelRegistry::write_block(config.cost));
  for (std::size_t i = 0; i < config.parts.size(); ++i)
    machine.find("devices")->items()[i].set("part", Node::string(reference_of(config.parts[i].file, "hw/catalog")));
  root.set("machine", std::move(machine));
  Node model = sim::write_params(config.model);
  model.set("config", Node::string(reference_of(config.model_file, "models/catalog")));
  root.set("model", std::move(model));
  Node workload = sim::write_params(config.workload);
  if (config.generator) workload.set("generator", traces::write_generator(*config.generator));
  if (config.trace) workload.set("trace", sim::write_params(*config.trace));
  if (config.program) workload.set("program", write_programs(*config.program));
  if (config.arrivals) workload.set("arrivals", traces::ArrivalRegistry::write_block(*config.arrivals));
  root.set("workload", std::move(workload));
  Node policies = Node::object();
  policies.set("batching", policies::BatchingRegistry::write_block(config.batching));
  policies.set("kvcache", policies::KvCacheRegistry::write_block(config.kvcache));
  policies.set("routing", policies::RouterRegistry::write_block(config.routing));
  policies.set("admission", policies::AdmissionRegistry::write_block(config.admission));
  policies.set("scaling", policies::ScalingRegistry::write_block(config.scaling));
  policies.set("power", policies::ClockRegistry::write_block(config.power));
  policies.set("decode_scaling", policies::ScalingRegistry::write_block(config.decode_scaling));
  Node& speculation = policies.set("speculation", policies::SpeculationRegistry::write_block(config.speculation));
  if (!config.draft_file.empty())
    speculation.find(config.speculation.name)
        ->set("model", Node::string(reference_of(config.draft_file, "models/catalog")));
  policies.set("decode_routing", policies::RouterRegistry::write_block(config.decode_routing));
  policies.set("migration", policies::MigrationRegistry::write_block(config.migration));
  root.set("policies", std::move(policies));
  Node cluster = sim::write_params(config.cluster);
  for (std::size_t i = 0; i < config.cluster.replicas.size(); ++i) {
    Node& group = cluster.find("replicas")->items()[i];
    const ReplicaGroupParams& params = config.cluster.replicas[i];
    if (params.batching.is_object())
      group.set("batching", policies::BatchingRegistry::write_block(config.groups[i].batching));
    if (params.kvcache.is_object())
      group.set("kvcache", policies::KvCacheRegistry::write_block(config.groups[i].kvcache));
  }
  root.set("cluster", std::move(cluster));
  root.set("replica", sim::write_params(config.replica));
  root.set("migration", sim::write_params(config.migration_link));
  if (!config.layouts.modes.empty()) root.set("layouts", sim::write_params(config.layouts));
  if (!config.kv_tiers.tiers.empty()) root.set("kv_tiers", sim::write_params(config.kv_tiers));
  root.set("host", HostRegistry::write_block(config.host));
  root.set("slo", sim::write_params(config.slo));
  root.set("run", sim::write_params(config.run));
  return root;
}

}  // namespace

const traces::FormatTable& trace_formats() {
  static const traces::FormatTable table = [] {
    traces::FormatTable all;
    traces::register_formats(all);
    return all;
  }();
  return table;
}

const traces::GeneratorRegistries& trace_generators() {
  static const traces::GeneratorRegistries registries = [] {
    traces::GeneratorRegistries all;
    traces::register_arrival_processes(all.arrivals);
    traces::register_length_samplers(all.lengths, trace_formats());
    return all;
  }();
  return registries;
}

ServingConfig read_serving_config(const Node& root, sim::Faults& faults) {
  ServingConfig config;
  config.file = root.origin().file;
  check_keys(root, serving_fields(), faults);
  const Node machine = section(root, "machine");
  config.machine = sim::parse_params<MachineParams>(machine, faults);
  if (machine.is_object()) {
    config.cost = choose(cost_models(), machine, "cost", kCostModel, faults);
    const Node* devices = machine.find("devices");
    if (devices != nullptr && devices->is_array() && devices->items().empty())
      faults.add(devices->origin(), "expected at least one group of devices, got none");
  }
  const Node model = section(root, "model");
  config.model = sim::parse_params<ModelParams>(model, faults);
  read_references(machine, model, config, faults);
  const Node workload = section(root, "workload");
  config.workload = sim::parse_params<WorkloadParams>(workload, faults);
  read_workload(workload, config, faults);
  const Node policies = section(root, "policies");
  if (!policies.is_object()) {
    faults.add(policies.origin(), fmt::format("expected an object, got {}", policies.shown()));
  } else {
    for (const auto& [key, value] : policies.members())
      if (std::find(kPolicies.begin(), kPolicies.end(), key) == kPolicies.end())
        faults.add(value.origin(), fmt::format("unknown key '{}'", key),
                   sim::name_hint(key, {kPolicies.begin(), kPolicies.end()}));
    if (!swaps_without_swapping(policies, faults))
      config.batching = choose(batchings(), policies, "batching", kBatching, faults);
    config.kvcache = choose(kv_caches(), policies, "kvcache", kKvCache, faults);
    config.admission = choose(admissions(), policies, "admission", kAdmission, faults);
    config.scaling = choose(scalings(), policies, "scaling", kScaling, faults);
    config.power = choose(clock_policies(), policies, "power", kPower, faults);
    config.decode_scaling = choose(scalings(), policies, "decode_scaling", kScaling, faults);
    config.routing = choose(routers(), policies, "routing", kRouter, faults);
    config.decode_routing = choose(routers(), policies, "decode_routing", kDecodeRouter, faults);
    config.migration = choose(migrations(), policies, "migration", kMigration, faults);
    read_speculation(section(policies, "speculation"), config, faults);
    check_power(policies, machine, config, faults);
  }
  config.replica = sim::parse_params<ReplicaParams>(section(root, "replica"), faults);
  config.migration_link = sim::parse_params<MigrationParams>(section(root, "migration"), faults);
  config.layouts = sim::parse_params<LayoutsParams>(section(root, "layouts"), faults);
  const Node kv_tiers = section(root, "kv_tiers");
  config.kv_tiers = sim::parse_params<KvTiersParams>(kv_tiers, faults);
  config.host = choose(host_times(), root, "host", kHost, faults);
  read_cluster(section(root, "cluster"), config, faults);
  check_tiers(kv_tiers, config, faults);
  config.slo = sim::parse_params<SloParams>(section(root, "slo"), faults);
  const Node run = section(root, "run");
  config.run = sim::parse_params<RunParams>(run, faults);
  check_tick(run, config.run.tick_s, faults);
  check_timeline(section(run, "timeline"), config.run.timeline.begin_s, config.run.timeline.end_s, faults);
  if (faults.empty()) config.resolved = write_resolved(config);
  return config;
}

}  // namespace orrery::experiments
