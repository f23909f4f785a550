#include "experiments/systems/serving/config/config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/config/devices.hpp"
#include "experiments/systems/serving/config/router_choices.hpp"
#include "policies/fusion/engine_kernels.hpp"
#include "sim/base/input_limits.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

void check_trace_file(const Node& node, const ServingConfig& config, sim::Faults& faults) {
  sim::Faults told;  // already, with the rest of the config
  const auto params = sim::parse_params<traces::TraceParams>(node, *config.registries, told);
  traces::check_trace(node, params, config.registries->get<traces::FormatTable>(), faults);
  const Node* path = node.find("path");
  if (path != nullptr && path->is_string() && !std::filesystem::is_regular_file(params.path))
    faults.add(path->origin(), fmt::format("expected a trace file, found none at '{}'", params.path));
}

void check_workload(const Node& node, const ServingConfig& config, sim::Faults& faults) {
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
  const WorkloadParams& workload = config.workload;
  if (workload.program) check_programs(*node.find("program"), *workload.program, faults);
  if (workload.generator) traces::check_generator(*node.find("generator"), *workload.generator, faults);
  if (present("trace") && node.find("trace")->is_object()) check_trace_file(*node.find("trace"), config, faults);
  if (node.find("program") != nullptr && node.find("program")->is_object() && workload.clients)
    faults.add(node.find("clients")->origin(), "expected no 'clients' beside a program",
               "workload.program has its own");
  if (workload.skip > 0 && !present("trace"))
    faults.add(place_of(node, "skip"), fmt::format("expected 0 beside {}, which has no first requests to leave out",
                                                   present("program") ? "a program" : "a generator"));
  if (present("arrivals") && !present("trace"))
    faults.add(node.find("arrivals")->origin(),
               fmt::format("expected no 'arrivals' beside {}", present("program") ? "a program" : "a generator"),
               "it has arrivals of its own");
}

/// The graph of a config that has passes and names none: the model's own, as a decoder with a cache. What an inference
/// engine makes of it (engine_kernels) costs what the model's kernels do (models/transformer).
std::optional<models::BuilderRegistry::Choice> own_graph(const ServingConfig& config, const Node& model,
                                                         sim::Faults& faults) {
  Node params = Node::object();
  params.set("config", Node::string(config.model_file.string()));
  params.set("cache", Node::boolean(true));
  params.set("merged", Node::boolean(true));
  params.set("sample", Node::boolean(true));
  params.set("dtype", Node::string(std::string(sim::to_string(config.model.dtype))));
  return config.registries->get<models::BuilderRegistry>().prepare("decoder", &params, place_of(model, "config"),
                                                                   faults);
}

/// It with an engine's kernels, built for all configs of this model together; null where there are faults.
BuiltGraphs::Shared shared_own_graph(const models::BuilderRegistry::Choice& builder, const ServingConfig& config,
                                     const Node& model, sim::Faults& faults) {
  return config.registries->get<BuiltGraphs>().get(config.graph_key, [&]() -> BuiltGraphs::Shared {
    auto loaded = build_or_import(builder, std::nullopt, model.origin(), faults);
    if (!loaded) return nullptr;
    loaded->graph.name = config.model.config;
    policies::EngineKernels made;
    return std::make_shared<BuiltGraph>(BuiltGraph{policies::with_engine_kernels(loaded->graph, made), {}});
  });
}

/// What a named graph computes in is its own affair; a model.dtype that says otherwise is a fault.
void check_type(const Node& model, const models::OpGraph& graph, hw::DType dtype, sim::Faults& faults) {
  const std::vector<models::TensorId> parameters = graph.with_role(models::TensorRole::parameter);
  if (parameters.empty() || model.find("dtype") == nullptr) return;
  const hw::DType own = models::dtype_of(graph.tensor(parameters.front()).type);
  if (own != dtype)
    faults.add(place_of(model, "dtype"), fmt::format("expected {}, the type of the graph's parameters, got {}",
                                                     sim::to_string(own), sim::to_string(dtype)));
}

