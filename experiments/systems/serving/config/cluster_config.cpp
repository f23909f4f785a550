#include "experiments/systems/serving/config/cluster_config.hpp"

namespace orrery::experiments {

sim::FieldRows<ReplicaGroupParams> ReplicaGroupParams::fields() {
  using G = ReplicaGroupParams;
  static const sim::FieldTable table{
      sim::field("name", &G::name, "What the summary calls them."),
      sim::field("count", &G::count, sim::Unit::count, sim::between(1, 16384), "How many equal replicas."),
      sim::field("device_group", &G::device_group, sim::Unit::none, sim::at_least(0),
                 "The group of machine.devices that they are made of, counted from 0."),
      sim::field("tensor_parallel", &G::tensor_parallel, sim::Unit::count, sim::at_least(1),
                 "Devices that share every layer; null: replica.tensor_parallel, else 1."),
      sim::field("pipeline_parallel", &G::pipeline_parallel, sim::Unit::count, sim::between(1, 1024),
                 "Stages that share the layers, each of tensor_parallel devices."),
      sim::field("data_parallel", &G::data_parallel, sim::Unit::count, sim::between(1, 1024),
                 "Lanes of tensor_parallel devices each, with KV cache and requests of their own, that meet in the "
                 "experts; not together with pipeline_parallel."),
      sim::field("lock_step", &G::lock_step,
                 "Whether the iterations of these lanes begin and end together, for they meet in the experts; if "
                 "not, each goes on by itself."),
      sim::field("expert_parallel", &G::expert_parallel, sim::Unit::count, sim::at_least(1),
                 "Groups of all these devices that share out the experts; null: replica.expert_parallel."),
      sim::field("micro_batches", &G::micro_batches, sim::Unit::count, sim::between(1, 4096),
                 "Lanes of a pipelined replica: batches in flight at most; null: one a stage."),
      sim::field("queue", &G::queue,
                 "Of a pipelined replica. `shared`: one scheduler, queue and pool of KV blocks for all lanes (as in "
                 "Sarathi-Serve and vLLM 1). `per_lane`: each lane has a queue and its share of the blocks (as the "
                 "virtual engines of vLLM 0)."),
      sim::field("role", &G::role, "Which part of a request they do."),
      sim::field("weight", &G::weight, sim::Unit::none, sim::positive(),
                 "Their share of the load against other replicas: routers divide loads by it."),
      sim::only_if_given(
          sim::choice("batching", &G::batching, "sarathi", "A batching policy of their own, as in policies.batching.")),
      sim::only_if_given(
          sim::choice("kvcache", &G::kvcache, "paged", "A KV cache of their own, as in policies.kvcache."))};
  return table;
}

sim::FieldRows<TransferParams> TransferParams::fields() {
  using T = TransferParams;
  static const sim::FieldTable table{
      sim::field("bandwidth", &T::bandwidth, sim::Unit::bytes_per_s, sim::between(1e4, 1e15),
                 "Of a replica's links, each way (the default is one port of 400 Gbit/s)."),
      sim::field("latency", &T::latency_s, sim::Unit::seconds, sim::at_least(0), "From replica to replica."),
      sim::field("fixed", &T::fixed_s, sim::Unit::seconds, sim::at_least(0),
                 "Added to every transfer: set-up, registration, the hand-over between engines.")};
  return table;
}

sim::FieldRows<OutageParams> OutageParams::fields() {
  using O = OutageParams;
  static const sim::FieldTable table{
      sim::field("replica", &O::replica, sim::Unit::none, sim::at_least(0), "Its number, counted over all groups."),
      sim::required(sim::field("time", &O::time_s, sim::Unit::seconds, sim::at_least(0), "When it fails.")),
      sim::field("duration", &O::duration_s, sim::Unit::seconds, sim::at_least(0), "How long it is away.")};
  return table;
}

sim::FieldRows<FailureParams> FailureParams::fields() {
  using F = FailureParams;
  static const sim::FieldTable table{
      sim::field("mtbf", &F::mtbf_s, sim::Unit::seconds, sim::between(1, 1e12),
                 "Mean time that a replica is up, exponential; null: none fails at random."),
      sim::field("mttr", &F::mttr_s, sim::Unit::seconds, sim::at_least(0),
                 "Mean time that it then is down, exponential (restart and loading of weights included)."),
      sim::field("retries", &F::retries, sim::Unit::count, sim::at_least(0),
                 "Times that a request starts over; at the next failure it is rejected (\"failures\")."),
      sim::field("at", &F::at, "Failures at given times.")};
  return table;
}

sim::FieldRows<ColdStartParams> ColdStartParams::fields() {
  using C = ColdStartParams;
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("scheduling", &C::scheduling_s, Unit::seconds, sim::at_least(0), "To place it."),
      sim::field("schedulers", &C::schedulers, Unit::count, sim::between(1, 4096), "Placed at once."),
      sim::field("reserved", &C::reserved, Unit::count, sim::between(0, 4096), "Pods that stand ready in a pool."),
      sim::field("select", &C::select_s, Unit::seconds, sim::at_least(0), "To take one of these."),
      sim::field("create", &C::create_s, Unit::seconds, sim::at_least(0), "To make one from scratch."),
      sim::field("creators", &C::creators, Unit::count, sim::between(1, 4096), "Made at once."),
      sim::field("code", &C::code_s, Unit::seconds, sim::at_least(0), "To start the server's program."),
      sim::field("storage_bandwidth", &C::storage_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "At which each device's weights come from storage (the default is that of one nvme-gen4)."),
      sim::field("loads", &C::loads, Unit::count, sim::between(1, 4096), "Replicas that load at once at this rate.")};
  return table;
}

