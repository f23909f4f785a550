// Expert caches: each policy on short sequences by hand; bounds against an exhaustive search; the slots.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "policies/experts/residency.hpp"
#include "sim/base/random.hpp"

namespace test_expert_caches {

using namespace orrery;
using namespace orrery::policies;

namespace {

using Choices = std::vector<std::uint16_t>;

ExpertCacheRegistry::Choice choice(const std::string& name, const std::string& params = "{}") {
  ExpertCacheRegistry registry("expert_cache");
  register_expert_caches(registry);
  const sim::Node node = sim::parse_json(params, "params.json");
  sim::Faults faults;
  auto made = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return made;
}

struct Run {
  std::string policy, params = "{}";
  std::int64_t experts = 4, slots = 2, top_k = 1, together = 1;
};

/// Plays choices through a cache, `together` at a time.
std::int64_t misses(const Run& run, const Choices& choices, const Choices& scores = {}) {
  const ExpertCacheSetup setup{
      .experts = run.experts, .slots = run.slots, .top_k = run.top_k, .future = choices, .scores = !scores.empty()};
  ExpertResidency cache(choice(run.policy, run.params).make(setup), setup);
  const auto step = static_cast<std::size_t>(run.together);
  for (std::size_t i = 0; i < choices.size(); i += step) {
    ExpertRequest request{.first = static_cast<std::int64_t>(i),
                          .experts = std::span(choices).subspan(i, std::min(step, choices.size() - i)),
                          .scores = {}};
    const auto e = static_cast<std::size_t>(run.experts);
    if (!scores.empty()) request.scores = std::span(scores).subspan(i * e, e);
    cache.use(request);
  }
  CHECK(cache.counts().misses <= cache.counts().requests);
  return cache.counts().misses;
}

/// The fewest misses of any policy: over all sets that may stay after each group. `keep`: a group's experts stay, as
/// far as there are slots.
std::int64_t fewest(const Choices& choices, std::int64_t slots, std::size_t step, bool keep) {
  std::map<std::set<std::uint16_t>, std::int64_t> states{{{}, 0}};
  for (std::size_t i = 0; i < choices.size(); i += step) {
    const std::set<std::uint16_t> group(
        choices.begin() + static_cast<std::ptrdiff_t>(i),
        choices.begin() + static_cast<std::ptrdiff_t>(std::min(i + step, choices.size())));
    std::map<std::set<std::uint16_t>, std::int64_t> next;
    for (const auto& [held, cost] : states) {
      std::set<std::uint16_t> all = held;
      std::int64_t missed = 0;
      for (const std::uint16_t e : group) missed += all.insert(e).second ? 1 : 0;
      const std::vector<std::uint16_t> pool(all.begin(), all.end());
      for (unsigned bits = 0; bits < (1U << pool.size()); ++bits) {
        std::set<std::uint16_t> stay;
        for (std::size_t b = 0; b < pool.size(); ++b)
          if ((bits >> b & 1U) != 0) stay.insert(pool[b]);
        if (static_cast<std::int64_t>(stay.size()) > slots) continue;
        if (keep && !std::ranges::includes(stay, group)) continue;
        const auto [at, fresh] = next.try_emplace(stay, cost + missed);
        if (!fresh) at->second = std::min(at->second, cost + missed);
      }
    }
    states = std::move(next);
  }
  std::int64_t least = 1 << 30;
  for (const auto& [held, cost] : states) least = std::min(least, cost);
  return least;
}

Choices drawn(std::int64_t experts, std::int64_t top_k, std::int64_t tokens, std::uint64_t seed) {
  sim::RandomStream random(seed, "test");
  Choices all, out;
  for (std::int64_t e = 0; e < experts; ++e) all.push_back(static_cast<std::uint16_t>(e));
  for (std::int64_t t = 0; t < tokens; ++t) {
    random.shuffle(std::span(all));
    out.insert(out.end(), all.begin(), all.begin() + top_k);
  }
  return out;
}

/// Two layers of two experts with three levels each, of two slots and one and one.
struct Nested {
  explicit Nested(std::int64_t slots)
      : setup{.experts = 12, .slots = slots, .levels = 3, .layer_experts = 6, .sizes = sizes} {}
  ExpertResidency cache(const std::string& policy) { return {choice(policy).make(setup), setup}; }
  std::vector<std::uint8_t> sizes{2, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1};
  ExpertCacheSetup setup;
};

TEST_CASE("expert caches: levels take their own numbers of slots", "[unit]") {
  Nested nested(5);
  ExpertResidency cache = nested.cache("lru");
  const Choices first{0, 1, 2}, second{3, 4};
  CHECK(cache.use({.experts = first}) == 3);  // 2 + 1 + 1 slots
  CHECK(cache.use({.first = 3, .experts = second}) == 2);
  // The second needs 2 + 1 slots and 1 was free: the least recent, 0 with its two, makes room.
  CHECK_FALSE(cache.holds(0));
  CHECK(cache.holds(1));
  CHECK(cache.holds(2));
  CHECK(cache.holds(3));
  CHECK_FALSE(cache.counts().evictions > 2);
}

TEST_CASE("expert caches: what is there from the beginning fits into the slots", "[unit]") {
  Nested nested(3);
  const Choices often{0, 3, 6, 0, 3, 6};
  nested.setup.future = often;
  const ExpertResidency cache = nested.cache("static");
  // The three most frequent take two slots each: one of them fits.
  CHECK(cache.holds(0));
  CHECK_FALSE(cache.holds(3));
  CHECK_FALSE(cache.holds(6));
}

TEST_CASE("expert caches: d2moe frees high bits, then low bits of the layer that was used last", "[unit]") {
  Nested nested(8);
  ExpertResidency cache = nested.cache("d2moe");
  const Choices first{0, 1, 2, 3, 4, 5}, second{6}, third{7}, fourth{8, 9};
  CHECK(cache.use({.experts = first}) == 6);  // all 8 slots
  // The next layer's base takes two slots: of the layer before, both third levels go.
  CHECK(cache.use({.first = 6, .experts = second}) == 1);
  CHECK_FALSE(cache.holds(2));
  CHECK_FALSE(cache.holds(5));
  CHECK(cache.holds(1));
  // Its own layer was asked last: its base is not asked for now and goes first.
  CHECK(cache.use({.first = 7, .experts = third}) == 1);
  CHECK_FALSE(cache.holds(6));
  CHECK(cache.holds(7));
  CHECK(cache.holds(4));
}

}  // namespace

TEST_CASE("expert caches: who goes, by hand", "[unit]") {
  // Two slots; 0 1 0 2: lru drops 1, ring 0, lfu 1 (0 was asked for twice).
  CHECK(misses({"lru"}, {0, 1, 0, 2, 0}) == 3);
  CHECK(misses({"ring"}, {0, 1, 0, 2, 0}) == 4);
  CHECK(misses({"lfu"}, {0, 1, 0, 2, 0}) == 3);
  // lfu keeps counts of what went: 1 1 0 2 2 0 1 … 2 replaces 0 (1 against 2), 0 then has 2 as well.
  CHECK(misses({"lfu"}, {1, 1, 0, 2, 2, 0, 1}) == 5);
  // Of equals the lowest number: at 2 both 0 and 1 have one request; 0 goes.
  CHECK(misses({"lfu"}, {1, 0, 2, 1}) == 3);
  CHECK(misses({"lfu"}, {1, 0, 2, 0}) == 4);
  // Belady keeps what comes next: at 2 expert 1 is next, so 0 goes.
  CHECK(misses({"belady"}, {0, 1, 2, 1, 0}) == 4);
  CHECK(misses({"lru"}, {0, 1, 2, 1, 0}) == 4);
  CHECK(misses({"lru"}, {0, 1, 0, 2, 1}) == 4);
  CHECK(misses({"belady"}, {0, 1, 0, 2, 1}) == 3);
}

TEST_CASE("expert caches: an expression that says what a policy does is that policy", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Choices c = drawn(16, 3, 300, seed);
    for (const std::int64_t slots : {3, 5, 9})
      for (const std::int64_t together : {1, 3, 12}) {
        CAPTURE(seed, slots, together);
        const auto by = [&](const std::string& policy, const std::string& params = "{}") {
          return misses({policy, params, 16, slots, 3, together}, c);
        };
        CHECK(by("expression") == by("lru"));
        CHECK(by("expression", R"({"score": "times"})") == by("lfu"));
        // Over a horizon without an end every request counts as much as the others, but for what rounds away.
        CHECK(by("expression", R"j({"score": "round(recent)", "horizon": 1e9})j") == by("lfu"));
        const std::string bred = "min2(times / age, recent)";
        CHECK(by("expression", R"({"score": ")" + bred + "\"}") == by("frequent_recent"));
        CHECK(by("expression", R"({"score": "0 / 0"})") == by("expression", R"({"score": "1"})"));
      }
  }
}

