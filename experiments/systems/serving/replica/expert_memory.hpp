// Experts of a replica beyond what its devices hold: what is there, what is copied, who waits, iteration by iteration.
//
// An iteration is priced as if all experts were on the devices. Then its layers are played with what its tokens choose
// (ExpertLayers): the time beside the experts' products, in equal parts, is what copies ahead have; what copies and the
// host take beyond the products is added. With all experts on the devices nothing is. Between two iterations copies go
// on. What the host of the engine does comes after (HostTime): it waits for nothing here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/experts/expert_layers.hpp"
#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "experiments/systems/serving/pricing/router_replay.hpp"

namespace orrery::experiments {

/// What all replicas of a kind have in common.
struct ExpertMemoryPlan {
  ExpertMemoryPolicies policies;
  ExpertTimes times;
  std::shared_ptr<const RouterReplay> replay;
  std::vector<std::int64_t> routed;                 ///< layers of the model that have experts
  std::vector<std::vector<traces::ExpertId>> past;  ///< choices before the run: by layer, or of all (`pooled`) one
  ExpertLayersSetup setup;                          ///< its spans are of `past`
};

/// The tokens of an iteration, as a router trace has them.
class ReplayedStep final : public StepChoices {
 public:
  explicit ReplayedStep(const ExpertMemoryPlan& plan) : plan_(plan) {}
  void begin(const BatchShape& shape);
  std::optional<std::span<const traces::ExpertId>> of(std::size_t layer, std::int64_t ahead) const override;
  std::span<const std::uint16_t> scores(std::size_t layer) const override { return chosen_[at_[layer]].scores; }

 private:
  /// What the tokens of some segments choose in a layer of the trace.
  struct Chosen {
    std::vector<std::size_t> segments;
    std::size_t layer = 0;
    std::vector<traces::ExpertId> experts;
    std::vector<std::uint16_t> scores;
  };
  std::size_t find(const std::vector<std::size_t>& segments, std::size_t layer);

  const ExpertMemoryPlan& plan_;
  std::vector<std::vector<RouterReplay::Stretch>> stretches_;  // by segment
  std::vector<Chosen> chosen_;
  std::size_t used_ = 0;         // of chosen_, by this iteration
  std::vector<std::size_t> at_;  // by layer with experts: where in chosen_
};

class ExpertMemory {
 public:
  explicit ExpertMemory(std::shared_ptr<const ExpertMemoryPlan> plan);

  /// An iteration begins: `price` is what it takes with all experts on the devices, and becomes what it takes.
  void begin(const BatchShape& shape, const ExactTime& at, std::int64_t ps_per_tick, IterationPrice& price);
  /// What the iteration under way costs beyond that: waiting (class copy), copies, and the products that devices have
  /// otherwise: what the host computes they do not.
  const IterationCost& beside() const { return beside_; }
  /// Of the iteration under way.
  const ExpertTotals& totals() const { return layers_.totals(); }

 private:
  Priced all_on_devices(std::size_t layer);
  void settle(std::int64_t extra_ps, const Priced& all);

  std::shared_ptr<const ExpertMemoryPlan> plan_;
  ReplayedStep step_;
  ExpertLayers layers_;
  std::optional<ExactTime> begun_;  // the last iteration, …
  std::int64_t lasted_ps_ = 0;      // … and how long it was played
  IterationCost beside_;
  std::vector<std::int64_t> tokens_, rows_;  // by expert; of those with any
};

}  // namespace orrery::experiments
