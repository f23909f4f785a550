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
            sim::field("part", &D::part, Unit::reference, sim::any_value(), "A computing part of the catalog."))),
        sim::field("count", &D::count, Unit::count, sim::between(1, 1 << 20), "How many of them, in all nodes."),
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
                   "Of an op of the forward pass that launches a kernel."),
        sim::field("view", &H::view_s, Unit::seconds, kTime, "Of an op of it that launches none."),
        sim::field("backward", &H::backward_s, Unit::seconds, kTime, "Of an op of the backward pass."),
        sim::field("collective", &H::collective_s, Unit::seconds, kTime,
                   "Of a collective of tensor parallelism, in either pass; 0: as of another op.")};
  }
};

struct InSituParams {
  double kernel = 1, collective = 1, attention = 1, overlapped = 1;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kShare = sim::between(0.01, 10);
    return sim::FieldTable{sim::field("kernel", &InSituParams::kernel, Unit::ratio, kShare,
                                      "Speed of kernels in the run over that of the device's model."),
                           sim::field("collective", &InSituParams::collective, Unit::ratio, kShare,
                                      "The same of collectives and messages."),
                           sim::field("attention", &InSituParams::attention, Unit::ratio, kShare,
                                      "Of attention in one kernel, beside `kernel`."),
                           sim::field("overlapped", &InSituParams::overlapped, Unit::ratio, kShare,
                                      "Of collectives that run beside kernels, beside `collective`.")};
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
                                 "Parameters that the host of a node updates, for all its ranks together.")),
        sim::required(sim::field("cast", &H::cast, Unit::per_s, kRate, "New weights that it casts.")),
        sim::required(sim::field("widen", &H::widen, Unit::per_s, kRate, "Gradients that it widens to fp32.")),
        sim::field("rank_share", &H::rank_share, Unit::ratio, sim::between(0.001, 1),
                   "Of these rates, the most that one rank reaches."),
        sim::required(sim::field("staging", &H::staging, Unit::bytes_per_s, kRate,
                                 "Of a rank: between states and buffers that the link reads."))};
  }
};

struct ClusterParams {
  std::int64_t nodes = 1, nics = 8;
  std::string nic;
  static constexpr auto fields() {
    using sim::Unit;
    using C = ClusterParams;
    return sim::FieldTable{
        sim::required(sim::field("nic", &C::nic, Unit::reference, sim::any_value(), "Network adapter of the catalog.")),
        sim::field("nodes", &C::nodes, Unit::count, sim::between(1, 1 << 20), "Nodes that have it."),
        sim::field("nics", &C::nics, Unit::count, sim::between(1, 4096), "Adapters of a node.")};
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
        sim::field("nic", &C::nic, Unit::reference, sim::any_value(), "Network adapter of the catalog."),
        sim::field("nics", &C::nics, Unit::count, sim::between(1, 4096), "Adapters of a node.")};
  }
};

/// Nodes under one leaf switch, and what leaves it.
struct SpineParams {
  std::int64_t leaf_nodes = 16;
  double oversubscription = 1, share = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using S = SpineParams;
    return sim::FieldTable{sim::field("leaf_nodes", &S::leaf_nodes, Unit::count, sim::between(1, 1 << 20),
                                      "Nodes under one leaf switch, in the order of ranks."),
                           sim::field("oversubscription", &S::oversubscription, Unit::ratio, sim::between(1, 1e4),
                                      "Bandwidth of a leaf's nodes over that of its links to the spine."),
                           sim::field("share", &S::share, Unit::ratio, sim::between(1e-4, 1),
                                      "Of the links to the spine, what other jobs leave.")};
  }
};

