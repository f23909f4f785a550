#include "experiments/systems/serving/config/cluster_config.hpp"

namespace orrery::experiments {

sim::FieldRows<ReplicaGroupParams> ReplicaGroupParams::fields() {
  using G = ReplicaGroupParams;
  static const sim::FieldTable table{
      sim::field("name", &G::name, "Name of the group in the summary."),
      sim::field("count", &G::count, sim::Unit::count, sim::between(1, 16384), "Number of replicas in the group."),
      sim::field("device_group", &G::device_group, sim::Unit::none, sim::at_least(0),
                 "Group of machine.devices that the replicas are built from, counted from 0."),
      sim::field("tensor_parallel", &G::tensor_parallel, sim::Unit::count, sim::at_least(1),
                 "Devices that split every layer (tensor parallelism); null: replica.tensor_parallel, or 1 if that is "
                 "not given."),
      sim::field("pipeline_parallel", &G::pipeline_parallel, sim::Unit::count, sim::between(1, 1024),
                 "Pipeline stages that divide the layers, each of tensor_parallel devices."),
      sim::field("data_parallel", &G::data_parallel, sim::Unit::count, sim::between(1, 1024),
                 "Data-parallel lanes of tensor_parallel devices, each with its own KV cache and requests; they share "
                 "the experts. Not together with pipeline_parallel."),
      sim::field("lock_step", &G::lock_step,
                 "Whether the iterations of data-parallel lanes begin and end together, because they share the "
                 "experts; if not, each lane runs by itself."),
      sim::field("expert_parallel", &G::expert_parallel, sim::Unit::count, sim::at_least(1),
                 "Groups of a replica's devices that divide the experts among them; null: replica.expert_parallel."),
      sim::field("micro_batches", &G::micro_batches, sim::Unit::count, sim::between(1, 4096),
                 "Lanes of a pipelined replica, that is, batches in flight at most; null: one per stage."),
      sim::field("queue", &G::queue,
                 "Request queue of a pipelined replica. `shared`: one scheduler, queue and pool of KV blocks for all "
                 "lanes (as in Sarathi-Serve and vLLM 1). `per_lane`: each lane has a queue and its share of the "
                 "blocks (as the virtual engines of vLLM 0)."),
      sim::field("role", &G::role, "Which part of a request these replicas serve: prefill, decode or both."),
      sim::field("weight", &G::weight, sim::Unit::none, sim::positive(),
                 "Weight of these replicas in routing: routers divide a replica's load by it."),
      sim::only_if_given(sim::choice("batching", &G::batching, "sarathi",
                                     "Batching policy of this group, in place of policies.batching.")),
      sim::only_if_given(
          sim::choice("kvcache", &G::kvcache, "paged", "KV cache of this group, in place of policies.kvcache."))};
  return table;
}

sim::FieldRows<TransferParams> TransferParams::fields() {
  using T = TransferParams;
  static const sim::FieldTable table{
      sim::field("bandwidth", &T::bandwidth, sim::Unit::bytes_per_s, sim::between(1e4, 1e15),
                 "Bandwidth of a replica's link, each way (the default is one port of 400 Gbit/s)."),
      sim::field("latency", &T::latency_s, sim::Unit::seconds, sim::at_least(0),
                 "Latency from one replica to another."),
      sim::field("fixed", &T::fixed_s, sim::Unit::seconds, sim::at_least(0),
                 "Time added to every transfer: set-up, registration, the hand-over between engines.")};
  return table;
}

sim::FieldRows<OutageParams> OutageParams::fields() {
  using O = OutageParams;
  static const sim::FieldTable table{
      sim::field("replica", &O::replica, sim::Unit::none, sim::at_least(0),
                 "Number of the replica that fails, counted from 0 over all groups."),
      sim::required(
          sim::field("time", &O::time_s, sim::Unit::seconds, sim::at_least(0), "Time at which the replica fails.")),
      sim::field("duration", &O::duration_s, sim::Unit::seconds, sim::at_least(0), "How long the replica stays down.")};
  return table;
}

sim::FieldRows<FailureParams> FailureParams::fields() {
  using F = FailureParams;
  static const sim::FieldTable table{
      sim::field(
          "mtbf", &F::mtbf_s, sim::Unit::seconds, sim::between(1, 1e12),
          "Mean time that a replica stays up before it fails, exponentially distributed; null: none fails at random."),
      sim::field("mttr", &F::mttr_s, sim::Unit::seconds, sim::at_least(0),
                 "Mean time to repair, exponentially distributed, restart and loading of weights included."),
      sim::field(
          "retries", &F::retries, sim::Unit::count, sim::at_least(0),
          "How often a request may start over after a failure; at the next failure it is rejected (\"failures\")."),
      sim::field("at", &F::at, "Failures of given replicas at given times.")};
  return table;
}

sim::FieldRows<ColdStartParams> ColdStartParams::fields() {
  using C = ColdStartParams;
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("scheduling", &C::scheduling_s, Unit::seconds, sim::at_least(0),
                 "Time that a scheduler takes to place a replica."),
      sim::field("schedulers", &C::schedulers, Unit::count, sim::between(1, 4096),
                 "Replicas that can be placed at the same time."),
      sim::field("reserved", &C::reserved, Unit::count, sim::between(0, 4096), "Pods kept ready in a pool."),
      sim::field("select", &C::select_s, Unit::seconds, sim::at_least(0), "Time to take a pod from the pool."),
      sim::field("create", &C::create_s, Unit::seconds, sim::at_least(0),
                 "Time to create a pod, when the pool is empty or is refilled."),
      sim::field("creators", &C::creators, Unit::count, sim::between(1, 4096),
                 "Pods that can be created at the same time."),
      sim::field("code", &C::code_s, Unit::seconds, sim::at_least(0), "Time to start the server's program."),
      sim::field(
          "storage_bandwidth", &C::storage_bandwidth, Unit::bytes_per_s, sim::positive(),
          "Bandwidth at which each device's weights are loaded from storage (the default is that of one nvme-gen4)."),
      sim::field("loads", &C::loads, Unit::count, sim::between(1, 4096),
                 "Replicas that can load weights at the same time, each at that bandwidth.")};
  return table;
}

