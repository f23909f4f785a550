#include "experiments/systems/serving/speculation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"

namespace orrery::experiments {
namespace {

/// Books the target's part in its own ledger and drafting beside it.
class SpeculativeLedger final : public CostLedger {
 public:
  SpeculativeLedger(SpeculativeIteration& model, std::unique_ptr<CostLedger> target)
      : model_(model), target_(std::move(target)) {}
  void book(const BatchShape& shape, std::int64_t iterations) override {
    target_->book(shape, iterations);
    if (!shape.drafting.any()) return;
    IterationCost cost;
    model_.draft_cost(shape, cost);
    target_->book_cost(cost);
  }
  void book_cost(const IterationCost& cost) override { target_->book_cost(cost); }
  RunCost total() const override { return target_->total(); }

 private:
  SpeculativeIteration& model_;
  std::unique_ptr<CostLedger> target_;
};

/// For the time before there are models: nobody asks it.
class NoPrices final : public policies::StepPrices {
 public:
  std::int64_t verify_ps(std::int64_t, std::int64_t, std::int64_t) const override { return 0; }
  std::int64_t draft_ps(std::int64_t, std::int64_t, std::int64_t) const override { return 0; }
};

}  // namespace

void SpeculativeIteration::draft_cost(const BatchShape& shape, IterationCost& out) {
  const Drafting& drafting = shape.drafting;
  if (drafting.prompts.sequences > 0) {
    step_.clear();
    step_.mode = shape.mode;
    step_.sequences = drafting.prompts.sequences;
    Segment segment{.first = 0, .last = layers_, .tokens = drafting.prompts.q_tokens};
    segment.prefill = drafting.prompts;
    step_.segments.push_back(segment);
    IterationCost cost;
    draft_.cost(step_, cost);
    out.add(cost);
  }
  for (std::int64_t i = 0; i < drafting.steps; ++i) {
    step_.clear();
    step_.mode = shape.mode;
    step_.sequences = step_.logit_rows = drafting.sequences;
    Segment segment{.first = 0, .last = layers_, .tokens = drafting.sequences};
    segment.decode = {drafting.sequences, drafting.context_tokens + i * drafting.sequences};
    step_.segments.push_back(segment);
    IterationCost cost;
    draft_.cost(step_, cost);
    cost.time_ps += overhead_ps_;
    out.add(cost);
  }
}

void SpeculativeIteration::cost(const BatchShape& shape, IterationCost& out) {
  target_.cost(shape, out);
  if (shape.drafting.any()) draft_cost(shape, out);
}

IterationPrice SpeculativeIteration::price(const BatchShape& shape) {
  IterationPrice price = target_.price(shape);
  if (!shape.drafting.any()) return price;
  IterationCost cost;
  draft_cost(shape, cost);
  price.time_ps += cost.time_ps;
  price.energy_pj += cost.compute_pj + cost.memory_pj + cost.network_pj;
  price.launches += cost.launches;
  price.sent.add(cost, 1);
  price.draft_passes = shape.drafting.steps + (shape.drafting.prompts.sequences > 0 ? 1 : 0);
  price.draft_layers = price.draft_passes * layers_;
  price.horizon = 1;
  return price;
}

std::unique_ptr<CostLedger> SpeculativeIteration::ledger() {
  return std::make_unique<SpeculativeLedger>(*this, target_.ledger());
}

std::int64_t IterationStepPrices::verify_ps(std::int64_t sequences, std::int64_t tokens, std::int64_t context) const {
  BatchShape shape;
  shape.sequences = sequences;
  shape.logit_rows = sequences * tokens;
  Segment segment{.first = 0, .last = layers_, .tokens = sequences * tokens};
  for (std::int64_t i = 0; i < sequences; ++i) {
    if (tokens == 1) {
      segment.decode.add(context);
    } else {
      segment.prefill.add(tokens, context - 1);
    }
  }
  shape.segments.push_back(segment);
  IterationCost cost;
  target_.cost(shape, cost);
  return cost.time_ps;
}

std::int64_t IterationStepPrices::draft_ps(std::int64_t sequences, std::int64_t drafts, std::int64_t context) const {
  if (drafting_ == nullptr) return 0;
  BatchShape shape;
  shape.drafting = {.sequences = sequences, .context_tokens = sequences * context, .steps = drafts};
  IterationCost cost;
  drafting_->draft_cost(shape, cost);
  return cost.time_ps;
}

std::optional<std::string> draft_obstacle(const ServingConfig& config, std::int64_t layers) {
  const auto& choice = config.policies.speculation;
  if (choice.name.empty() || choice.name == "none") return std::nullopt;
  const NoPrices none;
  const std::int64_t drafting = choice.make(none, 0)->draft_layers();
  if (drafting <= layers) return std::nullopt;
  return fmt::format("{} drafts with {} layers of the model, which has {}", choice.name, drafting, layers);
}

DraftModels::DraftModels(const ServingConfig& config, const hw::Device& device, const models::Transformer& target)
    : choice_(config.policies.speculation) {
  if (choice_.name.empty() || choice_.name == "none") return;
  const NoPrices none;
  const auto speculator = choice_.make(none, 0);
  drafter_ = speculator->drafter();
  if (drafter_ == policies::Drafter::layers) {
    layers_ = static_cast<std::int32_t>(speculator->draft_layers());
    const auto bytes_each =
        static_cast<double>(models::weight_bytes(target)) / static_cast<double>(models::rank_parameters(target));
    weight_bytes_ = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(layers_ * models::layer_parameters(target)) * bytes_each));
    kv_bytes_per_token_ = layers_ * models::kv_bytes_per_token_layer(target);
  }
  if (drafter_ == policies::Drafter::model) {
    const models::ModelConfig model = models::load_model(config.draft_file.string(), home_folder() / "models/catalog");
    const std::int64_t ranks = models::tp_obstacle(model, target.tp) ? 1 : target.tp;
    const models::Transformer draft = models::build_transformer(model, config.model.dtype, ranks);
    layers_ = static_cast<std::int32_t>(model.layers);
    weight_bytes_ = models::weight_bytes(draft);
    kv_bytes_per_token_ = models::kv_bytes_per_token(draft);
    exact_ = std::make_unique<DeviceIterationModel>(draft, device);
  }
}

void DraftModels::build(IterationStack& models, IterationModel& exact, std::int32_t target_layers) {
  IterationModel& target = models.top();
  SpeculativeIteration* drafting = nullptr;
  if (drafter_ != policies::Drafter::none) {
    IterationModel& draft = exact_ ? static_cast<IterationModel&>(*exact_) : exact;
    IterationModel& tabulated = models.add<TabulatedIteration>(draft, layers_);
    std::int64_t overhead_ps = 0;
    if (const sim::Node* overhead = choice_.params.find("step_overhead"))
      overhead_ps = static_cast<std::int64_t>(
          std::ceil(sim::parse_quantity(overhead->as_string(), sim::Unit::seconds).value_or(0) * 1e12));
    drafting = &models.add<SpeculativeIteration>(target, tabulated, layers_, overhead_ps);
  }
  prices_ = std::make_unique<IterationStepPrices>(target, drafting, target_layers);
}

std::unique_ptr<policies::Speculator> DraftModels::speculator(std::uint64_t seed) const {
  if (choice_.name.empty() || choice_.name == "none") return nullptr;
  return choice_.make(*prices_, seed);
}

}  // namespace orrery::experiments
