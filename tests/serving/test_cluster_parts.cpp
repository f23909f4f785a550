// The parts of a cluster: outages, cold starts, copies between replicas, what routers and scaling policies see, and the
// figures that come of it.
#include <fmt/format.h>

#include "experiments/systems/serving/cluster/cluster_figures.hpp"
#include "experiments/systems/serving/cluster/cold_start.hpp"
#include "experiments/systems/serving/cluster/outages.hpp"
#include "experiments/systems/serving/cluster/transfer.hpp"
#include "tests/experiments/bench_cluster.hpp"

namespace test_cluster_parts {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

using Texts = std::vector<std::string>;

double s_of(sim::Time time) {
  return static_cast<double>(time.ticks) / kSecond;
}
double s_of(sim::Duration time) {
  return static_cast<double>(time.ticks) / kSecond;
}
sim::Time at_s(double seconds) {
  return sim::TickScale{1}.from_ns(static_cast<std::int64_t>(seconds * 1e9));
}

std::string text_of(const std::optional<Outage>& outage) {
  return outage ? fmt::format("{}-{}", s_of(outage->begin), s_of(outage->end)) : "none";
}

std::unique_ptr<policies::Batching> sarathi() {
  return make_batching("sarathi");
}

/// Sends where it is told to; writes down what it sees.
class Points final : public policies::Router {
 public:
  std::vector<std::size_t> places;  ///< one a call, then 0
  Texts* seen = nullptr;
  std::vector<std::int64_t>* gone = nullptr;
  std::size_t route(const policies::RouteView& view) override {
    std::string text = fmt::format("{}s r{} {}/{}:", s_of(view.now), view.request.id, view.request.prefill_tokens,
                                   view.request.ready_tokens);
    for (const policies::ReplicaFacts& facts : view.replicas)
      text += fmt::format(" [{}: {} {} {} {} {}/{} {}]", facts.replica, facts.requests, facts.queued_tokens,
                          facts.tokens, facts.waiting, facts.kv_blocks, facts.kv_total, facts.prefill_tokens_per_s);
    if (seen != nullptr) seen->push_back(text);
    return called_ < places.size() ? places[called_++] : 0;
  }
  void left(std::int64_t request) override {
    if (gone != nullptr) gone->push_back(request);
  }
  bool reads_live() const override { return true; }

 private:
  std::size_t called_ = 0;
};

/// Wants what it is told to at each look; writes down what it sees.
class Wants final : public policies::Scaling {
 public:
  std::vector<std::int64_t> wants;  ///< one a call, then the last
  Texts* seen = nullptr;
  std::int64_t wanted(const policies::ScalingView& view) override {
    std::string text = fmt::format("{}s", s_of(view.now));
    for (std::size_t i = 0; i < view.replicas.size(); ++i)
      text += fmt::format(" {}:{}", view.replicas[i].replica,
                          view.idle_since[i] == sim::kNever ? "busy" : fmt::format("{}", s_of(view.idle_since[i])));
    text += fmt::format(" starting {} parked {} busy {:.4g} of {} to {}", view.starting, view.parked, view.busy,
                        view.least, view.most);
    if (seen != nullptr) seen->push_back(text);
    const std::size_t call = std::min(called_++, wants.size() - 1);
    return wants[call];
  }

