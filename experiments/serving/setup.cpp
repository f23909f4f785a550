#include "experiments/serving/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "experiments/catalog.hpp"
#include "experiments/config_parts.hpp"
#include "experiments/serving/cluster.hpp"
#include "experiments/serving/files.hpp"
#include "experiments/serving/gpu_iteration.hpp"
#include "experiments/serving/lane_share.hpp"
#include "experiments/serving/layouts.hpp"
#include "experiments/serving/load.hpp"
#include "experiments/serving/programs/files.hpp"
#include "experiments/serving/programs/program_load.hpp"
#include "experiments/serving/speculation.hpp"
#include "experiments/serving/tabulated_iteration.hpp"
#include "experiments/serving/workload.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {
namespace {

// How often progress is reported (and an interrupt noticed).
constexpr std::int64_t kRequestsEvery = 256;
constexpr std::int64_t kIterationsEvery = 4096;

/// Tells how far the run has come, now and then.
class ProgressObserver final : public RunObserver {
 public:
  ProgressObserver(RunObserver* next, const std::function<void(const Progress&)>& progress, const sim::Engine& engine,
                   std::optional<std::int64_t> total)
      : next_(next), progress_(progress), engine_(engine), total_(total) {}
  void request_ended(const RequestRecord& record) override {
    if (next_ != nullptr) next_->request_ended(record);
    if (++done_ % kRequestsEvery == 0) report();
  }
  void iterations_ended(const IterationRun& run) override {
    if (next_ != nullptr) next_->iterations_ended(run);
    if (++runs_ % kIterationsEvery == 0) report();
  }
  void power_changed(std::int32_t replica, sim::Time at, double share) override {
    if (next_ != nullptr) next_->power_changed(replica, at, share);
  }

 private:
  void report() const {
    if (progress_) progress_({done_, total_, engine_.scale().seconds(engine_.now())});
  }

  RunObserver* next_;
  const std::function<void(const Progress&)>& progress_;
  const sim::Engine& engine_;
  std::optional<std::int64_t> total_;
  std::int64_t done_ = 0, runs_ = 0;
};

void add_counts(const ReplicaCounts& counts, TierOutcome& tiers) {
  tiers.stall_ps += counts.swap_stall_ps;
  tiers.prompt_tokens += counts.prompt_tokens;
  tiers.device_tokens += counts.device_tokens;
}

/// Fires events up to the end that the config names.
void run_until_end(sim::Engine& engine, const ServingMetrics& metrics, const RunParams& run,
                   const sim::TickScale& scale) {
  const sim::Time until = run.until_s ? sim::Time{0} + scale.duration(*run.until_s) : sim::kNever;
  if (run.until_requests) {
    struct Alarm final : sim::EventHandler {
      bool rang = false;
      void on_event(std::uint64_t) override { rang = true; }
    } alarm;
    if (run.until_s) engine.schedule_at(until, alarm);
    const std::size_t ours = run.until_s ? 1 : 0;
    while (metrics.completed + metrics.rejected < *run.until_requests && !alarm.rang) {
      if (engine.pending() == ours) return;  // all is done, and time does not go on for nothing
      engine.step();
    }
    if (!alarm.rang) return;
  }
  engine.run(until);
}

}  // namespace

namespace {

/// Formats as the config says, and as the model is published where it says nothing.
models::NumberFormats number_formats(const ModelParams& params, const models::ModelConfig& model) {
  models::NumberFormats formats;
  formats.dtype = params.dtype;
  formats.attention = formats.ffn = params.weight_format.value_or(model.weights);
  formats.experts = params.expert_format.value_or(params.weight_format.value_or(model.expert_weights));
  formats.cache = params.kv_dtype;
  return formats;
}

}  // namespace