TEST_CASE("expert caches: the names of an expression, by hand", "[unit]") {
  const auto by = [](const char* score, const Choices& c, const Choices& scores = {}) {
    return misses({"expression", R"({"score": ")" + std::string(score) + R"(", "horizon": 2})"}, c, scores);
  };
  // Two slots; 0 0 1 then 2: `gap` of 0 is 1 (requests 1 and 2), of 1 all 4, as it was asked for once. The least goes:
  // 0.
  CHECK(by("gap", {0, 0, 1, 2, 1}) == 3);
  CHECK(by("-gap", {0, 0, 1, 2, 1}) == 4);
  // `expert`, `slots`, `experts`, `now` are what they say: the higher number goes.
  CHECK(by("-expert", {0, 1, 2, 0}) == 3);
  CHECK(by("if(slots == 2 && experts == 4 && now == 3, -expert, expert)", {0, 1, 2, 0}) == 3);
  // 0 three times, then 1 twice, at 1 1 1 and 4 5; at request 6, horizon 2: recent(0) = e^-2.5 + e^-2 + e^-1.5 = 0.44,
  // recent(1) = e^-1 + e^-0.5 = 0.97: 0 goes, where lfu sends 1.
  CHECK(by("recent", {0, 0, 0, 1, 1, 2, 1}) == 3);
  CHECK(by("times", {0, 0, 0, 1, 1, 2, 1}) == 4);
  // Scores of four experts a token: at the third token 0 had 0.1 and 1 had 0.2 last, but 0 had more before (0.9 against
  // 0.1 at the first two: 0.9 e^-1 + 0.5 e^-0.5 + 0.1 = 0.73 against 0.1 e^-1 + 0.1 e^-0.5 + 0.2 = 0.30).
  const auto share = [](double x) { return static_cast<std::uint16_t>(x * 65535); };
  const Choices scores{share(.9), share(.1), 0,         0, share(.5), share(.1), 0, 0,
                       share(.1), share(.2), share(.3), 0, share(.1), share(.1), 0, 0};
  CHECK(by("score", {0, 1, 2, 1}, scores) == 3);
  CHECK(by("score", {0, 1, 2, 0}, scores) == 4);
  CHECK(by("recent_score", {0, 1, 2, 0}, scores) == 3);
  CHECK(by("recent_score", {0, 1, 2, 1}, scores) == 4);
  CHECK(by("score + recent_score", {0, 1, 2, 3}) == 4);  // no scores: all 0, the lowest number goes
  CHECK_THROWS_WITH(by("agee", {0}), Catch::Contains("unknown name 'agee' (did you mean 'age'?)"));
}

