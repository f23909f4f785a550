// What ServingSetup keeps between runs: the config, and what each kind of replica is made of. For setup.cpp, which
// builds it, and setup_run.cpp, which runs it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/pricing/graph_kernels.hpp"
#include "experiments/systems/serving/pricing/halves_in_turns.hpp"
#include "experiments/systems/serving/pricing/iteration_stack.hpp"
#include "experiments/systems/serving/pricing/router_replay.hpp"
#include "experiments/systems/serving/replica/expert_memory.hpp"
#include "experiments/systems/serving/replica/rebalancer.hpp"
#include "experiments/systems/serving/replica/stage_pipe.hpp"
#include "experiments/systems/serving/speculation.hpp"
#include "experiments/systems/serving/system.hpp"
#include "hw/network/transfer_path.hpp"

namespace orrery::experiments {

/// What a replica's devices send each other over machine.network in one of its layouts.
struct LayoutTransfers {
  std::vector<hw::Transfer> rings;  ///< a stage: of tensor parallelism, in all lanes at once
  std::vector<hw::Transfer> hops;   ///< a stage but the last: to the next one
  hw::Transfer exchange;            ///< of all lanes, where these meet in the experts
  std::int64_t each = 1;            ///< messages of a rank in the exchange

  /// visit(transfer, where LayoutPaths has its path) for all of them.
  template <class Visit>
  void each_transfer(Visit visit) const;
};

/// What the slowest of each gets where nobody else sends; bandwidth 0: there are none.
struct LayoutPaths {
  hw::TransferPath ring, hop, exchange;
  std::int64_t each = 1;
  /// Whether both take as long for all.
  bool like(const LayoutPaths& other) const;
};

template <class Visit>
void LayoutTransfers::each_transfer(Visit visit) const {
  for (const hw::Transfer& ring : rings) visit(ring, &LayoutPaths::ring);
  for (const hw::Transfer& hop : hops) visit(hop, &LayoutPaths::hop);
  visit(exchange, &LayoutPaths::exchange);
}

/// A layout of a kind of replica: its mode.
struct KindLayout {
  LayoutParams params;
  models::Transformer transformer;                ///< the share of one of tensor_parallel devices
  DecoderMemory memory;                           ///< the same share's bytes
  std::shared_ptr<const DecoderKernels> kernels;  ///< that one of them launches
  std::vector<StageLayers> layers_of;             ///< a stage
  std::int64_t weight_bytes = 0;                  ///< on a device of the stage that has most of them
  std::int64_t cache_per_token = 0;               ///< bytes on a device of the stage that has most layers
};

/// Devices, model share and prices of one kind of replica; equal groups share it.
struct ReplicaKind {
  std::int64_t device_group = 0, tensor_parallel = 1, stages = 1, lanes = 1;
  bool one_scheduler = false;  ///< of its lanes
  std::int64_t data_parallel = 1, expert_parallel = 1;
  std::vector<LayoutPaths> paths;  ///< of machine.network, a layout: the slowest of its replicas; none without
  std::vector<KindLayout> layouts;
  std::shared_ptr<const BuiltGraph> graph;  ///< rewritten by the passes, where iterations are priced by one
  policies::ReplicaLimits limits;
  double memory_bytes = 0;  ///< of a device, or of the stacks that are its memory
  std::int64_t weight_bytes = 0, usable_bytes = 0;
  std::int64_t beside_bytes = 0;  ///< of usable memory beside each device, which holds the KV cache; 0: there is none
  policies::KvGeometry geometry;  ///< of a lane, or of all lanes of one scheduler
  std::int64_t cache_per_token = 0;                       ///< bytes over all devices, drafts left out
  std::int64_t block_bytes = 0;                           ///< of the KV cache that it was made for
  std::shared_ptr<RouterReplay> replay;                   ///< where router choices are replayed; else null
  std::shared_ptr<const ExpertMemoryPlan> expert_memory;  ///< of replica.expert_memory; else null
  policies::ExpertPlacementView experts_over;             ///< what its experts are placed over, …
  std::vector<policies::LayerPlacement> experts;          ///< … and where they are when a run begins
  IterationStack models;  ///< the one on top prices iterations (of a pipeline: those of a stage)
  bool clocked = false;   ///< they have modes, the clocks to choose from
  std::unique_ptr<DraftModels> drafts;

