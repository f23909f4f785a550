// An iteration model sampled once and then looked up: what makes leaps possible on any device model.
//
// Iterations of decodes alone are tabulated by (sequences, summed context): every number of sequences has its own row,
// contexts have four knots an octave, and between knots every figure is linear, in integers. So the price of the
// iterations to come is known exactly up to the next knot (docs/explain/serving.md), and a ledger only counts how
// often, and how far from its knot, each entry was used. Entries are computed when first asked for, from the model
// below. Where the attention of decodes adds to the rest, entries are of attention alone and a row has the rest once;
// they then also price the attention of decodes beside prompts, whose iterations are the model's own otherwise.
// An iteration whose tokens choose experts as a trace says is like no other: of it too only attention is looked up.
// Smoothed away: what bends the cost between two knots (waves, whole tiles of KV; the mean error is below 0.2 %).
#pragma once

#include <deque>
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

  /// A figure of a cost (CostSums::each) that is not zero: an entry has few, and a run sums up thousands of entries.
  struct Figure {
    std::size_t which;
    std::int64_t value;
  };
  struct Cell {
    std::int64_t knot = 0, next = 0;  ///< contexts at which it begins and ends
    std::size_t index = 0;            ///< in cells_
    /// In figures_: at the knot, and a token of context.
    std::size_t base = 0, slope = 0, end = 0;
    std::int64_t time_ps = 0, slope_ps = 0, energy_pj = 0, slope_pj = 0;
    std::int64_t launches = 0;  ///< all over the cell, …
    SentBytes sent;             ///< … likewise
  };
  /// So many decodes: what they cost whatever their contexts (nothing unless attention adds to it), and by knot.
  struct Row {
    std::size_t index = 0;  ///< in rests_
    bool made = false;
    std::int64_t time_ps = 0, energy_pj = 0, launches = 0;  ///< of the rest, …
    SentBytes sent;                                         ///< … likewise
    std::vector<Cell*> cells;
  };
  /// The entry of a batch of decodes alone; nulls for others.
  struct Entry {
    const Row* row = nullptr;
    const Cell* cell = nullptr;
  };
  Entry find(const BatchShape& shape);
  /// That of the decodes in a segment, alone or beside prompts; nulls if they have no place in the table.
  Entry find(std::int32_t mode, const Segment& segment);
  void make(std::int32_t mode, std::int64_t sequences, Row& row);
  Cell& make(std::int32_t mode, const DecodeSums& decode, const Row& row);
  IterationCost sampled(std::int32_t mode, const DecodeSums& decode);
  void keep(const IterationCost& cost);
  /// Adds the figures [begin, end), `times` times.
  void add(std::size_t begin, std::size_t end, std::int64_t times, IterationCost& out) const;

  /// Cost of a shape that has no entry: the model's own parts, and where the attention of its decodes stands in the
  /// table that entry.
  struct Mixed {
    BatchShape shape;
    bool known = false;  ///< it is priced
    CostParts parts;
    const Cell* attention = nullptr;
    std::int64_t past_knot = 0;  ///< of the attention's entry, tokens of context
    std::int64_t time_ps = 0, energy_pj = 0, launches = 0;
    SentBytes sent;
  };
  /// Remembered for the next question, which is mostly the same.
  const Mixed& mixed(const BatchShape& shape);

  IterationModel& exact_;
  std::int32_t layers_;
  std::vector<std::vector<Row>> rows_;  // by mode and sequences
  std::deque<Cell> cells_;
  std::vector<Figure> figures_;
  std::deque<IterationCost> rests_;
  BatchShape sample_;
  Mixed mixed_;
};

}  // namespace orrery::experiments
