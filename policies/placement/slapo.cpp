// Slapo: a schedule of primitives, written as data, makes a model efficient without touching its definition.
//
// Decides nothing itself: it applies the schedule in order (slapo_schedule.hpp: replace, fuse, shard, sync, checkpoint,
// pipeline, cudagraph), neighbouring shard and sync primitives together, and tells what became of memory and
// communication. Memory of a device, with ZeRO stage z over Z ranks:
//   parameters / (Z if z = 3) + optimizer state / (Z if z >= 1) + gradients of parameters / (Z if z >= 2)
//   + the largest sum of live activations + with z = 3 the largest module's parameters, gathered
// Time of a step: kernels by the cost model, one after the other, and collectives by hw/network/library_collective.hpp.
// Source: Slapo (Chen et al., ASPLOS 2024; awslabs/slapo). Left out: overlap of collectives and kernels, the traffic of
// ZeRO, schedules of a pipeline's micro-batches, checks of numbers against the original (ours are of shapes).
#include <algorithm>
#include <map>
#include <set>

#include "hw/network/library_collective.hpp"
#include "models/graph/liveness.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/slapo_schedule.hpp"

namespace orrery::policies {
namespace {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::TensorId;
using models::TensorRole;

struct ZeroParams {
  std::int64_t stage = 0, ranks = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("stage", &ZeroParams::stage, sim::Unit::none, sim::between(0, 3),
                   "ZeRO stage, which says what is divided: 1: optimizer state; 2: also gradients; 3: also parameters; "
                   "0: nothing."),
        sim::field("ranks", &ZeroParams::ranks, sim::Unit::count, sim::at_least(1), "Number of data-parallel ranks.")};
  }
};

struct SlapoParams {
  std::vector<slapo::PrimitiveParams> schedule;
  std::int64_t ranks = 1;
  ZeroParams zero;
  std::optional<hw::LinkParams> link;

  static constexpr auto fields() {
    using P = SlapoParams;
    return sim::FieldTable{
        sim::field("schedule", &P::schedule, "Primitives of the schedule, applied in order."),
        sim::field("ranks", &P::ranks, sim::Unit::count, sim::at_least(1),
                   "Number of devices among which sharded tensors are divided."),
        sim::field("zero", &P::zero,
                   "ZeRO: what is divided among data-parallel ranks; it affects only the memory figure."),
        sim::field("link", &P::link, "Link between the ranks, for the time figure; null: collectives take no time."),
    };
  }
};

/// Parameters and gradients that optimizer steps pair, and what belongs to them.
struct Training {
  std::set<TensorId> gradients;
  explicit Training(const OpGraph& graph) {
    for (const OpId op : graph.ops()) {
      const OpNode& node = graph.op(op);
      if (node.kind != OpKind::optimizer_step) continue;
      const auto count = static_cast<std::size_t>(node.integer("parameters", 1));
      for (std::size_t i = count; i < 2 * count && i < node.inputs.size(); ++i)
        gradients.insert(models::storage_of(graph, node.inputs[i]));
    }
  }
};

/// Largest sum of activations that are live while an op runs; gradients of parameters are counted elsewhere.
double live_peak(const OpGraph& graph, const models::Bindings& bindings, const Training& training) {
  std::vector<double> change(graph.op_count() + 2, 0.0);
  for (const models::Lifetime& life : models::liveness(graph, bindings, false).lifetimes) {
    if (life.tensor && training.gradients.contains(*life.tensor)) continue;
    change[static_cast<std::size_t>(life.begin)] += static_cast<double>(life.bytes);
    change[static_cast<std::size_t>(life.end)] -= static_cast<double>(life.bytes);
  }
  double live = 0, peak = 0;
  for (const double step : change) peak = std::max(peak, live += step);
  return peak;
}

