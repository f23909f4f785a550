#include "experiments/systems/serving/pricing/router_replay.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace orrery::experiments {

RouterReplay::RouterReplay(std::shared_ptr<const traces::RouterTrace> trace,
                           const std::vector<policies::LayerPlacement>& placement, std::int64_t ranks,
                           std::int64_t groups, std::int64_t walk)
    : trace_(std::move(trace)),
      ranks_(static_cast<std::size_t>(ranks)),
      groups_(groups),
      tokens_(trace_->tokens()),
      walk_(walk) {
  if (tokens_ < 1) throw std::invalid_argument("router replay: expected a trace with tokens");
  add(placement);
}

std::int32_t RouterReplay::add(const std::vector<policies::LayerPlacement>& placement) {
  if (placement.size() != layers())
    throw std::invalid_argument("router replay: expected a placement of each layer of the trace");
  std::vector<Layer>& placed_layers = placements_[next_];
  for (const policies::LayerPlacement& placed : placement) {
    Layer layer;
    layer.first.resize(ranks_ + 1, 0);
    layer.slots.resize(static_cast<std::size_t>(trace_->experts));
    for (std::size_t slot = 0; slot < placed.expert.size(); ++slot) {
      layer.slots[static_cast<std::size_t>(placed.expert[slot])].push_back(slot);
      ++layer.first[static_cast<std::size_t>(placed.gpu[slot]) + 1];
    }
    std::partial_sum(layer.first.begin(), layer.first.end(), layer.first.begin());
    placed_layers.push_back(std::move(layer));
  }
  return next_++;
}

std::int64_t RouterReplay::start_of(std::int64_t request) const {
  if (walk_ > 0) return static_cast<std::int64_t>(static_cast<__int128>(request) * walk_ % tokens_);
  // Multiples of the golden ratio's fraction leave the largest gaps between any number of places.
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;  // of 2^64
  const auto fraction = static_cast<unsigned __int128>(static_cast<std::uint64_t>(request) * kGolden);
  return static_cast<std::int64_t>(fraction * static_cast<std::uint64_t>(tokens_) >> 64);
}

void RouterReplay::find(std::span<const TokenRun> runs, std::vector<Stretch>& out) const {
  out.clear();
  for (const TokenRun& run : runs) {
    const std::int64_t start = start_of(run.request) + run.first, rounds = run.count / tokens_;
    for (std::int64_t group = 0; group < groups_; ++group) {
      const std::int64_t begin = (start + tokens_ * group / groups_) % tokens_, end = begin + run.count % tokens_;
      if (rounds > 0) out.push_back({0, tokens_, rounds});
      out.push_back({begin, std::min(end, tokens_)});
      if (end > tokens_) out.push_back({0, end - tokens_});
    }
  }
}

void RouterReplay::count(Place place, std::span<const Stretch> stretches, std::vector<std::int64_t>& rows) const {
  const Layer& placed = at(place);
  std::vector<std::int64_t> of_experts(placed.slots.size(), 0);
  const traces::ExpertId* const chosen = trace_->layers[place.layer].choices.data();
  for (const Stretch& stretch : stretches)
    for (std::int64_t i = stretch.first * trace_->top_k; i < stretch.last * trace_->top_k; ++i)
      of_experts[chosen[i]] += stretch.times;
  rows.assign(placed.first.back(), 0);
  for (std::size_t expert = 0; expert < placed.slots.size(); ++expert) {
    const std::vector<std::size_t>& slots = placed.slots[expert];
    const std::int64_t all = of_experts[expert], replicas = std::ssize(slots);
    for (std::int64_t r = 0; r < replicas; ++r)
      rows[slots[static_cast<std::size_t>(r)]] = all / replicas + (r < all % replicas ? 1 : 0);
  }
}

models::RoutedRows RouterReplay::of_rank(Place place, std::size_t rank, std::span<const std::int64_t> rows) const {
  models::RoutedRows out;
  for (const std::int64_t of_slot : own(place, rank, rows)) {
    if (of_slot == 0) continue;
    ++out.experts;
    out.rows += of_slot;
    out.max_rows = std::max(out.max_rows, of_slot);
    for (std::size_t t = 0; t < out.row_tiles.size(); ++t)
      out.row_tiles[t] += (of_slot + hw::kGroupTiles[t] - 1) / hw::kGroupTiles[t];
  }
  return out;
}

std::vector<std::size_t> RouterReplay::busiest(Place place, std::span<const std::int64_t> rows) const {
  std::size_t fullest = 0, widest = 0;
  std::int64_t most_rows = -1, most_experts = -1;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const auto mine = own(place, rank, rows);
    const std::int64_t sum = std::accumulate(mine.begin(), mine.end(), std::int64_t{0});
    const std::int64_t experts = std::ranges::count_if(mine, [](std::int64_t of_slot) { return of_slot > 0; });
    if (sum > most_rows) most_rows = sum, fullest = rank;
    if (experts > most_experts) most_experts = experts, widest = rank;
  }
  return fullest == widest ? std::vector{fullest} : std::vector{fullest, widest};
}

RouterReplay::Sums RouterReplay::sums(Place place, std::span<const std::int64_t> rows) const {
  Sums out;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const auto mine = own(place, rank, rows);
    const std::int64_t sum = std::accumulate(mine.begin(), mine.end(), std::int64_t{0});
    out.rows += sum;
    out.experts += std::ranges::count_if(mine, [](std::int64_t of_slot) { return of_slot > 0; });
    out.most_rows = std::max(out.most_rows, sum);
  }
  return out;
}

void RouterReplay::book(Place place, std::span<const std::int64_t> rows, std::int64_t times,
                        RoutedTotals& totals) const {
  std::int64_t experts = 0;
  for (const std::vector<std::size_t>& slots : at(place).slots) experts += rows[slots.front()] > 0 ? 1 : 0;
  const Sums of = sums(place, rows);
  totals.layers += times;
  totals.experts += times * experts;
  totals.most_rows += times * of.most_rows;
  totals.mean_rows += static_cast<double>(times * of.rows) / static_cast<double>(ranks_);
}

}  // namespace orrery::experiments