TEST_CASE("expert caches: belady that knows so many tokens only", "[unit]") {
  // At 2 the requests after are 1 0; with a look-ahead of one token only 1 is known, so 0 goes; it comes next after.
  CHECK(misses({"belady", R"({"ahead": 1})"}, {0, 1, 2, 1, 0}) == 4);
  // 1 returns in three tokens, 0 never: knowing two, neither is known to return and the lowest number goes.
  // The view moves on: at 2 the next token's 0 is known, though it was out of view when 0 was asked for last.
  CHECK(misses({"belady", R"({"ahead": 1})"}, {0, 1, 1, 1, 2, 0}) == 3);
  // What is out of view goes by recency: at 2, 0 was used longer ago than 1; at 0, 1 longer ago than 2.
  CHECK(misses({"belady", R"({"ahead": 1})"}, {1, 0, 1, 2, 3, 3, 2}) == 4);
  CHECK(misses({"belady", R"({"ahead": 2})"}, {1, 0, 2, 2, 3, 1}) >= misses({"belady"}, {1, 0, 2, 2, 3, 1}));
  const Choices c = drawn(8, 2, 200, 4);
  std::int64_t before = 1 << 30;
  for (const char* ahead : {"1", "2", "4", "16"}) {
    const std::int64_t now = misses({"belady", std::string(R"({"ahead": )") + ahead + "}", 8, 4, 2, 2}, c);
    CHECK(now <= before + 4);  // more is known; ties may fall badly now and then
    before = now;
  }
  CHECK(misses({"belady", R"({"ahead": 199})", 8, 4, 2, 2}, c) == misses({"belady", "{}", 8, 4, 2, 2}, c));
}