struct SlowNodeParams {
  std::int64_t node = 0;
  double speed = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using S = SlowNodeParams;
    return sim::FieldTable{
        sim::required(sim::field("node", &S::node, Unit::count, sim::at_least(0), "In the order of ranks, from 0.")),
        sim::required(sim::field("speed", &S::speed, Unit::ratio, sim::between(0.01, 1),
                                 "Of its kernels and launches, over the others'."))};
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
  std::int64_t context_bytes = 0;
  std::optional<HostUpdateParams> host_update;
  InSituParams in_situ;
  std::optional<hw::AttentionLibrary> attention;
  hw::CostModelRegistry::Choice cost;
  static constexpr auto fields() {
    using M = MachineParams;
    return sim::FieldTable{
        sim::required(
            sim::field("devices", &M::devices,
                       "Devices in the order of ranks: one group; of system training several, whose nodes are "
                       "stages of their own.")),
        sim::field("node", &M::node, "What a node has of them, and what joins nodes."),
        sim::field("clusters", &M::clusters,
                   "Nodes by their adapters, in place of node.nic and node.nics; none: all nodes have these."),
        sim::field("common", &M::common, "Of unlike nodes: adapters that all have beside their own."),
        sim::field("network", &M::network,
                   "Of unlike nodes: whether each group of ranks uses its nodes' adapters where these are the same, or "
                   "the job uses the common ones for all."),
        sim::field("node_order", &M::order,
                   "Of unlike nodes: whether ranks go cluster by cluster, or clusters give nodes in turns."),
        sim::field("spine", &M::spine,
                   "Of leaf switches: groups of ranks that one leaf does not hold share its links to the spine; null: "
                   "the fabric has full bisection bandwidth."),
        sim::field("slow_nodes", &M::slow, "Stragglers: nodes whose devices are slower than the others'."),
        sim::field("host", &M::host, "Of the thread that launches kernels; zero: it is never waited for."),
        sim::field("host_link", &M::host_link, sim::Unit::reference, sim::any_value(),
                   "Link of the catalog that joins a device to its host, whose memory takes what a plan offloads; "
                   "empty: none."),
        sim::field("context", &M::context_bytes, sim::Unit::bytes, sim::between(0, std::int64_t{1} << 50),
                   "Memory of a device that is taken before any tensor: the driver's context, libraries' workspaces."),
        sim::field("host_update", &M::host_update,
                   "What the host does with optimizer states that a plan leaves it; null: it updates none."),
        sim::field("in_situ", &M::in_situ, "What a run takes beside its kernels alone, as measured on a run."),
        sim::field("attention", &M::attention,
                   "Library of attention in one kernel, on GPUs; null: the part's own, that of inference engines."),
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
        sim::field("global_batch", &W::global_batch, Unit::count, sim::between(1, 1 << 24), "Sequences of a step."),
        sim::field(
            "largest_batch", &W::largest_batch,
            "Whether each copy has the largest micro-batch that its devices have memory for, one a step, in place "
            "of global_batch and plan.micro_batch."),
        sim::field("tokens", &W::tokens, Unit::tokens, sim::between(0, 1e18), "To be trained on in all; 0: not asked."),
        sim::field("price", &W::price_per_hour, Unit::none, sim::at_least(0), "Of a device for an hour; 0: not known."),
        sim::field(
            "router", &W::router,
            "What experts are chosen, for ranks that share them: all wait for the busiest; null: they are chosen "
            "alike.")};
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
        sim::choice("schedule", &P::schedule, "1f1b", "Order of the passes of a pipeline's stages."),
        sim::choice("partition", &P::partition, "even", "Layers of each stage."),
        sim::choice("offload", &P::offload, "streamed", "How optimizer states in the host's memory are updated."),
        sim::choice("placement", &P::placement, "contiguous",
                    "Which rank has which experts, by the first tokens of workload.router."),
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
        sim::required(sim::section("machine", &S::machine, "Devices, nodes, host.")),
        sim::required(sim::section("model", &S::model, "The forward graph, of one layer after the other.")),
        sim::section("workload", &S::workload, "Sequences, and how many a step."),
        sim::section("plan", &S::plan, "How ranks share the work."),
        sim::section("policies", &S::policies, "Schedule, partition, passes."),
        sim::section("run", &S::run, "Resolution of the run.")};
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
