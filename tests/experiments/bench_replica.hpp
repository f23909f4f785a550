// A replica on a test bench: a real engine, cache and policy, an iteration model that the test chooses.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "experiments/serving/replica.hpp"
#include "sim/base/random.hpp"
#include "tests/policies/view.hpp"

namespace orrery::experiments::test {

inline constexpr std::int64_t kSecond = 1'000'000'000'000;  // ps

/// Every iteration takes as long as `cost_ps` says; keeps all shapes.
class FakeModel : public IterationModel {
 public:
  std::function<std::int64_t(const BatchShape&)> cost_ps = [](const BatchShape&) { return kSecond; };
  std::int64_t switch_cost_ps = 0;
  std::vector<BatchShape> shapes;
  void cost(const BatchShape& shape, IterationCost& out) override {
    shapes.push_back(shape);
    out.time_ps = cost_ps(shape);
  }
  std::int64_t switch_ps(std::int32_t, std::int32_t) const override { return switch_cost_ps; }
};

/// Keeps what an observer sees.
class Log : public RunObserver {
 public:
  std::vector<RequestRecord> requests;
  std::vector<std::string> statuses;
  std::vector<IterationRecord> iterations;
  void request_ended(const RequestRecord& record) override {
    requests.push_back(record);
    statuses.emplace_back(record.status);  // the record's text lives only as long as the call
  }
  void iteration_ended(const IterationRecord& record) override { iterations.push_back(record); }
};

class BenchReplica : public sim::EventHandler {
 public:
  BenchReplica(std::unique_ptr<policies::Batching> batching, std::int64_t blocks,
               policies::Acceptance* acceptance = nullptr) {
    ReplicaParts parts;
    parts.engine = &engine;
    parts.model = &model;
    parts.metrics = &metrics;
    parts.observer = &log;
    parts.acceptance = acceptance;
    parts.batching = std::move(batching);
    parts.kv = policies::test::paged_cache(blocks);
    parts.limits = {.max_context = 4096, .layers = 32};
    replica = std::make_unique<Replica>(std::move(parts));
  }
  void arrive(std::int64_t at_s, std::int64_t prompt, std::int64_t output) {
    arrivals.push_back({std::ssize(arrivals), prompt, output});
    engine.schedule_at(sim::Time{at_s * kSecond}, *this, arrivals.size() - 1);
  }
  void on_event(std::uint64_t index) override {
    replica->submit(arrivals[index]);
    replica->wake();
  }
  void run() { engine.run(); }
  double seconds(const std::optional<sim::Time>& time) const { return engine.scale().seconds(*time); }

  sim::Engine engine;
  FakeModel model;
  ServingMetrics metrics;
  Log log;
  std::vector<Arrival> arrivals;
  std::unique_ptr<Replica> replica;
};

}  // namespace orrery::experiments::test