TEST_CASE("expert caches: belady is the best that keeps what it loads, with bypass the best there is", "[oracle]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Choices c = drawn(6, 2, 14, seed);
    CAPTURE(seed);
    for (const std::int64_t slots : {2, 3, 4}) {
      CHECK(misses({"belady", "{}", 6, slots, 2, 2}, c) == fewest(c, slots, 2, true));
      CHECK(misses({"belady", R"({"bypass": true})", 6, slots, 2, 2}, c) == fewest(c, slots, 2, false));
      CHECK(misses({"belady", "{}", 6, slots, 2, 1}, c) == fewest(c, slots, 1, true));
      CHECK(misses({"belady", R"({"bypass": true})", 6, slots, 2, 1}, c) == fewest(c, slots, 1, false));
    }
    // Four choices together and two or three slots: what does not fit passes through.
    CHECK(misses({"belady", R"({"bypass": true})", 6, 3, 2, 4}, c) == fewest(c, 3, 4, false));
  }
}

TEST_CASE("expert caches: no policy beats belady", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Choices c = drawn(16, 3, 300, seed);
    for (const std::int64_t slots : {3, 5, 9, 15, 16})
      for (const std::int64_t together : {1, 3, 12}) {
        const std::int64_t keeps = misses({"belady", "{}", 16, slots, 3, together}, c);
        const std::int64_t least = misses({"belady", R"({"bypass": true})", 16, slots, 3, together}, c);
        CHECK(least <= keeps);
        for (const char* name : {"lru", "lfu", "ring", "random", "segment"}) {
          CAPTURE(seed, slots, together, name);
          const std::int64_t other = misses({name, "{}", 16, slots, 3, together}, c);
          CHECK(other >= least);
          if (together <= 3) CHECK(other >= keeps);  // all of a token fits
        }
        // A fixed set is there before the first request: what it saves by that is at most its slots.
        CHECK(misses({"static", "{}", 16, slots, 3, together}, c) + slots >= least);
      }
  }
}

TEST_CASE("expert caches: all experts fit: each misses once, whoever decides", "[prop]") {
  const Choices c = drawn(8, 2, 100, 3);
  for (const char* name : {"lru", "lfu", "ring", "random", "segment", "belady"})
    CHECK(misses({name, "{}", 8, 8, 2, 2}, c) == 8);
  CHECK(misses({"static", "{}", 8, 8, 2, 2}, c) == 0);
}

TEST_CASE("expert caches: as many slots as a token needs leave nothing to decide", "[prop]") {
  const Choices c = drawn(12, 4, 200, 5);
  const std::int64_t lru = misses({"lru", "{}", 12, 4, 4, 4}, c);
  for (const char* name : {"lfu", "ring", "random", "segment", "belady"})
    CHECK(misses({name, "{}", 12, 4, 4, 4}, c) == lru);
}

