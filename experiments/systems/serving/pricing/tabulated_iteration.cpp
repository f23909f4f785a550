#include "experiments/systems/serving/pricing/tabulated_iteration.hpp"

#include <array>
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
  out.launches = out.wire_bytes = out.exchange_bytes = 0;  // a launch more at the end of a cell is none within it
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
    const TabulatedIteration::Entry entry = model_.find(shape);
    if (entry.cell == nullptr) {
      book_mixed(model_.mixed(shape));  // it has no horizon beyond itself
      if (iterations != 1) throw std::logic_error("a leap over iterations that are not in the table");
      return;
    }
    const DecodeSums& decode = shape.segments.front().decode;
    count(row_uses_, entry.row->index, iterations);
    use(*entry.cell, iterations,
        static_cast<__int128>(decode.context_tokens - entry.cell->knot) * iterations +
            static_cast<__int128>(decode.sequences) * iterations * (iterations - 1) / 2);
  }
  void book_cost(const IterationCost& cost) override { rest_.add(cost); }
  RunCost total() const override {
    std::array<__int128, RunCost::kFigures> sums{};
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].times == 0) continue;
      const TabulatedIteration::Cell& cell = model_.cells_[i];
      const TabulatedIteration::Figure* const figures = model_.figures_.data();
      for (std::size_t f = cell.base; f < cell.slope; ++f)
        sums[figures[f].which] += static_cast<__int128>(figures[f].value) * uses_[i].times;
      const __int128 past_knot = uses_[i].past_knot;
      const auto few = static_cast<std::int64_t>(past_knot);
      for (std::size_t f = cell.slope; f < cell.end; ++f)
        sums[figures[f].which] +=
            few == past_knot ? static_cast<__int128>(figures[f].value) * few : figures[f].value * past_knot;
    }
    RunCost total = rest_;
    total.each([&, i = std::size_t{0}](__int128& sum) mutable { sum += sums[i++]; });
    for (std::size_t i = 0; i < row_uses_.size(); ++i)
      if (row_uses_[i] != 0) total.add_scaled(model_.rests_[i], row_uses_[i]);
    for (std::size_t i = 0; i < entry_uses_.size(); ++i)
      if (entry_uses_[i] != 0) total.add_scaled(model_.exact_.entry(i), entry_uses_[i]);
    return total;
  }

 private:
  struct Use {
    std::int64_t times = 0;
    __int128 past_knot = 0;
  };
  static void count(std::vector<std::int64_t>& uses, std::size_t index, std::int64_t times) {
    if (index >= uses.size()) uses.resize(index + index / 2 + 64);
    uses[index] += times;
  }
  void use(const TabulatedIteration::Cell& cell, std::int64_t times, __int128 past_knot) {
    if (cell.index >= uses_.size()) uses_.resize(cell.index + cell.index / 2 + 64);
    uses_[cell.index].times += times;
    uses_[cell.index].past_knot += past_knot;
  }
  void book_mixed(const TabulatedIteration::Mixed& mixed) {
    for (const CostParts::Use& part : mixed.parts.uses) count(entry_uses_, part.entry, part.times);
    for (const CostParts::Launched& launched : mixed.parts.launched) rest_.add_scaled(launched.cost, launched.times);
    if (mixed.parts.has_rest) rest_.add(mixed.parts.rest);
    if (mixed.attention != nullptr) use(*mixed.attention, 1, mixed.past_knot);
  }

  TabulatedIteration& model_;
  std::vector<Use> uses_;                 // by cell
  std::vector<std::int64_t> row_uses_;    // by row
  std::vector<std::int64_t> entry_uses_;  // by entry of the model below
  RunCost rest_;
};

IterationCost TabulatedIteration::sampled(std::int32_t mode, const DecodeSums& decode) {
  sample_.clear();
  sample_.mode = mode;
  sample_.sequences = sample_.logit_rows = decode.sequences;
  sample_.segments.push_back({.first = 0, .last = layers_, .tokens = decode.sequences});
  if (decode.context_tokens > 0) sample_.segments.front().decode = decode;
  IterationCost cost;
  exact_.cost(sample_, cost);
  return cost;
}