class SlapoPass final : public GraphPass {
 public:
  explicit SlapoPass(const SlapoParams& params) : params_(params) {
    sim::Faults faults;
    for (std::size_t i = 0; i < params.schedule.size(); ++i) {
      const std::string pointer = "/slapo/schedule/" + std::to_string(i);
      const slapo::PrimitiveParams& entry = params.schedule[i];
      if (entry.given() != 1)
        faults.add({{}, pointer}, "expected one primitive, got " + std::to_string(entry.given()),
                   "one of replace, fuse, shard, sync, checkpoint, pipeline, cudagraph");
      if (entry.shard && entry.shard->ranks.value_or(params.ranks) != params.ranks)
        faults.add({{}, pointer + "/shard/ranks"}, "expected the schedule's " + std::to_string(params.ranks) +
                                                       " ranks, got " + std::to_string(*entry.shard->ranks));
    }
    faults.throw_if_any();
  }

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    OpGraph now = graph;
    for (std::size_t i = 0; i < params_.schedule.size();) {
      const slapo::PrimitiveParams& entry = params_.schedule[i];
      if (entry.shard || entry.sync) {
        now = sharded(now, i);
        continue;
      }
      now = applied(now, entry, i++);
    }
    tell(graph, now, context, report);
    return now;
  }

 private:
  static OpGraph applied(const OpGraph& graph, const slapo::PrimitiveParams& entry, std::size_t i) {
    if (entry.replace) return slapo::replace(graph, *entry.replace, {i, "replace"});
    if (entry.fuse) return slapo::fuse(graph, *entry.fuse, {i, "fuse"});
    if (entry.checkpoint) return slapo::checkpoint(graph, *entry.checkpoint, {i, "checkpoint"});
    if (entry.pipeline) return slapo::pipeline(graph, *entry.pipeline, {i, "pipeline"});
    return slapo::cudagraph(graph, *entry.cudagraph, {i, "cudagraph"});
  }

  /// Applies the run of shard and sync primitives that begins at `i`, and steps over it.
  OpGraph sharded(const OpGraph& graph, std::size_t& i) const {
    std::vector<slapo::PlacedShard> shards;
    std::vector<slapo::PlacedSync> syncs;
    for (; i < params_.schedule.size(); ++i) {
      const slapo::PrimitiveParams& entry = params_.schedule[i];
      if (entry.shard)
        shards.push_back({*entry.shard, {i, "shard"}});
      else if (entry.sync)
        syncs.push_back({*entry.sync, {i, "sync"}});
      else
        break;
    }
    return params_.ranks == 1
               ? graph
               : slapo::shard(graph, slapo::divided_tensors(graph, shards, params_.ranks), syncs, params_.ranks);
  }

  void tell(const OpGraph& before, const OpGraph& graph, const PassContext& context, PassReport& report) const {
    const models::Bindings& sizes = context.typical;
    tell_ops(before, graph, sizes, report);
    tell_memory(graph, sizes, report);
    if (context.cost == nullptr) return;
    double kernels = 0, collectives = 0;
    for (const OpId op : graph.ops()) {
      kernels += context.time_s(graph, op, sizes);
      collectives += collective_s(graph, op, sizes);
    }
    report.tell("kernels_s", kernels);
    report.tell("collectives_s", collectives);
    report.tell("time_s", kernels + collectives);
  }

  static void tell_ops(const OpGraph& before, const OpGraph& graph, const models::Bindings& sizes, PassReport& report) {
    double reduces = 0, reduced = 0, sent = 0, captured = 0;
    std::map<std::string, double> stages;
    for (const OpId id : graph.ops()) {
      const OpNode& op = graph.op(id);
      if (op.kind == OpKind::all_reduce) {
        ++reduces;
        reduced += static_cast<double>(models::bytes_of(graph, op.inputs.front(), sizes));
      }
      if (op.kind == OpKind::send) sent += static_cast<double>(models::bytes_of(graph, op.inputs.front(), sizes));
      captured += op.find("capture") != nullptr ? 1 : 0;
      if (op.target.starts_with("stage."))
        stages[op.target] += static_cast<double>(*models::work(graph, id, sizes).flops().constant());
    }
    double largest = 0, total = 0;
    for (const auto& [stage, flops] : stages) {
      largest = std::max(largest, flops);
      total += flops;
    }
    const auto flops = [&](const OpGraph& g) {
      return static_cast<double>(*models::total_work(g, sizes).flops().constant());
    };
    report.tell("flops_ratio", flops(graph) / std::max(1.0, flops(before)));
    report.tell("all_reduces", reduces);
    report.tell("all_reduce_bytes", reduced);
    report.tell("captured_ops", captured);
    report.tell("stages", static_cast<double>(stages.size()));
    report.tell("stage_imbalance", total > 0 ? largest * static_cast<double>(stages.size()) / total : 1);
    report.tell("sent_bytes", sent);
  }

  void tell_memory(const OpGraph& graph, const models::Bindings& sizes, PassReport& report) const {
    const Training training(graph);
    double parameters = 0, state = 0, gradients = 0, saved = 0;
    std::map<std::string, double> of_module;
    for (const TensorId id : graph.tensors()) {
      const models::Tensor& tensor = graph.tensor(id);
      const auto bytes = static_cast<double>(models::bytes_of(graph, id, sizes));
      if (tensor.role == TensorRole::parameter) {
        parameters += bytes;
        if (!graph.consumers(id).empty()) of_module[graph.op(graph.consumers(id).front()).scope] += bytes;
      }
      if (tensor.role == TensorRole::state) state += bytes;
      if (tensor.saved) saved += bytes;
      if (training.gradients.contains(id)) gradients += bytes;
    }
    double gathered = 0;
    for (const auto& [scope, bytes] : of_module) gathered = std::max(gathered, bytes);
    const double live = live_peak(graph, sizes, training);
    const auto shared = [&](double bytes, std::int64_t from) {
      return params_.zero.stage >= from ? bytes / static_cast<double>(params_.zero.ranks) : bytes;
    };
    report.tell("parameter_bytes", parameters);
    report.tell("state_bytes", state);
    report.tell("gradient_bytes", gradients);
    report.tell("saved_bytes", saved);
    report.tell("live_bytes", live);
    report.tell("memory_bytes", shared(parameters, 3) + shared(state, 1) + shared(gradients, 2) + live +
                                    (params_.zero.stage >= 3 ? gathered : 0));
  }

  double collective_s(const OpGraph& graph, OpId id, const models::Bindings& sizes) const {
    const OpNode& op = graph.op(id);
    if (!params_.link || op.kind != OpKind::all_reduce) return 0;
    return hw::library_collective(*params_.link, hw::LibraryCall::all_reduce, op.integer("ranks", 1),
                                  models::bytes_of(graph, op.inputs.front(), sizes))
        .time_s;
  }

  SlapoParams params_;
};

}  // namespace

void add_slapo(PassRegistry& registry) {
  registry.add<SlapoParams>(
      "slapo", "Applies schedule primitives given as data: replace, fuse, shard, sync, checkpoint and others (Slapo).",
      [](const SlapoParams& params) { return std::make_unique<SlapoPass>(params); });
}

}  // namespace orrery::policies
