// The config of a training run: a machine, a model, a batch, a plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/node_params.hpp"
#include "experiments/base/platform_choice.hpp"
#include "experiments/base/router_source.hpp"
#include "experiments/systems/training/part_costs.hpp"
#include "hw/cost/cost_model.hpp"
#include "policies/partition/partition.hpp"
#include "policies/schedule/schedule.hpp"

namespace orrery::experiments::training {

struct DeviceGroup {
  std::string part;
  std::int64_t count = 1;
  sim::Node override_;
  static constexpr auto fields() {
    using sim::Unit;
    using D = DeviceGroup;
    return sim::FieldTable{
        names_part(sim::required(
            sim::field("part", &D::part, Unit::reference, sim::any_value(), "Computing part from the catalog."))),
        sim::field("count", &D::count, Unit::count, sim::between(1, 1 << 20), "Number of devices in all nodes."),
        sim::annotated(
            sim::field("override", &D::override_, "Fields of the part to change."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); })};
  }
};

struct HostParams {
  double operator_s = 0, view_s = 0, backward_s = 0, collective_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    using H = HostParams;
    constexpr sim::Range kTime = sim::between(0, 1);
    return sim::FieldTable{
        sim::field("operator", &H::operator_s, Unit::seconds, kTime,
                   "CPU time of a forward operator that launches a kernel."),
        sim::field("view", &H::view_s, Unit::seconds, kTime, "CPU time of a forward operator that launches no kernel."),
        sim::field("backward", &H::backward_s, Unit::seconds, kTime, "CPU time of a backward operator."),
        sim::field("collective", &H::collective_s, Unit::seconds, kTime,
                   "CPU time of a tensor-parallel collective in either pass; 0: that of any other operator.")};
  }
};

struct InSituParams {
  double kernel = 1, collective = 1, attention = 1, overlapped = 1;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kShare = sim::between(0.01, 10);
    return sim::FieldTable{
        sim::field("kernel", &InSituParams::kernel, Unit::ratio, kShare,
                   "Speed of kernels in the run over that of the device's model."),
        sim::field("collective", &InSituParams::collective, Unit::ratio, kShare,
                   "Speed of collectives and messages in the run over that of the model."),
        sim::field("attention", &InSituParams::attention, Unit::ratio, kShare,
                   "Further speed factor for attention in one kernel, on top of `kernel`."),
        sim::field("overlapped", &InSituParams::overlapped, Unit::ratio, kShare,
                   "Further speed factor for collectives that overlap with kernels, on top of `collective`.")};
  }
};

struct HostUpdateParams {
  double adam = 0, cast = 0, widen = 0, rank_share = 1, staging = 0;
  static constexpr auto fields() {
    using sim::Unit;
    using H = HostUpdateParams;
    constexpr sim::Range kRate = sim::between(1, 1e15);
    return sim::FieldTable{
        sim::required(sim::field("adam", &H::adam, Unit::per_s, kRate,
                                 "Parameters per second that the host of a node updates, for all its ranks together.")),
        sim::required(sim::field("cast", &H::cast, Unit::per_s, kRate, "New weights per second that the host casts.")),
        sim::required(
            sim::field("widen", &H::widen, Unit::per_s, kRate, "Gradients per second that the host widens to fp32.")),
        sim::field("rank_share", &H::rank_share, Unit::ratio, sim::between(0.001, 1),
                   "Largest share of these rates that one rank can reach."),
        sim::required(sim::field("staging", &H::staging, Unit::bytes_per_s, kRate,
                                 "Copy rate of a rank between states and the buffers that the link reads."))};
  }
};

struct ClusterParams {
  std::int64_t nodes = 1, nics = 8;
  std::string nic;
  static constexpr auto fields() {
    using sim::Unit;
    using C = ClusterParams;
    return sim::FieldTable{
        sim::required(
            sim::field("nic", &C::nic, Unit::reference, sim::any_value(), "Network adapter from the catalog.")),
        sim::field("nodes", &C::nodes, Unit::count, sim::between(1, 1 << 20), "Nodes with this adapter."),
        sim::field("nics", &C::nics, Unit::count, sim::between(1, 4096), "Adapters per node.")};
  }
};

/// Who chooses a network where nodes have unlike adapters, and in which order nodes have ranks.
enum class NetworkChoice : std::uint8_t { group, job };
constexpr auto enum_names(NetworkChoice) {
  using enum NetworkChoice;
  return sim::names<NetworkChoice>({{"group", group}, {"job", job}});
}
enum class NodeOrder : std::uint8_t { by_cluster, in_turns };
constexpr auto enum_names(NodeOrder) {
  using enum NodeOrder;
  return sim::names<NodeOrder>({{"by_cluster", by_cluster}, {"in_turns", in_turns}});
}