 private:
  std::size_t called_ = 0;
};

/// Writes down what happens to replicas.
class Watch final : public RunObserver {
 public:
  Texts events, power;
  std::vector<RequestRecord> requests;
  bool wants_steps() const override { return true; }
  void request_ended(const RequestRecord& record) override { requests.push_back(record); }
  void power_changed(std::int32_t replica, sim::Time at, double share) override {
    power.push_back(fmt::format("{}s {}: {}", s_of(at), replica, share));
  }
  void cluster_event(const ClusterEvent& event) override {
    static constexpr std::array kNames{"routed",   "transferred", "migrated", "failed", "returned",
                                       "starting", "on",          "draining", "off"};
    if (event.kind == ClusterEvent::Kind::routed) return;
    std::string text =
        fmt::format("{}s {} {}", s_of(event.at), kNames[static_cast<std::size_t>(event.kind)], event.replica);
    if (event.from >= 0)
      text += fmt::format(" from {}: r{} {} B since {}s", event.from, event.request, event.bytes, s_of(event.since));
    events.push_back(text);
  }
};

/// A cluster that is watched; iterations of 1 s.
struct Watched {
  explicit Watched(ClusterPolicies policies = {}) : cluster(engine, metrics, &watch, load, std::move(policies)) {}
  void add(int count, Role role = Role::both) {
    for (int i = 0; i < count; ++i) {
      MemberParts member;
      member.role = role;
      member.kv_bytes_per_token = 1000;
      member.weight_bytes = 10'000'000'000;
      ReplicaParts& parts = member.lanes.emplace_back();
      parts.model = &model;
      parts.batching = sarathi();
      parts.kv = policies::test::paged_cache(100);
      parts.limits = {.max_context = 4096, .layers = 32};
      cluster.add(std::move(member));
    }
  }
  void ask(double at, std::int64_t prompt, std::int64_t output) {
    load.entries.push_back({static_cast<std::int64_t>(at * kSecond), prompt, output, -1, {}});
  }
  void run(const ClusterParams& params = {}, sim::Time until = sim::kNever) {
    cluster.start(params);
    engine.run(until);
    cluster.finish();
  }
  /// id: when it ended, where, and how.
  std::string ends() const {
    std::string text;
    for (const RequestRecord& r : watch.requests)
      text += fmt::format("r{}@{} {} ", r.id, r.replica, r.finished ? fmt::format("{}s", s_of(*r.finished)) : "never");
    return text;
  }

  sim::Engine engine;
  FakeModel model;
  ServingMetrics metrics;
  Watch watch;
  ListLoad load;
  Cluster cluster;
};

}  // namespace

TEST_CASE("outages of a list come by time, each until it is over", "[unit]") {
  FailureParams params;
  params.at = {{.replica = 0, .time_s = 10, .duration_s = 5},
               {.replica = 1, .time_s = 4, .duration_s = 1},
               {.replica = 0, .time_s = 2, .duration_s = 3}};
  Outages outages(params, sim::TickScale{1}, sim::RandomStream(1, "failures"), 3);
  const auto next = [&](std::size_t replica, double now) { return text_of(outages.next(replica, at_s(now))); };
  CHECK(next(0, 0) == "2-5");
  CHECK(next(0, 2) == "2-5");
  CHECK(next(0, 4.999) == "2-5");
  CHECK(next(0, 5) == "10-15");
  CHECK(next(0, 14) == "10-15");
  CHECK(next(0, 15) == "none");
  CHECK(next(1, 0) == "4-5");
  CHECK(next(1, 5) == "none");
  CHECK(next(2, 0) == "none");
}

TEST_CASE("outages that are drawn stand beside those of a list, the first first", "[unit]") {
  FailureParams params;
  params.mtbf_s = 100;
  params.mttr_s = 10;
  const auto drawn = [&](std::uint64_t seed, std::size_t replica, double now) {
    Outages outages(params, sim::TickScale{1}, sim::RandomStream(seed, "failures"), 3);
    return *outages.next(replica, at_s(now));
  };
  const Outage first = drawn(1, 0, 0);
  CHECK(first.begin > sim::Time{0});
  CHECK(first.end > first.begin);
  CHECK(drawn(1, 0, s_of(first.begin)).begin == first.begin);  // under way
  const Outage second = drawn(1, 0, s_of(first.end) + 1e-3);
  CHECK(second.begin > first.end);
  CHECK(drawn(1, 1, 0).begin != first.begin);  // of another stream
  params.at = {{.replica = 0, .time_s = 0.001, .duration_s = 0.001},
               {.replica = 0, .time_s = s_of(first.begin) + 0.5, .duration_s = 1e6}};
  CHECK(drawn(1, 0, 0).begin == at_s(0.001));
  CHECK(drawn(1, 0, 0.002).begin == first.begin);
  CHECK(s_of(drawn(1, 0, s_of(first.end) + 1e-3).end) > 1e6);
  // Replicas that come back at once, and means past the end of time.
  params.at.clear();
  params.mttr_s = 0;
  const Outage blink = drawn(1, 0, 0);
  CHECK(blink.begin == blink.end);
  params.mtbf_s = 1e12;
  Outages never(params, sim::TickScale{1}, sim::RandomStream(1, "failures"), 1);
  CHECK_FALSE(never.next(0, sim::Time{0}));
  CHECK_FALSE(never.next(0, at_s(5)));
}

