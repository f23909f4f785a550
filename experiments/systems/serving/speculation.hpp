// The models behind speculation: what drafting costs, what it needs of memory, and prices for choosing a length.
//
// Drafting happens between two iterations of the target on the same devices: as many steps as the longest proposal
// has tokens, each one iteration of the draft model with one token of every sequence. A draft model also computes all
// prompts. Nothing overlaps. Verification is an iteration of the target in which a sequence has 1 + drafts tokens.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/iteration_stack.hpp"
#include "policies/speculation/speculation.hpp"

namespace orrery::experiments {

struct ServingConfig;

/// The target's iterations with the drafting that a shape asks for before them.
class SpeculativeIteration final : public IterationModel {
 public:
  /// Both are borrowed; the draft model has `layers` layers, and the host takes `overhead_ps` a draft step.
  SpeculativeIteration(IterationModel& target, IterationModel& draft, std::int32_t layers, std::int64_t overhead_ps)
      : target_(target), draft_(draft), layers_(layers), overhead_ps_(overhead_ps) {}
  void cost(const BatchShape& shape, IterationCost& out) override;
  IterationPrice price(const BatchShape& shape) override;
  std::unique_ptr<CostLedger> ledger() override;
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return target_.switch_ps(from, to); }
  /// Cost of the drafting alone.
  void draft_cost(const BatchShape& shape, IterationCost& out);

 private:
  IterationModel& target_;
  IterationModel& draft_;
  std::int32_t layers_;
  std::int64_t overhead_ps_;
  BatchShape step_;
};

/// Prices of verifying and drafting from iteration models.
class IterationStepPrices final : public policies::StepPrices {
 public:
  /// Both are borrowed; `drafting` may be null: drafts are free.
  IterationStepPrices(IterationModel& target, SpeculativeIteration* drafting, std::int32_t layers)
      : target_(target), drafting_(drafting), layers_(layers) {}
  std::int64_t verify_ps(std::int64_t sequences, std::int64_t tokens, std::int64_t context) const override;
  std::int64_t draft_ps(std::int64_t sequences, std::int64_t drafts, std::int64_t context) const override;

 private:
  IterationModel& target_;
  SpeculativeIteration* drafting_;
  std::int32_t layers_;
};

/// Why a model of so many layers cannot draft as the config says, or nothing.
std::optional<std::string> draft_obstacle(const ServingConfig& config, std::int64_t layers);

/// Everything that a config's speculation needs beside the target.
class DraftModels {
 public:
  /// Reads the draft model, if there is one. It runs on as many devices as the target where its heads divide by them,
  /// else on each alone. Throws sim::ConfigError.
  DraftModels(const ServingConfig& config, const hw::Device& device, const models::Transformer& target);
  /// On one device, beside the target's.
  std::int64_t weight_bytes() const { return weight_bytes_; }
  std::int64_t kv_bytes_per_token() const { return kv_bytes_per_token_; }
  /// Puts drafting on top of the target's iterations where that costs anything; `exact` prices the target's layers.
  /// Call once.
  void build(IterationStack& models, IterationModel& exact, std::int32_t target_layers);
  /// A speculator for one replica, or null if there is none. After build().
  std::unique_ptr<policies::Speculator> speculator(std::uint64_t seed) const;

 private:
  policies::SpeculationRegistry::Choice choice_;
  policies::Drafter drafter_ = policies::Drafter::none;
  std::int32_t layers_ = 0;
  std::int64_t weight_bytes_ = 0, kv_bytes_per_token_ = 0;
  std::unique_ptr<DeviceIterationModel> exact_;
  std::unique_ptr<IterationStepPrices> prices_;
};

}  // namespace orrery::experiments
