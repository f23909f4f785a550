// Expert placement: which GPU holds which experts of each layer, and which experts it holds twice.
//
// A policy sees what experts were asked for and answers for all layers. Contract: a pure function of the view; each
// expert of a layer has at least one slot, and `view.slots` are filled in all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

struct ExpertPlacementView {
  std::int64_t gpus = 1, nodes = 1;
  std::int64_t slots = 1;   ///< of a layer, over all GPUs; more than experts: some have replicas
  std::int64_t groups = 1;  ///< of experts, that routing limited to groups keeps on one node
  /// Tokens (or any other measure) that chose each expert, layer by layer. All layers have as many experts.
  std::vector<std::vector<double>> loads;
  /// Between each layer and the next: tokens that chose expert a here and b there, at a * experts + b. Empty where they
  /// are not known.
  std::vector<std::vector<double>> transitions;

  std::int64_t experts() const { return loads.empty() ? 0 : static_cast<std::int64_t>(loads.front().size()); }
};

/// Of one layer, slot after slot. A GPU's slots stand together, GPU 0 first; GPUs may have unlike many.
struct LayerPlacement {
  std::vector<std::int64_t> expert, gpu;
};

class ExpertPlacement {
 public:
  virtual ~ExpertPlacement() = default;
  virtual std::vector<LayerPlacement> place(const ExpertPlacementView& view) const = 0;
  /// Why it has no answer to a view that placement_obstacle() lets pass; empty: it has one.
  virtual std::string obstacle(const ExpertPlacementView&) const { return {}; }
};

using ExpertPlacementRegistry = sim::Registry<ExpertPlacement>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_expert_placements(ExpertPlacementRegistry& registry);

/// Why no policy can answer: no GPU, slots that GPUs or nodes cannot share, fewer slots than experts. Empty: nothing.
std::string placement_obstacle(const ExpertPlacementView& view);

/// What each GPU gets of `loads` (by expert) if the replicas of an expert share its load alike.
std::vector<double> gpu_loads(const LayerPlacement& placement, const std::vector<double>& loads, std::int64_t gpus);

/// Slots of `experts`, a GPU's all together and alike many.
LayerPlacement even_slots(std::vector<std::int64_t> experts, std::int64_t gpus);

/// Shares items out to `packs` of equally many: in the order of falling weight (of equals the first) each goes to the
/// lightest pack that has room (of equals the first).
struct Packed {
  std::vector<std::int64_t> pack, place;  ///< by item; its place in the pack, in the order of arrival
};
Packed pack_evenly(const std::vector<double>& weights, std::int64_t packs);

}  // namespace orrery::policies
