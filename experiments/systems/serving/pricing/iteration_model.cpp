#include "experiments/systems/serving/pricing/iteration_model.hpp"

#include <stdexcept>

namespace orrery::experiments {
namespace {

/// Asks the model for every iteration: for models that leap not at all, or little.
class PlainLedger final : public CostLedger {
 public:
  explicit PlainLedger(IterationModel& model) : model_(model) {}

  void book(const BatchShape& shape, std::int64_t iterations) override {
    shape_ = shape;
    for (std::int64_t i = 0; i < iterations; ++i) {
      cost_ = {};
      model_.cost(shape_, cost_);
      total_.add(cost_);
      advance(shape_, 1);
    }
  }
  void book_cost(const IterationCost& cost) override { total_.add(cost); }
  RunCost total() const override { return total_; }

 private:
  IterationModel& model_;
  BatchShape shape_;
  IterationCost cost_;
  RunCost total_;
};

}  // namespace

void IterationModel::parts(const BatchShape& shape, CostParts& out) {
  cost(shape, out.rest);
  out.has_rest = true;
}

const IterationCost& IterationModel::entry(std::size_t) const {
  throw std::logic_error("an iteration model that keeps no costs was asked for one");
}

IterationPrice IterationModel::price(const BatchShape& shape) {
  IterationCost out;
  cost(shape, out);
  return {.time_ps = out.time_ps,
          .energy_pj = out.energy_pj(),
          .launches = out.launches,
          .sent = {out.wire_bytes, out.exchange_bytes}};
}

std::unique_ptr<CostLedger> IterationModel::ledger() {
  return std::make_unique<PlainLedger>(*this);
}

void advance(BatchShape& shape, std::int64_t iterations) {
  for (Segment& segment : shape.segments) {
    segment.decode.context_tokens += segment.decode.sequences * iterations;
    for (TokenRun& run : segment.runs) run.first += iterations;
  }
}

IterationCost share(const IterationCost& cost, std::int64_t numerator, std::int64_t denominator) {
  const auto part = [&](std::int64_t value) {
    return static_cast<std::int64_t>(static_cast<__int128>(value) * numerator / denominator);
  };
  IterationCost out{part(cost.time_ps),    part(cost.flops),          part(cost.dram_bytes), part(cost.launches),
                    part(cost.wire_bytes), part(cost.exchange_bytes), part(cost.beside_ps),  part(cost.compute_pj),
                    part(cost.memory_pj),  part(cost.network_pj)};
  for (std::size_t i = 0; i < out.class_ps.size(); ++i) {
    out.class_ps[i] = part(cost.class_ps[i]);
    out.class_pj[i] = part(cost.class_pj[i]);
  }
  return out;
}

}  // namespace orrery::experiments
