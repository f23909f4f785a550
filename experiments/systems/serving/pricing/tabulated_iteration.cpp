#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"

#include <bit>
#include <stdexcept>

namespace orrery::experiments {
namespace {

constexpr int kBits = 2;  // 2^kBits knots an octave

std::size_t knot_of(std::int64_t context) {
  const auto c = static_cast<std::uint64_t>(context);
  const int octave = static_cast<int>(std::bit_width(c)) - 1;
  if (octave <= kBits) return static_cast<std::size_t>(c);
  return (static_cast<std::size_t>(octave - kBits) << kBits) + static_cast<std::size_t>(c >> (octave - kBits));
}
std::int64_t knot_value(std::size_t knot) {
  if (knot < (2U << kBits)) return static_cast<std::int64_t>(knot);
  const std::size_t shift = (knot >> kBits) - 1;
  return static_cast<std::int64_t>((knot - (shift << kBits)) << shift);
}

std::int64_t energy(const IterationCost& cost) {
  return cost.compute_pj + cost.memory_pj + cost.network_pj;
}

/// (b - a) / by, component by component, rounded towards zero.
IterationCost slope_between(const IterationCost& a, const IterationCost& b, std::int64_t by) {
  IterationCost out;
  out.add(b);
  out.add_scaled(a, -1);
  out.time_ps /= by;
  out.flops /= by;
  out.dram_bytes /= by;
  out.compute_pj /= by;
  out.memory_pj /= by;
  out.network_pj /= by;
  for (std::size_t i = 0; i < out.class_ps.size(); ++i) {
    out.class_ps[i] /= by;
    out.class_pj[i] /= by;
  }
  return out;
}

}  // namespace

/// Counts uses of entries, multiplies at the end.
class TabulatedLedger final : public CostLedger {
 public:
  explicit TabulatedLedger(TabulatedIteration& model) : model_(model) {}

  void book(const BatchShape& shape, std::int64_t iterations) override {
    const TabulatedIteration::Cell* cell = model_.find(shape);
    if (cell == nullptr) {
      rest_.add(model_.mixed(shape));  // it has no horizon beyond itself
      if (iterations != 1) throw std::logic_error("a leap over iterations that are not in the table");
      return;
    }
    if (cell->index >= uses_.size()) uses_.resize(cell->index + cell->index / 2 + 64);
    Use& use = uses_[cell->index];
    const DecodeSums& decode = shape.segments.front().decode;
    use.times += iterations;
    use.past_knot += static_cast<__int128>(decode.context_tokens - cell->knot) * iterations +
                     static_cast<__int128>(decode.sequences) * iterations * (iterations - 1) / 2;
  }
  void book_cost(const IterationCost& cost) override { rest_.add(cost); }
  RunCost total() const override {
    RunCost total = rest_;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].times == 0) continue;
      total.add_scaled(model_.cells_[i]->base, static_cast<__int128>(uses_[i].times));
      total.add_scaled(model_.cells_[i]->slope, uses_[i].past_knot);
    }
    return total;
  }

 private:
  struct Use {
    std::int64_t times = 0;
    __int128 past_knot = 0;
  };
  TabulatedIteration& model_;
  std::vector<Use> uses_;
  RunCost rest_;
};

TabulatedIteration::Cell& TabulatedIteration::make(std::int32_t mode, const DecodeSums& decode, bool attention) {
  cells_.push_back(std::make_unique<Cell>());
  Cell& cell = *cells_.back();
  cell.index = cells_.size() - 1;
  const std::size_t knot = knot_of(decode.context_tokens);
  cell.knot = knot_value(knot);
  cell.next = knot_value(knot + 1);
  sample_.clear();
  sample_.mode = mode;
  sample_.sequences = sample_.logit_rows = decode.sequences;
  sample_.segments.push_back({.first = 0, .last = layers_, .tokens = decode.sequences});
  IterationCost without;
  if (attention) exact_.cost(sample_, without);
  const auto at = [&](std::int64_t context) {
    sample_.segments.front().decode = {decode.sequences, context};
    IterationCost cost;
    exact_.cost(sample_, cost);
    if (attention) cost.add_scaled(without, -1);
    return cost;
  };
  cell.base = at(cell.knot);
  cell.slope = slope_between(cell.base, at(cell.next), cell.next - cell.knot);
  cell.time_ps = cell.base.time_ps;
  cell.slope_ps = cell.slope.time_ps;
  cell.energy_pj = energy(cell.base);
  cell.slope_pj = energy(cell.slope);
  return cell;
}