/// Devices, model share and prices of one kind of replica; equal groups share it.
struct ReplicaKind {
  std::int64_t device_group = 0, tensor_parallel = 1, stages = 1, lanes = 1;
  std::int64_t data_parallel = 1, expert_parallel = 1;
  std::optional<models::Transformer> transformer;
  policies::ReplicaLimits limits;
  std::int64_t weight_bytes = 0, usable_bytes = 0;
  policies::KvGeometry geometry;  ///< of a lane
  std::int64_t block_bytes = 0;   ///< of the KV cache that it was made for
  std::vector<StageLayers> layers_of;
  std::unique_ptr<GpuIterationModel> exact_model;
  std::unique_ptr<ProfileIteration> profile_model;  ///< over exact_model, with operator tables
  IterationModel* exact = nullptr;                  ///< whichever of the two prices iterations
  std::unique_ptr<LaneShare> lane_share;            ///< with data parallelism
  std::unique_ptr<LayoutIteration> layouts_model;   ///< in its place, with layouts
  std::unique_ptr<TabulatedIteration> iteration_model;
  std::unique_ptr<DraftModels> drafts;
  IterationModel* whole_model = nullptr;  ///< with drafting, where there is any
};

struct ServingSetup::State {
  ServingConfig config;
  models::ModelConfig model;
  std::optional<Infeasible> infeasible;
  MachineFacts machine;
  std::vector<std::unique_ptr<ReplicaKind>> kinds;
  std::vector<ReplicaKind*> kind_of;  ///< a group of replicas

  void build();
  bool enough_devices();
  bool make_kind(const ReplicaGroup& group, ReplicaKind& kind);
  bool make_layouts(const ReplicaGroup& group, ReplicaKind& kind);
  bool check_memory(const ReplicaGroup& group, const ReplicaKind& kind);
};

