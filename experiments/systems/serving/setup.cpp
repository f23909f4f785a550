#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "experiments/base/catalog.hpp"
#include "experiments/systems/serving/pricing/clocked.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/graph_kernels.hpp"
#include "experiments/systems/serving/pricing/host_store.hpp"
#include "experiments/systems/serving/pricing/lane_share.hpp"
#include "experiments/systems/serving/pricing/modal_iteration.hpp"
#include "experiments/systems/serving/pricing/profile_iteration.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"
#include "experiments/systems/serving/setup_state.hpp"

namespace orrery::experiments {
namespace {

/// Formats as the config says, and as the model is published where it says nothing.
models::NumberFormats number_formats(const ModelParams& params, const models::ModelConfig& model) {
  models::NumberFormats formats;
  formats.dtype = params.dtype;
  formats.attention = formats.ffn = params.weight_format.value_or(model.weights);
  formats.experts = params.expert_format.value_or(params.weight_format.value_or(model.expert_weights));
  formats.cache = params.kv_dtype;
  formats.activations = params.activation_scales;
  return formats;
}

/// Sizes by which passes over a served graph decide: a decode step of some sequences at a middling context.
constexpr std::pair<const char*, std::int64_t> kTypicalStep[] = {{"batch", 16}, {"tokens", 1}, {"past", 1024}};

}  // namespace

/// Hands out the devices; says where they run out.
bool ServingSetup::State::enough_devices() {
  for (std::size_t i = 0; i < config.parts.size(); ++i)
    machine.devices.push_back({.part = config.parts[i].file.stem().string(),
                               .devices = config.machine.devices[i].count,
                               .idle_watts = config.parts[i].device.power.idle_w});
  for (const ReplicaGroup& group : config.groups) {
    DeviceFacts& devices = machine.devices[static_cast<std::size_t>(group.params.device_group)];
    const hw::Device& device = config.parts[static_cast<std::size_t>(group.params.device_group)].device;
    devices.used += group.devices() * group.params.count;
    machine.groups.push_back({.name = group.params.name,
                              .part = devices.part,
                              .role = std::string(sim::to_string(group.params.role)),
                              .replicas = group.params.count,
                              .device_group = group.params.device_group,
                              .devices = group.devices(),
                              .stages = group.stages(),
                              .layouts = std::ssize(group.layouts),
                              .lanes = group.lanes(),
                              .lock_step = group.params.lock_step && group.params.data_parallel > 1,
                              .peak_flops = device.peak(config.model.dtype),
                              .peak_bytes_per_s = device.memory_bandwidth});
    if (devices.used <= devices.devices) continue;
    infeasible = Infeasible{config.groups.size() == 1 && group.params.count == 1 && group.params.pipeline_parallel == 1
                                ? fmt::format("tensor parallelism of {} needs as many devices, the machine has {}",
                                              group.tensor_parallel, devices.devices)
                                : fmt::format("the replicas need {} devices of part {}, the machine has {}",
                                              devices.used, devices.part, devices.devices)};
    return false;
  }
  return true;
}

/// Bytes of a rank by the model's own kernels. A tied head has the embedding's table again.
DecoderMemory model_memory(const models::Transformer& model) {
  DecoderMemory memory;
  std::int64_t edges = models::weight_bytes(model);
  for (const std::int32_t kind : model.kind_of) {
    memory.weights.push_back(models::layer_weight_bytes(model, static_cast<std::size_t>(kind)));
    memory.cache_per_token.push_back(models::kv_bytes_per_token_layer(model));
    edges -= memory.weights.back();
  }
  // Both edges are of one format.
  const auto share = static_cast<__int128>(models::embedding_parameters(model));
  memory.embedding =
      static_cast<std::int64_t>(edges * share / (models::embedding_parameters(model) + models::head_parameters(model)));
  memory.head = edges - memory.embedding;
  if (model.config.tie_word_embeddings) memory.head += memory.embedding;
  memory.whole = models::weight_bytes(model);
  memory.whole_cache_per_token = models::kv_bytes_per_token(model);
  return memory;
}

/// Layers of each stage as a policy counts them, or nothing where these are no stages of the model.
std::vector<StageLayers> stages_of(const std::vector<std::int64_t>& counts, std::int64_t stages,
                                   const std::vector<std::int32_t>& kind_of) {
  const std::int64_t layers = std::ssize(kind_of);
  std::vector<StageLayers> all;
  std::int64_t first = 0;
  for (const std::int64_t count : counts) {
    if (count < 1 || count > layers - first) return {};
    all.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(first + count)});
    first += count;
  }
  if (first != layers || std::ssize(all) != stages) return {};
  const auto kinds = [&](const StageLayers& stage) {
    return std::span(kind_of).subspan(static_cast<std::size_t>(stage.first),
                                      static_cast<std::size_t>(stage.last - stage.first));
  };
  for (std::size_t s = 2; s + 1 < all.size(); ++s)
    all[s].as_before = std::ranges::equal(kinds(all[s]), kinds(all[s - 1]));
  return all;
}

