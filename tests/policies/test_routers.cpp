// Routers by themselves: who is chosen, by hand.
#include <array>
#include <catch2/catch.hpp>

#include "policies/routing/load.hpp"
#include "policies/routing/routing.hpp"
#include "sim/base/mix.hpp"
#include "tests/policies/registry_support.hpp"

namespace test_routers {

using namespace orrery;
using namespace orrery::policies;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;

std::unique_ptr<Router> router(const std::string& name, const std::string& params = "{}") {
  return test::made(register_routers, name, params, sim::RandomStream(1, "router"));
}

/// So many replicas, numbered from 0.
std::vector<ReplicaFacts> replicas(std::size_t count) {
  std::vector<ReplicaFacts> facts(count);
  for (std::size_t i = 0; i < count; ++i) facts[i].replica = static_cast<std::int32_t>(i);
  return facts;
}
/// Replicas with so many requests each.
std::vector<ReplicaFacts> with_requests(const std::vector<std::int64_t>& requests) {
  std::vector<ReplicaFacts> facts = replicas(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) facts[i].requests = requests[i];
  return facts;
}

/// How often each of four places at most is chosen in `rounds`.
std::array<int, 4> chosen(Router& router, const std::vector<ReplicaFacts>& facts, int rounds) {
  std::array<int, 4> counts{};
  for (int i = 0; i < rounds; ++i) ++counts.at(router.route({.replicas = facts}));
  return counts;
}

/// A cache in which every text has so many tokens.
struct Matches final : KvView {
  explicit Matches(std::int64_t found, bool keeping = true) : tokens(found), keeps(keeping) {}
  std::int64_t total_blocks() const override { return 100; }
  std::int64_t block_bytes() const override { return 1; }
  std::int64_t free_blocks() const override { return 100; }
  std::int64_t blocks_for(std::int64_t n) const override { return n; }
  std::int64_t held_blocks(SeqId) const override { return 0; }
  std::int64_t match_text(const Text&) const override { return tokens; }
  bool keeps_prefixes() const override { return keeps; }
  std::int64_t tokens;
  bool keeps;
};

}  // namespace

TEST_CASE("load of a replica: each kind, divided by its weight", "[unit]") {
  ReplicaFacts facts{
      .requests = 3, .queued_tokens = 7, .tokens = 11, .waiting = 5, .kv_blocks = 13, .kv_total = 52, .weight = 2};
  CHECK(load_of(facts, LoadOf::requests) == 1.5);
  CHECK(load_of(facts, LoadOf::waiting) == 2.5);
  CHECK(load_of(facts, LoadOf::queued_tokens) == 3.5);
  CHECK(load_of(facts, LoadOf::tokens) == 5.5);
  CHECK(load_of(facts, LoadOf::kv) == 0.125);
  facts.kv_total = 0;  // as one block
  CHECK(load_of(facts, LoadOf::kv) == 6.5);
}

TEST_CASE("least_loaded: the least of a kind, the first of equals", "[unit]") {
  CHECK(least_loaded(with_requests({3, 1, 2, 1}), LoadOf::requests) == 1);
  CHECK(least_loaded(with_requests({1, 1, 2}), LoadOf::requests) == 0);
  CHECK(least_loaded(with_requests({3, 2, 1}), LoadOf::requests) == 2);
  std::vector<ReplicaFacts> facts = with_requests({1, 3});
  facts[0].tokens = 100;
  facts[1].tokens = 50;
  CHECK(router("least_loaded")->route({.replicas = facts}) == 1);
  CHECK(router("least_loaded", R"({"load": "requests"})")->route({.replicas = facts}) == 0);
  CHECK_FALSE(router("least_loaded")->reads_live());
  for (const char* load : {"kv", "waiting"})
    for (const char* name : {"least_loaded", "power_of_two", "prefix_aware", "session_affinity"})
      CHECK(router(name, std::string(R"({"load": ")") + load + "\"}")->reads_live());
}

TEST_CASE("jsq: the fewest requests, of equals any with the same chance", "[unit]") {
  const auto jsq = router("jsq");
  CHECK(chosen(*jsq, with_requests({3, 1, 2}), 20) == std::array{0, 20, 0, 0});
  CHECK(chosen(*jsq, with_requests({1, 2, 3}), 20) == std::array{20, 0, 0, 0});
  // Three equals of 3,000 draws: 1,000 each, with a deviation of 26.
  for (const auto& [loads, first] :
       {std::pair(std::vector<std::int64_t>{2, 1, 1, 1}, 1), std::pair(std::vector<std::int64_t>{1, 1, 1, 2}, 0)}) {
    const auto counts = chosen(*jsq, with_requests(loads), 3000);
    for (int i = first; i < first + 3; ++i) CHECK(std::abs(counts.at(static_cast<std::size_t>(i)) - 1000) < 104);
  }
  const auto ends = chosen(*jsq, with_requests({1, 2, 1, 3}), 2000);
  CHECK(ends[1] + ends[3] == 0);
  CHECK(std::abs(ends[0] - 1000) < 90);
}

