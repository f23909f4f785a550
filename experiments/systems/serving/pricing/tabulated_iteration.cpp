#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"

#include <bit>
#include <stdexcept>
#include <utility>

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

/// (b - a) / by, component by component, rounded towards zero.
IterationCost slope_between(const IterationCost& a, const IterationCost& b, std::int64_t by) {
  IterationCost out;
  out.add(b);
  out.add_scaled(a, -1);
  out.time_ps /= by;
  out.flops /= by;
  out.dram_bytes /= by;
  out.launches = out.wire_bytes = 0;  // a launch more at the end of a cell is none within it
  out.beside_ps /= by;
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
      book_mixed(model_.mixed(shape));  // it has no horizon beyond itself
      if (iterations != 1) throw std::logic_error("a leap over iterations that are not in the table");
      return;
    }
    const DecodeSums& decode = shape.segments.front().decode;
    use(*cell, iterations,
        static_cast<__int128>(decode.context_tokens - cell->knot) * iterations +
            static_cast<__int128>(decode.sequences) * iterations * (iterations - 1) / 2);
  }
  void book_cost(const IterationCost& cost) override { rest_.add(cost); }
  RunCost total() const override {
    RunCost total = rest_;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].times == 0) continue;
      total.add_scaled(model_.cells_[i]->base, uses_[i].times);
      const auto past_knot = static_cast<std::int64_t>(uses_[i].past_knot);
      if (past_knot == uses_[i].past_knot) {
        total.add_scaled(model_.cells_[i]->slope, past_knot);
      } else {
        total.add_scaled(model_.cells_[i]->slope, uses_[i].past_knot);
      }
    }
    for (std::size_t i = 0; i < entry_uses_.size(); ++i)
      if (entry_uses_[i] != 0) total.add_scaled(model_.exact_.entry(i), entry_uses_[i]);
    return total;
  }

 private:
  struct Use {
    std::int64_t times = 0;
    __int128 past_knot = 0;
  };
  void use(const TabulatedIteration::Cell& cell, std::int64_t times, __int128 past_knot) {
    if (cell.index >= uses_.size()) uses_.resize(cell.index + cell.index / 2 + 64);
    uses_[cell.index].times += times;
    uses_[cell.index].past_knot += past_knot;
  }
  void book_mixed(const TabulatedIteration::Mixed& mixed) {
    for (const CostParts::Use& part : mixed.parts.uses) {
      if (part.entry >= entry_uses_.size()) entry_uses_.resize(part.entry + part.entry / 2 + 64);
      entry_uses_[part.entry] += part.times;
    }
    for (const CostParts::Launched& launched : mixed.parts.launched) rest_.add_scaled(launched.cost, launched.times);
    if (mixed.parts.has_rest) rest_.add(mixed.parts.rest);
    if (mixed.attention != nullptr) use(*mixed.attention, 1, mixed.past_knot);
  }

  TabulatedIteration& model_;
  std::vector<Use> uses_;                 // by cell
  std::vector<std::int64_t> entry_uses_;  // by entry of the model below
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
  cell.energy_pj = cell.base.energy_pj();
  cell.slope_pj = cell.slope.energy_pj();
  cell.launches = cell.base.launches;
  cell.wire_bytes = cell.base.wire_bytes;
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

const TabulatedIteration::Mixed& TabulatedIteration::mixed(const BatchShape& shape) {
  if (mixed_.known && shape == mixed_.shape) return mixed_;
  mixed_.known = false;  // what throws below leaves no answer
  mixed_.shape = shape;
  mixed_.parts.clear();
  mixed_.attention = find_attention(shape);
  mixed_.time_ps = mixed_.energy_pj = mixed_.launches = mixed_.wire_bytes = 0;
  const auto add = [&](const auto& cost, std::int64_t times) {
    mixed_.time_ps += cost.time_ps * times;
    mixed_.energy_pj += cost.energy_pj() * times;
    mixed_.launches += cost.launches * times;
    mixed_.wire_bytes += cost.wire_bytes * times;
  };
  if (mixed_.attention == nullptr) {
    exact_.parts(shape, mixed_.parts);
  } else {
    const DecodeSums decode = std::exchange(mixed_.shape.segments.front().decode, {});
    exact_.parts(mixed_.shape, mixed_.parts);
    mixed_.shape.segments.front().decode = decode;
    mixed_.past_knot = decode.context_tokens - mixed_.attention->knot;
    add(mixed_.attention->base, 1);
    add(mixed_.attention->slope, mixed_.past_knot);
  }
  for (const CostParts::Use& use : mixed_.parts.uses) add(exact_.entry(use.entry), use.times);
  for (const CostParts::Launched& launched : mixed_.parts.launched) add(launched.cost, launched.times);
  if (mixed_.parts.has_rest) add(mixed_.parts.rest, 1);
  mixed_.known = true;
  return mixed_;
}

void TabulatedIteration::cost(const BatchShape& shape, IterationCost& out) {
  if (const Cell* cell = find(shape)) {
    out.add(cell->base);
    out.add_scaled(cell->slope, shape.segments.front().decode.context_tokens - cell->knot);
    return;
  }
  const Mixed& whole = mixed(shape);
  for (const CostParts::Use& use : whole.parts.uses) out.add_scaled(exact_.entry(use.entry), use.times);
  for (const CostParts::Launched& launched : whole.parts.launched) out.add_scaled(launched.cost, launched.times);
  if (whole.parts.has_rest) out.add(whole.parts.rest);
  if (whole.attention == nullptr) return;
  out.add(whole.attention->base);
  out.add_scaled(whole.attention->slope, whole.past_knot);
}

IterationPrice TabulatedIteration::price(const BatchShape& shape) {
  const Cell* cell = find(shape);
  if (cell == nullptr) {
    const Mixed& whole = mixed(shape);
    return {.time_ps = whole.time_ps,
            .energy_pj = whole.energy_pj,
            .launches = whole.launches,
            .wire_bytes = whole.wire_bytes};
  }
  const DecodeSums& decode = shape.segments.front().decode;
  const std::int64_t past = decode.context_tokens - cell->knot;
  return {.time_ps = cell->time_ps + past * cell->slope_ps,
          .step_ps = decode.sequences * cell->slope_ps,
          .energy_pj = cell->energy_pj + past * cell->slope_pj,
          .step_energy_pj = decode.sequences * cell->slope_pj,
          .horizon = (cell->next - decode.context_tokens + decode.sequences - 1) / decode.sequences,
          .launches = cell->launches,
          .wire_bytes = cell->wire_bytes};
}

std::unique_ptr<CostLedger> TabulatedIteration::ledger() {
  return std::make_unique<TabulatedLedger>(*this);
}

}  // namespace orrery::experiments