TabulatedIteration::Cell*& TabulatedIteration::place(Rows& rows, std::int32_t mode, const DecodeSums& decode) {
  const auto m = static_cast<std::size_t>(mode);
  if (m >= rows.size()) rows.resize(m + 1);
  const auto n = static_cast<std::size_t>(decode.sequences);
  if (n >= rows[m].size()) rows[m].resize(n + n / 2 + 16);
  std::vector<Cell*>& row = rows[m][n];
  const std::size_t knot = knot_of(decode.context_tokens);
  if (knot >= row.size()) row.resize(knot + 1, nullptr);
  return row[knot];
}

const TabulatedIteration::Cell* TabulatedIteration::find(const BatchShape& shape) {
  if (shape.segments.size() != 1) return nullptr;
  const Segment& segment = shape.segments.front();
  const std::int64_t n = segment.decode.sequences;
  if (segment.tokens != n || n == 0 || n >= kRows || shape.logit_rows != n || segment.variant != 0 ||
      segment.first != 0 || segment.last != layers_ || segment.decode.context_tokens < n)
    return nullptr;
  Cell*& cell = place(rows_, shape.mode, segment.decode);
  if (cell == nullptr) cell = &make(shape.mode, segment.decode, false);
  return cell;
}

const TabulatedIteration::Cell* TabulatedIteration::find_attention(const BatchShape& shape) {
  if (!exact_.additive() || shape.segments.size() != 1) return nullptr;
  const Segment& segment = shape.segments.front();
  const std::int64_t n = segment.decode.sequences;
  if (n == 0 || n >= kRows || segment.variant != 0 || segment.first != 0 || segment.last != layers_ ||
      segment.decode.context_tokens < n)
    return nullptr;
  Cell*& cell = place(attention_rows_, shape.mode, segment.decode);
  if (cell == nullptr) cell = &make(shape.mode, segment.decode, true);
  return cell;
}

const IterationCost& TabulatedIteration::mixed(const BatchShape& shape) {
  if (shape == mixed_shape_) return mixed_cost_;
  mixed_shape_ = shape;
  mixed_cost_ = {};
  const Cell* attention = find_attention(shape);
  if (attention == nullptr) {
    exact_.cost(shape, mixed_cost_);
  } else {
    rest_ = shape;
    rest_.segments.front().decode = {};
    exact_.cost(rest_, mixed_cost_);
    mixed_cost_.add(attention->base);
    mixed_cost_.add_scaled(attention->slope, shape.segments.front().decode.context_tokens - attention->knot);
  }
  return mixed_cost_;
}

void TabulatedIteration::cost(const BatchShape& shape, IterationCost& out) {
  const Cell* cell = find(shape);
  if (cell == nullptr) return out.add(mixed(shape));
  out.add(cell->base);
  out.add_scaled(cell->slope, shape.segments.front().decode.context_tokens - cell->knot);
}

IterationPrice TabulatedIteration::price(const BatchShape& shape) {
  const Cell* cell = find(shape);
  if (cell == nullptr) {
    const IterationCost& cost = mixed(shape);
    return {.time_ps = cost.time_ps, .energy_pj = energy(cost)};
  }
  const DecodeSums& decode = shape.segments.front().decode;
  const std::int64_t past = decode.context_tokens - cell->knot;
  return {.time_ps = cell->time_ps + past * cell->slope_ps,
          .step_ps = decode.sequences * cell->slope_ps,
          .energy_pj = cell->energy_pj + past * cell->slope_pj,
          .step_energy_pj = decode.sequences * cell->slope_pj,
          .horizon = (cell->next - decode.context_tokens + decode.sequences - 1) / decode.sequences};
}

std::unique_ptr<CostLedger> TabulatedIteration::ledger() {
  return std::make_unique<TabulatedLedger>(*this);
}

}  // namespace orrery::experiments