/// Hands out the devices; says where they run out.
bool ServingSetup::State::enough_devices() {
  for (std::size_t i = 0; i < config.parts.size(); ++i)
    machine.devices.push_back({.part = config.parts[i].file.stem().string(),
                               .devices = config.machine.devices[i].count,
                               .idle_watts = config.parts[i].gpu.power.idle_w});
  for (const ReplicaGroup& group : config.groups) {
    DeviceFacts& devices = machine.devices[static_cast<std::size_t>(group.params.device_group)];
    const hw::GpuParams& gpu = config.parts[static_cast<std::size_t>(group.params.device_group)].gpu;
    devices.used += group.devices() * group.params.count;
    machine.groups.push_back({.name = group.params.name,
                              .part = devices.part,
                              .role = std::string(to_string(group.params.role)),
                              .replicas = group.params.count,
                              .device_group = group.params.device_group,
                              .devices = group.devices(),
                              .stages = group.params.pipeline_parallel,
                              .lanes = group.lanes(),
                              .lock_step = group.params.lock_step && group.params.data_parallel > 1,
                              .peak_flops = hw::matrix_peak(gpu, config.model.dtype),
                              .peak_bytes_per_s = gpu.memory_bandwidth});
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

/// Weights and KV cache of a stage's device: what the fullest stage has.
void divide_stages(ReplicaKind& kind) {
  const models::Transformer& model = *kind.transformer;
  kind.layers_of = divide_layers(kind.limits.layers, kind.stages);
  const auto all = static_cast<__int128>(models::rank_parameters(model));
  std::int64_t most = 0, layers = 0;
  for (const StageLayers& stage : kind.layers_of) {
    std::int64_t parameters = (stage.last - stage.first) * models::layer_parameters(model);
    if (stage.first == 0) parameters += models::embedding_parameters(model);
    if (stage.last == kind.limits.layers) {
      parameters += models::head_parameters(model);
      if (model.config.tie_word_embeddings) parameters += models::embedding_parameters(model);  // the table again
    }
    most = std::max(most, parameters);
    layers = std::max<std::int64_t>(layers, stage.last - stage.first);
  }
  kind.weight_bytes = static_cast<std::int64_t>((static_cast<__int128>(kind.weight_bytes) * most + all - 1) / all);
  kind.geometry.bytes_per_token = models::kv_bytes_per_token_layer(model) * layers;
}

/// A replica whose modes are the config's layouts.
bool ServingSetup::State::make_layouts(const ReplicaGroup& group, ReplicaKind& kind) {
  const hw::GpuParams& gpu = config.parts[static_cast<std::size_t>(kind.device_group)].gpu;
  std::vector<LayoutIteration::Mode> modes;
  if (config.speculation.name != "none") {
    infeasible = Infeasible{"speculation is modelled on replicas of one layout only"};
    return false;
  }
  for (const LayoutParams& layout : config.layouts.modes) {
    if (const auto obstacle = layout_obstacle(model, layout, group.devices())) {
      infeasible = Infeasible{*obstacle};
      return false;
    }
    const models::Split split{.tp = layout.tensor_parallel, .attention_dp = 1, .expert_parallel = 1};
    models::Transformer t =
        models::build_transformer(model, number_formats(config.model, model), split, config.model.router);
    auto ranks = std::make_unique<GpuIterationModel>(t, gpu, config.cost.make(gpu));
    modes.push_back({layout, std::move(t), std::move(ranks)});
  }
  kind.transformer = modes.front().transformer;
  kind.limits = {config.replica.max_context.value_or(model.max_position_embeddings),
                 static_cast<std::int32_t>(model.layers)};
  const LayoutMemory memory = layout_memory(modes);
  kind.weight_bytes = memory.weight_bytes;
  kind.geometry.bytes_per_token = memory.kv_bytes_per_token;
  kind.limits.tier_tokens = static_cast<std::int64_t>(config.layouts.host_memory) / memory.kv_bytes_per_token;
  kind.usable_bytes =
      static_cast<std::int64_t>(static_cast<double>(gpu.memory_bytes) * (1 - config.replica.memory_margin));
  kind.geometry.bytes_available = kind.usable_bytes - kind.weight_bytes;
  if (!check_memory(group, kind)) return false;
  const std::int64_t hidden = model.hidden_size * hw::bytes_of(config.model.dtype);
  kind.layouts_model =
      std::make_unique<LayoutIteration>(std::move(modes), gpu.link, hidden, config.layouts.host_bandwidth);
  kind.iteration_model = std::make_unique<TabulatedIteration>(*kind.layouts_model, kind.limits.layers);
  kind.whole_model = kind.iteration_model.get();
  return true;
}

bool ServingSetup::State::make_kind(const ReplicaGroup& group, ReplicaKind& kind) {
  if (!config.layouts.modes.empty()) return make_layouts(group, kind);
  const hw::GpuParams& gpu = config.parts[static_cast<std::size_t>(kind.device_group)].gpu;
  const models::Split split{
      .tp = kind.tensor_parallel, .attention_dp = kind.data_parallel, .expert_parallel = kind.expert_parallel};
  if (const auto obstacle = models::split_obstacle(model, split)) {
    infeasible = Infeasible{*obstacle};
    return false;
  }
  if (kind.stages > model.layers) {
    infeasible = Infeasible{fmt::format("{} pipeline stages for {} layers", kind.stages, model.layers)};
    return false;
  }
  if (kind.stages > 1 && config.speculation.name != "none") {
    infeasible = Infeasible{"speculation is modelled on replicas without pipeline stages only"};
    return false;
  }
  kind.transformer = models::build_transformer(model, number_formats(config.model, model), split, config.model.router);
  kind.limits = {config.replica.max_context.value_or(model.max_position_embeddings),
                 static_cast<std::int32_t>(model.layers)};
  kind.weight_bytes = models::weight_bytes(*kind.transformer);
  kind.usable_bytes =
      static_cast<std::int64_t>(static_cast<double>(gpu.memory_bytes) * (1 - config.replica.memory_margin));
  kind.geometry.bytes_per_token = models::kv_bytes_per_token(*kind.transformer);
  if (kind.stages > 1) divide_stages(kind);
  kind.drafts = std::make_unique<DraftModels>(config, gpu, *kind.transformer);
  kind.weight_bytes += kind.drafts->weight_bytes();
  kind.geometry.bytes_per_token += kind.drafts->kv_bytes_per_token();
  kind.block_bytes = group.kvcache.make({kind.geometry.bytes_per_token, 0})->block_bytes();
  const std::int64_t sharing = kind.stages > 1 ? kind.lanes : 1;  // lanes of a pipeline share its devices' memory
  kind.geometry.bytes_available = (kind.usable_bytes - kind.weight_bytes) / sharing;
  if (config.replica.kv_blocks)
    kind.geometry.bytes_available = static_cast<std::int64_t>(
        std::min<__int128>(std::numeric_limits<std::int64_t>::max() / 4,
                           static_cast<__int128>(*config.replica.kv_blocks) * kind.block_bytes / sharing));
  if (!check_memory(group, kind)) return false;
  kind.exact_model = std::make_unique<GpuIterationModel>(*kind.transformer, gpu, config.cost.make(gpu));
  kind.exact = kind.exact_model.get();
  if (const ProfileParams& profile = config.machine.profile; profile.path) {
    const models::ModelConfig& facts = kind.transformer->config;
    kind.profile_model = std::make_unique<ProfileIteration>(OpProfile::read(*profile.path), profile,
                                                            ProfileFacts{.layers = facts.layers,
                                                                         .hidden = facts.hidden_size,
                                                                         .vocab_rows = kind.transformer->vocab_rows,
                                                                         .tensor_parallel = kind.transformer->tp,
                                                                         .memory_bandwidth = gpu.memory_bandwidth,
                                                                         .l2_bandwidth = gpu.l2_bandwidth,
                                                                         .l2_bytes = static_cast<double>(gpu.l2_bytes),
                                                                         .link = gpu.link},
                                                            kind.exact);
    kind.exact = kind.profile_model.get();
  }
  IterationModel* lane = kind.exact;
  if (kind.data_parallel > 1) {
    kind.lane_share = std::make_unique<LaneShare>(*lane, kind.data_parallel);
    lane = kind.lane_share.get();
  }
  kind.iteration_model = std::make_unique<TabulatedIteration>(*lane, kind.limits.layers);
  kind.whole_model = &kind.drafts->build(*lane, *kind.iteration_model, kind.limits.layers);
  return true;
}

/// Whole blocks decide what fits: what a request at the context limit takes in an empty cache without end, and whether
/// the cache there is has as many.
bool ServingSetup::State::check_memory(const ReplicaGroup& group, const ReplicaKind& kind) {
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;
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
  const hw::GpuParams& gpu = config.parts[static_cast<std::size_t>(kind.device_group)].gpu;
  infeasible = Infeasible{
      fmt::format("weights and the KV cache of one request of {} tokens do not fit the memory of {} "
                  "(of {}, a share of {} is kept free)",
                  kind.limits.max_context, machine.devices[static_cast<std::size_t>(kind.device_group)].part,
                  sim::humanise(static_cast<double>(gpu.memory_bytes), sim::Unit::bytes), config.replica.memory_margin),
      kind.weight_bytes + endless->used_bytes(), kind.usable_bytes};
  return false;
}

void ServingSetup::State::build() {
  if (!enough_devices()) return;
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    const ReplicaGroup& group = config.groups[g];
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const std::unique_ptr<ReplicaKind>& kind) {
      return kind->device_group == group.params.device_group && kind->tensor_parallel == group.tensor_parallel &&
             kind->stages == group.params.pipeline_parallel && kind->lanes == group.lanes() &&
             kind->expert_parallel == group.params.expert_parallel.value_or(config.replica.expert_parallel) &&
             (!config.replica.kv_blocks ||
              kind->block_bytes == group.kvcache.make({kind->geometry.bytes_per_token, 0})->block_bytes());
    });
    ReplicaKind* kind = nullptr;
    if (same == kinds.end()) {
      kinds.push_back(std::make_unique<ReplicaKind>());
      kind = kinds.back().get();
      kind->device_group = group.params.device_group;
      kind->tensor_parallel = group.tensor_parallel;
      kind->stages = group.params.pipeline_parallel;
      kind->lanes = group.lanes();
      kind->data_parallel = group.params.data_parallel;
      kind->expert_parallel = group.params.expert_parallel.value_or(config.replica.expert_parallel);
      if (!make_kind(group, *kind)) return;
    } else {
      kind = same->get();
      if (!check_memory(group, *kind)) return;
    }
    kind_of.push_back(kind);
    machine.groups[g].weight_bytes = kind->weight_bytes;
    machine.groups[g].kv_capacity_bytes = kind->geometry.bytes_available * (kind->stages > 1 ? kind->lanes : 1);
  }
}