void TabulatedIteration::make(std::int32_t mode, std::int64_t sequences, Row& row) {
  rests_.push_back(exact_.additive() ? sampled(mode, {sequences, 0}) : IterationCost{});
  const IterationCost& rest = rests_.back();
  row.index = rests_.size() - 1;
  row.time_ps = rest.time_ps;
  row.energy_pj = rest.energy_pj();
  row.launches = rest.launches;
  row.sent.add(rest, 1);
  row.made = true;
}

void TabulatedIteration::keep(const IterationCost& cost) {
  std::size_t which = 0;
  cost.each([&](std::int64_t value) {
    if (value != 0) figures_.push_back({which, value});
    ++which;
  });
}

TabulatedIteration::Cell& TabulatedIteration::make(std::int32_t mode, const DecodeSums& decode, const Row& row) {
  const std::size_t knot = knot_of(decode.context_tokens);
  Cell cell{.knot = knot_value(knot), .next = knot_value(knot + 1), .index = cells_.size(), .base = figures_.size()};
  const auto at = [&](std::int64_t context) {
    IterationCost cost = sampled(mode, {decode.sequences, context});
    cost.add_scaled(rests_[row.index], -1);
    return cost;
  };
  const IterationCost base = at(cell.knot);
  const IterationCost slope = slope_between(base, at(cell.next), cell.next - cell.knot);
  keep(base);
  cell.slope = figures_.size();
  keep(slope);
  cell.end = figures_.size();
  cell.time_ps = base.time_ps;
  cell.slope_ps = slope.time_ps;
  cell.energy_pj = base.energy_pj();
  cell.slope_pj = slope.energy_pj();
  cell.launches = base.launches;
  cell.sent.add(base, 1);
  return cells_.emplace_back(cell);
}

TabulatedIteration::Entry TabulatedIteration::find(std::int32_t mode, const Segment& segment) {
  const std::int64_t sequences = segment.decode.sequences;
  if (sequences == 0 || sequences >= kRows || segment.variant != 0 || segment.first != 0 || segment.last != layers_ ||
      segment.decode.context_tokens < sequences)
    return {};
  const auto m = static_cast<std::size_t>(mode);
  if (m >= rows_.size()) rows_.resize(m + 1);
  const auto n = static_cast<std::size_t>(sequences);
  if (n >= rows_[m].size()) rows_[m].resize(n + n / 2 + 16);
  Row& row = rows_[m][n];
  if (!row.made) make(mode, sequences, row);
  const std::size_t knot = knot_of(segment.decode.context_tokens);
  if (knot >= row.cells.size()) row.cells.resize(knot + 1, nullptr);
  if (row.cells[knot] == nullptr) row.cells[knot] = &make(mode, segment.decode, row);
  return {&row, row.cells[knot]};
}

TabulatedIteration::Entry TabulatedIteration::find(const BatchShape& shape) {
  if (shape.segments.size() != 1) return {};
  const Segment& segment = shape.segments.front();
  const std::int64_t sequences = segment.decode.sequences;
  if (segment.tokens != sequences || shape.logit_rows != sequences || !segment.runs.empty()) return {};
  return find(shape.mode, segment);
}

