// The section `cluster` of a serving config: which replicas there are, and how they are made.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

/// Which part of a request's way a replica takes.
enum class Role : std::uint8_t {
  both,
  prefill,  ///< up to the first token; the KV cache then goes to a replica that decodes
  decode    ///< what others prefilled
};
constexpr auto enum_names(Role) {
  using enum Role;
  return sim::names<Role>({{"both", both}, {"prefill", prefill}, {"decode", decode}});
}

/// Whom the lanes of a pipelined replica take their requests from.
enum class LaneQueue : std::uint8_t {
  shared,   ///< one scheduler, one queue and one pool of KV blocks, as in Sarathi-Serve and vLLM 1
  per_lane  ///< each has its own of each, as the virtual engines of vLLM 0
};
constexpr auto enum_names(LaneQueue) {
  using enum LaneQueue;
  return sim::names<LaneQueue>({{"shared", shared}, {"per_lane", per_lane}});
}

/// Equal replicas.
struct ReplicaGroupParams {
  std::string name = "replicas";
  std::int64_t count = 1;
  std::int64_t device_group = 0;
  std::optional<std::int64_t> tensor_parallel;
  std::int64_t pipeline_parallel = 1;
  std::int64_t data_parallel = 1;
  std::optional<std::int64_t> expert_parallel;
  bool lock_step = true;
  std::optional<std::int64_t> micro_batches;
  LaneQueue queue = LaneQueue::shared;
  Role role = Role::both;
  double weight = 1;
  std::optional<policies::BatchingRegistry::Choice> batching;
  std::optional<policies::KvCacheRegistry::Choice> kvcache;

  static sim::FieldRows<ReplicaGroupParams> fields();
};

/// How KV caches get from one replica to another.
struct TransferParams {
  double bandwidth = 50e9;
  double latency_s = 5e-6;
  double fixed_s = 0;

  static sim::FieldRows<TransferParams> fields();
};

/// One replica that fails once.
struct OutageParams {
  std::int64_t replica = 0;
  double time_s = 0;
  double duration_s = 60;

  static sim::FieldRows<OutageParams> fields();
};

/// Replicas that fail. Their requests lose their KV cache and go through the router again.
struct FailureParams {
  std::optional<double> mtbf_s;
  double mttr_s = 300;
  std::int64_t retries = 100;
  std::vector<OutageParams> at;

  static sim::FieldRows<FailureParams> fields();
};

/// What it takes to bring a replica up (experiments/systems/serving/cluster/cold_start.hpp).
struct ColdStartParams {
  double scheduling_s = 0;
  std::int64_t schedulers = 1;
  std::int64_t reserved = 0;
  double select_s = 0, create_s = 0;
  std::int64_t creators = 16;
  double code_s = 0;
  double storage_bandwidth = 6.8e9;
  std::int64_t loads = 4096;

  static sim::FieldRows<ColdStartParams> fields();
};

/// Replicas that come and go with the load.
struct ScalingParams {
  std::int64_t least = 1;
  std::optional<std::int64_t> initial;
  double interval_s = 10;
  double off_power = 0;
  ColdStartParams start;

  static sim::FieldRows<ScalingParams> fields();
};

struct ClusterParams {
  std::vector<ReplicaGroupParams> replicas;
  TransferParams transfer;
  FailureParams failures;
  ScalingParams scaling, decode_scaling;

  static sim::FieldRows<ClusterParams> fields();
};

/// Devices that serve as one: TP x PP.
struct LayoutParams {
  std::int64_t tensor_parallel = 1;
  std::int64_t pipeline_parallel = 1;
  std::int64_t devices() const { return tensor_parallel * pipeline_parallel; }

  static sim::FieldRows<LayoutParams> fields();
};

/// Layouts that a replica may switch between.
struct LayoutsParams {
  std::vector<LayoutParams> modes;
  double host_bandwidth = 16.0 * (1 << 30);
  double host_memory = 80.0 * (1 << 30);
  bool empty() const { return modes.empty(); }

  static sim::FieldRows<LayoutsParams> fields();
};

/// A group as read: parameters and the policies that its replicas run.
struct ReplicaGroup {
  ReplicaGroupParams params;
  std::int64_t tensor_parallel = 1;   ///< as it comes out
  std::vector<LayoutParams> layouts;  ///< the section's modes, or the one layout that the group has
  policies::BatchingRegistry::Choice batching;
  policies::KvCacheRegistry::Choice kvcache;

  /// Stages of its layout with most of them.
  std::int64_t stages() const {
    std::int64_t most = 1;
    for (const LayoutParams& layout : layouts) most = std::max(most, layout.pipeline_parallel);
    return most;
  }
  /// Iterations of a replica that can be under way at once.
  std::int64_t lanes() const { return stages() == 1 ? params.data_parallel : params.micro_batches.value_or(stages()); }
  /// Whether these have one scheduler, queue and pool of KV blocks.
  bool one_scheduler() const { return stages() > 1 && params.queue == LaneQueue::shared; }
  /// Of one replica.
  std::int64_t devices() const { return tensor_parallel * params.pipeline_parallel * params.data_parallel; }
};

/// The link that running requests migrate over.
struct MigrationParams {
  double bandwidth = 2.6e9;
  double handshake_s = 9e-3;
  double interval_s = 0.2;

  static sim::FieldRows<MigrationParams> fields();
};

}  // namespace orrery::experiments