/// Which layers each stage of a layout has; or why the policy's answer is none.
std::optional<std::string> divide_layers(const policies::Partition& policy, KindLayout& layout) {
  const std::int64_t stages = layout.params.pipeline_parallel;
  const std::vector<std::int32_t>& kind_of = layout.kernels->kind_of();
  if (stages == 1) {
    layout.layers_of = {{0, static_cast<std::int32_t>(kind_of.size())}};
    return std::nullopt;
  }
  const DecoderMemory& memory = layout.memory;
  const std::vector<std::int64_t> counts =
      policy.divide({.stages = stages, .layers = memory.weights, .embedding = memory.embedding, .head = memory.head});
  layout.layers_of = stages_of(counts, stages, kind_of);
  if (!layout.layers_of.empty()) return std::nullopt;
  return fmt::format(
      "policies.partition gives stages of [{}] layers, the model has {} layers and the replica {} stages",
      fmt::join(counts, ", "), kind_of.size(), stages);
}

/// Weights of a stage's device, and its KV cache a token: the most that a stage has of each. Where the stage with most
/// weights has not most of the cache, memory is a little more than any stage takes.
void divide_weights(KindLayout& layout, const std::optional<HostWeightsParams>& on_host) {
  const DecoderMemory& memory = layout.memory;
  if (layout.params.pipeline_parallel == 1) {
    layout.weight_bytes = memory.whole;
    if (on_host) layout.weight_bytes -= bytes_saved(*on_host, memory.weights);
    layout.cache_per_token = memory.whole_cache_per_token;
    return;
  }
  for (const StageLayers& stage : layout.layers_of) {
    const auto sum = [&](const std::vector<std::int64_t>& layers) {
      return std::accumulate(layers.begin() + stage.first, layers.begin() + stage.last, std::int64_t{0});
    };
    std::int64_t bytes = sum(memory.weights);
    if (on_host)
      bytes -= bytes_saved(*on_host, {memory.weights.begin() + stage.first, memory.weights.begin() + stage.last});
    if (stage.first == 0) bytes += memory.embedding;
    if (&stage == &layout.layers_of.back()) bytes += memory.head;
    layout.weight_bytes = std::max(layout.weight_bytes, bytes);
    layout.cache_per_token = std::max(layout.cache_per_token, sum(memory.cache_per_token));
  }
}

/// Why replicas of this kind cannot be, or nothing: whatever their layout.
std::optional<std::string> ServingSetup::State::obstacle(const ReplicaKind& kind) const {
  if (const auto why = part(kind).device.alone_obstacle()) return why;
  if (const auto why = draft_obstacle(config, model.layers)) return why;
  const bool one_layout = config.layouts.empty();
  if (one_layout && kind.stages == 1) return std::nullopt;
  const char* only = one_layout ? "without pipeline stages" : "of one layout";
  if (!part(kind).at_clocks.empty()) return fmt::format("clocks are chosen for replicas {} only", only);
  if (config.policies.speculation.name != "none")
    return fmt::format("speculation is modelled on replicas {} only", only);
  return std::nullopt;
}

