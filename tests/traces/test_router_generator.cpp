// Drawn router traces: what each parameter does, its limits, and fits that find them again.
#include <algorithm>
#include <numeric>
#include <set>

#include "support.hpp"
#include "traces/router/fit.hpp"
#include "traces/router/profile.hpp"

namespace test_router_generator {

using namespace orrery;
using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

/// No reuse, nothing of a text's own: choices by popularity alone.
RouterGenerator plain() {
  RouterGenerator g{.experts = 32, .top_k = 4, .tokens = 4000, .layers = 1, .context = 100};
  g.previous = g.earlier = 0;
  g.common = 1;
  return g;
}

std::string faults_of(const std::string& json) {
  return fault_of([&] {
    sim::Faults faults;
    const sim::Node node = sim::parse_json(json, "g.json");
    const auto params = sim::parse_params<RouterGenerator>(node, faults);
    if (faults.empty()) check_router_generator(node, params, faults);
    faults.throw_if_any();
  });
}

}  // namespace

TEST_CASE("router generator: the same seed draws the same, another another", "[unit]") {
  const RouterGenerator g{.tokens = 300, .layers = 2};
  const RouterTrace a = generate_router_trace(g, 1), b = generate_router_trace(g, 1), c = generate_router_trace(g, 2);
  CHECK(a.layers[1].choices == b.layers[1].choices);
  CHECK(a.layers[1].choices != c.layers[1].choices);
  CHECK(a.layers[0].choices != a.layers[1].choices);
  CHECK(a.tokens() == 300);
}

TEST_CASE("router generator: a token chooses no expert twice, the best score first", "[prop]") {
  RouterGenerator g{.experts = 40, .top_k = 6, .tokens = 500};
  g.previous = 0.5;
  g.scores = RouterScores::informed;
  for (const RouterScores scores : {RouterScores::informed, RouterScores::blind}) {
    g.scores = scores;
    const RouterTrace t = generate_router_trace(g, 3);
    for (std::int64_t i = 0; i < t.tokens(); ++i) {
      const auto chosen = t.choices(0, i, i + 1);
      REQUIRE(std::set<ExpertId>(chosen.begin(), chosen.end()).size() == 6);
      const auto of = [&](ExpertId e) { return t.layers[0].scores[static_cast<std::size_t>(i * 40 + e)]; };
      REQUIRE(of(chosen[0]) == 65535);
      for (std::size_t j = 1; j < chosen.size(); ++j) REQUIRE(of(chosen[j]) <= of(chosen[j - 1]));
      for (ExpertId e = 0; e < 40; ++e)
        if (std::ranges::find(chosen, e) == chosen.end()) REQUIRE(of(e) <= of(chosen.back()));
    }
  }
}

TEST_CASE("router generator: without reuse choices follow popularity", "[prop]") {
  RouterGenerator g = plain();
  g.top_k = 1;
  g.popularity.assign(32, 1);
  g.popularity[5] = 17;  // 17 of 48
  const std::vector<std::int64_t> loads = expert_loads(generate_router_trace(g, 1), 0, 0, 4000);
  // 4,000 draws: a standard deviation of sqrt(4000 * 0.354 * 0.646) = 30.
  CHECK(std::abs(static_cast<double>(loads[5]) - 4000.0 * 17 / 48) < 120);
  CHECK(reuse(generate_router_trace(g, 1), 0, 1) ==
        Approx(reuse_by_chance(generate_router_trace(g, 1), 0)).margin(0.02));
}

TEST_CASE("router generator: `previous` 1 repeats a text's first token; the next text begins anew", "[unit]") {
  RouterGenerator g = plain();
  g.previous = 1;
  g.tokens = 200;
  const RouterTrace t = generate_router_trace(g, 1);
  const auto set = [&](std::int64_t i) {
    const auto c = t.choices(0, i, i + 1);
    return std::set<ExpertId>(c.begin(), c.end());
  };
  for (std::int64_t i = 1; i < 100; ++i) REQUIRE(set(i) == set(0));
  for (std::int64_t i = 101; i < 200; ++i) REQUIRE(set(i) == set(100));
  CHECK(set(100) != set(0));
}

TEST_CASE("router generator: `earlier` reaches beyond the token before, `window` says how far", "[prop]") {
  RouterGenerator g = plain();
  g.context = 0;
  g.earlier = 0.8;
  g.window = 4;
  const RouterTrace near = generate_router_trace(g, 1);
  g.window = 64;
  const RouterTrace far = generate_router_trace(g, 1);
  CHECK(reuse(near, 0, 3) > reuse(far, 0, 3) + 0.05);
  // Copies are of tokens 2 and more back: the one before is met less often than the one before that.
  CHECK(reuse(near, 0, 2) > reuse(near, 0, 1));
}

