// What a router trace looks like: figures by hand, and against counting on random traces.
#include <cmath>
#include <set>

#include "sim/base/random.hpp"
#include "support.hpp"
#include "traces/router/profile.hpp"

namespace test_router_profile {

using namespace orrery;
using namespace orrery::traces;

namespace {

RouterTrace of(std::int64_t experts, std::int64_t top_k, std::vector<ExpertId> choices) {
  return {.experts = experts,
          .top_k = top_k,
          .context = 0,
          .layers = {{.layer = 0, .choices = std::move(choices), .scores = {}}}};
}

RouterTrace drawn(std::int64_t experts, std::int64_t top_k, std::int64_t tokens, std::uint64_t seed) {
  sim::RandomStream random(seed, "test");
  std::vector<ExpertId> all, choices;
  for (std::int64_t e = 0; e < experts; ++e) all.push_back(static_cast<ExpertId>(e));
  for (std::int64_t t = 0; t < tokens; ++t) {
    random.shuffle(std::span(all));
    choices.insert(choices.end(), all.begin(), all.begin() + top_k);
  }
  return of(experts, top_k, choices);
}

std::set<ExpertId> token(const RouterTrace& t, std::int64_t i) {
  const auto choices = t.choices(0, i, i + 1);
  return {choices.begin(), choices.end()};
}

}  // namespace

TEST_CASE("router profile: four tokens by hand", "[unit]") {
  // tokens {0,1} {1,2} {0,1} {1,3} of 4 experts
  const RouterTrace t = of(4, 2, {0, 1, 1, 2, 0, 1, 1, 3});
  CHECK(reuse(t, 0, 1) == 3.0 / 6);  // 1 each time
  CHECK(reuse(t, 0, 2) == 3.0 / 4);  // {0,1}, then {1}
  CHECK(reuse(t, 0, 4) == 0);
  // p = 1/2, 1, 1/4, 1/4: squares 1/4 + 1 + 1/16 + 1/16, sum 2
  CHECK(reuse_by_chance(t, 0) == 1.375 / 2);
  CHECK(expert_loads(t, 0, 0, 4) == std::vector<std::int64_t>{2, 4, 1, 1});
  CHECK(expert_loads(t, 0, 1, 3) == std::vector<std::int64_t>{1, 2, 1, 0});
  CHECK(experts_for_share({2, 4, 1, 1}, 0.5) == 1);
  CHECK(experts_for_share({2, 4, 1, 1}, 0.75) == 2);
  CHECK(experts_for_share({2, 4, 1, 1}, 0.76) == 3);
  CHECK(union_of_consecutive(t, 0, 2) == 6.0 / 8);  // {0,1,2} and {0,1,3}
  CHECK(union_of_consecutive(t, 0, 3) == 3.0 / 4);
  CHECK(union_of_consecutive(t, 0, 5) == 0);
  // Two of four tokens: expert 0 is missed by C(2,2) of C(4,2) pairs, 1 never, 2 and 3 by C(3,2).
  CHECK(union_of_random(t, 0, 2) == Approx((1 - 1.0 / 6 + 1 + 2 * (1 - 3.0 / 6)) / 4));
  CHECK(profile_router(t, 0).busiest == 2);  // 4 of a mean of 2
}

TEST_CASE("router profile: SRP of two tokens by hand", "[unit]") {
  // Windows {0,1}{1,2}: f = 1 2 1 0; {1,2}{0,1}: 1 2 1 0; {0,1}{1,3}: 1 2 0 1.
  // threshold 2: TP 6, FP 0, FN 6: 12/18. threshold 1: TP 12, FP 6, FN 0: 24/30. threshold 0: FP 6 + 3 * 2: 24/36.
  CHECK(segment_predictability(of(4, 2, {0, 1, 1, 2, 0, 1, 1, 3}), 0, 2) == Approx(0.8));
  // The same experts for ever: perfect.
  CHECK(segment_predictability(of(4, 1, {2, 2, 2, 2, 2}), 0, 3) == 1);
}

TEST_CASE("router profile: counting says the same on random traces", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RouterTrace t = drawn(12, 3, 40, seed);
    for (const std::int64_t lag : {1, 7}) {
      std::int64_t again = 0;
      for (std::int64_t i = 0; i + lag < 40; ++i)
        for (const ExpertId e : token(t, i)) again += token(t, i + lag).contains(e) ? 1 : 0;
      CHECK(reuse(t, 0, lag) == Approx(static_cast<double>(again) / static_cast<double>(3 * (40 - lag))));
    }
    for (const std::int64_t m : {2, 5}) {
      double best = 0;
      for (std::int64_t threshold = 0; threshold <= m; ++threshold) {
        double tp = 0, fp = 0, fn = 0;
        for (std::int64_t first = 0; first + m <= 40; ++first)
          for (ExpertId e = 0; e < 12; ++e) {
            double f = 0;
            for (std::int64_t i = first; i < first + m; ++i) f += token(t, i).contains(e) ? 1 : 0;
            if (f >= static_cast<double>(threshold))
              tp += f, fp += static_cast<double>(m) - f;
            else
              fn += f;
          }
        if (tp > 0) best = std::max(best, 2 * tp / (2 * tp + fp + fn));
      }
      CHECK(segment_predictability(t, 0, m) == Approx(best));
    }
  }
}

TEST_CASE("router profile: a union of random tokens is what draws give", "[prop]") {
  const RouterTrace t = drawn(16, 2, 60, 5);
  sim::RandomStream random(3, "draws");
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 60; ++i) order.push_back(i);
  double sum = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    random.shuffle(std::span(order));
    std::set<ExpertId> seen;
    for (int i = 0; i < 6; ++i)
      for (const ExpertId e : token(t, order[static_cast<std::size_t>(i)])) seen.insert(e);
    sum += static_cast<double>(seen.size()) / 16;
  }
  CHECK(union_of_random(t, 0, 6) == Approx(sum / 4000).epsilon(0.01));
}

TEST_CASE("router profile: imbalance", "[unit]") {
  CHECK(imbalance({3, 1, 2}) == 0.5);
  CHECK(imbalance({2, 2}) == 0);
  CHECK(imbalance({}) == 0);
  CHECK(imbalance({0, 0}) == 0);
}

}  // namespace test_router_profile