/// Why they cannot have this layout, or nothing.
std::optional<std::string> ServingSetup::State::obstacle(const ReplicaKind& kind, const LayoutParams& layout) const {
  const hw::Device& device = part(kind).device;
  if (!config.layouts.empty() && layout.devices() != kind.tensor_parallel)
    return fmt::format("a layout of {} x {} is for {} devices, a replica has {}", layout.tensor_parallel,
                       layout.pipeline_parallel, layout.devices(), kind.tensor_parallel);
  if (const auto why = device.rank_obstacle(layout.tensor_parallel * kind.data_parallel)) return why;
  if (const auto why = device.rank_obstacle(layout.pipeline_parallel)) return why;
  if (layout.pipeline_parallel > model.layers)
    return fmt::format("{} pipeline stages for {} layers", layout.pipeline_parallel, model.layers);
  return models::split_obstacle(
      model,
      {.tp = layout.tensor_parallel, .attention_dp = kind.data_parallel, .expert_parallel = kind.expert_parallel});
}

/// Why the group's policy cannot schedule such replicas, or nothing.
static std::optional<std::string> batching_obstacle(const ReplicaGroup& group, const ReplicaKind& kind) {
  if (kind.limits.batches == 1 && kind.limits.modes == 0) return std::nullopt;  // as any policy can
  return group.batching.make()->obstacle(kind.limits);
}

/// Builds the layouts of a kind; says why one cannot be.
std::optional<std::string> ServingSetup::State::make_layouts(const ReplicaGroup& group, ReplicaKind& kind) {
  for (const LayoutParams& params : group.layouts)
    if (const auto why = obstacle(kind, params)) return why;
  if (model.linear.interval > 0)
    return "layers with linear attention keep a state of each sequence, for which the caches of runs have no room yet";
  if (config.fabric && kind.data_parallel > 1 && !group.params.lock_step)
    return "over machine.network ranks of data parallelism meet in lock step (lock_step)";
  if (const auto why = make_graph(group, kind)) return why;
  if (const auto why = place_experts(kind)) return why;
  const auto partition = config.policies.partition.make();
  for (const LayoutParams& params : group.layouts) {
    const models::Split split{
        .tp = params.tensor_parallel, .attention_dp = kind.data_parallel, .expert_parallel = kind.expert_parallel};
    KindLayout& layout = kind.layouts.emplace_back();
    layout.params = params;
    layout.transformer = models::build_transformer(model, number_formats(config.model, model), split,
                                                   config.model.router, config.model.sampler);
    layout.memory = kind.graph ? graph_memory(kind.graph->graph, kind.limits.layers) : model_memory(layout.transformer);
    add_redundant_experts(layout.transformer, config.policies.redundant / kind.expert_parallel, layout.memory);
    if (const auto why = keep_experts(kind, layout)) return why;
    layout.kernels = make_kernels(kind, layout);
    if (const auto why = divide_layers(*partition, layout)) return why;
    divide_weights(layout, config.replica.host_weights);
  }
  return std::nullopt;
}

std::optional<std::string> ServingSetup::State::make_graph(const ReplicaGroup& group, ReplicaKind& kind) {
  if (!config.graph) return std::nullopt;
  if (kind.data_parallel > 1 || kind.expert_parallel > 1)
    return "an operator graph is served by replicas of tensor and pipeline parallelism alone";
  if (model.weights != hw::WeightFormat::as_dtype || model.expert_weights != hw::WeightFormat::as_dtype)
    return "the model is published with quantised weights, which operator graphs do not have";
  const hw::Device& device = part(kind).device;
  std::shared_ptr<const BuiltGraph> graph = config.passes.empty() ? config.graph : shared_rewritten(part(kind));
  if (machine.passes.is_null()) machine.passes = passes_node(graph->passes);  // of the first kind of replica
  for (const LayoutParams& layout : group.layouts)
    if (const auto why = graph_obstacle(graph->graph, device, kind.limits.layers, layout.tensor_parallel)) return why;
  kind.graph = std::move(graph);
  return std::nullopt;
}

BuiltGraph ServingSetup::State::rewritten(const hw::Device& device) const {
  models::Bindings typical;
  for (const auto& [name, size] : kTypicalStep) typical.set(name, size);
  policies::PassContext context = pass_context(device, std::move(typical));
  context.seed = static_cast<std::uint64_t>(config.run.seed);
  BuiltGraph out;
  const models::OpGraph* graph = &config.graph->graph;
  for (const ChosenPass& pass : config.passes) {
    PassOutcome& outcome = out.passes.emplace_back(PassOutcome{.name = pass.name, .report = {}});
    out.graph = run_pass(pass, *graph, context, {config.file, "/policies/passes/order"}, outcome.report);
    graph = &out.graph;
  }
  return out;
}

