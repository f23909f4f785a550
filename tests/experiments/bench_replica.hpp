// A replica on a test bench: a real engine, cache and policy, an iteration model that the test chooses.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/systems/serving/replica/replica.hpp"
#include "sim/base/random.hpp"
#include "tests/policies/view.hpp"

namespace orrery::experiments::test {

inline constexpr std::int64_t kSecond = 1'000'000'000'000;  // ps

/// Every iteration takes as long as `cost_ps` says; keeps all shapes.
class FakeModel : public IterationModel {
 public:
  std::function<std::int64_t(const BatchShape&)> cost_ps = [](const BatchShape&) { return kSecond; };
  std::int64_t switch_cost_ps = 0;
  std::int64_t horizon = 1;  ///< iterations of one batch that a price holds for
  std::vector<BatchShape> shapes;
  void cost(const BatchShape& shape, IterationCost& out) override { out.time_ps = cost_ps(shape); }
  /// Asked once a decision.
  IterationPrice price(const BatchShape& shape) override {
    shapes.push_back(shape);
    return {.time_ps = cost_ps(shape), .horizon = horizon};
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
  void iterations_ended(const IterationRun& run) override {
    for (std::int64_t i = 0; i < run.count; ++i) iterations.push_back(iteration(run, i, 1));
  }
};

/// What a test says of a request.
struct Arrival {
  std::int64_t id = 0, prompt_tokens = 0, output_tokens = 0;
  policies::Text text{};
};

class BenchReplica : public sim::EventHandler, public RequestSink {
 public:
  BenchReplica(std::unique_ptr<policies::Batching> batching, std::int64_t blocks,
               policies::Acceptance* acceptance = nullptr, const HostTime* host = nullptr,
               const std::function<void(ReplicaParts&)>& otherwise = {}) {
    ReplicaParts parts;
    parts.engine = &engine;
    parts.instants = &instants;
    parts.model = &model;
    parts.metrics = &metrics;
    parts.observer = &log;
    parts.sink = this;
    parts.acceptance = acceptance;
    parts.host = host;
    parts.batching = std::move(batching);
    parts.kv = policies::test::paged_cache(blocks);
    parts.limits = {.max_context = 4096, .layers = 32};
    if (otherwise) otherwise(parts);
    replica = std::make_unique<Replica>(std::move(parts));
  }
  void arrive(std::int64_t at_s, std::int64_t prompt, std::int64_t output, const policies::Text& text = {}) {
    arrivals.push_back({std::ssize(arrivals), prompt, output, text});
    engine.schedule_at(sim::Time{at_s * kSecond}, *this, arrivals.size() - 1);
  }
  void on_event(std::uint64_t index) override {
    submit(arrivals[index]);
    replica->wake();
  }
  /// Sends a request now; wake() the replica after the last.
  void submit(const Arrival& arrival) {
    Request& request = pool.make();
    request.id = arrival.id;
    request.arrived = engine.now();
    request.prompt_tokens = arrival.prompt_tokens;
    request.output_tokens = arrival.output_tokens;
    request.text = arrival.text;
    ++metrics.arrived;
    replica->submit(request);
  }
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override {
    const RequestRecord record = record_of(request, status, finished);
    metrics.request_ended(record, request.tbts);
    log.request_ended(record);
    pool.recycle(request);
  }
  void run() { engine.run(); }
  double seconds(const std::optional<sim::Time>& time) const { return engine.scale().seconds(*time); }

  sim::Engine engine;
  Instants instants{engine};
  FakeModel model;
  ServingMetrics metrics;
  RequestPool pool;
  Log log;
  std::vector<Arrival> arrivals;
  std::unique_ptr<Replica> replica;
};

}  // namespace orrery::experiments::test