sim::FieldRows<ScalingParams> ScalingParams::fields() {
  using S = ScalingParams;
  static const sim::FieldTable table{
      sim::field("least", &S::least, sim::Unit::count, sim::at_least(0),
                 "Fewest replicas that stay up; the most is all replicas of the cluster."),
      sim::field("initial", &S::initial, sim::Unit::count, sim::at_least(0),
                 "Replicas that are up at the start; null: `least`."),
      sim::field("interval", &S::interval_s, sim::Unit::seconds, sim::between(1e-3, 1e6),
                 "Time between two scaling decisions."),
      sim::field("off_power", &S::off_power, sim::Unit::ratio, sim::between(0, 1),
                 "Power of a device whose replica is off, as a share of its idle power."),
      sim::field("start", &S::start, "What it takes to bring a replica up (cold start).")};
  return table;
}

sim::FieldRows<ClusterParams> ClusterParams::fields() {
  static const sim::FieldTable table{
      sim::field("replicas", &ClusterParams::replicas,
                 "Groups of equal replicas; empty: one replica as section `replica` says."),
      sim::field("transfer", &ClusterParams::transfer,
                 "The links over which KV caches move from prefill to decode replicas."),
      sim::field("failures", &ClusterParams::failures, "Failures of replicas, at random or at given times."),
      sim::field("scaling", &ClusterParams::scaling, "Replicas that start and stop, as policies.scaling decides."),
      sim::field("decode_scaling", &ClusterParams::decode_scaling,
                 "Replicas of role `decode` that start and stop, as policies.decode_scaling decides.")};
  return table;
}

sim::FieldRows<LayoutParams> LayoutParams::fields() {
  static const sim::FieldTable table{
      sim::field("tensor_parallel", &LayoutParams::tensor_parallel, sim::Unit::count, sim::between(1, 4096),
                 "Devices that split every layer (tensor parallelism)."),
      sim::field("pipeline_parallel", &LayoutParams::pipeline_parallel, sim::Unit::count, sim::between(1, 4096),
                 "Pipeline stages that the layers are divided into.")};
  return table;
}

sim::FieldRows<LayoutsParams> LayoutsParams::fields() {
  static const sim::FieldTable table{
      sim::field("modes", &LayoutsParams::modes,
                 "Layouts that the policy may switch between, the first at the start, all with the same number of "
                 "devices; empty: replica.tensor_parallel. Without cluster.replicas there are as many replicas as the "
                 "devices suffice for."),
      sim::field("host_bandwidth", &LayoutsParams::host_bandwidth, sim::Unit::bytes_per_s, sim::positive(),
                 "Bandwidth between host memory and one device, each way, for weights when layouts change and for "
                 "swapped KV."),
      sim::field("host_memory", &LayoutsParams::host_memory, sim::Unit::bytes, sim::at_least(0),
                 "Host memory for swapped KV, per device; 0: none.")};
  return table;
}

sim::FieldRows<MigrationParams> MigrationParams::fields() {
  static const sim::FieldTable table{
      sim::field(
          "bandwidth", &MigrationParams::bandwidth, sim::Unit::bytes_per_s, sim::at_least(0),
          "Bandwidth of a copy between two replicas, over all devices of a replica together; 0: nothing migrates."),
      sim::field("handshake", &MigrationParams::handshake_s, sim::Unit::seconds, sim::between(0, 60),
                 "Time added to each stage of a migration: messages, allocation."),
      sim::field("interval", &MigrationParams::interval_s, sim::Unit::seconds, sim::between(1e-3, 1e6),
                 "Time between two checks of the loads.")};
  return table;
}

}  // namespace orrery::experiments