std::shared_ptr<const BuiltGraph> ServingSetup::State::shared_rewritten(const DevicePart& part) const {
  const auto build = [&] { return std::make_shared<const BuiltGraph>(rewritten(part.device)); };
  if (config.graph_key.empty()) return build();
  // A device follows from its part, the cost model that was chosen, and the memory beside it.
  std::string key =
      fmt::format("{}\n{}\n{} {}\n{} {}", config.graph_key, config.policies.passes.dump(), part.device.name,
                  std::visit([](const auto& params) { return sim::write_params(params).dump(); }, part.device.part),
                  config.machine.cost.name, config.machine.cost.params.dump());
  if (part.attention) key += sim::write_params(*part.attention).dump();
  return config.registries->get<BuiltGraphs>().get(fmt::format("{}\n{}", key, config.run.seed), build);
}

std::shared_ptr<const DecoderKernels> ServingSetup::State::make_kernels(const ReplicaKind& kind,
                                                                        const KindLayout& layout) const {
  if (!kind.graph) return model_kernels(layout.transformer);
  std::optional<RoutedExperts> routed;
  if (!config.graph_key.empty() && model.experts.count > 0)
    routed = {.router = layout.transformer.router, .experts = model.experts.count};
  return graph_kernels({kind.graph, &kind.graph->graph}, kind.limits.layers, layout.params.tensor_parallel,
                       std::move(routed));
}

/// Weights, and what is left for the KV cache.
void ServingSetup::State::divide_memory(const ReplicaGroup& group, ReplicaKind& kind) {
  const hw::Device device = on_network(kind, 0, part(kind).device);
  for (const KindLayout& layout : kind.layouts) {
    kind.weight_bytes = std::max(kind.weight_bytes, layout.weight_bytes);
    kind.geometry.bytes_per_token = std::max(kind.geometry.bytes_per_token, layout.cache_per_token);
  }
  const auto usable = [&](double bytes) {
    return static_cast<std::int64_t>(bytes * (1 - config.replica.memory_margin));
  };
  kind.memory_bytes = static_cast<double>(device.memory_bytes);
  if (const auto& memory = part(kind).attention) {
    const auto stacks = static_cast<double>(memory->stacks) * static_cast<double>(memory->dram.capacity_bytes());
    if (memory->shared_memory) {
      kind.memory_bytes = stacks;
    } else {
      kind.beside_bytes = usable(stacks);
    }
  }
  kind.usable_bytes = usable(kind.memory_bytes);
  const KindLayout& first = kind.layouts.front();
  kind.cache_per_token = first.memory.whole_cache_per_token * first.params.tensor_parallel;
  kind.drafts = std::make_unique<DraftModels>(config, device, kind.transformer());
  kind.weight_bytes += kind.drafts->weight_bytes();
  kind.geometry.bytes_per_token += kind.drafts->kv_bytes_per_token();
  kind.block_bytes = group.kvcache.make({kind.geometry.bytes_per_token, 0})->block_bytes();
  if (!config.layouts.empty())
    kind.limits.tier_tokens = static_cast<std::int64_t>(config.layouts.host_memory) / kind.geometry.bytes_per_token;
  const std::int64_t room = kind.beside_bytes > 0 ? kind.beside_bytes : kind.usable_bytes - kind.weight_bytes;
  kind.geometry.bytes_available = room / kind.pools();
  if (config.replica.kv_blocks)
    kind.geometry.bytes_available = static_cast<std::int64_t>(
        std::min<__int128>(std::numeric_limits<std::int64_t>::max() / 4,
                           static_cast<__int128>(*config.replica.kv_blocks) * kind.block_bytes / kind.pools()));
}

