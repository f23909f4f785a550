// An iteration model sampled once and then looked up: what makes leaps possible on any device model.
//
// Iterations of decodes alone are tabulated by (sequences, summed context): every number of sequences has its own row,
// contexts have four knots an octave, and between knots every figure is linear, in integers. So the price of the
// iterations to come is known exactly up to the next knot (docs/serving.md), and a ledger only counts how often,
// and how far from its knot, each entry was used. Entries are computed when first asked for, from the model below.
// Iterations with prompts in them are that model's own, but for the attention of decodes beside them where that adds
// to the rest: it comes from a second table of the same kind. Smoothed
// away: what bends the cost between two knots (waves, whole tiles of KV; the mean error is below 0.2 %).
#pragma once

#include <memory>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"

namespace orrery::experiments {

class TabulatedLedger;

class TabulatedIteration final : public IterationModel {
 public:
  /// Samples `exact`, which must outlive this. Not for several threads at once.
  TabulatedIteration(IterationModel& exact, std::int32_t layers) : exact_(exact), layers_(layers) {}
  void cost(const BatchShape& shape, IterationCost& out) override;
  IterationPrice price(const BatchShape& shape) override;
  std::unique_ptr<CostLedger> ledger() override;
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return exact_.switch_ps(from, to); }

 private:
  friend class TabulatedLedger;
  static constexpr std::int64_t kRows = 8'192;  ///< sequences tabulated; larger batches are priced one by one

  struct Cell {
    std::int64_t knot = 0, next = 0;  ///< contexts at which it begins and ends
    std::size_t index = 0;            ///< in cells_
    IterationCost base, slope;        ///< at the knot, and a token of context
    std::int64_t time_ps = 0, slope_ps = 0, energy_pj = 0, slope_pj = 0;
    std::int64_t launches = 0, wire_bytes = 0;  ///< all over the cell
  };
  /// Entries by mode, sequences and knot.
  using Rows = std::vector<std::vector<std::vector<Cell*>>>;
  /// The entry of a batch of decodes alone; null for others.
  const Cell* find(const BatchShape& shape);
  /// That of the attention of decodes among others; null if they have no place in the table.
  const Cell* find_attention(const BatchShape& shape);
  Cell*& place(Rows& rows, std::int32_t mode, const DecodeSums& decode);
  Cell& make(std::int32_t mode, const DecodeSums& decode, bool attention);
  /// Cost of a shape that has no entry: the model's own parts, and where the attention of its decodes stands in the
  /// second table that entry.
  struct Mixed {
    BatchShape shape;
    bool known = false;  ///< it is priced
    CostParts parts;
    const Cell* attention = nullptr;
    std::int64_t past_knot = 0;  ///< of the attention's entry, tokens of context
    std::int64_t time_ps = 0, energy_pj = 0, launches = 0, wire_bytes = 0;
  };
  /// Remembered for the next question, which is mostly the same.
  const Mixed& mixed(const BatchShape& shape);

  IterationModel& exact_;
  std::int32_t layers_;
  Rows rows_, attention_rows_;
  std::vector<std::unique_ptr<Cell>> cells_;
  BatchShape sample_;
  Mixed mixed_;
};

}  // namespace orrery::experiments
