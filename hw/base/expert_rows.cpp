#include "hw/base/expert_rows.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "hw/base/real.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::hw {
namespace {

constexpr int kShuffles = 15;
constexpr double kMostOfBatch = 0.8;  // popularity of the most popular expert, of all tokens
using Rows = std::vector<std::int64_t>;

Rows balanced(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, std::int64_t held) {
  Rows rows(static_cast<std::size_t>(held), 0);
  const std::int64_t stride = (experts + top_k - 1) / top_k;
  for (std::int64_t choice = 0; choice < top_k; ++choice) {
    if (tokens >= stride) {  // token t goes to (t + choice stride) mod experts: count the tokens of every expert held
      for (std::int64_t e = 0; e < held; ++e) {
        const std::int64_t first = ((e - choice * stride) % experts + experts) % experts;
        if (first < tokens) rows[static_cast<std::size_t>(e)] += (tokens - 1 - first) / experts + 1;
      }
    } else {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t e = (t * stride / tokens + choice * stride) % experts;
        if (e < held) ++rows[static_cast<std::size_t>(e)];
      }
    }
  }
  return rows;
}

/// Popularities, most popular first, scaled to `total` rows with none above `most`.
std::vector<double> power_law(std::int64_t experts, double exponent, double low, double high, double total,
                              double most) {
  std::vector<double> p(static_cast<std::size_t>(experts));
  const double power = 1 - exponent;
  const double from = sim::det_pow(low, power), to = sim::det_pow(high, power);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double u = (static_cast<double>(p.size() - i) - 0.5) / static_cast<double>(p.size());
    p[i] = power == 0 ? low * sim::det_pow(high / low, u) : sim::det_pow((to - from) * u + from, 1 / power);
  }
  // Raise all by one factor; those above the most that an expert can get stop there, and the others share the rest.
  std::size_t capped = 0;
  double rest = total;
  double sum = std::accumulate(p.begin(), p.end(), 0.0);
  while (capped < p.size() && p[capped] * rest >= most * sum) {
    sum -= p[capped];
    rest -= most;
    p[capped++] = most;
  }
  for (std::size_t i = capped; i < p.size(); ++i) p[i] *= rest / sum;
  return p;
}

/// Whole rows with the same sum: each prefix is rounded.
Rows rounded(const std::vector<double>& shares) {
  Rows rows(shares.size());
  double sum = 0;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    sum += shares[i];
    const auto upto = static_cast<std::int64_t>(std::floor(sum + 0.5));
    rows[i] = upto - given;
    given = upto;
  }
  return rows;
}

Rows heaviest_rank(const Rows& rows, std::int64_t ranks) {
  const std::size_t held = rows.size() / static_cast<std::size_t>(ranks);
  struct Heaviest {
    std::int64_t sum = -1;
    Rows rows;
  };
  std::vector<Heaviest> heaviest(kShuffles);
  sim::RandomStream random(rows.size(), "expert_rows");
  Rows dealt = rows;
  for (Heaviest& one : heaviest) {
    random.shuffle(std::span(dealt));
    auto at = dealt.begin();
    for (auto begin = dealt.begin(); dealt.end() - begin >= static_cast<std::ptrdiff_t>(held);
         begin += static_cast<std::ptrdiff_t>(held)) {
      const std::int64_t sum = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(held), std::int64_t{0});
      if (sum > one.sum) one.sum = sum, at = begin;
    }
    one.rows.assign(at, at + static_cast<std::ptrdiff_t>(held));
  }
  std::stable_sort(heaviest.begin(), heaviest.end(), [](const auto& a, const auto& b) { return a.sum < b.sum; });
  Rows middle = std::move(heaviest[kShuffles / 2].rows);
  std::sort(middle.begin(), middle.end(), std::greater<>());
  return middle;
}

}  // namespace

std::vector<std::int64_t> expert_rows(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, std::int64_t ranks,
                                      ExpertLoad load) {
  if (tokens < 0) throw std::invalid_argument("expert_rows: tokens must not be negative");
  if (experts < 1 || top_k < 1 || top_k > experts)
    throw std::invalid_argument("expert_rows: top_k must be between 1 and the number of experts");
  if (ranks < 1 || ranks > experts)
    throw std::invalid_argument("expert_rows: ranks must be between 1 and the number of experts");
  const std::int64_t held = experts / ranks;
  if (tokens == 0) return Rows(static_cast<std::size_t>(held), 0);
  if (load.exponent == 0) return balanced(tokens, top_k, experts, held);
  const bool sparse = tokens * top_k <= experts;
  const double low = sparse ? 0.01 : 1;
  const double high = sparse ? 2 : std::max(kMostOfBatch * d(tokens), 1.0001);
  const Rows rows = rounded(power_law(experts, load.exponent, low, high, d(tokens * top_k), d(tokens)));
  return ranks == 1 ? rows : heaviest_rank(rows, ranks);
}

}  // namespace orrery::hw
