#include "tests/experiments/bench_cluster.hpp"
#include "tests/experiments/support.hpp"

namespace test_cluster_routing {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

const std::vector<std::string> kRouters{"hexgen", "jsq",         "least_loaded",     "power_of_two", "prefix_aware",
                                        "random", "round_robin", "session_affinity", "slo_aware"};

/// Mean time in a system of n servers that serve one request at a time, exponential with mean 1 s, Poisson arrivals.
double mean_time(const std::string& router, int servers, double load, int requests) {
  BenchCluster bench({.router = make_router(router)});
  bench.model.cost_ps = [](const BatchShape& shape) { return shape.segments[0].tokens * kSecond / 1000; };
  for (int i = 0; i < servers; ++i)
    bench.add([] { return make_batching("static", R"({"max_sequences": 1, "reservation": "oracle"})"); }, 10'000);
  sim::RandomStream random(3, "queue");
  double at = 0;
  for (int i = 0; i < requests; ++i) {
    at += random.exponential(1 / (load * servers));
    const auto tokens = static_cast<std::int64_t>(random.exponential(1000)) + 1;
    bench.load.entries.push_back({static_cast<std::int64_t>(at * 1e12), std::min<std::int64_t>(tokens, 4000), 1});
  }
  bench.run();
  CHECK(bench.metrics.completed == requests);
  return bench.metrics.e2e.mean() / kSecond;
}

policies::RouteView view_of(const std::vector<policies::ReplicaFacts>& facts) {
  policies::RouteView view;
  view.replicas = facts;
  view.request.prefill_tokens = 100;
  return view;
}

std::vector<policies::ReplicaFacts> facts_with(const std::vector<std::int64_t>& requests) {
  std::vector<policies::ReplicaFacts> facts(requests.size());
  for (std::size_t i = 0; i < facts.size(); ++i) {
    facts[i].replica = static_cast<std::int32_t>(i);
    facts[i].requests = requests[i];
  }
  return facts;
}

}  // namespace

TEST_CASE("random routing is independent M/M/1 queues; two choices are better, the shortest queue is best",
          "[theory]") {
  // 8 servers at 0.8, services cut at 4 means: E[S] = 1 - e^-4 = 0.982, E[S^2] = 2 (1 - 5 e^-4) = 1.817, so M/G/1 has
  // 0.982 + 0.8 x 1.817 / (2 (1 - 0.8 x 0.982)) = 4.37 s.
  const double random = mean_time("random", 8, 0.8, 20'000);
  const double two = mean_time("power_of_two", 8, 0.8, 20'000);
  const double shortest = mean_time("jsq", 8, 0.8, 20'000);
  CHECK(random == Approx(4.37).epsilon(0.08));
  // Mitzenmacher's limit of many servers: sum over i >= 1 of 0.8^(2^i - 2) = 1 + 0.64 + 0.262 + 0.044 + 0.001 = 1.947;
  // 8 servers are a little worse.
  CHECK(two == Approx(1.95).epsilon(0.15));
  CHECK(two < 0.5 * random);
  // No server may be idle while another has two: below two choices, and not below one queue for all (M/M/8: 1.16 s).
  CHECK(shortest < 0.9 * two);
  CHECK(shortest > 1.0);
}

TEST_CASE("the rate of prefill is what was prefilled lately, over the time in which something was queued", "[unit]") {
  // Ticks of 1 ns. Prompts of 100 and 50 tokens take an iteration of 1 s each: 100 tokens a second, then 150 in 2 s.
  // From 20 s on an iteration takes 61 s: 90 more tokens, 240 in 63 s; past a minute both sums are halved: 120 in 31.5
  // s. At 200 s come 60 more: 180 in 92.5 s.
  constexpr std::int64_t kTicks = 1'000'000'000;
  sim::Engine engine(1, sim::TickScale{1000});
  FakeModel model;
  model.cost_ps = [&](const BatchShape&) { return (engine.now().ticks < 20 * kTicks ? 1 : 61) * kSecond; };
  ServingMetrics metrics;
  metrics.ps_per_tick = 1000;
  ListLoad load;
  Cluster cluster(engine, metrics, nullptr, load);
  ReplicaParts parts;
  parts.model = &model;
  parts.batching = make_batching("sarathi");
  parts.kv = policies::test::paged_cache(100);
  parts.limits = {.max_context = 4096, .layers = 32};
  cluster.add(std::move(parts));
  load.entries = {{0, 100, 2}, {10 * kTicks, 50, 2}, {20 * kTicks, 90, 2}, {200 * kTicks, 60, 2}};
  cluster.start();
  const auto rate_at = [&](std::int64_t seconds) {
    engine.run(sim::Time{seconds * kTicks});
    return cluster.facts(0).prefill_tokens_per_s;
  };
  CHECK(cluster.facts(0).prefill_tokens_per_s == 0);
  CHECK(rate_at(5) == Approx(100));
  CHECK(rate_at(15) == Approx(75));
  CHECK(rate_at(150) == Approx(240 / 63.0));
  CHECK(rate_at(190) == Approx(240 / 63.0));
  CHECK(rate_at(400) == Approx(180 / 92.5));
  cluster.finish();
  CHECK(metrics.completed == 4);
}

TEST_CASE("every router does the same where there is one replica", "[prop]") {
  std::vector<double> means;
  for (const std::string& router : kRouters) means.push_back(mean_time(router, 1, 0.7, 500));
  for (const double mean : means) CHECK(mean == means.front());
}

TEST_CASE("routers by hand", "[unit]") {
  auto facts = facts_with({3, 1, 2});
  CHECK(make_router("jsq")->route(view_of(facts)) == 1);
  CHECK(make_router("least_loaded", R"({"load": "requests"})")->route(view_of(facts)) == 1);
  CHECK(make_router("power_of_two", R"({"choices": 3})")->route(view_of(facts)) == 1);
  facts[0].weight = 4;  // 3/4 < 1
  CHECK(make_router("jsq")->route(view_of(facts)) == 0);
  const auto turns = make_router("round_robin");
  CHECK(turns->route(view_of(facts)) == 0);
  CHECK(turns->route(view_of(facts)) == 1);
  facts.erase(facts.begin() + 2);  // the next one is gone
  CHECK(turns->route(view_of(facts)) == 0);
}

TEST_CASE("sessions stay where they were when another replica goes, unless theirs is full", "[unit]") {
  const auto router = make_router("session_affinity", R"({"bound": 0})");
  auto facts = facts_with({0, 0, 0, 0, 0});
  auto fewer = facts;
  fewer.erase(fewer.begin() + 2);
  int moved = 0;
  std::vector<int> of(5, 0);
  for (std::int64_t session = 0; session < 1000; ++session) {
    policies::RouteView view = view_of(facts);
    view.request.session = session;
    const std::int32_t before = facts[router->route(view)].replica;
    CHECK(facts[router->route(view)].replica == before);
    view.replicas = fewer;
    const std::int32_t after = fewer[router->route(view)].replica;
    if (before != 2) CHECK(after == before);
    moved += before == 2;
    ++of[static_cast<std::size_t>(before)];
  }
  for (const int sessions : of) CHECK(sessions == Approx(200).margin(60));
  const auto bounded = make_router("session_affinity", R"({"bound": 1})");
  policies::RouteView view = view_of(facts);
  view.request.session = 7;
  const std::size_t home = bounded->route(view);
  facts[home].requests = 10;  // mean (10 + 1) / 5 = 2.2
  view.replicas = facts;
  CHECK(bounded->route(view) != home);
}

TEST_CASE("sessions are passed over only where a replica is above its bound, and then go to their next", "[unit]") {
  const auto free = make_router("session_affinity", R"({"bound": 0})");
  const auto place = [](policies::Router& router, const std::vector<policies::ReplicaFacts>& facts,
                        std::int64_t session) {
    policies::RouteView view = view_of(facts);
    view.request.session = session;
    return facts[router.route(view)].replica;
  };
  // 49 requests and the one at hand are 10 for each of five: with a bound of 1 nobody who has 10 is full. In prompt
  // tokens 100 come to 900: 200 for each.
  auto even = facts_with({10, 10, 9, 10, 10});
  auto tokens = facts_with({0, 0, 0, 0, 0});
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i].queued_tokens = i == 2 ? 100 : 200;
  const auto bounded = make_router("session_affinity", R"({"bound": 1})");
  const auto by_tokens = make_router("session_affinity", R"({"bound": 1, "load": "queued_tokens"})");
  int over = 0;
  for (std::int64_t session = 0; session < 200; ++session) {
    const std::int32_t home = place(*free, even, session);
    CHECK(place(*bounded, even, session) == home);
    CHECK(place(*by_tokens, tokens, session) == home);
    // One more at the first replica: 51 / 5 = 10.2 is below its 11, and its sessions go where they would without it.
    auto full = even;
    full[0].requests = 11;
    auto without = even;
    without.erase(without.begin());
    CHECK(place(*bounded, full, session) == place(*free, without, session));
    over += home == 0;
  }
  CHECK(over > 10);
  // Where all are above it, half the mean, the least loaded takes it.
  const auto strict = make_router("session_affinity", R"({"bound": 0.5})");
  for (std::int64_t session = 0; session < 20; ++session) CHECK(place(*strict, even, session) == 2);
}

TEST_CASE("prefix-aware routing follows the cache until load outweighs it", "[unit]") {
  struct Cache final : policies::KvView {
    std::int64_t tokens = 0;
    std::int64_t total_blocks() const override { return 100; }
    std::int64_t block_bytes() const override { return 1; }
    std::int64_t free_blocks() const override { return 100; }
    std::int64_t blocks_for(std::int64_t) const override { return 1; }
    std::int64_t held_blocks(policies::SeqId) const override { return 0; }
    bool keeps_prefixes() const override { return true; }
    std::int64_t match_text(const policies::Text&) const override { return tokens; }
  };
  Cache has, lacks;
  has.tokens = 80;
  const policies::KvView* first = &lacks;
  const policies::KvView* second = &has;
  auto facts = facts_with({1, 1});
  facts[0].caches = {&first, 1};
  facts[1].caches = {&second, 1};
  const policies::Text text{{1, 100}};
  policies::RouteView view = view_of(facts);
  view.request.text = &text;
  const auto router = make_router("prefix_aware", R"({"load": "requests"})");
  // 0.8 - 0.5 x 1 against -0.5 x 1.
  CHECK(router->route(view) == 1);
  // Loads 1 and 9, mean 5: 0.8 - 0.5 x 9/5 = -0.1 against -0.5 x 1/5 = -0.1; one request more tips it.
  facts[1].requests = 10;
  view.replicas = facts;
  CHECK(router->route(view) == 0);
}

TEST_CASE("slo-aware routing takes the least crowded replica that is in time", "[unit]") {
  auto facts = facts_with({5, 1, 9});
  for (auto& f : facts) f.prefill_tokens_per_s = 1000;
  facts[0].queued_tokens = 400;   // (400 + 100) / 1000 = 0.5 s
  facts[1].queued_tokens = 2000;  // 2.1 s
  facts[2].queued_tokens = 0;     // 0.1 s
  policies::RouteView view = view_of(facts);
  view.ttft_ps = kSecond;
  CHECK(make_router("slo_aware")->route(view) == 0);
  facts[0].queued_tokens = facts[2].queued_tokens = 3000;
  view.replicas = facts;
  CHECK(make_router("slo_aware")->route(view) == 1);  // none is in time: the soonest
}

TEST_CASE("leaping and stepping give the same files with every router", "[prop][cli]") {
  Scratch scratch;
  std::string trace = "arrived_s,prompt_tokens,output_tokens\n";
  sim::RandomStream random(11, "trace");
  double at = 0;
  for (int i = 0; i < 150; ++i) {
    at += random.exponential(0.05);
    trace += std::to_string(at) + "," + std::to_string(20 + random.below(1500)) + "," +
             std::to_string(1 + random.below(300)) + "\n";
  }
  scratch.write("trace.csv", trace);
  scratch.write("run.json", R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 2}, {"part": "h100-sxm5-80gb", "count": 4}]},
    "model": {"config": "catalog:llama-2-7b"},
    "workload": {"trace": {"path": "trace.csv", "format": "orrery_csv"}},
    "cluster": {"replicas": [{"name": "a", "count": 2},
                             {"name": "h", "device_group": 1, "tensor_parallel": 2, "count": 2}],
                "failures": {"mtbf": "6 s", "mttr": "1 s"}},
    "run": {"timeline": {"enabled": false}}})");
  for (const std::string& router : kRouters) {
    CAPTURE(router);
    const std::string line = "run run.json --force --quiet --set policies.routing.policy=" + router;
    REQUIRE(command(scratch, line + " --out leap").exit_code == 0);
    REQUIRE(command(scratch, line + " --out step --set run.leap=false").exit_code == 0);
    for (const char* file : {"requests.csv", "series.csv", "energy.csv", "distributions.csv"})
      CHECK(slurp(scratch / "leap" / file) == slurp(scratch / "step" / file));
    std::vector<int> of(4, 0);
    for (const Row& row : read_csv(scratch / "leap" / "requests.csv")) {
      CHECK(row.at("status") == "completed");
      ++of[std::stoul(row.at("replica"))];
    }
    for (const int requests : of) CHECK(requests > 0);
  }
}

}  // namespace test_cluster_routing
