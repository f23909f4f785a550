// What a part of the model costs a rank: the kernels of its graph on the machine's device, its collectives, its
// launches.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/base/graph_model.hpp"
#include "experiments/systems/training/expert_load.hpp"
#include "experiments/systems/training/layer_graph.hpp"
#include "experiments/systems/training/machine.hpp"
#include "experiments/systems/training/plan.hpp"

namespace orrery::experiments::training {

/// One pass of a micro-batch through a part. Seconds, joules.
struct PassCost {
  double kernel_s = 0;      ///< on the device, one after the other
  double collective_s = 0;  ///< of tensor and context parallelism, between the kernels
  double exchange_s = 0;    ///< of collective_s: rows on their way to experts and back
  double host_s = 0;        ///< of the thread that launches them
  double flops = 0;         ///< of products
  double energy_j = 0;      ///< dynamic, of kernels and of what the rank sends
  std::int64_t kernels = 0;

  PassCost& operator+=(const PassCost& other);
  PassCost times(double count) const;
  /// The device waits for the host, or the host runs ahead of it.
  double length_s() const { return std::max(kernel_s + collective_s, host_s); }
};

/// What a rank holds of parameters that one group of ranks has copies of.
struct HeldCosts {
  PassCost optimizer;                              ///< of all its parameters
  std::int64_t parameters = 0;                     ///< that the rank holds
  std::int64_t weight_bytes = 0, state_bytes = 0;  ///< state: of the optimizer
  std::int64_t largest_bytes = 0;                  ///< weights of the largest parameter

  HeldCosts& operator+=(const HeldCosts& other);
  HeldCosts times(std::int64_t count) const;
};

/// A part for a micro-batch; bytes are of one rank.
struct PartCosts {
  PassCost forward, core, by_op;  ///< core, by_op: of the forward pass, what those kinds of recomputation repeat
  PassCost backward_input, backward_weight;
  PassCost gathered_again;   ///< of backward_weight: what a forward pass that runs again has gathered already
  HeldCosts dense, experts;  ///< parameters of experts apart: fewer ranks have copies of them
  HeldCosts all() const;
  std::int64_t saved_bytes = 0;       ///< activations kept from the forward to the backward pass
  std::int64_t core_saved_bytes = 0;  ///< of these, what selective recomputation makes anew
  std::int64_t by_op_kept_bytes = 0;  ///< made by what recomputation by op does not run again
  std::int64_t working_bytes = 0;     ///< most that is live at a time in a pass beside what is kept
};

struct ModelCosts {
  std::array<PartCosts, kParts> parts;
  std::int64_t boundary_bytes = 0;  ///< of the activations between two layers, of a rank
  std::int64_t layers = 0;
  std::int64_t before = 0;  ///< layers that the embedding's part has
  HeldCosts table;          ///< that embedding and head both read; no optimizer
  const PartCosts& part(PartName name) const { return parts[index(name)]; }
};

/// The model of a config: its forward graph, what it trains by, and what passes are run.
struct TrainedModel {
  models::OpGraph forward;
  std::vector<ChosenPass> passes;  ///< on the differentiated graph of a rank
  sim::Origin passes_at;
  std::int64_t sequence = 1024;
  std::optional<ExpertLoad> expert_load;  ///< none: experts are chosen alike
};

/// Costs by how a layer is shared, each worked out once.
class CostTable {
 public:
  CostTable(const TrainingMachine& machine, const TrainedModel& model);
  /// Why ranks cannot share the model so; nothing if they can.
  std::optional<std::string> obstacle(const LayerShare& share);
  const ModelCosts& costs(const LayerShare& share);
  /// What a rank of tensor parallelism runs; its `tokens` are those of a rank of context parallelism.
  const LayerGraph& graph(std::int64_t tensor, bool sequence, std::int64_t experts = 1, std::int64_t step_casts = 0);
  /// Sizes of the tokens that a rank has of a micro-batch.
  models::Bindings sizes(const LayerShare& share) const;
  /// Rows of the busiest rank's experts over the mean, of a micro-batch; 1: all alike, or nobody shares experts out.
  double busiest(const LayerShare& share);
  std::int64_t layers() const { return layers_; }
  /// Whether there is anything between the products of attention: what selective recomputation runs again.
  bool has_core();
  /// Of a layer; 0: none.
  std::int64_t experts() const { return expert_count_; }
  /// For whoever has changed the machine.
  void forget_prices() { costs_.clear(); }

 private:
  const TrainingMachine& machine_;
  const TrainedModel& model_;
  /// On ranks that follow one another.
  const PlacedExperts& placed(std::int64_t ranks);
  ModelCosts priced(const LayerShare& share, const models::Bindings& sizes, const models::Bindings& sequence);
  /// Of layers with such a window.
  const LayerGraph& graph_of(std::int64_t window, std::int64_t tensor, bool sequence, std::int64_t experts,
                             std::int64_t step_casts);
  const models::OpGraph& step(std::int64_t experts, std::int64_t step_casts);

  models::OpGraph forward_;                                                 ///< of one layer
  std::map<std::pair<std::int64_t, std::int64_t>, models::OpGraph> steps_;  ///< differentiated
  std::set<std::string> experts_;                                           ///< names of their weights
  std::int64_t layers_ = 0, before_ = 0, expert_count_ = 0;
  std::map<std::int64_t, std::int64_t> windows_;  ///< of attention, and how many layers have them
  std::map<std::tuple<std::int64_t, std::int64_t, bool, std::int64_t, std::int64_t>, LayerGraph> graphs_;
  std::map<LayerShare, ModelCosts> costs_;
  std::map<std::int64_t, PlacedExperts> placed_;                     ///< by ranks
  std::map<std::pair<std::int64_t, std::int64_t>, double> busiest_;  ///< by ranks and tokens
};

}  // namespace orrery::experiments::training
