#include "policies/speculation/process.hpp"

#include <algorithm>
#include <limits>

#include "sim/base/math.hpp"

namespace orrery::policies {

double tokens_a_step(double rate, std::int64_t drafts) {
  double tokens = 1;
  double power = 1;
  for (std::int64_t i = 0; i < drafts; ++i) tokens += power *= rate;
  return tokens;
}

std::int64_t DraftProcess::length(std::int64_t decodes) {
  if (decodes == 0 || decodes > length_.max_batch) return 0;
  if (!length_.adaptive) return length_.drafts;
  const auto i = static_cast<std::size_t>(decodes);
  if (i >= table_.size()) table_.resize(i + i / 2 + 16);
  if (!table_[i]) table_[i] = best_length(decodes);
  return *table_[i];
}

/// Least time a token; the shorter of two alike.
std::int64_t DraftProcess::best_length(std::int64_t decodes) const {
  std::int64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t g = 0; g <= length_.drafts; ++g) {
    const std::int64_t ps = prices_.verify_ps(decodes, 1 + g, length_.context) +
                            (g > 0 ? prices_.draft_ps(decodes, g, length_.context) : 0);
    const double a_token = static_cast<double>(ps) / tokens_a_step(acceptance_.acceptance, g);
    if (a_token >= least) continue;
    least = a_token;
    best = g;
  }
  return best;
}

double DraftProcess::uniform(std::int64_t order, std::int64_t place, std::uint64_t purpose) const {
  return random_.child(static_cast<std::uint64_t>(order))
      .child(static_cast<std::uint64_t>(place) * 4 + purpose)
      .uniform();
}

/// Beta with the mean and deviation asked for, from two gammas; a deviation that no beta has gives 0 or 1 by chance.
double DraftProcess::rate_of(const Sequence& seq) const {
  const double mean = acceptance_.acceptance;
  const double variance = acceptance_.spread * acceptance_.spread;
  if (variance == 0 || mean <= 0 || mean >= 1) return mean;
  sim::RandomStream own = random_.child(static_cast<std::uint64_t>(seq.order)).child("rate");
  const double size = mean * (1 - mean) / variance - 1;
  if (size <= 0) return own.uniform() < mean ? 1 : 0;
  const double a = own.gamma(mean * size, 1);
  const double b = own.gamma((1 - mean) * size, 1);
  return a + b > 0 ? a / (a + b) : mean;
}

std::int64_t DraftProcess::accepted(const Sequence& seq, std::int64_t drafted) const {
  const double rate = rate_of(seq);
  if (rate <= 0) return 0;
  if (rate >= 1) return drafted;
  // P(at least k kept) = rate^k: k is the floor of log(u) / log(rate).
  const double u = uniform(seq.order, seq.generated_then, 0);
  if (u <= 0) return drafted;
  const double kept = sim::det_log(u) / sim::det_log(rate);
  return kept >= static_cast<double>(drafted) ? drafted : static_cast<std::int64_t>(kept);
}

void DraftProcess::level(std::span<std::int64_t> kept) const {
  if (acceptance_.ragged == Ragged::own || kept.empty()) return;
  const std::int64_t least = *std::min_element(kept.begin(), kept.end());
  std::fill(kept.begin(), kept.end(), least);
}

bool DraftProcess::chance(const Sequence& seq, std::int64_t generated, double probability) const {
  return probability >= 1 || uniform(seq.order, generated, 1) < probability;
}

}  // namespace orrery::policies