struct CommonNicParams {
  std::string nic = "ethernet-25g";
  std::int64_t nics = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using C = CommonNicParams;
    return sim::FieldTable{
        sim::field("nic", &C::nic, Unit::reference, sim::any_value(), "Network adapter from the catalog."),
        sim::field("nics", &C::nics, Unit::count, sim::between(1, 4096), "Adapters per node.")};
  }
};

/// Nodes under one leaf switch, and what leaves it.
struct SpineParams {
  std::int64_t leaf_nodes = 16;
  double oversubscription = 1, share = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using S = SpineParams;
    return sim::FieldTable{
        sim::field("leaf_nodes", &S::leaf_nodes, Unit::count, sim::between(1, 1 << 20),
                   "Nodes under one leaf switch, in the order of ranks."),
        sim::field("oversubscription", &S::oversubscription, Unit::ratio, sim::between(1, 1e4),
                   "Oversubscription: bandwidth of a leaf's nodes over that of its links to the spine."),
        sim::field("share", &S::share, Unit::ratio, sim::between(1e-4, 1),
                   "Share of the bandwidth of links to the spine that other jobs leave.")};
  }
};

struct SlowNodeParams {
  std::int64_t node = 0;
  double speed = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using S = SlowNodeParams;
    return sim::FieldTable{
        sim::required(sim::field("node", &S::node, Unit::count, sim::at_least(0),
                                 "Number of the node in the order of ranks, from 0.")),
        sim::required(sim::field("speed", &S::speed, Unit::ratio, sim::between(0.01, 1),
                                 "Speed of the node's kernels and launches relative to the other nodes."))};
  }
};

struct MachineParams {
  std::vector<DeviceGroup> devices;
  NodeParams node;
  std::vector<ClusterParams> clusters;
  CommonNicParams common;
  NetworkChoice network = NetworkChoice::group;
  NodeOrder order = NodeOrder::by_cluster;
  std::optional<SpineParams> spine;
  std::vector<SlowNodeParams> slow;
  HostParams host;
  std::string host_link;
  std::optional<std::int64_t> host_memory;
  Allocator allocator = Allocator::none;
  std::int64_t context_bytes = 0;
  std::optional<HostUpdateParams> host_update;
  InSituParams in_situ;
  hw::InterferenceRegistry::Choice interference;
  std::optional<hw::AttentionLibrary> attention;
  hw::CostModelRegistry::Choice cost;
  static constexpr auto fields() {
    using M = MachineParams;
    return sim::FieldTable{
        sim::required(sim::field(
            "devices", &M::devices,
            "Devices in the order of ranks: one group. The systems training and training_plans allow several, "
            "whose nodes form stages of their own.")),
        sim::field("node", &M::node, "Devices and network adapters of a node."),
        sim::field(
            "clusters", &M::clusters,
            "Groups of nodes with unlike adapters, in place of node.nic and node.nics; empty: all nodes have those."),
        sim::field("common", &M::common, "With unlike nodes: adapters that all nodes have in addition to their own."),
        sim::field("network", &M::network,
                   "With unlike nodes. `group`: each group of ranks uses its nodes' adapters where these are the same. "
                   "`job`: the whole job uses the common ones."),
        sim::field(
            "node_order", &M::order,
            "With unlike nodes: whether ranks are numbered cluster by cluster, or clusters give nodes in turns."),
        sim::field("spine", &M::spine,
                   "Leaf and spine switches: groups of ranks that span leaves share the links to the spine. null: full "
                   "bisection bandwidth."),
        sim::field("slow_nodes", &M::slow, "Stragglers: nodes whose devices are slower than the others'."),
        sim::field("host", &M::host,
                   "Time of the CPU thread that launches kernels; all zero: devices never wait for it."),
        sim::field("host_link", &M::host_link, sim::Unit::reference, sim::any_value(),
                   "Link from the catalog between a device and its host, for what a plan offloads to host memory; "
                   "empty: none."),
        sim::field("host_memory", &M::host_memory, sim::Unit::bytes, sim::between(0, std::int64_t{1} << 50),
                   "Memory of a node's host for what its ranks offload; null: as much as they need."),
        sim::field("allocator", &M::allocator,
                   "Allocator of device memory, for what it reserves beyond tensors. `none`: nothing. `caching`: "
                   "PyTorch's caching allocator."),
        sim::field("context", &M::context_bytes, sim::Unit::bytes, sim::between(0, std::int64_t{1} << 50),
                   "Device memory taken before any tensor: the driver's context, libraries' workspaces."),
        sim::field(
            "host_update", &M::host_update,
            "Rates at which the host updates optimizer states that a plan offloads to it; null: it updates none."),
        sim::field("in_situ", &M::in_situ,
                   "Speeds of kernels and collectives inside a real run relative to the cost model, as measured."),
        sim::choice("interference", &M::interference, "none",
                    "How kernels, collectives and copies that run at once slow each other."),
        sim::field("attention", &M::attention,
                   "Library for fused attention on GPUs; null: the part's own, as inference engines use."),
        sim::choice("cost", &M::cost, "by_kind", "Cost model of the devices.")};
  }
};