/// What prices the iterations.
void ServingSetup::State::make_models(ReplicaKind& kind) {
  const hw::Device device = on_network(kind, 0, part(kind).device);
  IterationStack& stack = kind.models;
  std::vector<std::unique_ptr<IterationModel>> modes;
  std::vector<std::int64_t> switch_ps;  // each device loads its shard over its own host link
  const std::optional<ExpertExchange> exchange = expert_exchange(kind);
  const auto beside = [&](std::unique_ptr<IterationModel> exact, const KindLayout& layout) {
    if (auto turns = turns_of(exchange, layout.transformer, device))
      exact = std::make_unique<HalvesInTurns>(std::move(exact), std::move(*turns));
    if (const auto& memory = part(kind).attention) {
      const auto& params = config.machine.devices[static_cast<std::size_t>(kind.device_group)].attention;
      exact = std::make_unique<AttentionMemory>(std::move(exact), *memory, params->schedule,
                                                models::kv_bytes_per_token_layer(layout.transformer),
                                                layout.params.tensor_parallel);
    }
    if (const auto& on_host = config.replica.host_weights; on_host && on_host->share > 0)
      exact = std::make_unique<HostWeights>(std::move(exact), *on_host, layout.memory.weights);
    return exact;
  };
  for (std::size_t i = 0; i < kind.layouts.size(); ++i) {
    const KindLayout& layout = kind.layouts[i];
    modes.push_back(
        beside(std::make_unique<DeviceIterationModel>(layout.kernels, on_network(kind, i, part(kind).device),
                                                      between_lanes(kind), exchange, kind.replay),
               layout));
    if (kind.layouts.size() > 1)
      switch_ps.push_back(copy_picoseconds(static_cast<double>(layout.weight_bytes) / config.layouts.host_bandwidth));
  }
  if (const auto& clocks = part(kind).at_clocks; !clocks.empty()) {
    modes.clear();
    for (const hw::Device& at_clock : clocks)
      modes.push_back(
          beside(std::make_unique<DeviceIterationModel>(kind.layouts.front().kernels, on_network(kind, 0, at_clock),
                                                        between_lanes(kind), exchange, kind.replay),
                 kind.layouts.front()));
    kind.clocked = true;
  }
  if (modes.size() > 1 || kind.clocked) {
    stack.add<ModalIteration>(std::move(modes), std::move(switch_ps));
  } else {
    stack.add(std::move(modes.front()));
  }
  if (const ProfileParams& profile = config.machine.profile; profile.path) {
    const models::ModelConfig& facts = kind.transformer().config;
    stack.add<ProfileIteration>(OpProfile::read(*profile.path), profile,
                                ProfileFacts{.layers = facts.layers,
                                             .hidden = facts.hidden_size,
                                             .vocab_rows = kind.transformer().vocab_rows,
                                             .tensor_parallel = kind.transformer().tp,
                                             .memory_bandwidth = device.memory_bandwidth,
                                             .l2_bandwidth = device.cache.bandwidth,
                                             .l2_bytes = static_cast<double>(device.cache.bytes),
                                             .link = device.link},
                                &stack.top());
  }
  if (kind.stages > 1) return;  // they price their own layers; the table is for leaps, which a pipeline does not make
  if (kind.data_parallel > 1) stack.add<LaneShare>(stack.top(), kind.data_parallel);
  IterationModel& lane = stack.top();
  stack.add<TabulatedIteration>(lane, kind.limits.layers);
  kind.drafts->build(stack, lane, kind.limits.layers);
}

bool ServingSetup::State::make_kind(const ReplicaGroup& group, ReplicaKind& kind) {
  kind.limits = {config.replica.max_context.value_or(model.max_position_embeddings),
                 static_cast<std::int32_t>(model.layers)};
  kind.limits.batches = kind.one_scheduler ? kind.lanes : 1;
  if (!config.layouts.empty()) kind.limits.modes = static_cast<std::int32_t>(group.layouts.size());
  auto why_not = obstacle(kind);
  if (!why_not) why_not = make_layouts(group, kind);
  if (!why_not) why_not = batching_obstacle(group, kind);
  if (why_not) {
    infeasible = Infeasible{*why_not};
    return false;
  }
  divide_memory(group, kind);
  if (!check_memory(group, kind)) return false;
  make_models(kind);
  return true;
}