TEST_CASE("expert caches: experts in use do not make room for each other", "[unit]") {
  // Token {0,1} is there; {1,2} needs a slot: 0 goes, although lfu counts 1 for 2 and 0 alike, and 1 stays.
  CHECK(misses({"lfu", "{}", 4, 2, 2, 2}, {0, 1, 2, 1, 1, 2}) == 3);
  // One by one 2 would take the place of 0 or 1 all the same, but then 1 may go: lru one by one, {0,1} {2,0}: 2 drops
  // 0, which is asked for next.
  CHECK(misses({"lru", "{}", 4, 2, 2, 1}, {0, 1, 2, 0}) == 4);
  CHECK(misses({"lru", "{}", 4, 2, 2, 2}, {0, 1, 2, 0}) == 3);
}

TEST_CASE("expert caches: segment looks so many tokens ahead", "[unit]") {
  // Two slots, 0 1 2 …: behind token 2 the next two tokens are 1 1: 0 goes. With one token the same; 0 first else.
  CHECK(misses({"segment", R"({"tokens": 2})"}, {0, 1, 2, 1, 1, 0}) == 4);
  // Behind 2 come 0 1 1 2. With three tokens 0 (once) goes, then 2 (not at all): 1 is there twice, 2 is not. With one
  // token 1 goes and is loaded again; then of 0 and 2, both not asked for by the next token, 0 goes: 2 is there.
  CHECK(misses({"segment", R"({"tokens": 3})"}, {0, 1, 2, 0, 1, 1, 2}) == 5);
  CHECK(misses({"segment", R"({"tokens": 1})"}, {0, 1, 2, 0, 1, 1, 2}) == 4);
}

TEST_CASE("expert caches: a fixed set", "[unit]") {
  // The first two tokens choose 3 and 1; 3 and 1 stay for good.
  CHECK(misses({"static", R"({"profile": 2})"}, {3, 1, 0, 3, 0, 1}) == 2);
  // Every second expert of four: 0 and 2.
  CHECK(misses({"static", R"({"rule": "uniform"})"}, {0, 1, 2, 3}) == 2);
  CHECK(misses({"static", R"({"rule": "uniform"})", 8, 3}, {0, 2, 5, 1, 3, 4, 6, 7}) == 5);  // 0, 8/3, 16/3
  CHECK(misses({"static", R"({"rule": "random", "seed": 4})", 8, 3}, {0, 1, 2, 3, 4, 5, 6, 7}) == 5);
}

TEST_CASE("expert caches: mrs keeps what nearly was chosen", "[unit]") {
  // Three experts, two slots, the two best scores of a token count. 0 is chosen, then 1, while 2's scores say nothing
  // of 0 any more: at 2 expert 0 has 0.5 * 0.5 * 1 = 0.25 …
  const Choices chosen{0, 1, 2, 1};
  const Choices scores{65535, 30000, 0, /**/ 0, 65535, 30000, /**/ 0, 60000, 65535, /**/ 0, 65535, 30000};
  CHECK(misses({"mrs", R"({"top": 2})", 3, 2, 1, 1}, chosen, scores) == 3);  // … and 1 has more: 1 stays
  // With alpha 0 nothing is ever learnt: all are worth 0, the lowest number goes, 0 here as well.
  CHECK(misses({"mrs", R"({"alpha": 0})", 3, 2, 1, 1}, {1, 0, 2, 1},
               {0, 9, 0, /**/ 9, 0, 0, /**/ 0, 0, 9, /**/ 0, 9, 0}) == 3);
  // Only the best count: with top 1 the near miss 1 of the last token is forgotten by half each token.
  CHECK_THROWS_WITH(misses({"mrs", "{}", 3, 2, 1, 1}, chosen),
                    Catch::Contains("expert cache mrs needs the router's scores"));
}

TEST_CASE("expert caches: what needs a trace says so", "[unit]") {
  const ExpertCacheSetup setup{.experts = 4, .slots = 2};
  for (const char* name : {"belady", "segment", "static"})
    CHECK_THROWS_WITH(choice(name).make(setup),
                      Catch::Contains(std::string("expert cache ") + name + " needs a router trace"));
}

