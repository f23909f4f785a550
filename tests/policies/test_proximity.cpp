// Proximity-score fusion: chains counted by hand, cuts, thresholds, and random sequences against direct counting.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>

#include "policies/fusion/proximity.hpp"
#include "sim/base/random.hpp"

namespace test_proximity {

using namespace orrery::policies;

namespace {

std::vector<std::uint32_t> letters(const std::string& text) {
  return {text.begin(), text.end()};
}

ProximityFusion fuse(const std::string& text, std::int64_t length, double threshold = 1,
                     const std::vector<std::size_t>& cuts = {}) {
  const std::vector<std::uint32_t> kernels = letters(text);
  return proximity_fusion({kernels, cuts}, length, threshold);
}

}  // namespace

TEST_CASE("proximity: kernels that always follow each other are one launch", "[unit]") {
  // "ab" occurs 3 times, as often as a; "bc" twice of three b, "bd" once.
  const ProximityFusion fusion = fuse("abcabcabd", 2);
  REQUIRE(fusion.chains.size() == 2);  // "ab" and "ca": both c go on to a
  CHECK(fusion.chains[0].first == 0);
  CHECK(fusion.chains[0].count == 3);
  CHECK(fusion.chains[0].score == 1);
  CHECK(fusion.chains[1].first == 2);
  CHECK(fusion.fused == std::vector<std::size_t>{0, 2, 5});  // ab, ca, b, ca, b, d: from left to right
  CHECK(fusion.launches == 6);                               // 9 - 3 (2 - 1)
}

TEST_CASE("proximity: the threshold admits chains that are only likely", "[unit]") {
  CHECK(fuse("abcabcabd", 3).chains.size() == 1);            // "cab", twice; "bca" follows two b of three
  const ProximityFusion likely = fuse("abcabcabd", 3, 0.6);  // "abc" follows two a of three
  REQUIRE(!likely.chains.empty());
  CHECK(likely.chains[0].score == Approx(2.0 / 3));
  CHECK(likely.fused.front() == 0);
  CHECK(likely.launches == 5);  // "abc" twice; "abd" has score 1/3
}

TEST_CASE("proximity: windows do not cross a synchronisation", "[unit]") {
  CHECK(fuse("abab", 2).fused == std::vector<std::size_t>{0, 2});
  const ProximityFusion cut = fuse("abab", 2, 1, {1});  // a|bab: the first a stands alone, so PS("ab") = 1/2
  CHECK(cut.fused == std::vector<std::size_t>{});       // "ba": one of two b
  CHECK(cut.launches == 4);
  CHECK(fuse("abab", 2, 0.5, {1}).launches == 3);
  CHECK(fuse("abab", 2, 1, {0, 2, 4}).fused == std::vector<std::size_t>{0, 2});  // cuts at the ends change nothing
}

TEST_CASE("proximity: a kernel that occurs once starts a chain of any length", "[unit]") {
  // Why the longest windows pay off the most in a forward pass: the embedding occurs once.
  const ProximityFusion fusion = fuse("exyxyxyxy", 9);
  CHECK(fusion.launches == 1);
  CHECK(fuse("exyxyxyxy", 10).launches == 9);  // longer than the sequence: nothing
}

TEST_CASE("proximity: names are numbered in order", "[unit]") {
  const std::vector<std::string_view> names{"gemm", "add", "gemm", "norm"};
  CHECK(number_kernels(names) == std::vector<std::uint32_t>{0, 1, 0, 2});
}

TEST_CASE("proximity: misuse", "[unit]") {
  CHECK_THROWS_AS(fuse("ab", 1), std::invalid_argument);
  CHECK_THROWS_AS(fuse("ab", 2, 0), std::invalid_argument);
  CHECK_THROWS_AS(fuse("ab", 2, 1.5), std::invalid_argument);
  CHECK_THROWS_AS(fuse("ab", 2, 1, {3}), std::invalid_argument);
  CHECK_THROWS_AS(fuse("abc", 2, 1, {2, 1}), std::invalid_argument);
}

TEST_CASE("proximity: counts, scores and launches equal direct counting", "[prop]") {
  orrery::sim::RandomStream random(5, "sequences");
  for (int round = 0; round < 400; ++round) {
    const std::size_t n = 1 + random.below(60);
    std::vector<std::uint32_t> kernels;
    for (std::size_t i = 0; i < n; ++i) kernels.push_back(static_cast<std::uint32_t>(random.below(4)));
    std::vector<std::size_t> cuts;
    for (std::size_t i = 0; i <= n; ++i)
      if (random.bernoulli(0.05)) cuts.push_back(i);
    const auto length = static_cast<std::size_t>(2 + random.below(9));
    const double threshold = random.bernoulli(0.5) ? 1 : random.uniform(0.05, 1);
    const ProximityFusion fusion = proximity_fusion({kernels, cuts}, static_cast<std::int64_t>(length), threshold);

    const auto whole = [&](std::size_t i) {  // a window that crosses nothing
      const auto inside = [&](std::size_t cut) { return cut > i && cut < i + length; };
      return i + length <= n && std::none_of(cuts.begin(), cuts.end(), inside);
    };
    const auto count = [&](std::size_t i) {
      std::int64_t found = 0;
      for (std::size_t j = 0; j < n; ++j)
        if (whole(j) && std::equal(&kernels[i], &kernels[i] + length, &kernels[j])) ++found;
      return found;
    };
    const auto score = [&](std::size_t i) {
      return static_cast<double>(count(i)) /
             static_cast<double>(std::count(kernels.begin(), kernels.end(), kernels[i]));
    };
    for (const ProximityChain& chain : fusion.chains) {
      REQUIRE(chain.count == count(chain.first));
      REQUIRE(chain.score == score(chain.first));
      REQUIRE(chain.score >= threshold);
    }
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < n;) {
      const bool fused = whole(i) && score(i) >= threshold;
      if (fused) expected.push_back(i);
      i += fused ? length : 1;
    }
    REQUIRE(fusion.fused == expected);
    REQUIRE(fusion.launches == static_cast<std::int64_t>(n - expected.size() * (length - 1)));
  }
}

}  // namespace test_proximity
