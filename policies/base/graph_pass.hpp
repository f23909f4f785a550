// Passes: policies that make the next graph from one.
//
// A pass sees a graph and a context: what runs it, which shapes are typical, how much memory there is. It returns a
// whole new graph. It has no state, so equal inputs give equal graphs. Its report is a list of figures, which stand in
// a run's summary under `passes.<pass>`.
//
// Contract: the new graph computes what the old one did (training passes add to it), passes verify(), and has its ops
// in an order of execution. A pass that finds nothing to do returns the graph as it is.
//
// Folders: fusion (what becomes one kernel, and by which library), memory (order, recomputation, saved tensors),
// placement (which device, which shard), training (casts, differentiation).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hw/base/cost_model.hpp"
#include "models/graph/graph_lowering.hpp"
#include "models/graph/graph_rewrite.hpp"
#include "models/graph/op_graph.hpp"
#include "models/graph/op_work.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// A device beside the one that runs the graph: some ops may go to it, in calls.
struct PassTarget {
  std::string name;  ///< that its ops carry (OpNode::target)
  const hw::CostModel* cost = nullptr;
  double launch_in_cost_s = 0;  ///< that the model's times hold for a launch
  double call_s = 0;            ///< of a call, however many ops it has
  double copy_latency_s = 0, copy_bandwidth = 1;

  /// Whether it can run an op at these sizes; of a fused op each inside.
  bool runs(const models::OpGraph& graph, models::OpId op, const models::Bindings& sizes) const;
  /// What an op costs inside a call: its kernels without their launches; of a fused op those of each inside.
  hw::Cost work(const models::OpGraph& graph, models::OpId op, const models::Bindings& sizes) const;
  double copy_s(std::int64_t bytes) const { return copy_latency_s + static_cast<double>(bytes) / copy_bandwidth; }
};

/// What a pass may know of where and how the graph will run.
struct PassContext {
  const hw::CostModel* cost = nullptr;  ///< the device's prices; null: none are known
  double launch_s = 0;                  ///< what a further launch costs beside its kernel, s
  std::int64_t scratch_bytes = 0;       ///< on-chip memory that a fused kernel's tiles may fill; 0: unknown
  std::int64_t memory_bytes = 0;        ///< of the device; 0: unknown
  models::Bindings typical;             ///< sizes to decide by
  std::vector<models::Bindings> seen;   ///< sizes that requests had, most recent last
  std::uint64_t seed = 1;
  std::vector<PassTarget> targets;  ///< of the machine
  /// By name; null: the machine has none of that name.
  const PassTarget* target(const std::string& name) const;

  /// Time of an op's kernels on the device for sizes, launches included, s. Throws std::logic_error without a cost.
  double time_s(const models::OpGraph& graph, models::OpId op, const models::Bindings& bindings) const;
  /// The same for all ops.
  double time_s(const models::OpGraph& graph, const models::Bindings& bindings) const;
};

/// What a pass tells of itself: figures in the order of telling, and lines for people.
struct PassReport {
  std::vector<std::pair<std::string, double>> figures;
  std::vector<std::string> notes;
  void tell(std::string figure, double value) { figures.emplace_back(std::move(figure), value); }
};

class GraphPass {
 public:
  virtual ~GraphPass() = default;
  /// Throws models::GraphError for a graph that it cannot take, with the reason.
  virtual models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const = 0;
};

/// Whether every size of the graph follows from the bindings.
bool sizes_known(const models::OpGraph& graph, const models::Bindings& bindings);

using PassRegistry = sim::Registry<GraphPass>;

/// Adds the passes of every folder.
void register_graph_passes(PassRegistry& registry);
/// One function a folder.
void register_fusion_passes(PassRegistry& registry);
void register_memory_passes(PassRegistry& registry);
void register_placement_passes(PassRegistry& registry);
void register_training_passes(PassRegistry& registry);

}  // namespace orrery::policies