TEST_CASE("cold starts: who is served first, and a pod that is ready just in time", "[unit]") {
  ColdStartParams params;
  params.scheduling_s = 1;
  params.schedulers = 2;
  params.reserved = 1;
  params.select_s = 0.5;
  params.create_s = 4;
  params.creators = 1;
  params.code_s = 2;
  params.storage_bandwidth = 1e9;
  params.loads = 2;
  ColdStarts starts(params, sim::TickScale{1});
  const auto parts = [&](double now, std::int64_t bytes) {
    const ColdStart start = starts.start(at_s(now), bytes);
    CHECK(start.total() == start.scheduling + start.allocation + start.code + start.load);
    return fmt::format("{} {} {} {}", s_of(start.scheduling), s_of(start.allocation), s_of(start.code),
                       s_of(start.load));
  };
  // At 10: two schedulers, until 11. The first takes the pod, the second is made until 15; the disks are free.
  CHECK(parts(10, 3'000'000'000) == "1 0.5 2 3");
  CHECK(parts(10, 3'000'000'000) == "1 4 2 3");
  // The third waits for a scheduler until 11, is placed at 12, and made from 15 to 19; a disk is free at 16.5.
  CHECK(parts(10, 3'000'000'000) == "2 7 2 3");
  // Placed at 15, when the pool has its next pod; one disk is busy until 24, the other until 20.
  CHECK(parts(14, 1'000'000'000) == "1 0.5 2 3.5");
  // The pool has none again until 19, and the creator is busy until then.
  CHECK(parts(14, 1'000'000'000) == "1 8 2 1");
}

TEST_CASE("copies between replicas: fixed cost, latency, and shares of the links of both", "[unit]") {
  TransferParams params;
  params.bandwidth = 1e6;
  params.latency_s = 0.25;
  params.fixed_s = 0.5;
  struct Done final : sim::EventHandler {
    sim::Engine* engine = nullptr;
    std::map<std::uint64_t, double> at;
    void on_event(std::uint64_t payload) override { at[payload] = s_of(engine->now()); }
  };
  const auto run = [&](const std::vector<std::pair<std::size_t, std::size_t>>& copies,
                       std::optional<std::size_t> cancelled = {}) {
    sim::Engine engine;
    KvTransfers transfers(engine, params, 3);
    Done done;
    done.engine = &engine;
    std::vector<sim::FlowId> flows;
    for (std::size_t i = 0; i < copies.size(); ++i)
      flows.push_back(transfers.start(copies[i].first, copies[i].second, 1'000'000, done, i));
    if (cancelled) transfers.cancel(flows[*cancelled]);
    engine.run();
    return done.at;
  };
  CHECK(run({{0, 1}}).at(0) == Approx(1.75));
  // Two from one replica, or to one: 2 s at half the bandwidth. Two that share neither: 1 s.
  CHECK(run({{0, 1}, {0, 2}}).at(1) == Approx(2.75));
  CHECK(run({{0, 2}, {1, 2}}).at(0) == Approx(2.75));
  CHECK(run({{0, 1}, {1, 2}, {2, 0}}).at(2) == Approx(1.75));
  CHECK(run({{0, 1}, {1, 0}}).at(0) == Approx(1.75));
  CHECK(run({{0, 1}, {0, 1}}).at(0) == Approx(2.75));
  const auto left = run({{0, 1}, {0, 2}}, 0);
  CHECK(left.count(0) == 0);
  CHECK(left.at(1) == Approx(1.75));
}

TEST_CASE("a router sees what each replica has, had and did", "[unit]") {
  // r0 (100 and 3) prefills in [0,1), r1 (50 and 2), which comes at 0.5, in [1,2). Blocks of 16 tokens: 7, then 4.
  Texts seen;
  std::vector<std::int64_t> gone;
  ClusterPolicies policies;
  auto router = std::make_unique<Points>();
  router->places = {0, 0, 1, 0};
  router->seen = &seen;
  router->gone = &gone;
  policies.router = std::move(router);
  Watched w(std::move(policies));
  w.add(2);
  w.ask(0, 100, 3);
  w.ask(0.5, 50, 2);
  w.ask(2.5, 10, 1);
  w.ask(3.25, 20, 2);
  w.run();
  // At 2.5: 150 tokens were prefilled in 2 s with something queued; 7 blocks and 4. At 3 both have ended.
  CHECK(seen == Texts{"0s r0 100/0: [0: 0 0 0 0 0/100 0] [1: 0 0 0 0 0/100 0]",
                      "0.5s r1 50/0: [0: 1 100 100 0 7/100 0] [1: 0 0 0 0 0/100 0]",
                      "2.5s r2 10/0: [0: 2 0 150 0 11/100 75] [1: 0 0 0 0 0/100 0]",
                      "3.25s r3 20/0: [0: 0 0 0 0 0/100 75] [1: 1 10 10 0 1/100 0]"});
  CHECK(gone == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(w.ends() == "r0@0 3s r1@0 3s r2@1 3.5s r3@0 5.25s ");
  CHECK(w.cluster.result(0).requests == 3);
  CHECK(w.cluster.result(0).completed == 3);
  CHECK(w.cluster.result(0).output_tokens == 7);
  CHECK(w.cluster.result(1).output_tokens == 1);
  // Busy: 3 s and 2 s of one, 1 s of the other; both are up all of 5.25 s.
  CHECK(static_cast<double>(w.cluster.totals().busy_ticks) == Approx(6.0 * kSecond));
  CHECK(static_cast<double>(w.cluster.totals().up_ticks) == Approx(10.5 * kSecond));
}

TEST_CASE("a router that names a replica that is not there ends the run", "[unit]") {
  ClusterPolicies policies;
  auto router = std::make_unique<Points>();
  router->places = {2};
  policies.router = std::move(router);
  Watched w(std::move(policies));
  w.add(2);
  w.ask(0, 10, 1);
  CHECK_THROWS_WITH(w.run(), "the router named a replica that is not there");
}

TEST_CASE("scaling: what a policy sees at each look, and what it takes to come and go", "[unit]") {
  // Three replicas, two of them up at first. A request keeps the first busy from 1 to 41 s. Weights of 10 GB at 5 GB/s:
  // a start takes 2 s. Looks every 10 s.
  Texts seen;
  ClusterPolicies policies;
  auto scaling = std::make_unique<Wants>();
  scaling->wants = {3, 1, 2, 9, 0};
  scaling->seen = &seen;
  policies.scaling = std::move(scaling);
  policies.router = std::make_unique<Points>();
  Watched w(std::move(policies));
  w.add(3);
  w.ask(1, 10, 40);
  ClusterParams params;
  params.scaling.initial = 2;
  params.scaling.off_power = 0.25;
  params.scaling.start.storage_bandwidth = 5e9;
  w.run(params);
  CHECK(seen == Texts{"10s 0:busy 1:0 starting 0 parked 0 busy 0.5 of 1 to 3",
                      "20s 0:busy 1:0 2:12 starting 0 parked 0 busy 0.3333 of 1 to 3",
                      "30s 0:busy starting 0 parked 0 busy 1 of 1 to 3",
                      "40s 0:busy 1:32 starting 0 parked 0 busy 0.5 of 1 to 3",
                      "50s 0:41 1:32 2:42 starting 0 parked 0 busy 0.03333 of 1 to 3"});
  // Of equally empty ones the last goes first. Asked for nine, there are three; for none, one stays.
  CHECK(w.watch.events == Texts{"0s off 2", "10s starting 2", "12s on 2", "20s draining 2", "20s off 2",
                                "20s draining 1", "20s off 1", "30s starting 1", "32s on 1", "40s starting 2",
                                "42s on 2", "50s draining 2", "50s off 2", "50s draining 1", "50s off 1"});
  CHECK(w.watch.power == Texts{"0s 2: 0.25", "10s 2: 1", "20s 2: 0.25", "20s 1: 0.25", "30s 1: 1", "40s 2: 1",
                               "50s 2: 0.25", "50s 1: 0.25"});
  CHECK(s_of(w.engine.now()) == 50);
  const ClusterTotals& totals = w.cluster.totals();
  CHECK(totals.cold_starts == 3);
  CHECK(s_of(totals.cold.load) == 6);
  CHECK(s_of(totals.cold.total()) == 6);
  // Up: 50 s; 20 and 20 s of the second; 10 and 10 s of the third.
  CHECK(static_cast<double>(totals.up_ticks) == Approx(110.0 * kSecond));
  CHECK(static_cast<double>(totals.busy_ticks) == Approx(40.0 * kSecond));
  CHECK(static_cast<double>(w.cluster.result(2).off_ps) == Approx(30.0 * kSecond));
  CHECK(w.cluster.result(2).off_power == 0.25);
}

TEST_CASE("scaling: a replica with requests drains, and stays if it is wanted before it is empty", "[unit]") {
  // Two requests at the first, one at the second, which has fewer: it drains at 10 and is wanted again at 20.
  ClusterPolicies policies;
  auto scaling = std::make_unique<Wants>();
  scaling->wants = {1, 2, 1};
  policies.scaling = std::move(scaling);
  auto router = std::make_unique<Points>();
  router->places = {0, 1, 0};
  policies.router = std::move(router);
  Watched w(std::move(policies));
  w.add(2);
  w.ask(1, 10, 60);
  w.ask(1, 10, 34);
  w.ask(1, 10, 60);
  w.ask(15, 10, 2);  // there is one to go to
  w.ask(25, 10, 2);
  ClusterParams params;
  params.scaling.initial = 2;
  w.run(params);
  // At 30 it drains again, until its request is over at 35.
  CHECK(w.watch.events == Texts{"10s draining 1", "20s on 1", "30s draining 1", "35s off 1"});
  CHECK(w.cluster.totals().cold_starts == 0);
  CHECK(w.cluster.result(0).requests + w.cluster.result(1).requests == 5);
  CHECK(w.cluster.result(1).requests == 1);
}

TEST_CASE("scaling: whatever a policy says, a request does not wait for ever", "[unit]") {
  ClusterPolicies policies;
  Texts seen;
  auto scaling = std::make_unique<Wants>();
  scaling->wants = {0};
  scaling->seen = &seen;
  policies.scaling = std::move(scaling);
  Watched w(std::move(policies));
  w.add(2);
  w.ask(3, 10, 2);
  w.ask(3.5, 10, 2);
  ClusterParams params;
  params.scaling.least = 0;
  params.scaling.start.storage_bandwidth = 5e9;
  w.run(params);
  CHECK(w.ends() == "r0@0 7s r1@0 7s ");
  CHECK(w.cluster.totals().parked == 2);
  CHECK(w.cluster.totals().cold_starts == 1);
  CHECK(seen == Texts{"3s starting 0 parked 1 busy 0 of 0 to 2", "10s 0:7 starting 0 parked 0 busy 0.2857 of 0 to 2"});
  CHECK(w.watch.events == Texts{"0s off 0", "0s off 1", "3s starting 0", "5s on 0", "10s draining 0", "10s off 0"});
}

TEST_CASE("failures: requests start over so many times, and those of replicas that are off are none", "[unit]") {
  const auto run = [](std::int64_t retries) {
    ClusterPolicies policies;
    policies.router = std::make_unique<Points>();
    Watched w(std::move(policies));
    w.add(2);
    w.ask(0, 10, 5);
    ClusterParams params;
    params.failures.retries = retries;
    params.failures.at = {{.replica = 0, .time_s = 2.5, .duration_s = 3},
                          {.replica = 1, .time_s = 4.5, .duration_s = 1}};
    w.run(params);
    return fmt::format("{}failures {} rerouted {}", w.ends(), w.cluster.totals().failures, w.cluster.totals().rerouted);
  };
  // Two tokens until 2.5, then 12 are prefilled at the second: 3.5 the third, 4.5 the fourth. As it fails there, nobody
  // is up until 5.5, when the first takes it: both are back, and 14 tokens give the last one at 6.5.
  CHECK(run(2) == "r0@0 6.5s failures 2 rerouted 2");
  CHECK(run(1) == "r0@1 never failures 2 rerouted 1");
  CHECK(run(0) == "r0@0 never failures 1 rerouted 0");

  ClusterPolicies policies;
  auto scaling = std::make_unique<Wants>();
  scaling->wants = {1};
  policies.scaling = std::move(scaling);
  Watched w(std::move(policies));
  w.add(2);
  w.ask(0, 10, 9);
  ClusterParams params;
  params.failures.at = {{.replica = 1, .time_s = 2, .duration_s = 3}};
  w.run(params);
  CHECK(w.cluster.totals().failures == 0);
  CHECK(w.watch.events == Texts{"0s off 1", "2s failed 1", "5s returned 1"});
}

TEST_CASE("admission sees the replicas, the request and who waits, and whom it turns away goes nowhere", "[unit]") {
  struct Odd final : policies::AdmissionControl {
    Texts* seen = nullptr;
    std::optional<std::string_view> reject(const policies::AdmissionView& view) override {
      seen->push_back(fmt::format("{}s r{} {} of {} parked {} ttft {}", s_of(view.now), view.request.id,
                                  view.request.prefill_tokens, view.replicas.size(), view.parked,
                                  view.ttft_ps.value_or(-1)));
      return view.request.id % 2 == 1 ? std::optional<std::string_view>("odd") : std::nullopt;
    }
  };
  Texts seen;
  ClusterPolicies policies;
  auto admission = std::make_unique<Odd>();
  admission->seen = &seen;
  policies.admission = std::move(admission);
  auto scaling = std::make_unique<Wants>();
  scaling->wants = {1};
  policies.scaling = std::move(scaling);
  Watched w(std::move(policies));
  w.metrics.slo.ttft = sim::Duration{7};
  w.add(1);
  w.ask(1, 10, 1);
  w.ask(1.5, 20, 1);
  w.ask(1.75, 30, 1);
  ClusterParams params;
  params.scaling.least = 0;
  params.scaling.start.storage_bandwidth = 5e9;  // up at 3 s
  w.run(params);
  CHECK(seen ==
        Texts{"1s r0 10 of 0 parked 0 ttft 7", "1.5s r1 20 of 0 parked 1 ttft 7", "1.75s r2 30 of 0 parked 1 ttft 7"});
  CHECK(w.ends() == "r1@0 never r0@0 4s r2@0 4s ");
  CHECK(w.metrics.rejected_by_reason.at("odd") == 1);
  CHECK(w.metrics.arrived == 3);
  CHECK(w.cluster.totals().parked == 2);
  CHECK(w.cluster.result(0).requests == 2);
}

TEST_CASE("migration: nothing is looked at without a link, nor once nobody is left", "[unit]") {
  struct Looks final : policies::Migration {
    Texts* seen = nullptr;
    sim::Engine* engine = nullptr;
    std::vector<policies::MigrationPair> pair(std::span<const policies::LoadReport> loads) override {
      seen->push_back(fmt::format("{}s of {}", s_of(engine->now()), loads.size()));
      return {};
    }
    std::optional<policies::SeqId> victim(const policies::BatchView&) override { return std::nullopt; }
  };
  const auto looks = [](double bandwidth, Role second) {
    Texts seen;
    Watched w;
    w.add(1, second == Role::both ? Role::both : Role::prefill);
    w.add(1, second);
    auto policy = std::make_unique<Looks>();
    policy->seen = &seen;
    policy->engine = &w.engine;
    w.cluster.migrate(std::move(policy), {.bandwidth = bandwidth, .handshake_s = 0, .interval_s = 2});
    w.ask(1, 10, 4);
    w.run();
    CHECK(w.metrics.completed == 1);
    return seen;
  };
  CHECK(looks(1e6, Role::both) == Texts{"3s of 2"});  // the request is over at 5, as the next look is due
  CHECK(looks(0, Role::both).empty());
  CHECK(looks(1e6, Role::decode).front() == "3s of 1");  // who only prefills has nothing to move
}

TEST_CASE("hand-overs: what is told of them, and what is left of them when a run is cut short", "[unit]") {
  ClusterParams params;
  params.transfer = {.bandwidth = 50'000, .latency_s = 0, .fixed_s = 0};
  const auto with = [&](double until, std::int64_t prompt) {
    Watched w;
    w.add(1, Role::prefill);
    w.add(1, Role::decode);
    w.ask(0, prompt, 3);
    w.run(params, at_s(until));
    std::int64_t free = 0;
    for (std::size_t i = 0; i < 2; ++i) free += w.cluster.replica(i).kv().free_blocks();
    std::string text = w.ends() + fmt::format("{} {} free {}", w.metrics.completed, w.metrics.unfinished, free);
    for (const std::string& event : w.watch.events) text += ", " + event;
    return text;
  };
  // 50 tokens of 1000 bytes take 1 s.
  CHECK(with(1.5, 50) == "r0@1 never 0 1 free 200");
  CHECK(with(0.5, 50) == "r0@0 never 0 1 free 200");
  CHECK(with(2.5, 50).starts_with("r0@1 never 0 1 free 200, 2"));
  CHECK(with(9, 50).find("transferred 1 from 0: r0 50000 B since 1s") != std::string::npos);
  CHECK(with(9, 50).starts_with("r0@1 4"));
}

TEST_CASE("figures of a cluster are sums and means of what happened", "[unit]") {
  ClusterTotals totals;
  totals.transfers = {.count = 4, .bytes = 77, .ps = 10 * kSecond};
  totals.migrations.completed = 2;
  totals.migrations.bytes = 55;
  totals.migrations.aborted = {1, 2, 3, 4, 5};
  totals.migrations.downtime_ps = 3 * kSecond;
  totals.failures = 6;
  totals.rerouted = 7;
  totals.parked = 8;
  totals.cold_starts = 2;
  // Ticks of 1 ns.
  totals.cold = {{2'000'000'000}, {4'000'000'000}, {6'000'000'000}, {8'000'000'000}};
  totals.up_ticks = 30'000'000'000;
  totals.busy_ticks = 12'000'000'000;
  const sim::Node node = summarise(totals, sim::TickScale{1000});
  const auto number = [&](const char* path) { return node.at(path)->as_number(); };
  CHECK(number("kv_transfers.count") == 4);
  CHECK(number("kv_transfers.bytes") == 77);
  CHECK(number("kv_transfers.mean_s") == Approx(2.5));
  CHECK(number("migrations.completed") == 2);
  CHECK(number("migrations.aborted") == 15);
  CHECK(number("migrations.aborted_by_reason.destination_full") == 1);
  CHECK(number("migrations.aborted_by_reason.closed") == 5);
  CHECK(number("migrations.bytes") == 55);
  CHECK(number("migrations.downtime_s") == Approx(1.5));
  CHECK(number("failures") == 6);
  CHECK(number("rerouted") == 7);
  CHECK(number("parked") == 8);
  CHECK(number("cold_starts.count") == 2);
  CHECK(number("cold_starts.mean_s") == Approx(10));
  CHECK(number("cold_starts.scheduling_s") == Approx(1));
  CHECK(number("cold_starts.allocation_s") == Approx(2));
  CHECK(number("cold_starts.code_s") == Approx(3));
  CHECK(number("cold_starts.load_s") == Approx(4));
  CHECK(number("up_s") == Approx(30));
  CHECK(number("idle_s") == Approx(18));
}

TEST_CASE("figures of replicas: shares of the time, and what stages and lanes wait", "[unit]") {
  MachineFacts machine;
  machine.groups.resize(3);
  machine.groups[0].name = "plain";
  machine.groups[1].stages = 4;
  machine.groups[2].lock_step = true;
  machine.groups[2].lanes = 2;
  std::vector<ReplicaResult> replicas(4);
  replicas[0].busy_ps = 3 * kSecond;
  replicas[0].cost.compute_pj = 1'000'000'000'000;
  replicas[0].cost.memory_pj = 2'000'000'000'000;
  replicas[0].cost.network_pj = 4'000'000'000'000;
  for (std::size_t i = 1; i < 4; ++i) {
    replicas[i].group = static_cast<std::int64_t>(i % 3 == 0 ? 1 : i);
    replicas[i].occupied_ps = 10 * kSecond;
    replicas[i].work_ps = 15 * kSecond;
  }
  replicas[3].occupied_ps = 0;
  const sim::Node node = summarise(replicas, machine, 12);
  const std::span<const sim::Node> rows = node.items();
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].find("group")->as_string() == "plain");
  CHECK(rows[0].find("busy")->as_number() == Approx(0.25));
  CHECK(rows[0].find("dynamic_energy_j")->as_number() == Approx(7));
  CHECK(rows[0].find("bubbles") == nullptr);
  CHECK(rows[0].find("lock_step_wait") == nullptr);
  CHECK(rows[1].find("bubbles")->as_number() == Approx(1 - 15.0 / 40));
  CHECK(rows[1].find("lock_step_wait") == nullptr);
  CHECK(rows[2].find("bubbles") == nullptr);
  CHECK(rows[2].find("lock_step_wait")->as_number() == Approx(1 - 15.0 / 20));
  CHECK(rows[3].find("bubbles")->as_number() == 0);
}

}  // namespace test_cluster_parts