/// Reads the operator graph and the passes over it, where there are any.
void read_graph(const Node& model, const Node& policies, ServingConfig& config, sim::Faults& faults) {
  const Node* block = policies.is_object() ? policies.find("passes") : nullptr;
  if (block != nullptr && block->is_null()) block = nullptr;
  if (block != nullptr && block->is_object())
    config.policies.passes =
        read_passes(*block, config.registries->get<policies::PassRegistry>(), config.passes, faults);
  const bool named = config.model.builder || config.model.import_;
  if (config.model.builder && config.model.import_)
    faults.add(model.origin(), "expected either a 'builder' or an 'import', got both");
  if (!faults.empty() || (!named && block == nullptr)) return;
  for (const ChosenPass& pass : config.passes)
    if (pass.per_size)
      faults.add(place_of(*block, "per_size"), "expected no passes per size: a service has one graph for all");
  for (const char* format : {"weight_dtype", "expert_dtype", "kv_dtype", "activation_scales", "sampler"})
    if (const Node* given = model.find(format); given != nullptr && !given->is_null())
      faults.add(given->origin(), "expected none beside an operator graph, whose tensors have formats of their own");
  if (const Node* router = model.find("router"); named && router != nullptr && router->is_object())
    faults.add(router->origin(), "expected none beside a graph that is named, whose experts share rows evenly");
  if (!named && config.model.dtype == hw::DType::int8)
    faults.add(place_of(model, "dtype"), "expected fp32, fp16, bf16 or fp8 for the model's operator graph, got int8");
  if (config.machine.profile.path)
    faults.add(named ? model.origin() : block->origin(), "expected no operator graph beside machine.profile");
  if (!faults.empty()) return;
  if (!named) {
    const auto builder = own_graph(config, model, faults);
    if (!builder || !builder->make) return;  // told already
    config.graph_key = fmt::format("{}\n{}\n{}", config.model.config, builder->params.dump(),
                                   sim::read_whole(config.model_file, "model"));
    config.graph = shared_own_graph(*builder, config, model, faults);
    return;
  }
  auto loaded = build_or_import(config.model.builder, config.model.import_, model.origin(), faults);
  if (!loaded) return;
  check_type(model, loaded->graph, config.model.dtype, faults);
  config.graph = std::make_shared<BuiltGraph>(BuiltGraph{std::move(loaded->graph), {}});
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
  check("scaling", config.cluster.scaling, config.policies.scaling.name != kFixedScaling, others);
  if (config.policies.decode_scaling.name != kFixedScaling && decoding == 0)
    faults.add(node.origin(),
               "expected a group of role 'decode' in 'replicas' where policies.decode_scaling is not 'fixed'");
  else
    check("decode_scaling", config.cluster.decode_scaling, config.policies.decode_scaling.name != kFixedScaling,
          decoding);
}

/// Attention that reads shared prefixes once needs a cache that shares them, and a queue of its own.
/// Reports an exchange of experts that no replica has, or that a network carries already.
void check_expert_exchange(const Node& replica, const ServingConfig& config, sim::Faults& faults) {
  if (!config.replica.expert_exchange) return;
  const sim::Origin where = place_of(replica, "expert_exchange");
  if (config.machine.network) faults.add(where, "expected none beside machine.network, over which rows travel");
  const bool any = std::ranges::any_of(config.groups, [&](const ReplicaGroup& group) {
    return group.params.data_parallel > 1 && group.params.expert_parallel.value_or(config.replica.expert_parallel) > 1;
  });
  if (!any)
    faults.add(where, "expected a group of replicas with data_parallel and expert_parallel above 1, whose rows it is");
}

void check_shared_reads(const Node& replica, const ServingConfig& config, sim::Faults& faults) {
  if (!config.replica.read_prefix_once || !faults.empty()) return;
  const Node* asked = replica.find("read_prefix_once");
  for (const ReplicaGroup& group : config.groups) {
    if (!group.kvcache.make({.bytes_per_token = 1, .bytes_available = 0})->keeps_prefixes())
      return faults.add(asked->origin(),
                        fmt::format("expected a cache that shares prefixes, got '{}'", group.kvcache.name),
                        "policies.kvcache.policy: block_hash and radix do");
    if (group.one_scheduler())
      return faults.add(asked->origin(), "expected no stages under one scheduler, whose batches share one cache",
                        "cluster.replicas[].queue: per_lane gives each lane its own");
  }
}