  const models::Transformer& transformer() const { return layouts.front().transformer; }
  /// Devices that share the experts of one rank of expert parallelism.
  std::int64_t devices_a_rank() const {
    return std::max<std::int64_t>(1, tensor_parallel * data_parallel / expert_parallel);
  }
  /// What a KV cache and queue of its own serves: lanes of a pipeline share its devices' memory.
  std::int64_t pools() const { return stages > 1 && !one_scheduler ? lanes : 1; }
};

struct ServingSetup::State {
  ServingConfig config;
  models::ModelConfig model;
  std::optional<Infeasible> infeasible;
  MachineFacts machine;
  std::vector<std::unique_ptr<ReplicaKind>> kinds;
  std::vector<ReplicaKind*> kind_of;  ///< a group of replicas
  /// Over machine.network, by replica and layout: what is sent, and what that gets.
  std::vector<std::vector<LayoutTransfers>> transfers;
  std::vector<std::vector<LayoutPaths>> paths;
  std::vector<bool> meets_others;  ///< a replica: what it sends may meet other messages

  void build();
  bool enough_devices();
  /// Finds what the machine's network has for each replica; says where it has no way.
  bool measure_network();
  bool list_transfers();
  /// Of the replicas of a group the slowest, a layout.
  std::vector<LayoutPaths> slowest_paths(std::size_t group) const;
  /// A device of the kind, or that device at a clock, with the link that the network has for tensor parallelism.
  hw::Device on_network(const ReplicaKind& kind, std::size_t layout, hw::Device device) const;
  /// The link that the network has for what all lanes exchange; none: the device's.
  std::optional<hw::LinkParams> between_lanes(const ReplicaKind& kind) const;
  /// The link from a stage's device to the next stage's.
  hw::LinkParams between_stages(const ReplicaKind& kind, std::size_t layout) const;
  /// What replica `number` sends over the network as flows; null: nothing.
  std::shared_ptr<Wire> wire(const ReplicaKind& kind, std::size_t number, sim::Engine& engine,
                             hw::MessageCarrier& network) const;
  /// The same of the stages of each of its layouts.
  std::vector<std::vector<StageWires>> stage_wires(const ReplicaKind& kind, std::size_t number, sim::Engine& engine,
                                                   hw::MessageCarrier& network) const;
  const DevicePart& part(const ReplicaKind& kind) const {
    return config.parts[static_cast<std::size_t>(kind.device_group)];
  }
  /// Rewrites the config's graph for the kind's device; says why it cannot serve in one of the group's layouts.
  std::optional<std::string> make_graph(const ReplicaGroup& group, ReplicaKind& kind);
  /// What the passes make of it for a device.
  BuiltGraph rewritten(const hw::Device& device) const;
  /// The same, once for all configs of this model, device and passes.
  std::shared_ptr<const BuiltGraph> shared_rewritten(const DevicePart& part) const;
  /// What one of a layout's devices launches.
  std::shared_ptr<const DecoderKernels> make_kernels(const ReplicaKind& kind, const KindLayout& layout) const;
  std::optional<std::string> obstacle(const ReplicaKind& kind) const;
  std::optional<std::string> obstacle(const ReplicaKind& kind, const LayoutParams& layout) const;
  /// Makes what replays router choices over the kind's ranks, where there are any; says why the experts cannot be
  /// placed.
  std::optional<std::string> place_experts(ReplicaKind& kind) const;
  /// Gives a layout's devices slots for a share of the experts, where the config says; says why they cannot have them.
  std::optional<std::string> keep_experts(ReplicaKind& kind, KindLayout& layout) const;
  /// Who moves experts while a replica of the kind serves; null: nobody.
  std::shared_ptr<Rebalancer> rebalancer(const ReplicaKind& kind) const;
  /// How rows of experts travel between its ranks, where the config says.
  std::optional<ExpertExchange> expert_exchange(const ReplicaKind& kind) const;
  std::optional<std::string> make_layouts(const ReplicaGroup& group, ReplicaKind& kind);
  bool make_kind(const ReplicaGroup& group, ReplicaKind& kind);
  void divide_memory(const ReplicaGroup& group, ReplicaKind& kind);
  void make_models(ReplicaKind& kind);
  bool check_memory(const ReplicaGroup& group, const ReplicaKind& kind);
};

// ---- experts (setup_experts.cpp)

/// What halves of a batch that take turns exchange, where they are asked to; nothing where ranks exchange no rows.
std::optional<TurnExchanges> turns_of(const std::optional<ExpertExchange>& exchange, const models::Transformer& t,
                                      const hw::Device& device);
/// Adds the weights of so many experts more on a device, in every layer that has experts.
void add_redundant_experts(const models::Transformer& model, std::int64_t experts, DecoderMemory& memory);

}  // namespace orrery::experiments
