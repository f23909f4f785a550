// How often and how lately each expert was asked for.
#pragma once

#include <algorithm>
#include <vector>

#include "policies/experts/expert_cache.hpp"
#include "sim/base/math.hpp"

namespace orrery::policies {

class ExpertHistory {
 public:
  /// Sums look `horizon` requests back; `scores`: what the router gave is summed too.
  ExpertHistory(const ExpertCacheSetup& setup, double horizon, bool scores)
      : horizon_(horizon), scores_(scores), all_(static_cast<std::size_t>(setup.experts)) {}

  void ask(const ExpertRequest& request) {
    now_ = static_cast<double>(request.first + 1);
    for (const std::uint16_t e : request.experts) {
      Known& known = all_[e];
      if (known.times > 0 && now_ > known.asked) known.gap = now_ - known.asked;  // not within a request
      known.used = known.asked = now_;
      ++known.times;
      known.recent.add(1, now_, horizon_);
    }
    if (!scores_) return;
    for (std::size_t i = 0; i < request.scores.size(); ++i) {  // token after token, all experts of each
      Known& known = all_[i % all_.size()];
      known.score = request.scores[i] / 65535.0;
      known.recent_score.add(known.score, now_, horizon_);
    }
  }
  /// What is loaded ahead of its use counts as used.
  void loaded(std::uint16_t expert) { all_[expert].used = now_; }

  double now() const { return now_; }                                          ///< requests so far
  double age(std::uint16_t expert) const { return now_ - all_[expert].used; }  ///< since it was asked for, or loaded
  /// Between the last two that asked for it; all so far where there were no two.
  double gap(std::uint16_t expert) const { return all_[expert].gap > 0 ? all_[expert].gap : now_; }
  double times(std::uint16_t expert) const { return all_[expert].times; }
  /// `times`, a request that lies `horizon` back counting 1/e (LRFU: Lee and others, IEEE TC 50(12), 2001).
  double recent(std::uint16_t expert) const { return all_[expert].recent.now(now_, horizon_); }
  double score(std::uint16_t expert) const { return all_[expert].score; }
  double recent_score(std::uint16_t expert) const { return all_[expert].recent_score.now(now_, horizon_); }

 private:
  /// A sum whose terms lose the share 1 - 1/e every `horizon` requests.
  struct Decayed {
    double value = 0, at = 0;
    double now(double request, double horizon) const {
      return value == 0 ? 0 : value * sim::det_exp((at - request) / horizon);
    }
    void add(double more, double request, double horizon) {
      value = now(request, horizon) + more;
      at = request;
    }
  };
  struct Known {
    double used = 0, asked = 0, gap = 0, times = 0, score = 0;
    Decayed recent, recent_score;
  };

  double horizon_, now_ = 0;
  bool scores_;
  std::vector<Known> all_;
};

/// The expert with the least key, of equals the lowest number.
template <class Key>
std::uint16_t least_worthy(std::span<const std::uint16_t> experts, const Key& key_of) {
  std::uint16_t least = experts.front();
  auto key = key_of(least);
  for (const std::uint16_t e : experts.subspan(1)) {
    const auto other = key_of(e);
    if (other > key || (other == key && e > least)) continue;
    least = e;
    key = other;
  }
  return least;
}

}  // namespace orrery::policies