TEST_CASE("expert residency: looked up, loaded, released", "[unit]") {
  const ExpertCacheSetup setup{.experts = 6, .slots = 2};
  ExpertResidency cache(choice("lru").make(setup), setup);
  const Choices both{0, 1}, three{2, 3, 4};
  cache.look_up({.first = 0, .experts = both, .scores = {}});
  CHECK(cache.missing() == Choices{0, 1});
  CHECK_FALSE(cache.holds(0));
  cache.load(0);
  CHECK(cache.holds(0));
  CHECK(cache.use({.first = 2, .experts = both, .scores = {}}) == 1);
  CHECK(cache.counts().requests == 4);
  CHECK(cache.counts().misses == 3);
  CHECK(cache.counts().evictions == 0);
  // Both are in use: a third one takes no place; once they are released it does.
  cache.load(5);
  CHECK_FALSE(cache.holds(5));
  cache.release();
  cache.load(5);
  CHECK(cache.holds(5));
  // More than the slots, and one that comes twice counts once.
  CHECK(cache.use({.first = 4, .experts = three, .scores = {}}) == 3);
  CHECK(cache.counts().requests == 7);
  CHECK((cache.holds(2) ? 1 : 0) + (cache.holds(3) ? 1 : 0) + (cache.holds(4) ? 1 : 0) == 2);
  const Choices twice{1, 1};
  CHECK(cache.use({.first = 7, .experts = twice, .scores = {}}) == 1);
}

TEST_CASE("expert caches: plec keeps what is foretold soonest, and refuses what is needed later", "[unit]") {
  const ExpertCacheSetup setup{.experts = 6, .slots = 2, .top_k = 1, .foretold = true};
  ExpertResidency cache(choice("plec").make(setup), setup);
  const auto ask = [&](std::uint16_t e) { return cache.use({.experts = std::span(&e, 1)}); };
  ask(0);
  ask(1);
  // 0 for the request after next, 1 for the one after that: 2, wanted between them, drives out 1.
  cache.foretell(0, 2);
  cache.foretell(1, 4);
  cache.foretell(2, 3);
  cache.load_ahead(2);
  CHECK(cache.holds(1));  // in use by the last request; 0 is needed sooner than 2
  CHECK_FALSE(cache.holds(2));
  cache.release();
  cache.load_ahead(2);
  CHECK(cache.holds(0));
  CHECK(cache.holds(2));
  // 3 is wanted after both: refused. On demand it comes, over the one that is needed last.
  cache.foretell(3, 5);
  cache.load_ahead(3);
  CHECK_FALSE(cache.holds(3));
  CHECK(ask(3) == 1);
  CHECK(cache.holds(0));
  CHECK_FALSE(cache.holds(2));
  // The time of 0 passes without its being asked for: it is free for 4, whom nobody foretold either.
  ask(3);
  cache.foretell(5, 1);
  cache.load_ahead(5);
  CHECK(cache.holds(3));
  CHECK(cache.holds(5));
  CHECK_THROWS_WITH(choice("plec").make({.experts = 4, .slots = 2}),
                    Catch::Contains("expert cache plec needs predicted experts"));
}

TEST_CASE("expert caches: plec with all foretold and loaded on demand misses as Belady's rule", "[theory]") {
  sim::RandomStream random(7, "plec");
  for (int trial = 0; trial < 20; ++trial) {
    Choices choices;
    for (int i = 0; i < 200; ++i) choices.push_back(static_cast<std::uint16_t>(random.below(8)));
    const ExpertCacheSetup setup{.experts = 8, .slots = 3, .top_k = 1, .foretold = true};
    ExpertResidency cache(choice("plec").make(setup), setup);
    for (std::size_t i = 0; i < choices.size(); ++i) cache.foretell(choices[i], static_cast<std::int64_t>(i) + 1);
    for (const std::uint16_t e : choices) cache.use({.experts = std::span(&e, 1)});
    CHECK(cache.counts().misses == misses({.policy = "belady", .experts = 8, .slots = 3}, choices));
  }
}

}  // namespace test_expert_caches