/// Makes the groups of replicas, one where the section `cluster` has none.
void make_groups(const Node& node, ServingConfig& config, sim::Faults& faults) {
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
    group.layouts = config.layouts.modes;
    if (group.layouts.empty())
      group.layouts.push_back(
          {.tensor_parallel = group.tensor_parallel, .pipeline_parallel = groups[i].pipeline_parallel});
    group.batching = groups[i].batching.value_or(config.policies.batching);
    group.kvcache = groups[i].kvcache.value_or(config.policies.kvcache);
    if (static_cast<std::size_t>(groups[i].device_group) >= config.machine.devices.size())
      faults.add(written->items()[i].find("device_group")->origin(),
                 fmt::format("expected the number of a group of machine.devices, 0 to {}, got {}",
                             config.machine.devices.size() - 1, groups[i].device_group));
    if (!config.layouts.modes.empty() && groups[i].data_parallel * groups[i].pipeline_parallel > 1)
      faults.add(written->items()[i].origin(), "expected no pipeline or data parallelism of its own beside 'layouts'");
    if (config.layouts.modes.size() > 1) {
      if (groups[i].micro_batches)
        faults.add(written->items()[i].find("micro_batches")->origin(),
                   "expected none beside several layouts, which have a batch in flight for each of their stages");
      if (groups[i].queue == LaneQueue::per_lane)
        faults.add(written->items()[i].find("queue")->origin(),
                   "expected shared beside several layouts: all lanes change their layout together");
    }
    if (groups[i].queue == LaneQueue::per_lane && config.layouts.modes.empty() &&
        groups[i].pipeline_parallel * groups[i].data_parallel == 1)
      faults.add(written->items()[i].find("queue")->origin(),
                 "expected shared without pipeline stages: there is one lane");
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

/// Finds the model that drafts, where the chosen policy has one.
void read_draft(const Node& block, ServingConfig& config, sim::Faults& faults) {
  const auto& speculation = config.policies.speculation;
  const Node* model = speculation.params.find("model");
  if (model == nullptr) return;
  const Node* params = block.find(speculation.name);
  const sim::Origin where = params != nullptr ? place_of(*params, "model") : block.origin_of(speculation.name);
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

/// The config again, every default filled in, files by the names that they resolve to.
Node write_resolved(const ServingConfig& config) {
  Node root = resolved_config<ServingParams>("serving", config);
  Node& devices = *root.find("machine")->find("devices");
  for (std::size_t i = 0; i < config.parts.size(); ++i) {
    devices.items()[i].set("part", Node::string(reference_of(config.parts[i].file, "hw/catalog")));
    if (config.parts[i].attention)
      devices.items()[i]
          .find("attention")
          ->set("part", Node::string(reference_of(config.parts[i].attention_file, "hw/catalog")));
  }
  if (!config.platform_files.empty())
    root.find("machine")
        ->find("platform")
        ->set("part", Node::string(reference_of(config.platform_files.front(), "hw/catalog")));
  if (config.replica.expert_memory)
    name_expert_parts(*root.find("replica")->find("expert_memory"), config.file,
                      [](const std::filesystem::path& file) { return reference_of(file, "hw/catalog"); });
  root.find("model")->set("config", Node::string(reference_of(config.model_file, "models/catalog")));
  if (!config.draft_file.empty())
    root.find("policies")
        ->find("speculation")
        ->find(config.policies.speculation.name)
        ->set("model", Node::string(reference_of(config.draft_file, "models/catalog")));
  return root;
}

/// The document without what a section has a word of its own about.
Node without_slips(const Node& root, sim::Faults& faults) {
  Node document = root;
  Node* policies = document.find("policies");
  if (policies != nullptr && swaps_without_swapping(*policies, faults))
    policies->find("batching")->find("vllm_v1")->erase("preemption");
  return document;
}

}  // namespace

ServingConfig read_serving_config(const Node& root, const SharedRegistries& registries, sim::Faults& faults) {
  ServingConfig config;
  static_cast<ServingParams&>(config) = read_sections<ServingParams>(without_slips(root, faults), *registries, faults);
  config.file = root.origin().file;
  config.registries = registries;
  const Node machine = section(root, "machine");
  const Node* devices = machine.is_object() ? machine.find("devices") : nullptr;
  if (devices != nullptr && devices->is_array() && devices->items().empty())
    faults.add(devices->origin(), "expected at least one group of devices, got none");
  if (machine.is_object()) read_devices(machine, config, faults);
  const Node model = section(root, "model");
  if (const Node* reference = model.find("config"); reference != nullptr && reference->is_string())
    config.model_file = model_file(reference->as_string(), reference->origin(), faults);
  check_workload(section(root, "workload"), config, faults);
  const Node policies = section(root, "policies");
  if (policies.is_object()) {
    read_draft(section(policies, "speculation"), config, faults);
    check_power(policies, machine, config, faults);
  }
  read_graph(model, policies, config, faults);
  make_groups(section(root, "cluster"), config, faults);
  read_router_choices(root, config, faults);
  read_expert_memory(root, config, faults);
  check_tiers(section(root, "kv_tiers"), config, faults);
  check_shared_reads(section(root, "replica"), config, faults);
  check_expert_exchange(section(root, "replica"), config, faults);
  config.fabric = read_fabric(root, config, faults);
  const Node run = section(root, "run");
  check_tick(run, config.run.tick_s, faults);
  check_timeline(section(run, "timeline"), config.run.timeline.begin_s, config.run.timeline.end_s, faults);
  if (faults.empty()) config.resolved = write_resolved(config);
  return config;
}

sim::FieldRows<ModelParams> ModelParams::fields() {
  static const auto table = sim::joined(
      sim::FieldTable{
          names_model(sim::required(sim::field("config", &ModelParams::config, sim::Unit::reference, sim::any_value(),
                                               "A Hugging Face config.json, or \"catalog:NAME\"."))),
          sim::field("dtype", &ModelParams::dtype,
                     "Number format of activations, and of weights and KV cache where these have none of their own."),
          sim::field("weight_dtype", &ModelParams::weight_format,
                     "Format of the weights of attention and feed-forward; null: as published (quantization_config)."),
          sim::field("expert_dtype", &ModelParams::expert_format,
                     "Format of the weights of experts; null: weight_dtype, or as published."),
          sim::field("kv_dtype", &ModelParams::kv_dtype, "Format of cached keys and values; null: dtype."),
          sim::field("activation_scales", &ModelParams::activation_scales,
                     "What quantises activations to the 8 or 4 bits of the weights. `fused`: the kernel that writes "
                     "them. `block`: a pass before each product, with one scale per block. `tensor`: three kernels "
                     "that find one scale for the whole tensor (vLLM of 2024 with --quantization fp8)."),
          sim::field("sampler", &ModelParams::sampler,
                     "How the next token is chosen. `greedy`: the largest logit. `random`: a draw, which takes five "
                     "passes over the logits in fp32."),
          sim::field("router", &ModelParams::router, "How tokens choose experts (models with experts).")},
      graph_source_fields<ModelParams>());
  return table;
}

sim::FieldRows<PredictorParams> PredictorParams::fields() {
  static const sim::FieldTable table{sim::field(
      "sigma", &PredictorParams::sigma, sim::Unit::none, sim::between(0, 10),
      "Standard deviation of the logarithm of predicted over true length; 0: predictions are always right.")};
  return table;
}

sim::FieldRows<WorkloadParams> WorkloadParams::fields() {
  static const sim::FieldTable table{
      sim::field("rate_scale", &WorkloadParams::rate_scale, sim::Unit::ratio, sim::positive(),
                 "Arrival times are divided by this: 2 doubles the request rate."),
      sim::field("limit", &WorkloadParams::limit, sim::Unit::requests, sim::at_least(1),
                 "Use only this many requests (or instances of a program), the first ones; null: all."),
      sim::field("skip", &WorkloadParams::skip, sim::Unit::requests, sim::between(0, 1e12),
                 "Requests left out at the start of a trace; arrival times count from the last of them."),
      sim::field("clients", &WorkloadParams::clients, sim::Unit::count, sim::between(1, 1e7),
                 "Closed loop: this many clients each send one request after the other and ignore arrival times. null: "
                 "requests arrive at their own times."),
      sim::field("think_time", &WorkloadParams::think_time_s, sim::Unit::seconds, sim::between(0, 1e9),
                 "Pause of a client between an answer and its next request."),
      sim::field("predictor", &WorkloadParams::predictor,
                 "Predicts the length of answers for policies that use it. null: the trace's predictions, or none."),
      sim::only_if_given(sim::field("router", &WorkloadParams::router,
                                    "Which experts each token chooses: a router trace replayed beside the requests, in "
                                    "place of the closed form of model.router.")),
      sim::only_if_given(sim::field("trace", &WorkloadParams::trace, "Requests replayed from a trace file.")),
      sim::only_if_given(
          sim::field("generator", &WorkloadParams::generator, "Requests drawn at random, in place of a trace.")),
      sim::only_if_given(sim::field("program", &WorkloadParams::program,
                                    "Requests sent by programs that call the model, in place of a trace.")),
      sim::only_if_given(
          sim::choice("arrivals", &WorkloadParams::arrivals, "poisson",
                      "Arrival times drawn at random in place of the trace's; needed for traces that have none."))};
  return table;
}

sim::FieldRows<ReplicaParams> ReplicaParams::fields() {
  static const sim::FieldTable table{
      sim::field("tensor_parallel", &ReplicaParams::tensor_parallel, sim::Unit::count, sim::at_least(1),
                 "Devices that split every layer (tensor parallelism); null: all of the machine's."),
      sim::field(
          "expert_parallel", &ReplicaParams::expert_parallel, sim::Unit::count, sim::at_least(1),
          "Groups of those devices that divide the experts among them; 1: every device has a slice of every expert."),
      sim::field(
          "memory_margin", &ReplicaParams::memory_margin, sim::Unit::ratio, sim::between(0, 0.99),
          "Share of device memory that weights and KV cache may not use (activations, workspace, fragmentation)."),
      sim::field("max_context", &ReplicaParams::max_context, sim::Unit::tokens, sim::between(2, 2e9),
                 "Most tokens of a request, prompt and output together; null: the model's limit."),
      sim::field("kv_blocks", &ReplicaParams::kv_blocks, sim::Unit::blocks, sim::between(1, 1e9),
                 "Number of KV blocks, as your engine reports it; null: as many as fit in memory."),
      sim::only_if_given(sim::field("host_weights", &ReplicaParams::host_weights,
                                    "Weights kept in host memory and copied over the host link in every iteration.")),
      sim::only_if_given(sim::field("expert_memory", &ReplicaParams::expert_memory,
                                    "Experts of which the devices hold a share, the host or a drive the others (needs "
                                    "workload.router).")),
      sim::only_if_given(sim::field("expert_exchange", &ReplicaParams::expert_exchange,
                                    "Exchange of expert rows among data-parallel devices by specialised kernels "
                                    "(DeepEP), in place of a library's all-to-all.")),
      sim::field("read_prefix_once", &ReplicaParams::read_prefix_once,
                 "Whether decode attention reads a prefix that sequences share once for up to 64 rows of queries, in "
                 "one fused kernel."),
      sim::field("iteration_overhead", &ReplicaParams::iteration_overhead_s, sim::Unit::seconds, sim::between(0, 60),
                 "CPU time between two iterations (scheduling, sampling, detokenising) that the devices wait for."),
      sim::field("sequence_overhead", &ReplicaParams::sequence_overhead_s, sim::Unit::seconds, sim::between(0, 1),
                 "CPU time that every sequence in the batch adds to iteration_overhead.")};
  return table;
}

sim::FieldRows<SloParams> SloParams::fields() {
  static const sim::FieldTable table{
      sim::field("ttft", &SloParams::ttft_s, sim::Unit::seconds, sim::positive(),
                 "Target for the time to first token (TTFT); null: none."),
      sim::field("tbt", &SloParams::tbt_s, sim::Unit::seconds, sim::positive(),
                 "Target for the P99 of a request's times between tokens (TBT); null: none.")};
  return table;
}

sim::FieldRows<TimelineParams> TimelineParams::fields() {
  static const auto table = sim::joined(
      sim::FieldTable{
          sim::field("enabled", &TimelineParams::enabled, "Whether timeline.pftrace is written."),
          sim::field("iterations", &TimelineParams::iterations, sim::Unit::iterations, sim::at_least(0),
                     "How many iterations timeline.pftrace shows, counted from `begin`; later ones are left out."),
          sim::field("operators", &TimelineParams::operators, sim::Unit::iterations, sim::at_least(0),
                     "Iterations of each replica for which every operator of every layer is shown."),
          sim::field("operators_begin", &TimelineParams::operators_begin_s, sim::Unit::seconds, sim::at_least(0),
                     "Start of the iterations whose operators are shown: the first that begin from this time on.")},
      timeline_window_fields<TimelineParams>());
  return table;
}

sim::FieldRows<RunParams> RunParams::fields() {
  static const sim::FieldTable table{
      sim::field("seed", &RunParams::seed, sim::Unit::none, sim::at_least(0), "Seed of all random streams."),
      sim::field("tick", &RunParams::tick_s, sim::Unit::seconds, sim::between(1e-12, 1e-3),
                 "Resolution of time, a whole number of ps; 1 ps reaches 106 days, 1 ns 292 years."),
      sim::field("warmup", &RunParams::warmup_s, sim::Unit::seconds, sim::at_least(0),
                 "Requests that arrive before this time count in totals but not in latencies."),
      sim::field(
          "measure_until", &RunParams::measure_until_s, sim::Unit::seconds, sim::positive(),
          "Requests that arrive after this time (cool-down) count in totals but not in latencies; null: no such time."),
      sim::field("until", &RunParams::until_s, sim::Unit::seconds, sim::positive(),
                 "Time at which the run ends; null: when all requests are done."),
      sim::field("until_requests", &RunParams::until_requests, sim::Unit::requests, sim::at_least(1),
                 "The run ends once this many requests are completed or rejected; null: no such limit."),
      sim::field("replications", &RunParams::replications, sim::Unit::count, sim::between(1, 10'000),
                 "Number of runs, with seeds seed, seed + 1, …; files come from the first, and the summary adds means "
                 "and intervals."),
      sim::field("series_interval", &RunParams::series_interval_s, sim::Unit::seconds, sim::at_least(1e-3),
                 "Time between two rows of series.csv."),
      sim::field("leap", &RunParams::leap,
                 "Whether iterations that differ only in context are simulated together; turning it off is slower with "
                 "the same results."),
      sim::field("timeline", &RunParams::timeline, "What timeline.pftrace shows.")};
  return table;
}

sim::FieldRows<PoliciesParams> PoliciesParams::fields() {
  using P = PoliciesParams;
  static const sim::FieldTable table{
      sim::choice("batching", &P::batching, "sarathi", "Chooses which sequences advance in an iteration."),
      sim::choice("kvcache", &P::kvcache, "paged", "How KV cache memory is allocated to sequences."),
      sim::choice("routing", &P::routing, "round_robin", "Chooses the replica that a request goes to."),
      sim::choice("admission", &P::admission, "all", "Decides whether a request is accepted on arrival."),
      sim::choice("scaling", &P::scaling, kFixedScaling, "Decides how many replicas are up."),
      sim::choice("power", &P::power, kHighestClock, "Chooses at which of its clocks a device runs."),
      sim::choice("decode_scaling", &P::decode_scaling, kFixedScaling,
                  "Decides how many replicas of role `decode` are up."),
      sim::choice("speculation", &P::speculation, "none", "What proposes draft tokens for decodes, and how many."),
      sim::choice("decode_routing", &P::decode_routing, "least_loaded",
                  "Chooses the replica of role `decode` that a prefilled request goes to."),
      sim::choice("migration", &P::migration, "none", "Chooses which running requests migrate to another replica."),
      sim::choice("partition", &P::partition, "even", "Divides the layers among the stages of a pipelined replica."),
      sim::choice("placement", &P::placement, "contiguous",
                  "Chooses which expert-parallel rank holds which experts, planned on the first tokens of the trace "
                  "(needs workload.router)."),
      sim::field("redundant", &P::redundant, sim::Unit::count, sim::between(0, 1 << 16),
                 "Expert slots of a layer, over all ranks, beyond one for each expert (needs workload.router)."),
      sim::only_if_given(
          sim::field("rebalance", &P::rebalance,
                     "When experts are placed anew while a replica serves (needs workload.router). None: "
                     "experts stay where they are.")),
      sim::only_if_given(passes_field(&P::passes))};
  return table;
}

}  // namespace orrery::experiments