namespace {

/// The stages of one replica. Activations go from stage to stage as one message a device pair.
std::unique_ptr<StagePipe> make_pipe(const ReplicaKind& kind, const ServingConfig& config, std::int64_t ps_per_tick) {
  const hw::LinkParams& link = config.parts[static_cast<std::size_t>(kind.device_group)].gpu.link;
  const std::int64_t token_bytes = kind.transformer->config.hidden_size * hw::bytes_of(config.model.dtype);
  const std::int64_t ranks = kind.tensor_parallel * kind.stages;
  const auto send_ps = [&link, token_bytes, ranks](std::int64_t tokens) {
    const hw::CollectiveCost cost =
        hw::library_collective(link, hw::LibraryCall::send_recv, ranks, tokens * token_bytes);
    return static_cast<std::int64_t>(std::ceil(cost.time_s * 1e12));
  };
  return std::make_unique<StagePipe>(*kind.exact, kind.layers_of, send_ps, ps_per_tick);
}

}  // namespace

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

ServingResult ServingSetup::run(RunObserver* observer, const std::function<void(const Progress&)>& progress,
                                const RunChange& change) const {
  const ServingConfig& config = state_->config;
  if (state_->infeasible) throw std::logic_error("run() of a design that does not fit");
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  const auto seed = static_cast<std::uint64_t>(config.run.seed) + static_cast<std::uint64_t>(change.replication);
  sim::Engine engine(seed, scale);
  const std::unique_ptr<traces::TraceSource> source = config.program ? nullptr : open_workload(config, seed);

  ServingResult result;
  result.machine = state_->machine;
  ServingMetrics& metrics = result.metrics;
  metrics.ps_per_tick = scale.ps_per_tick();
  metrics.warmup = sim::Time{0} + scale.duration(config.run.warmup_s);
  if (config.run.measure_until_s) metrics.measure_until = sim::Time{0} + scale.duration(*config.run.measure_until_s);
  if (config.slo.ttft_s) metrics.slo.ttft = scale.duration(*config.slo.ttft_s * change.slo_scale);
  if (config.slo.tbt_s)
    metrics.slo.tbt_ps = static_cast<std::int64_t>(std::ceil(*config.slo.tbt_s * change.slo_scale * 1e12));
  metrics.priorities = source && source->columns().priorities;
  ProgressObserver watched(observer, progress, engine, progress ? expected_requests(config) : std::nullopt);

  WorkloadParams workload = config.workload;
  if (change.rate_scale) workload.rate_scale = *change.rate_scale;
  if (change.limit) workload.limit = change.limit;
  const std::unique_ptr<Load> load = make_load(config, workload, source.get(), seed, metrics.warmup);
  auto* const programs = dynamic_cast<ProgramLoad*>(load.get());
  ClusterPolicies deciders;
  deciders.router = config.routing.make(engine.stream("routing"));
  if (config.admission.name != "all") deciders.admission = config.admission.make();
  if (config.scaling.name != "fixed") deciders.scaling = config.scaling.make();
  if (config.decode_scaling.name != "fixed") deciders.decode_scaling = config.decode_scaling.make();
  deciders.decode_router = config.decode_routing.make(engine.stream("decode_routing"));
  Cluster cluster(engine, metrics, observer != nullptr || progress ? &watched : nullptr, *load, std::move(deciders));
  cluster.migrate(config.migration.make(), config.migration_link);
  const auto picoseconds = [](double seconds) { return static_cast<std::int64_t>(std::ceil(seconds * 1e12)); };
  const AddedHostTime host(config.host.make(), picoseconds(config.replica.iteration_overhead_s),
                           picoseconds(config.replica.sequence_overhead_s));
  std::vector<std::unique_ptr<policies::KvTier>> stores;
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    const ReplicaGroup& group = config.groups[g];
    const ReplicaKind& kind = *state_->kind_of[g];
    for (std::int64_t i = 0; i < group.params.count; ++i) {
      MemberParts member;
      member.group = static_cast<std::int32_t>(g);
      member.role = group.params.role;
      member.weight = group.params.weight;
      member.weight_bytes = kind.weight_bytes;
      member.lock_step = state_->machine.groups[g].lock_step;
      member.kv_bytes_per_token = models::kv_bytes_per_token(*kind.transformer) * kind.tensor_parallel;
      if (kind.stages > 1) member.pipe = make_pipe(kind, config, scale.ps_per_tick());
      for (std::int64_t lane = 0; lane < kind.lanes; ++lane) {
        ReplicaParts& parts = member.lanes.emplace_back();
        // Stages price their own layers; the table is for leaps, which a pipeline does not make.
        parts.model = kind.stages > 1 ? kind.exact : kind.whole_model;
        if (kind.stages == 1 && kind.drafts)
          parts.speculator = kind.drafts->speculator(seed + (static_cast<std::uint64_t>(cluster.size()) << 32));
        parts.acceptance = parts.speculator.get();
        parts.host = &host;
        parts.batching = group.batching.make();
        parts.kv = group.kvcache.make(kind.geometry);
        parts.limits = kind.limits;
        parts.leap = config.run.leap;
        if (kind.limits.tier_tokens > 0)
          stores.push_back(std::make_unique<HostStore>(engine, kind.geometry.bytes_per_token, kind.limits.tier_tokens,
                                                       config.layouts.host_bandwidth));
        if (!config.kv_tiers.tiers.empty())
          stores.push_back(make_tiers(config.kv_tiers, parts.kv->block_bytes(), parts.kv->growth_tokens(),
                                      (kind.limits.layers + kind.stages - 1) / kind.stages));
        if (kind.limits.tier_tokens > 0 || !config.kv_tiers.tiers.empty()) parts.tier = stores.back().get();
      }
      cluster.add(std::move(member));
    }
  }
  cluster.start(config.cluster);
  run_until_end(engine, metrics, config.run, scale);
  cluster.finish();
  result.end = engine.now();
  result.simulated_s = scale.seconds(result.end);
  result.events = engine.events();
  result.totals = cluster.totals();
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    result.replicas.push_back(cluster.result(i));
    for (std::size_t lane = 0; lane < cluster.lanes(i); ++lane) {
      result.free_blocks += cluster.replica(i, lane).kv().available_blocks();
      result.kv.add(cluster.replica(i, lane).kv().counters());
      result.kv.split.add(cluster.replica(i, lane).counts().split);
      result.total_blocks += cluster.replica(i, lane).kv().total_blocks();
    }
  }
  if (!config.kv_tiers.tiers.empty()) {
    TierOutcome& tiers = result.kv_tiers.emplace();
    for (const auto& store : stores) tiers.add(store->counters());
    tiers.turns = config.kv_tiers.turns;
    if (config.kv_tiers.prefixes)
      for (const KvTierParams& tier : config.kv_tiers.tiers) tiers.prefix_tiers.push_back(tier.name);
    for (std::size_t i = 0; i < cluster.size(); ++i)
      for (std::size_t lane = 0; lane < cluster.lanes(i); ++lane) add_counts(cluster.replica(i, lane).counts(), tiers);
  }
  result.kv.cached_tokens = metrics.cached_tokens;
  if (source) result.skipped = source->skipped();
  if (programs != nullptr) result.programs = programs->finish();
  return result;
}

}  // namespace orrery::experiments
