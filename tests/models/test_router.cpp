// The router's expectations against closed forms, published coverage and a Monte Carlo of the process they describe.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "models/transformer/router.hpp"

namespace orrery::models::test_router {
namespace {

constexpr TokenMix decodes(std::int64_t n) {
  return {.decode = n, .prompt = 0, .prompts = 0};
}
constexpr TokenMix prompt(std::int64_t tokens, std::int64_t prompts = 1) {
  return {.decode = 0, .prompt = tokens, .prompts = prompts};
}

double share(const RouterParams& params, const TokenMix& mix) {
  return Router(params, 128, 8).coverage(mix) / 128;
}

TEST_CASE("uniform and Zipf coverage are the card's", "[theory]") {
  // 128 experts, top 8. Uniform: 1 - (15/16)^32 = 87 %, 100 % at 128; Zipf by a Monte Carlo of six
  // trials: 55 and 90 % for 1.2, 47 and 78 % for 1.5. Drawing by clocks of a fixed time instead of exactly eight adds a
  // point or two.
  CHECK(share({0, 0}, decodes(32)) == Approx(1 - std::pow(15.0 / 16, 32)).margin(1e-9));
  CHECK(share({0, 0}, decodes(128)) > 0.999);
  CHECK(share({1.2, 0}, decodes(32)) == Approx(0.55).margin(0.02));
  CHECK(share({1.2, 0}, decodes(128)) == Approx(0.90).margin(0.02));
  CHECK(share({1.5, 0}, decodes(32)) == Approx(0.47).margin(0.02));
  CHECK(share({1.5, 0}, decodes(128)) == Approx(0.78).margin(0.02));
}

TEST_CASE("the defaults give the published coverage of Qwen3-30B-A3B", "[golden]") {
  // Layered Prefill: decodes 55 % at 32, 86 % at 128. Bytes of experts read for 8192 prompt tokens in chunks of 512 to
  // 8192: 764, 407, 214, 111, 57 GB; all experts are 48 x 128 x 3 x 2048 x 768 x 2 B = 58.0 GB, so a chunk reads
  // 764/16/58 = 82 %, 407/8/58 = 88 %, 214/4/58 = 92 %, 111/2/58 = 96 %, 57/58 = 98 %.
  const RouterParams d;
  CHECK(share(d, decodes(32)) == Approx(0.55).margin(0.02));
  CHECK(share(d, decodes(128)) == Approx(0.86).margin(0.02));
  const double chunks[] = {0.82, 0.88, 0.92, 0.96, 0.98};
  for (int i = 0; i < 5; ++i) CHECK(share(d, prompt(512LL << i)) == Approx(chunks[i]).margin(0.02));
}

TEST_CASE("coverage follows a Monte Carlo of tastes and clocks", "[prop]") {
  constexpr int kExperts = 64, kTrials = 400;
  const RouterParams params{1.0, 0.8};
  const std::int64_t top_k = 4;
  const Router router(params, kExperts, top_k);
  // The same time for all, found from the chance of the most popular: 1 - (1 + c w t)^(-1/c) = p.
  double sum = 0;
  for (int i = 0; i < kExperts; ++i) sum += std::pow(i + 1, -params.skew);
  const double p0 = router.chance(0);
  const double tau = (std::pow(1 - p0, -params.correlation) - 1) / params.correlation * sum;
  std::mt19937_64 bits(7);
  std::gamma_distribution<double> taste(1 / params.correlation, params.correlation);
  std::exponential_distribution<double> clock(1);
  const auto simulated = [&](int prompts, int tokens) {
    double covered = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<bool> used(kExperts, false);
      for (int s = 0; s < prompts; ++s)
        for (int e = 0; e < kExperts; ++e) {
          const double rate = std::pow(e + 1, -params.skew) / sum * taste(bits);
          for (int t = 0; t < tokens; ++t)
            if (clock(bits) < rate * tau) used[static_cast<std::size_t>(e)] = true;
        }
      covered += static_cast<double>(std::count(used.begin(), used.end(), true));
    }
    return covered / kTrials;
  };
  CHECK(router.coverage(decodes(16)) == Approx(simulated(16, 1)).margin(0.7));
  CHECK(router.coverage(prompt(64)) == Approx(simulated(1, 64)).margin(0.7));
  CHECK(router.coverage(prompt(64, 4)) == Approx(simulated(4, 16)).margin(0.7));
}

TEST_CASE("a token has top_k choices; more tokens never cover less; tastes cost coverage", "[prop]") {
  for (const double skew : {0.0, 0.7, 1.45})
    for (const double correlation : {0.0, 0.5, 2.0})
      for (const std::int64_t experts : {8, 32, 128, 256}) {
        const std::int64_t top_k = std::min<std::int64_t>(8, experts / 2);
        const Router router({skew, correlation}, experts, top_k);
        CAPTURE(skew, correlation, experts);
        double sum = 0;
        for (std::int64_t e = 0; e < experts; ++e) sum += router.chance(e);
        CHECK(sum == Approx(static_cast<double>(top_k)).epsilon(1e-6));
        double before = 0;
        for (std::int64_t n = 1; n <= 1024; n *= 2) {
          const double decoded = router.coverage(decodes(n)), of_one = router.coverage(prompt(n));
          CHECK(decoded >= before);
          CHECK(decoded <= static_cast<double>(experts) + 1e-9);
          CHECK(of_one <= decoded + 1e-9);
          before = decoded;
          const RoutedRows rows = router.route(decodes(n));
          CHECK(rows.rows == n * top_k);
          CHECK(rows.experts >= 1);
          CHECK(rows.experts <= std::min(experts, rows.rows));
          CHECK(rows.max_rows <= rows.rows);
          for (std::size_t t = 0; t < rows.row_tiles.size(); ++t) {
            CHECK(rows.row_tiles[t] >= rows.experts);
            CHECK(rows.row_tiles[t] * hw::kGroupTiles[t] >= rows.rows / 2);
          }
        }
      }
}

TEST_CASE("expert parallelism divides experts; the busiest rank counts", "[unit]") {
  const RoutedRows whole = Router({0, 0}, 64, 4, 1).route(decodes(512));
  const RoutedRows eighth = Router({0, 0}, 64, 4, 8).route(decodes(512));
  CHECK(whole.rows == 2048);
  CHECK(eighth.rows == 256);  // alike experts: an eighth
  CHECK(eighth.experts == 8);
  CHECK(Router({1.45, 0}, 64, 4, 8).route(decodes(512)).rows > 256);
  CHECK(Router().route(decodes(8)).rows == 0);  // a model without experts
  CHECK(Router({0, 0}, 64, 4).route({}).rows == 0);
  CHECK_THROWS_AS(Router({0, 0}, 8, 9), std::invalid_argument);
  CHECK_THROWS_AS(Router({0, 0}, 8, 2, 3), std::invalid_argument);
}

}  // namespace
}  // namespace orrery::models::test_router