TEST_CASE("round_robin: by number, whoever comes and goes", "[unit]") {
  const auto turns = router("round_robin");
  std::vector<ReplicaFacts> facts = replicas(3);
  for (const std::size_t place : {0U, 1U, 2U, 0U}) CHECK(turns->route({.replicas = facts}) == place);
  facts.erase(facts.begin() + 1);  // 0 and 2 are left, and 0 was the last
  CHECK(turns->route({.replicas = facts}) == 1);
  facts[1].replica = 7;
  CHECK(turns->route({.replicas = facts}) == 1);
  CHECK(turns->route({.replicas = facts}) == 0);
}

TEST_CASE("random: every replica with the same chance", "[unit]") {
  const auto counts = chosen(*router("random"), replicas(4), 4000);
  for (const int count : counts) CHECK(std::abs(count - 1000) < 110);  // a deviation of 27
}

TEST_CASE("power_of_two: the least loaded of so many different replicas drawn", "[unit]") {
  // Of three two are drawn: the best is among them at two of three times, the worst is never the better.
  const auto two = chosen(*router("power_of_two"), with_requests({3, 1, 2}), 3000);
  CHECK(two[0] == 0);
  CHECK(std::abs(two[1] - 2000) < 104);
  CHECK(std::abs(two[2] - 1000) < 104);
  // One is any; three, or more than there are, are all.
  for (const int count : chosen(*router("power_of_two", R"({"choices": 1})"), with_requests({3, 1, 2, 4}), 4000))
    CHECK(std::abs(count - 1000) < 110);
  for (const char* choices : {"3", "9"})
    CHECK(chosen(*router("power_of_two", std::string(R"({"choices": )") + choices + "}"), with_requests({3, 1, 2}),
                 50) == std::array{0, 50, 0, 0});
  // By another load.
  std::vector<ReplicaFacts> facts = with_requests({3, 1});
  facts[1].tokens = 5;
  CHECK(chosen(*router("power_of_two", R"({"load": "tokens"})"), facts, 20) == std::array{20, 0, 0, 0});
}

TEST_CASE("prefix_aware: what is cached of the prompt against load over the mean, by hand", "[unit]") {
  const Text text{{1, 100}}, empty;
  std::vector<ReplicaFacts> facts = replicas(2);
  facts[0].tokens = 100;  // half the mean of 200: costs 0.25
  facts[1].tokens = 300;  // 0.75
  RouteView view{.replicas = facts};
  view.request.prefill_tokens = 100;
  view.request.text = &text;
  const auto with = [&](std::int64_t tokens, const std::string& params = "{}", bool keeps = true) {
    const Matches cache(tokens, keeps);
    const std::array<const KvView*, 1> caches{&cache};
    facts[1].caches = caches;
    const std::size_t place = router("prefix_aware", params)->route(view);
    facts[1].caches = {};
    return place;
  };
  CHECK(with(50) == 0);  // 0.5 - 0.75 = -0.25: the first of equals
  CHECK(with(51) == 1);
  CHECK(with(25, R"({"prefix_weight": 2})") == 0);
  CHECK(with(26, R"({"prefix_weight": 2})") == 1);
  CHECK(with(100, R"({"load_weight": 1})") == 0);  // 1 - 1.5 = 0 - 0.5
  CHECK(with(99, R"({"load_weight": 0.9})") == 1);
  CHECK(with(1, R"({"load_weight": 0})") == 1);
  CHECK(with(100, "{}", false) == 0);  // it keeps nothing
  view.request.text = &empty;          // like no other
  CHECK(with(100) == 0);
  view.request.text = nullptr;
  CHECK(with(100) == 0);
  // Nobody has any load: all are alike but for what they have.
  facts[0].tokens = facts[1].tokens = 0;
  CHECK(with(100) == 0);
  view.request.text = &text;
  CHECK(with(1) == 1);
  // A prompt of one token that is there is worth 1, against 0.125 and 0.875.
  facts[0].tokens = 50;
  facts[1].tokens = 350;
  view.request.prefill_tokens = 1;
  CHECK(with(1) == 1);
  view.request.prefill_tokens = 0;  // as one
  CHECK(with(1) == 1);
}

