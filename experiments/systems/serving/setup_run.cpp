#include <algorithm>
#include <stdexcept>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/live_workload.hpp"
#include "experiments/systems/network/summary.hpp"
#include "experiments/systems/serving/cluster/cluster.hpp"
#include "experiments/systems/serving/cluster/front_door.hpp"
#include "experiments/systems/serving/load/load.hpp"
#include "experiments/systems/serving/load/program_load.hpp"
#include "experiments/systems/serving/load/workload.hpp"
#include "experiments/systems/serving/observe/early_end.hpp"
#include "experiments/systems/serving/pricing/clocked.hpp"
#include "experiments/systems/serving/pricing/host_store.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/picoseconds.hpp"
#include "experiments/systems/serving/programs/files.hpp"
#include "experiments/systems/serving/setup_state.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {
namespace {

// How often progress is reported (and an interrupt noticed).
constexpr std::int64_t kRequestsEvery = 256;
constexpr std::int64_t kIterationsEvery = 4096;

/// Tells how far the run has come, now and then.
class ProgressObserver final : public PassingObserver {
 public:
  ProgressObserver(RunObserver* next, const std::function<void(const Progress&)>& progress, const sim::Engine& engine,
                   std::optional<std::int64_t> total)
      : PassingObserver(next), progress_(progress), engine_(engine), total_(total) {}
  void request_ended(const RequestRecord& record) override {
    PassingObserver::request_ended(record);
    if (++done_ % kRequestsEvery == 0) report();
  }
  void iterations_ended(const IterationRun& run) override {
    PassingObserver::iterations_ended(run);
    if (++runs_ % kIterationsEvery == 0) report();
  }