TEST_CASE("router generator: `follow` 1 ties a layer to the one before, expert to expert", "[unit]") {
  RouterGenerator g = plain();
  g.layers = 3;
  g.follow = 1;
  g.tokens = 300;
  const RouterTrace t = generate_router_trace(g, 1);
  for (std::size_t l = 1; l < 3; ++l) {
    for (std::int64_t i = 0; i < 300; ++i) {
      // Sets correspond one to one, so tokens with the same set before have the same after.
      const auto a = t.choices(l - 1, i, i + 1), b = t.choices(l, i, i + 1);
      if (i > 0 && std::ranges::is_permutation(a, t.choices(l - 1, 0, 1)))
        REQUIRE(std::ranges::is_permutation(b, t.choices(l, 0, 1)));
    }
  }
  std::vector<std::int64_t> first = expert_loads(t, 0, 0, 300), last = expert_loads(t, 2, 0, 300);
  std::ranges::sort(first);
  std::ranges::sort(last);
  CHECK(first == last);  // each expert's load is its follower's
}

TEST_CASE("router generator: texts of several domains touch more experts together", "[prop]") {
  RouterGenerator g{.tokens = 4096};
  const RouterTrace one = generate_router_trace(g, 1);
  g.domains = 4;
  const RouterTrace four = generate_router_trace(g, 1);
  CHECK(union_of_random(four, 0, 128) > union_of_random(one, 0, 128) + 0.1);
  CHECK(union_of_consecutive(four, 0, 128) == Approx(union_of_consecutive(one, 0, 128)).margin(0.05));
  g.alike = 1;  // all domains are the first
  CHECK(union_of_random(generate_router_trace(g, 1), 0, 128) == Approx(union_of_random(one, 0, 128)).margin(0.03));
}

TEST_CASE("router generator: a sorted popularity is a share, the more skewed the smaller alpha", "[unit]") {
  const auto skewed = sorted_popularity(64, 0.3), even = sorted_popularity(64, 30);
  CHECK(std::accumulate(skewed.begin(), skewed.end(), 0.0) == Approx(1));
  CHECK(std::ranges::is_sorted(skewed, std::greater{}));
  CHECK(skewed.front() > 3 * even.front());
}

TEST_CASE("router generator: faults", "[unit]") {
  CHECK(faults_of(R"({"experts": 8, "top_k": 9})") == "g.json:/top_k: more activated experts than exist: 9 of 8");
  CHECK(faults_of(R"({"previous": 0.7, "earlier": 0.4})") ==
        "g.json: expected previous + earlier + follow of at most 1, got 1.1");
  CHECK(faults_of(R"({"experts": 8, "popularity": [1, 2]})") ==
        "g.json:/popularity: expected a popularity for each of 8 experts, got 2");
  CHECK(faults_of(R"({"tokens": 60000000, "layers": 100})")
            .starts_with("g.json:/tokens: 60000000 tokens of 100 layers are more than a router trace may have"));
  CHECK(faults_of(R"({"pervious": 0.1})").find("did you mean 'previous'?") != std::string::npos);
}

TEST_CASE("router fit: figures of a drawn trace are met, whichever popularity it has", "[prop]") {
  RouterGenerator g{.experts = 64, .top_k = 4, .tokens = 4096};
  g.previous = 0.4;
  g.earlier = 0.2;
  g.common = 0.6;
  const RouterTrace t = generate_router_trace(g, 9);
  for (const FittedPopularity popularity : {FittedPopularity::own, FittedPopularity::drawn}) {
    const RouterFit fit = fit_router(t, 0, popularity);
    CHECK(fit.error < 2.5);  // points; a generator without reuse is 15 and more off
    CHECK(fit.generator.popularity.empty() == (popularity == FittedPopularity::drawn));
    CHECK(fit.generator.previous + fit.generator.earlier == Approx(0.6).margin(0.12));
  }
}

TEST_CASE("router fit: to SRP alone", "[unit]") {
  const RouterFit fit = fit_router_to_srp(0.541, 128, 8);
  CHECK(100 * segment_predictability(generate_router_trace(fit.generator, 5), 0, 16) == Approx(54.1).margin(1.5));
  CHECK(fit.generator.earlier == 0);
}

TEST_CASE("router generator: the sample that ships is what its generator draws", "[golden]") {
  const std::string samples = ORRERY_SOURCE_DIR "/traces/samples/router-1024";
  sim::Faults faults;
  const sim::Node config = sim::parse_json(read_bytes(samples + ".generator.json"), "sample");
  const auto generator = sim::parse_params<RouterGenerator>(*config.find("router"), faults);
  faults.throw_if_any();
  const Scratch scratch;
  write_router_trace(generate_router_trace(generator, 1), scratch.path("t.csv"));
  CHECK(read_bytes(scratch.path("t.csv")) == read_bytes(samples + ".csv"));
}

}  // namespace test_router_generator