const TabulatedIteration::Mixed& TabulatedIteration::mixed(const BatchShape& shape) {
  if (mixed_.known && shape == mixed_.shape) return mixed_;
  mixed_.known = false;  // what throws below leaves no answer
  mixed_.shape = shape;
  mixed_.parts.clear();
  mixed_.attention = nullptr;
  if (exact_.additive() && shape.segments.size() == 1) mixed_.attention = find(shape.mode, shape.segments.front()).cell;
  mixed_.time_ps = mixed_.energy_pj = mixed_.launches = 0;
  mixed_.sent = {};
  const auto add = [&](const auto& cost, std::int64_t times) {
    mixed_.time_ps += cost.time_ps * times;
    mixed_.energy_pj += cost.energy_pj() * times;
    mixed_.launches += cost.launches * times;
    mixed_.sent.add(cost, times);
  };
  if (mixed_.attention == nullptr) {
    exact_.parts(shape, mixed_.parts);
  } else {
    const Cell& cell = *mixed_.attention;
    const DecodeSums decode = std::exchange(mixed_.shape.segments.front().decode, {});
    exact_.parts(mixed_.shape, mixed_.parts);
    mixed_.shape.segments.front().decode = decode;
    mixed_.past_knot = decode.context_tokens - cell.knot;
    mixed_.time_ps = cell.time_ps + mixed_.past_knot * cell.slope_ps;
    mixed_.energy_pj = cell.energy_pj + mixed_.past_knot * cell.slope_pj;
    mixed_.launches = cell.launches;
    mixed_.sent = cell.sent;
  }
  for (const CostParts::Use& use : mixed_.parts.uses) add(exact_.entry(use.entry), use.times);
  for (const CostParts::Launched& launched : mixed_.parts.launched) add(launched.cost, launched.times);
  if (mixed_.parts.has_rest) add(mixed_.parts.rest, 1);
  mixed_.known = true;
  return mixed_;
}

void TabulatedIteration::add(std::size_t begin, std::size_t end, std::int64_t times, IterationCost& out) const {
  std::array<std::int64_t, IterationCost::kFigures> figures{};
  for (std::size_t i = begin; i < end; ++i) figures[figures_[i].which] = figures_[i].value * times;
  out.each([&, i = std::size_t{0}](std::int64_t& sum) mutable { sum += figures[i++]; });
}

void TabulatedIteration::cost(const BatchShape& shape, IterationCost& out) {
  if (const auto [row, cell] = find(shape); cell != nullptr) {
    out.add(rests_[row->index]);
    add(cell->base, cell->slope, 1, out);
    add(cell->slope, cell->end, shape.segments.front().decode.context_tokens - cell->knot, out);
    return;
  }
  const Mixed& whole = mixed(shape);
  for (const CostParts::Use& use : whole.parts.uses) out.add_scaled(exact_.entry(use.entry), use.times);
  for (const CostParts::Launched& launched : whole.parts.launched) out.add_scaled(launched.cost, launched.times);
  if (whole.parts.has_rest) out.add(whole.parts.rest);
  if (whole.attention == nullptr) return;
  add(whole.attention->base, whole.attention->slope, 1, out);
  add(whole.attention->slope, whole.attention->end, whole.past_knot, out);
}

IterationPrice TabulatedIteration::price(const BatchShape& shape) {
  const auto [row, cell] = find(shape);
  if (cell == nullptr) {
    const Mixed& whole = mixed(shape);
    return {.time_ps = whole.time_ps, .energy_pj = whole.energy_pj, .launches = whole.launches, .sent = whole.sent};
  }
  const DecodeSums& decode = shape.segments.front().decode;
  const std::int64_t past = decode.context_tokens - cell->knot;
  SentBytes sent = row->sent;
  sent.add(cell->sent);
  return {.time_ps = row->time_ps + cell->time_ps + past * cell->slope_ps,
          .step_ps = decode.sequences * cell->slope_ps,
          .energy_pj = row->energy_pj + cell->energy_pj + past * cell->slope_pj,
          .step_energy_pj = decode.sequences * cell->slope_pj,
          .horizon = (cell->next - decode.context_tokens + decode.sequences - 1) / decode.sequences,
          .launches = row->launches + cell->launches,
          .sent = sent};
}

std::unique_ptr<CostLedger> TabulatedIteration::ledger() {
  return std::make_unique<TabulatedLedger>(*this);
}

}  // namespace orrery::experiments