sim::FieldRows<ScalingParams> ScalingParams::fields() {
  using S = ScalingParams;
  static const sim::FieldTable table{
      sim::field("least", &S::least, sim::Unit::count, sim::at_least(0), "Fewest replicas; the most is all there are."),
      sim::field("initial", &S::initial, sim::Unit::count, sim::at_least(0),
                 "Replicas that are up at the start; null: the fewest."),
      sim::field("interval", &S::interval_s, sim::Unit::seconds, sim::between(1e-3, 1e6),
                 "Time between two decisions."),
      sim::field("off_power", &S::off_power, sim::Unit::ratio, sim::between(0, 1),
                 "Power of a device whose replica is off, as a share of its idle power."),
      sim::field("start", &S::start, "What it takes to bring a replica up.")};
  return table;
}

sim::FieldRows<ClusterParams> ClusterParams::fields() {
  static const sim::FieldTable table{
      sim::field("replicas", &ClusterParams::replicas,
                 "Groups of equal replicas; none: one replica as section `replica` says."),
      sim::field("transfer", &ClusterParams::transfer, "How KV caches get from replica to replica."),
      sim::field("failures", &ClusterParams::failures, "Replicas that fail."),
      sim::field("scaling", &ClusterParams::scaling, "Replicas that come and go, as policies.scaling decides."),
      sim::field("decode_scaling", &ClusterParams::decode_scaling,
                 "The same for replicas of role 'decode', as policies.decode_scaling decides.")};
  return table;
}

sim::FieldRows<LayoutParams> LayoutParams::fields() {
  static const sim::FieldTable table{sim::field("tensor_parallel", &LayoutParams::tensor_parallel, sim::Unit::count,
                                                sim::between(1, 4096), "Devices that share every layer."),
                                     sim::field("pipeline_parallel", &LayoutParams::pipeline_parallel, sim::Unit::count,
                                                sim::between(1, 4096), "Stages that the layers are divided into.")};
  return table;
}

sim::FieldRows<LayoutsParams> LayoutsParams::fields() {
  static const sim::FieldTable table{
      sim::field("modes", &LayoutsParams::modes,
                 "Layouts that the policy may switch between, the first at the start, all of equally many devices; "
                 "none: replica.tensor_parallel. Without cluster.replicas, as many replicas as devices suffice for."),
      sim::field("host_bandwidth", &LayoutsParams::host_bandwidth, sim::Unit::bytes_per_s, sim::positive(),
                 "Between host memory and one device, each way: weights when layouts change, swapped KV."),
      sim::field("host_memory", &LayoutsParams::host_memory, sim::Unit::bytes, sim::at_least(0),
                 "Host memory for swapped KV, a device; 0: none.")};
  return table;
}

sim::FieldRows<MigrationParams> MigrationParams::fields() {
  static const sim::FieldTable table{
      sim::field("bandwidth", &MigrationParams::bandwidth, sim::Unit::bytes_per_s, sim::at_least(0),
                 "Of a copy between two replicas, all devices of one together; 0: nothing migrates."),
      sim::field("handshake", &MigrationParams::handshake_s, sim::Unit::seconds, sim::between(0, 60),
                 "Added to each stage: messages, allocation."),
      sim::field("interval", &MigrationParams::interval_s, sim::Unit::seconds, sim::between(1e-3, 1e6),
                 "Between two looks at the loads.")};
  return table;
}

}  // namespace orrery::experiments
