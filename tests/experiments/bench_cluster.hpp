// A cluster on a test bench: real engine, caches, policies and routers, an iteration model that the test chooses.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/systems/serving/cluster/cluster.hpp"
#include "tests/experiments/bench_replica.hpp"

namespace orrery::experiments::test {

inline std::unique_ptr<policies::Router> make_router(const std::string& name, const std::string& params = "{}") {
  policies::RouterRegistry registry("routing");
  policies::register_routers(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make(sim::RandomStream(5, "router"));
}

/// Requests at given times.
class ListLoad final : public Load, public sim::EventHandler {
 public:
  struct Entry {
    std::int64_t at_ps = 0, prompt = 0, output = 0, session = -1;
    policies::Text text;
  };
  std::vector<Entry> entries;
  void start(sim::Engine& engine, RequestPort& port) override {
    port_ = &port;
    for (std::size_t i = 0; i < entries.size(); ++i) engine.schedule_at(sim::Time{entries[i].at_ps}, *this, i);
  }
  void on_event(std::uint64_t i) override {
    Request& request = port_->make_request();
    request.prompt_tokens = entries[i].prompt;
    request.output_tokens = entries[i].output;
    request.session = entries[i].session;
    request.text = entries[i].text;
    port_->send(request);
    port_->flush();
  }

 private:
  RequestPort* port_ = nullptr;
};

class BenchCluster {
 public:
  explicit BenchCluster(ClusterPolicies policies = {}) : cluster(engine, metrics, &log, load, std::move(policies)) {}
  /// `lanes` lanes that share `pipe` if there is one; each with a policy of its own.
  void add(const std::function<std::unique_ptr<policies::Batching>()>& batching, std::int64_t blocks,
           Role role = Role::both, std::unique_ptr<StagePipe> pipe = nullptr, int lanes = 1) {
    MemberParts member;
    member.role = role;
    member.kv_bytes_per_token = 1000;
    member.weight_bytes = 10'000'000'000;
    member.pipe = std::move(pipe);
    for (int i = 0; i < lanes; ++i) {
      ReplicaParts& parts = member.lanes.emplace_back();
      parts.model = &model;
      parts.batching = batching();
      parts.kv = policies::test::paged_cache(blocks);
      parts.limits = {.max_context = 4096, .layers = 32};
    }
    total_blocks += blocks * lanes;
    cluster.add(std::move(member));
  }
  void run(const ClusterParams& params = {}) {
    cluster.start(params);
    engine.run();
    cluster.finish();
  }
  double seconds(sim::Time time) const { return engine.scale().seconds(time); }
  std::int64_t free_blocks() const {
    std::int64_t free = 0;
    for (std::size_t i = 0; i < cluster.size(); ++i)
      for (std::size_t pool = 0; pool < cluster.pools(i); ++pool) free += cluster.replica(i, pool).kv().free_blocks();
    return free;
  }

  sim::Engine engine;
  FakeModel model;
  ServingMetrics metrics;
  Log log;
  ListLoad load;
  Cluster cluster;
  std::int64_t total_blocks = 0;
};

}  // namespace orrery::experiments::test