TEST_CASE("prefix_aware: the best of all, wherever it stands", "[unit]") {
  std::vector<ReplicaFacts> facts = replicas(3);
  for (std::size_t best = 0; best < 3; ++best) {
    for (std::size_t i = 0; i < 3; ++i) facts[i].tokens = i == best ? 10 : 20;
    CHECK(router("prefix_aware")->route({.replicas = facts}) == best);
  }
}

TEST_CASE("session_affinity: a session goes where its number hashes highest, by the replicas' numbers", "[unit]") {
  const auto sessions = router("session_affinity");
  std::vector<ReplicaFacts> facts = replicas(4);
  facts[2].replica = 9;
  for (std::int64_t session = 0; session < 40; ++session) {
    RouteView view{.replicas = facts};
    view.request.session = session;
    std::size_t best = 0;
    const auto hash = [&](std::size_t i) {
      return sim::mix64(sim::mix64(static_cast<std::uint64_t>(session)) ^ static_cast<std::uint64_t>(facts[i].replica));
    };
    for (std::size_t i = 1; i < 4; ++i)
      if (hash(i) > hash(best)) best = i;
    CHECK(sessions->route(view) == best);
  }
  // Without a session: the least loaded.
  CHECK(sessions->route({.replicas = with_requests({2, 1, 3})}) == 1);
}

TEST_CASE("session_affinity: a replica takes its sessions up to a bound over the mean load", "[unit]") {
  // Whether the replica that a session hashes to takes it, with so much of a load there and none on the other. The mean
  // counts what the request at hand adds.
  const auto takes = [](const std::string& load, std::int64_t amount, const std::string& bound) {
    const auto sessions = router("session_affinity", R"({"load": ")" + load + R"(", "bound": )" + bound + "}");
    std::vector<ReplicaFacts> facts = replicas(2);
    RouteView view{.replicas = facts};
    view.request.session = 5;
    view.request.prefill_tokens = 100;
    ReplicaFacts& home = facts[router("session_affinity")->route(view)];
    home.requests = home.waiting = home.queued_tokens = home.tokens = home.kv_blocks = amount;
    home.kv_total = 1000;
    return &facts[sessions->route(view)] == &home;
  };
  CHECK(takes("requests", 1, "1"));  // (1 + 1) / 2
  CHECK_FALSE(takes("requests", 2, "1"));
  CHECK(takes("requests", 3, "1.5"));  // 1.5 x (3 + 1) / 2
  CHECK_FALSE(takes("requests", 4, "1.5"));
  CHECK(takes("waiting", 1, "1"));
  CHECK_FALSE(takes("waiting", 2, "1"));
  for (const char* load : {"tokens", "queued_tokens"}) {
    CHECK(takes(load, 100, "1"));  // (100 + 100) / 2
    CHECK_FALSE(takes(load, 101, "1"));
  }
  CHECK(takes("kv", 500, "2"));  // 2 x 0.5 / 2
  CHECK_FALSE(takes("kv", 500, "1.9"));
  CHECK(takes("requests", 1000, "0"));  // no bound
  // Where all are above it, the least loaded takes it.
  std::vector<ReplicaFacts> facts = with_requests({5, 4, 6});
  RouteView view{.replicas = facts};
  const auto strict = router("session_affinity", R"({"bound": 0.1})");
  for (view.request.session = 0; view.request.session < 5; ++view.request.session) CHECK(strict->route(view) == 1);
}

