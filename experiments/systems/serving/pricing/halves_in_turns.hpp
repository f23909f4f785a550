// Two halves of a batch that take turns at computing and at exchanging rows of experts (two-batch overlap):
// attention of B while A dispatches, experts of A while B dispatches, experts of B while A combines, attention of A's
// next layer while B combines (hw/network/expert_exchange.hpp, docs/explain/wide-ep.md).
//
// Both halves count as the larger one, each reads the weights and pays the start of its exchanges, and what an
// iteration does beside its layers (the head) comes after. Batches that cannot be cut, of one token or of several
// segments, go as they are. Layers without experts count as their share of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/systems/serving/pricing/expert_exchange.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"

namespace orrery::experiments {

/// Share of a class of kernels that comes behind the dispatch of a layer: experts, shared ones too, and half of what a
/// layer does twice.
double behind_dispatch(hw::OpClass op);

/// What the exchanges of a replica are.
struct TurnExchanges {
  ExpertExchange by;
  std::int64_t ranks = 1;
  std::int64_t dispatch_bytes = 0, combine_bytes = 0;  ///< of a token, all its choices
  double cores_share = 0;                              ///< of the device, that an exchange keeps
  std::vector<bool> routed;                            ///< a layer: whether it has experts
  bool alone = true;  ///< whether the class of collectives is these exchanges: no tensor parallelism beside them
};

class HalvesInTurns final : public IterationModel {
 public:
  HalvesInTurns(std::unique_ptr<IterationModel> whole, TurnExchanges exchanges)
      : whole_(std::move(whole)), exchanges_(std::move(exchanges)) {}
  void cost(const BatchShape& shape, IterationCost& out) override;
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return whole_->switch_ps(from, to); }

 private:
  std::unique_ptr<IterationModel> whole_;
  TurnExchanges exchanges_;
  BatchShape half_, head_;
};

}  // namespace orrery::experiments
