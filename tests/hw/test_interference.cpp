// Work that runs at once on a device: how long it takes together, by each model.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "hw/interference/interference.hpp"
#include "sim/base/document.hpp"

namespace test_interference {

using namespace orrery;
using namespace orrery::hw;
using Catch::Contains;
using enum CollectiveReach;

namespace {

std::unique_ptr<Interference> model(const std::string& block) {
  InterferenceRegistry registry("interference");
  register_interference(registry);
  sim::Faults faults;
  const auto choice = registry.parse_block(sim::parse_json(block, "machine.json"), "none", faults);
  faults.throw_if_any();
  return choice.make();
}

std::unique_ptr<Interference> shares(const std::string& parameters = "{}") {
  return model(R"({"policy": "shares", "shares": )" + parameters + "}");
}

std::string shares_text(const std::array<double, 6>& shares) {
  constexpr std::array kNames{"node_collective", "network_collective", "network_link",
                              "host_copy",       "host_collective",    "host_kernels"};
  std::string text = "{";
  for (std::size_t i = 0; i < kNames.size(); ++i)
    text += (i > 0 ? ", \"" : "\"") + std::string(kNames[i]) + "\": " + std::to_string(shares[i]);
  return text + "}";
}

constexpr double kRounding = 1e-12;

}  // namespace

TEST_CASE("interference: none takes the longest, and one kind of work its own time", "[unit]") {
  CHECK(together_s(*model("{}"), {3, 5, 2, 4}, node) == 5);
  CHECK(longest_s({3, 5, 2, 4}) == 5);
  CHECK(longest_s({0, 0, 0, 0}) == 0);
  for (const char* block : {R"({"policy": "none"})", R"({"policy": "shares"})", R"({"policy": "factors"})"})
    for (std::size_t i = 0; i < kActivities; ++i) {
      PerActivity alone{};
      alone[i] = 2.5;
      CHECK(together_s(*model(block), alone, node) == 2.5);
      CHECK(together_s(*model(block), alone, network) == 2.5);
    }
  CHECK(together_s(*shares(), {0, 0, 0, 0}, node) == 0);
  CHECK(slows_nothing(*model("{}")));
  CHECK_FALSE(slows_nothing(*shares()));
  CHECK_FALSE(slows_nothing(*model(R"({"policy": "factors"})")));
  // Up to half of the host each way, and no share of anything else.
  CHECK(slows_nothing(*shares(R"({"node_collective": 0, "network_collective": 0, "network_link": 0,
                                  "host_copy": 0.5})")));
}

TEST_CASE("interference: kernels and a collective share the device", "[unit]") {
  // Both run at 1 / 1.44 until the kernels are done, at 1.44 x 9 s; of the collective 10 - 9 s are left.
  CHECK(together_s(*shares(), {9, 10, 0, 0}, node) == Approx(1.44 * 9 + 1));
  CHECK(together_s(*shares(), {10, 9, 0, 0}, node) == Approx(1.44 * 9 + 1));
  // Across the network its kernels take less.
  CHECK(together_s(*shares(), {9, 10, 0, 0}, network) == Approx(1.15 * 9 + 1));
  // Copies slow neither.
  CHECK(together_s(*shares(), {9, 0, 4, 0}, node) == Approx(9));
}

TEST_CASE("interference: copies both ways share the host", "[unit]") {
  // 0.86 + 0.86 of a host: both run at 1 / 1.72 until the shorter is done.
  CHECK(together_s(*shares(), {0, 0, 15, 6}, node) == Approx(1.72 * 6 + 9));
  // From memory that is not pinned: one after the other.
  CHECK(together_s(*shares(R"({"host_copy": 1})"), {0, 0, 15, 6}, node) == Approx(21));
  // A collective that copies hold up too: all three in turn, whatever the link.
  CHECK(together_s(*shares(R"({"host_copy": 1, "host_collective": 1})"), {0, 5, 15, 6}, node) == Approx(26));
}

TEST_CASE("interference: a collective across the network takes both directions of the link", "[unit]") {
  const auto link = shares(R"({"network_collective": 0, "host_copy": 0.5})");
  CHECK(together_s(*link, {0, 10, 4, 0}, network) == Approx(14));  // one after the other
  CHECK(together_s(*link, {0, 10, 0, 4}, network) == Approx(14));
  CHECK(together_s(*link, {0, 10, 4, 4}, network) == Approx(14));  // copies beside each other, each way its own
  CHECK(together_s(*link, {0, 10, 4, 4}, node) == Approx(10));     // inside a node it does not come by
  // Adapters with paths of their own.
  CHECK(together_s(*shares(R"({"network_link": 0})"), {0, 10, 4, 0}, network) == Approx(10));
}

TEST_CASE("interference: speeds are max-min fair", "[unit]") {
  // Kernels and collective stay at 1 / 1.44, copies at 1 / 1.72: neither pair takes from the other.
  const PerActivity slower = shares()->slower(0b1111, node);
  CHECK(slower[0] == Approx(1.44));
  CHECK(slower[1] == Approx(1.44));
  CHECK(slower[2] == Approx(1.72));
  CHECK(slower[3] == Approx(1.72));
  // The link is full first: collective and copies at 1/2; of the device 1 - 0.5 x 0.5 is left for kernels.
  const PerActivity rest = shares(R"({"network_collective": 0.5, "host_copy": 0.5})")->slower(0b1111, network);
  CHECK(rest[1] == Approx(2));
  CHECK(rest[2] == Approx(2));
  CHECK(rest[0] == Approx(1 / 0.75));
}

TEST_CASE("interference: shares never gain by company, nor lose more than one after the other", "[unit]") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> share(0, 1), time(0, 10);
  for (int round = 0; round < 300; ++round) {
    std::array<double, 6> parameters{};
    for (double& value : parameters) value = std::round(share(random) * 100) / 100;
    const auto own = shares(shares_text(parameters));
    PerActivity alone{};
    for (double& value : alone) value = random() % 4 == 0 ? 0 : time(random);
    for (const CollectiveReach reach : {node, network}) {
      const double together = together_s(*own, alone, reach);
      const double sum = std::accumulate(alone.begin(), alone.end(), 0.0);
      CHECK(together >= longest_s(alone) * (1 - kRounding));
      CHECK(together <= sum * (1 + kRounding));
      // Twice as much of all takes twice as long.
      PerActivity twice = alone;
      for (double& value : twice) value *= 2;
      CHECK(together_s(*own, twice, reach) == Approx(2 * together).epsilon(1e-9));
      for (std::size_t set = 1; set < kActivitySets; ++set) {
        const PerActivity slower = own->slower(static_cast<ActivitySet>(set), reach);
        const bool far = reach == network;
        const std::array<PerActivity, 4> uses{PerActivity{1, parameters[far ? 1 : 0], 0, 0},
                                              PerActivity{0, far ? parameters[2] : 0, 1, 0},
                                              PerActivity{0, far ? parameters[2] : 0, 0, 1},
                                              PerActivity{parameters[5], parameters[4], parameters[3], parameters[3]}};
        std::array<double, 4> taken{};
        for (std::size_t r = 0; r < uses.size(); ++r)
          for (std::size_t i = 0; i < kActivities; ++i)
            if ((set >> i & 1U) != 0) taken[r] += uses[r][i] / slower[i];
        for (const double of : taken) CHECK(of <= 1 + 1e-9);
        // Nobody below full speed could go faster: something that it uses is full.
        for (std::size_t i = 0; i < kActivities; ++i) {
          if ((set >> i & 1U) == 0) continue;
          CHECK(slower[i] >= 1);
          bool full = slower[i] <= 1 + 1e-9;
          for (std::size_t r = 0; r < uses.size(); ++r) full = full || (uses[r][i] > 0 && taken[r] >= 1 - 1e-9);
          CHECK(full);
        }
      }
    }
  }
}

TEST_CASE("interference: factors of a pair, by hand", "[unit]") {
  const auto l4 = model(R"({"policy": "factors"})");
  // L4, kernels and collective: 1.1676 and 1. The collective ends after 4 s, in which 4 / 1.1676 s of kernels ran.
  CHECK(together_s(*l4, {10, 4, 0, 0}, node) == Approx(4 + 10 - 4 / 1.1676));
  CHECK(together_s(*l4, {10, 4, 0, 0}, network) == together_s(*l4, {10, 4, 0, 0}, node));
  // A100, copies from and to the host: 1.5186 and 1.2665.
  const auto a100 = model(R"({"policy": "factors", "factors": {"platform": "a100-sxm4-40gb"}})");
  CHECK(together_s(*a100, {0, 0, 2, 8}, node) == Approx(2 * 1.5186 + 8 - 2 * 1.5186 / 1.2665));
}

TEST_CASE("interference: factors follow Mist's recurrence", "[unit]") {
  // Its own way: for every set, fours first, scale what is left of its members and take off the shortest.
  constexpr std::array<std::array<int, 4>, 11> kMasks{{{1, 1, 1, 1},
                                                       {1, 1, 1, 0},
                                                       {1, 1, 0, 1},
                                                       {1, 0, 1, 1},
                                                       {0, 1, 1, 1},
                                                       {1, 1, 0, 0},
                                                       {1, 0, 1, 0},
                                                       {1, 0, 0, 1},
                                                       {0, 1, 1, 0},
                                                       {0, 1, 0, 1},
                                                       {0, 0, 1, 1}}};
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> factor(1, 4), time(0.1, 10);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> factors;
    std::string text;
    for (int i = 0; i < 28; ++i) {
      factors.push_back(std::round(factor(random) * 1000) / 1000);
      text += (i > 0 ? ", " : "") + std::to_string(factors.back());
    }
    PerActivity left{};
    for (double& value : left) value = random() % 4 == 0 ? 0 : time(random);
    const PerActivity alone = left;
    double expected = 0;
    std::size_t next = 0;
    for (const auto& mask : kMasks) {
      std::vector<std::size_t> members;
      for (std::size_t i = 0; i < kActivities; ++i)
        if (mask[i] != 0) members.push_back(i);
      double shortest = 1e300;
      for (std::size_t k = 0; k < members.size(); ++k)
        shortest = std::min(shortest, left[members[k]] * factors[next + k]);
      expected += shortest;
      for (std::size_t k = 0; k < members.size(); ++k) {
        const double scaled = left[members[k]] * factors[next + k];
        left[members[k]] = scaled <= shortest ? 0 : (scaled - shortest) / factors[next + k];
      }
      next += members.size();
    }
    for (const double rest : left) expected += rest;
    CHECK(together_s(*model(R"({"policy": "factors", "factors": {"factors": [)" + text + "]}}"), alone, node) ==
          Approx(expected).epsilon(1e-9));
  }
}

TEST_CASE("interference: wrong parameters", "[unit]") {
  const auto short_list = model(R"({"policy": "factors", "factors": {"factors": [1, 2]}})");
  REQUIRE(short_list->fault());
  CHECK(*short_list->fault() == "expected 28 factors, got 2");
  CHECK_FALSE(model(R"({"policy": "factors"})")->fault());
  CHECK_FALSE(shares()->fault());
  CHECK_THROWS_WITH(shares(R"({"host_copy": 2})"), Contains("host_copy") && Contains("1"));
  CHECK_THROWS_WITH(model(R"({"policy": "factors", "factors": {"factors": [0.5]}})"), Contains("factors"));
  CHECK_THROWS_WITH(model(R"({"policy": "share"})"), Contains("shares"));
}

}  // namespace test_interference