 private:
  void report() const {
    if (progress_) progress_({done_, total_, engine_.scale().seconds(engine_.now())});
  }

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

/// Where nothing but looks at loads comes for so long, nothing else will: a message that no link carries, say.
constexpr std::int64_t kIdleLooks = 1'000;

/// Fires events up to the end that the config names. `over` says whether the service is, where others go on; empty: all
/// events are the service's.
void run_until_end(sim::Engine& engine, const Cluster& cluster, const ServingMetrics& metrics, const RunParams& run,
                   const sim::TickScale& scale, const std::function<bool()>& over) {
  const sim::Time until = run.until_s ? sim::Time{0} + scale.duration(*run.until_s) : sim::kNever;
  const auto enough = [&] {
    return (run.until_requests && metrics.completed + metrics.rejected >= *run.until_requests) || (over && over());
  };
  if (run.until_requests || over) {
    struct Alarm final : sim::EventHandler {
      bool rang = false;
      void on_event(std::uint64_t) override { rang = true; }
    } alarm;
    if (run.until_s) engine.schedule_at(until, alarm);
    const std::size_t ours = run.until_s ? 1 : 0;
    std::int64_t idle = 0;
    while (!enough() && !alarm.rang) {
      if (engine.pending() == ours) return;  // all is done, and time does not go on for nothing
      idle = engine.pending() == ours + cluster.looks() ? idle + 1 : 0;
      if (idle > kIdleLooks) return;
      engine.step();
    }
    if (!alarm.rang) return;
  }
  engine.run(until);
}

/// Activations of a token between two stages.
std::int64_t token_bytes_of(const ServingConfig& config, const ReplicaKind& kind) {
  return kind.transformer().config.hidden_size * hw::bytes_of(config.model.dtype);
}

/// The stages of one replica. Activations go from stage to stage as one message a device pair.
std::unique_ptr<StagePipe> make_pipe(const ServingSetup::State& state, const ReplicaKind& kind,
                                     std::int64_t ps_per_tick) {
  std::vector<hw::LinkParams> links;
  std::vector<std::vector<StageLayers>> modes;
  for (const KindLayout& layout : kind.layouts) {
    links.push_back(state.between_stages(kind, links.size()));
    modes.push_back(layout.layers_of);
  }
  const auto send_ps = [links = std::move(links), token_bytes = token_bytes_of(state.config, kind),
                        ranks = kind.layouts.front().params.devices()](std::int64_t tokens, std::int32_t mode) {
    const hw::CollectiveCost cost = hw::library_collective(links[static_cast<std::size_t>(mode)],
                                                           hw::LibraryCall::send_recv, ranks, tokens * token_bytes);
    return picoseconds(cost.time_s);
  };
  return std::make_unique<StagePipe>(kind.models.top(), std::move(modes), send_ps, ps_per_tick);
}

/// The machine's network in a run, and what else goes over it.
struct LiveFabric {
  LiveFabric(const FabricConfig& config, sim::Engine& engine, const std::function<void(const Progress&)>& progress)
      : network(engine, *config.topology, config.routing.make(*config.topology), config.network),
        workload(config, engine, network, result, nullptr, progress) {}
  hw::Network network;
  network::NetworkResult result;
  network::LiveWorkload workload;
};

/// What it comes to, as a network run has it. Of links nothing is known where collectives were priced by a formula.
sim::Node fabric_figures(const ServingSetup::State& state, LiveFabric& fabric, __int128 waited_ps) {
  const FabricConfig& config = *state.config.fabric;
  fabric.workload.finish();
  const sim::Node all = network::summarise(config, fabric.result);
  sim::Node node = sim::Node::object();
  node.set("waited_s", sim::Node::real(static_cast<double>(waited_ps) * 1e-12));
  for (const char* member : {"jobs", "flows", "links", "rerouted"})
    if (const sim::Node* part = all.find(member)) node.set(member, *part);
  for (std::size_t i = 0; i < state.paths.size(); ++i) {
    const bool sends = std::ranges::any_of(state.paths[i], [](const LayoutPaths& own) {
      return own.ring.bandwidth > 0 || own.hop.bandwidth > 0 || own.exchange.bandwidth > 0;
    });
    if (sends && !state.meets_others[i]) node.set("links", sim::Node{});
  }
  return node;
}

/// When a run measures, and what its requests are held to.
void set_targets(const ServingConfig& config, const RunChange& change, const sim::TickScale& scale,
                 ServingMetrics& metrics) {
  metrics.ps_per_tick = scale.ps_per_tick();
  metrics.warmup = sim::Time{0} + scale.duration(config.run.warmup_s);
  if (config.run.measure_until_s) metrics.measure_until = sim::Time{0} + scale.duration(*config.run.measure_until_s);
  if (config.slo.ttft_s) metrics.slo.ttft = scale.duration(*config.slo.ttft_s * change.slo_scale);
  if (config.slo.tbt_s) metrics.slo.tbt_ps = picoseconds(*config.slo.tbt_s * change.slo_scale);
}

/// The config's workload at another rate, or with more or fewer requests.
WorkloadParams changed_workload(WorkloadParams workload, const RunChange& change) {
  if (change.rate_scale) workload.rate_scale = *change.rate_scale;
  workload.skip += change.skip;
  if (!change.requests) return workload;
  workload.limit = change.requests;
  if (workload.generator) workload.generator->requests = *change.requests;
  if (workload.program) workload.program->instances = change.requests;
  return workload;
}

/// What the host does, and the overheads beside it where there are any.
std::unique_ptr<HostTime> host_of(const ServingConfig& config) {
  std::unique_ptr<HostTime> host = config.host.make(config.launch_costs);
  const std::int64_t iteration_ps = picoseconds(config.replica.iteration_overhead_s);
  const std::int64_t sequence_ps = picoseconds(config.replica.sequence_overhead_s);
  if (iteration_ps == 0 && sequence_ps == 0) return host;
  return std::make_unique<AddedHostTime>(std::move(host), iteration_ps, sequence_ps);
}

/// Who decides in the cluster of a run.
ClusterPolicies deciders(const ServingConfig& config, sim::Engine& engine) {
  ClusterPolicies all;
  all.router = config.policies.routing.make(engine.stream("routing"));
  if (config.policies.admission.name != "all") all.admission = config.policies.admission.make();
  if (config.policies.scaling.name != "fixed") all.scaling = config.policies.scaling.make();
  if (config.policies.decode_scaling.name != "fixed") all.decode_scaling = config.policies.decode_scaling.make();
  all.decode_router = config.policies.decode_routing.make(engine.stream("decode_routing"));
  return all;
}

/// What a run has of the replicas beside their kinds.
void collect(const Cluster& cluster, const ServingConfig& config,
             const std::vector<std::unique_ptr<policies::KvTier>>& stores, ServingResult& result) {
  result.totals = cluster.totals();
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    result.replicas.push_back(cluster.result(i));
    result.metrics.cost.add(result.replicas.back().cost);
    for (std::size_t lane = 0; lane < cluster.lanes(i); ++lane) {
      const ReplicaCounts& counts = cluster.replica(i, lane).counts();
      result.kv.split.add(counts.split);
      result.host.add(counts.host);
      result.routed.add(counts.routed);
      result.experts.add(counts.experts);
      result.wire_wait_ps += counts.wire_wait_ps;
    }
    for (std::size_t pool = 0; pool < cluster.pools(i); ++pool) {
      const policies::KvCache& kv = cluster.replica(i, pool).kv();
      result.free_blocks += kv.available_blocks();
      result.kv.add(kv.counters());
      result.total_blocks += kv.total_blocks();
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
  result.kv.cached_tokens = result.metrics.cached_tokens;
}

/// Makes the replicas of a run, and holds what they borrow.
class RunMembers {
 public:
  /// `fabric` may be null: every replica has links of its own.
  RunMembers(const ServingSetup::State& state, sim::Engine& engine, const HostTime& host, std::uint64_t seed,
             hw::MessageCarrier* fabric)
      : state_(state), config_(state.config), engine_(engine), host_(host), seed_(seed), fabric_(fabric) {}

  void add_to(Cluster& cluster) {
    for (const auto& kind : state_.kinds)
      if (kind->replay != nullptr) kind->replay->forget();  // placements of a run before
    for (std::size_t g = 0; g < config_.groups.size(); ++g)
      for (std::int64_t i = 0; i < config_.groups[g].params.count; ++i) cluster.add(member(g, cluster.size()));
  }
  const std::vector<std::unique_ptr<policies::KvTier>>& stores() const { return stores_; }

 private:
  MemberParts member(std::size_t g, std::size_t number) {
    const ReplicaGroup& group = config_.groups[g];
    const ReplicaKind& kind = *state_.kind_of[g];
    MemberParts member;
    member.group = static_cast<std::int32_t>(g);
    member.role = group.params.role;
    member.weight = group.params.weight;
    member.weight_bytes = kind.weight_bytes;
    member.lock_step = state_.machine.groups[g].lock_step;
    member.kv_bytes_per_token = kind.cache_per_token;
    const bool flows = fabric_ != nullptr && state_.meets_others[number];
    if (kind.stages > 1) {
      member.pipe = make_pipe(state_, kind, engine_.scale().ps_per_tick());
      if (flows) member.pipe->wire(state_.stage_wires(kind, number, engine_, *fabric_), token_bytes_of(config_, kind));
    }
    // Lanes in lock step send together.
    const std::shared_ptr<Wire> wire =
        flows && kind.stages == 1 ? state_.wire(kind, number, engine_, *fabric_) : nullptr;
    member.one_scheduler = kind.one_scheduler ? kind.lanes : 0;
    const std::int64_t apart = kind.one_scheduler ? 1 : kind.lanes;
    const std::shared_ptr<Rebalancer> rebalancer = state_.rebalancer(kind);
    for (std::int64_t lane = 0; lane < apart; ++lane) {  // lanes of a pipeline have one host beside their devices
      member.lanes.push_back(
          lane_of(group, kind, number, wire, lane > 0 && kind.stages > 1 ? member.lanes.front().tier : nullptr));
      member.lanes.back().experts.rebalancer = rebalancer;
      if (kind.expert_memory) member.lanes.back().experts.memory = std::make_shared<ExpertMemory>(kind.expert_memory);
    }
    return member;
  }

  /// `tier`: what it shares with the lanes before it; null: one of its own, where there are any.
  ReplicaParts lane_of(const ReplicaGroup& group, const ReplicaKind& kind, std::size_t number,
                       const std::shared_ptr<Wire>& wire, policies::KvTier* tier) {
    ReplicaParts parts;
    parts.model = &kind.models.top();
    parts.experts.replay = kind.replay.get();
    if (kind.stages == 1)
      parts.speculator = kind.drafts->speculator(seed_ + (static_cast<std::uint64_t>(number) << 32));
    parts.acceptance = parts.speculator.get();
    parts.host = &host_;
    parts.wire = wire;
    std::unique_ptr<policies::Batching> batching = group.batching.make();
    if (kind.clocked) batching = with_clocks(std::move(batching), clock_choice(kind));
    parts.batching = std::move(batching);
    parts.kv = group.kvcache.make(kind.geometry);
    if (config_.replica.read_prefix_once) parts.kv->read_once(readers_of(state_.model));
    parts.limits = kind.limits;
    parts.leap = config_.run.leap;
    parts.tier = tier;
    if (tier != nullptr) return parts;
    if (kind.limits.tier_tokens > 0)
      stores_.push_back(std::make_unique<HostStore>(engine_, kind.geometry.bytes_per_token, kind.limits.tier_tokens,
                                                    config_.layouts.host_bandwidth));
    if (!config_.kv_tiers.tiers.empty())
      stores_.push_back(make_tiers(config_.kv_tiers, parts.kv->block_bytes(), parts.kv->growth_tokens(),
                                   (kind.limits.layers + kind.stages - 1) / kind.stages));
    if (kind.limits.tier_tokens > 0 || !config_.kv_tiers.tiers.empty()) parts.tier = stores_.back().get();
    return parts;
  }

  /// Sequences whose queries fill the rows of one attention tile: all query heads of a key head are rows of it.
  static std::int64_t readers_of(const models::ModelConfig& model) {
    constexpr std::int64_t kTileRows = 64;
    const std::int64_t keys = model.latent.kv_rank > 0 ? 1 : std::max<std::int64_t>(1, model.kv_heads);
    return std::max<std::int64_t>(1, kTileRows / std::max<std::int64_t>(1, model.heads / keys));
  }

  ClockChoice clock_choice(const ReplicaKind& kind) const {
    return {.policy = config_.policies.power.make(),
            .clocks_hz = config_.machine.devices[static_cast<std::size_t>(kind.device_group)].clocks_hz,
            .tbt_ps = config_.slo.tbt_s ? std::optional(picoseconds(*config_.slo.tbt_s)) : std::nullopt,
            .model = &kind.models.top(),
            .layers = kind.limits.layers};
  }

  const ServingSetup::State& state_;
  const ServingConfig& config_;
  sim::Engine& engine_;
  const HostTime& host_;
  std::uint64_t seed_;
  hw::MessageCarrier* fabric_;
  std::vector<std::unique_ptr<policies::KvTier>> stores_;
};

}  // namespace

ServingResult ServingSetup::run(RunObserver* observer, const std::function<void(const Progress&)>& progress,
                                const RunChange& change) const {
  const ServingConfig& config = state_->config;
  if (state_->infeasible) throw std::logic_error("run() of a design that does not fit");
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  const auto seed = static_cast<std::uint64_t>(config.run.seed) + static_cast<std::uint64_t>(change.replication);
  sim::Engine engine(seed, scale);
  const WorkloadParams workload = changed_workload(config.workload, change);
  const std::unique_ptr<traces::TraceSource> source =
      workload.program ? nullptr : open_workload(config, workload, seed);

  ServingResult result;
  result.machine = state_->machine;
  ServingMetrics& metrics = result.metrics;
  set_targets(config, change, scale, metrics);
  metrics.priorities = source && source->columns().priorities;
  ProgressObserver watched(observer, progress, engine, progress ? expected_requests(config.workload) : std::nullopt);
  const auto most = change.ends.empty() ? std::nullopt : most_requests(workload);
  std::optional<EarlyEnd> early;
  if (most) early.emplace(&watched, change.ends, *most, metrics);

  const std::unique_ptr<Load> load = make_load(workload, source.get(), seed, metrics.warmup);
  auto* const programs = dynamic_cast<ProgramLoad*>(load.get());
  RunObserver* outermost = observer != nullptr || progress ? &watched : nullptr;
  if (early) outermost = &*early;
  Cluster cluster(engine, metrics, outermost, *load, deciders(config, engine));
  cluster.migrate(config.policies.migration.make(), config.migration);
  const std::unique_ptr<HostTime> host = host_of(config);
  FrontDoor door(engine, cluster, scale.duration(host->request_s()));
  std::optional<LiveFabric> fabric;
  if (config.fabric) fabric.emplace(*config.fabric, engine, progress);
  hw::MessageCarrier* const carrier = fabric ? &fabric->workload.run() : nullptr;
  RunMembers members(*state_, engine, *host, seed, carrier);
  members.add_to(cluster);
  KvWires wires{.network = carrier, .hosts = {}};
  if (fabric) {
    for (std::size_t i = 0; i < cluster.size(); ++i) wires.hosts.push_back(hosts_of(config, i));
    fabric->workload.start();
  }
  cluster.start(config.cluster, std::move(wires), host->request_s() > 0 ? &door : nullptr);
  std::function<bool()> over;
  if (fabric && !config.network_workload.empty())
    over = [&] { return load->exhausted() && door.empty() && cluster.in_system() == 0; };
  run_until_end(engine, cluster, metrics, config.run, scale, over);
  door.finish();
  cluster.finish();
  result.end = engine.now();
  result.simulated_s = scale.seconds(result.end);
  result.events = engine.events();
  collect(cluster, config, members.stores(), result);
  if (fabric) result.network = fabric_figures(*state_, *fabric, result.wire_wait_ps);
  if (source) result.skipped = source->skipped();
  if (programs != nullptr) result.programs = programs->finish();
  return result;
}

}  // namespace orrery::experiments