TEST_CASE("slo_aware: the first token predicted by measured rates, by hand", "[unit]") {
  const auto slo = router("slo_aware");
  std::vector<ReplicaFacts> facts = replicas(3);
  facts[0].prefill_tokens_per_s = 100;
  facts[0].queued_tokens = 300;  // and 100 of the request: 4 s
  facts[1].prefill_tokens_per_s = 200;
  facts[1].queued_tokens = 500;  // 3 s
  facts[2].queued_tokens = 350;  // at the mean of 150: 3 s
  facts[0].requests = 5;
  facts[1].requests = 7;
  facts[2].requests = 6;
  RouteView view{.replicas = facts};
  view.request.prefill_tokens = 100;
  CHECK(slo->route(view) == 1);  // the first of equals
  facts[2].queued_tokens = 349;
  CHECK(slo->route(view) == 2);
  facts[2].queued_tokens = 350;
  // Of those within 0.8 of the target the one with the fewest requests: 4 s of 5 s are, of 4.99 s they are not.
  view.ttft_ps = 5 * kSecond;
  CHECK(slo->route(view) == 0);
  view.ttft_ps = 4'990'000'000'000;
  CHECK(slo->route(view) == 2);
  view.ttft_ps = 3 * kSecond;  // nobody is: the soonest
  CHECK(slo->route(view) == 1);
  // The router's own target and share go first.
  CHECK(router("slo_aware", R"({"ttft": "5 s"})")->route(view) == 0);
  CHECK(router("slo_aware", R"({"ttft": "4 s", "headroom": 1})")->route(view) == 0);
  CHECK(router("slo_aware", R"({"ttft": "3 s", "headroom": 1})")->route(view) == 2);
  // What comes with the request is not computed: 3, 2.5 and 2.33 s; no more of it counts than there is.
  view.ttft_ps.reset();
  view.request.ready_tokens = 100;
  CHECK(slo->route(view) == 2);
  view.request.ready_tokens = 1000;
  facts[2].queued_tokens = 374;  // 2.49 s, but 475 - 1,000 would be the same everywhere
  CHECK(slo->route(view) == 2);
  facts[2].queued_tokens = 376;
  CHECK(slo->route(view) == 1);
}

TEST_CASE("slo_aware: what a request has waited already counts", "[unit]") {
  std::vector<ReplicaFacts> facts = replicas(2);
  facts[0].prefill_tokens_per_s = facts[1].prefill_tokens_per_s = 100;
  facts[0].queued_tokens = 200;
  facts[0].requests = 1;
  facts[1].queued_tokens = 100;
  facts[1].requests = 2;
  // 3 s and 2 s, with a second of waiting 4 s and 3 s, in ticks of 1,000 ps; 0.8 x 4 = 3.2 s.
  RouteView view{.now = sim::Time{5 * kSecond / 1000}, .ps_per_tick = 1000, .replicas = facts};
  view.ttft_ps = 4 * kSecond;
  view.request.prefill_tokens = 100;
  view.request.arrived = view.now;
  CHECK(router("slo_aware")->route(view) == 0);
  view.request.arrived = sim::Time{4 * kSecond / 1000};
  CHECK(router("slo_aware")->route(view) == 1);
}

TEST_CASE("slo_aware: one within the target goes before any that is not, wherever it stands", "[unit]") {
  for (std::size_t within = 0; within < 3; ++within) {
    std::vector<ReplicaFacts> facts = replicas(3);
    for (std::size_t i = 0; i < 3; ++i) {
      facts[i].prefill_tokens_per_s = 100;
      facts[i].queued_tokens = i == within ? 0 : 1000;
      facts[i].requests = i == within ? 99 : 0;
    }
    RouteView view{.replicas = facts};
    view.ttft_ps = 2 * kSecond;
    view.request.prefill_tokens = 100;
    CHECK(router("slo_aware")->route(view) == within);
  }
}

TEST_CASE("slo_aware: a slow rate is a rate, and without any all are compared by tokens", "[unit]") {
  // Half a token a second, and one not measured yet that is taken to be as slow: 200 s against 300 s.
  std::vector<ReplicaFacts> facts = replicas(2);
  facts[0].prefill_tokens_per_s = 0.5;
  facts[1].queued_tokens = 50;
  RouteView view{.replicas = facts};
  view.request.prefill_tokens = 100;
  CHECK(router("slo_aware")->route(view) == 0);
  facts[0].prefill_tokens_per_s = 0;
  facts[0].queued_tokens = 51;
  CHECK(router("slo_aware")->route(view) == 1);
  facts[0].queued_tokens = 50;
  CHECK(router("slo_aware")->route(view) == 0);
}

TEST_CASE("hexgen without prices: tokens are the work, of an output as predicted or as told", "[unit]") {
  // Alpha 0: less work than the base has. 150 for the base, 15 for the other, then 60 each until it has 195.
  const auto hexgen = router("hexgen", R"({"alpha": 0, "output_tokens": 50})");
  std::vector<ReplicaFacts> facts = replicas(2);
  std::vector<std::size_t> places;
  for (const auto& [prefill, predicted] :
       {std::pair(100, 0), std::pair(10, 5), std::pair(10, 0), std::pair(10, 0), std::pair(10, 0), std::pair(10, 0)}) {
    RouteView view{.replicas = facts};
    view.request.prefill_tokens = prefill;
    view.request.predicted_tokens = predicted;
    places.push_back(hexgen->route(view));
  }
  CHECK(places == std::vector<std::size_t>{0, 1, 1, 1, 1, 0});
}

}  // namespace test_routers