struct ModelParams {
  std::optional<models::BuilderRegistry::Choice> builder;
  std::optional<ImportParams> import_;
  static constexpr auto fields() { return graph_source_fields<ModelParams>(); }
};

struct WorkloadParams {
  std::int64_t sequence = 2048, global_batch = 1;
  bool largest_batch = false;
  double tokens = 0, price_per_hour = 0;
  std::optional<ReplayedRouter> router;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::field("sequence", &W::sequence, Unit::tokens, sim::between(1, 1 << 24), "Tokens of a sequence."),
        sim::field("global_batch", &W::global_batch, Unit::count, sim::between(1, 1 << 24), "Sequences in a step."),
        sim::field("largest_batch", &W::largest_batch,
                   "Whether each data-parallel copy runs the largest micro-batch that fits in memory, once per step; "
                   "replaces global_batch and plan.micro_batch."),
        sim::field("tokens", &W::tokens, Unit::tokens, sim::between(0, 1e18),
                   "Tokens to train on in all; 0: not given."),
        sim::field("price", &W::price_per_hour, Unit::none, sim::at_least(0),
                   "Price of a device per hour; 0: not known."),
        sim::field("router", &W::router,
                   "Which experts tokens choose: ranks that divide the experts wait for the busiest one. null: all "
                   "experts are chosen equally often.")};
  }
};

struct PoliciesParams {
  policies::ScheduleRegistry::Choice schedule;
  policies::PartitionRegistry::Choice partition;
  policies::OffloadRegistry::Choice offload;
  policies::ExpertPlacementRegistry::Choice placement;
  sim::Node passes;
  static constexpr auto fields() {
    using P = PoliciesParams;
    return sim::FieldTable{
        sim::choice("schedule", &P::schedule, "1f1b", "Order of the passes in the stages of a pipeline."),
        sim::choice("partition", &P::partition, "even", "How the layers are divided among the stages."),
        sim::choice("offload", &P::offload, "streamed", "How optimizer states in host memory are updated."),
        sim::choice("placement", &P::placement, "contiguous",
                    "Which rank holds which experts, planned on the first tokens of workload.router."),
        passes_field(&P::passes)};
  }
};

struct TrainingParams {
  MachineParams machine;
  ModelParams model;
  WorkloadParams workload;
  PlanParams plan;
  PoliciesParams policies;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = TrainingParams;
    return sim::FieldTable{
        sim::required(sim::section("machine", &S::machine, "Devices, nodes and host.")),
        sim::required(sim::section("model", &S::model, "The model as a forward graph of one layer after the other.")),
        sim::section("workload", &S::workload, "Sequences, and how many are in a step."),
        sim::section("plan", &S::plan, "The parallel plan: how ranks share the work."),
        sim::section("policies", &S::policies,
                     "Pipeline schedule, partition of layers, offload, placement of experts, graph passes."),
        sim::section("run", &S::run, "Time resolution of the run.")};
  }
};

/// A validated config.
struct TrainingConfig {
  std::string file;
  TrainingParams params;
  TrainingMachine machine;
  TrainedModel model;
  std::vector<std::filesystem::path> inputs;
  std::vector<std::string> notes;
  std::optional<std::string> no_plan;  ///< why none of those that plan.best_by asks for can be
  sim::Node resolved;
};

/// The machine of a config, whose section has been read into `params`; files that it names are added to `inputs`.
/// `unlike`: whether it may have several groups of devices.
TrainingMachine read_training_machine(const sim::Node& node, const MachineParams& params,
                                      std::vector<std::filesystem::path>& inputs, sim::Faults& faults,
                                      bool unlike = false);

TrainingConfig read_training_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults,
                                    bool unlike = false);

}  // namespace orrery::experiments::training