/// Whole blocks decide what fits: what a request at the context limit takes in an empty cache without end, and whether
/// the cache there is has as many.
bool ServingSetup::State::check_memory(const ReplicaGroup& group, const ReplicaKind& kind) {
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;
  if (kind.beside_bytes > 0 && kind.weight_bytes > kind.usable_bytes) {
    infeasible = Infeasible{fmt::format("weights do not fit the memory of {}, beside which the KV cache is",
                                        machine.devices[static_cast<std::size_t>(kind.device_group)].part),
                            kind.weight_bytes, kind.usable_bytes};
    return false;
  }
  const auto endless = group.kvcache.make({kind.geometry.bytes_per_token, kEndless});
  const policies::Sequence longest{};
  if (endless->reserve({0}, longest, kind.limits.max_context) &&
      group.kvcache.make(kind.geometry)->total_blocks() >= endless->held_blocks({0}))
    return true;
  if (config.replica.kv_blocks) {
    infeasible = Infeasible{fmt::format("a KV cache of {} blocks (replica.kv_blocks) does not hold one request of {} "
                                        "tokens, which takes {}",
                                        *config.replica.kv_blocks, kind.limits.max_context, endless->held_blocks({0})),
                            0, 0};
    return false;
  }
  const std::string& name = machine.devices[static_cast<std::size_t>(kind.device_group)].part;
  if (kind.beside_bytes > 0) {
    infeasible = Infeasible{fmt::format("the KV cache of one request of {} tokens does not fit the memory beside {}",
                                        kind.limits.max_context, name),
                            endless->used_bytes(), kind.beside_bytes};
    return false;
  }
  infeasible =
      Infeasible{fmt::format("weights and the KV cache of one request of {} tokens do not fit the memory of {} "
                             "(of {}, a share of {} is kept free)",
                             kind.limits.max_context, name, sim::humanise(kind.memory_bytes, sim::Unit::bytes),
                             config.replica.memory_margin),
                 kind.weight_bytes + endless->used_bytes(), kind.usable_bytes};
  return false;
}

void ServingSetup::State::build() {
  if (!enough_devices() || !measure_network()) return;
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    const ReplicaGroup& group = config.groups[g];
    std::vector<LayoutPaths> slowest = slowest_paths(g);
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const std::unique_ptr<ReplicaKind>& kind) {
      return kind->device_group == group.params.device_group && kind->tensor_parallel == group.tensor_parallel &&
             kind->stages == group.stages() && kind->lanes == group.lanes() &&
             kind->one_scheduler == group.one_scheduler() &&
             kind->expert_parallel == group.params.expert_parallel.value_or(config.replica.expert_parallel) &&
             std::ranges::equal(kind->paths, slowest, [](const auto& a, const auto& b) { return a.like(b); }) &&
             (!config.replica.kv_blocks ||
              kind->block_bytes == group.kvcache.make({kind->geometry.bytes_per_token, 0})->block_bytes());
    });
    ReplicaKind* kind = nullptr;
    if (same == kinds.end()) {
      kinds.push_back(std::make_unique<ReplicaKind>());
      kind = kinds.back().get();
      kind->device_group = group.params.device_group;
      kind->tensor_parallel = group.tensor_parallel;
      kind->stages = group.stages();
      kind->one_scheduler = group.one_scheduler();
      kind->lanes = group.lanes();
      kind->data_parallel = group.params.data_parallel;
      kind->expert_parallel = group.params.expert_parallel.value_or(config.replica.expert_parallel);
      kind->paths = std::move(slowest);
      if (!make_kind(group, *kind)) return;
    } else {
      kind = same->get();
      if (const auto why = batching_obstacle(group, *kind)) {
        infeasible = Infeasible{*why};
        return;
      }
      if (!check_memory(group, *kind)) return;
    }
    kind_of.push_back(kind);
    machine.groups[g].weight_bytes = kind->weight_bytes;
    machine.groups[g].kv_capacity_bytes = kind->geometry.bytes_available * kind->pools();
  }
}

ServingSetup::ServingSetup(const ServingConfig& config) : state_(std::make_unique<State>()) {
  state_->config = config;
  state_->model = models::load_model(config.model_file.string(), home_folder() / "models/catalog");
  state_->build();
}
ServingSetup::~ServingSetup() = default;
ServingSetup::ServingSetup(ServingSetup&&) noexcept = default;
ServingSetup& ServingSetup::operator=(ServingSetup&&) noexcept = default;

const std::optional<Infeasible>& ServingSetup::infeasible() const {
  return state_->infeasible;
}
std::int64_t ServingSetup::model_positions() const {
  return state_->model.max_position_embeddings;
}
const MachineFacts& ServingSetup::machine() const {
  return state_->machine;
}

}  // namespace orrery::experiments
