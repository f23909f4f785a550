// Engine and statistics.
#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/engine.hpp"
#include "sim/statistics.hpp"
#include "tests/determinism/digest.hpp"

namespace orrery::determinism {
namespace {

using namespace sim;

/// Every event schedules the next, some two, and some cancel another; equal times are common.
class Hold final : public EventHandler {
 public:
  Hold(Engine& engine, Digest& digest) : engine_(engine), digest_(digest), random_(engine.stream("hold")) {
    for (std::uint64_t i = 0; i < 500; ++i) schedule(i);
  }
  void on_event(std::uint64_t payload) override {
    digest_.add(engine_.now().ticks);
    digest_.add(payload);
    if (++fired_ > 100'000) return;
    schedule(payload);
    if (random_.bernoulli(0.3)) schedule(payload + 1000);
    if (random_.bernoulli(0.3)) digest_.add(engine_.cancel(ids_[random_.below(ids_.size())]) ? 1 : 0);
  }

 private:
  void schedule(std::uint64_t payload) {
    const EventId id = engine_.schedule_in(Duration{random_.integer(0, 30)}, *this, payload);
    if (ids_.size() < 1000)
      ids_.push_back(id);
    else
      ids_[random_.below(ids_.size())] = id;
  }

  Engine& engine_;
  Digest& digest_;
  RandomStream random_;
  std::vector<EventId> ids_;
  int fired_ = 0;
};

/// One server, first come first served, that sources feed.
class Server final : public EventHandler {
 public:
  explicit Server(Engine& engine) : engine_(engine), random_(engine.stream("server")) {}
  void arrive(std::uint64_t source) {
    waiting_.push_back({engine_.now(), source});
    length.set(engine_.now(), std::ssize(waiting_));
    if (waiting_.size() == 1) serve();
  }
  void on_event(std::uint64_t) override {
    waits.add((engine_.now() - waiting_.front().at).ticks);
    mean_wait.add(engine_.scale().seconds(engine_.now() - waiting_.front().at));
    log.push_back(engine_.now().ticks);
    log.push_back(static_cast<std::int64_t>(waiting_.front().source));
    waiting_.pop_front();
    length.set(engine_.now(), std::ssize(waiting_));
    if (!waiting_.empty()) serve();
  }
  void report(Digest& digest) const {
    for (const std::int64_t entry : log) digest.add(entry);
    digest.add(waits.sum());
    for (double q = 0; q <= 1; q += 0.05) digest.add(waits.quantile(q));
    digest.add(length.area(engine_.now()));
    digest.add(mean_wait.interval().mean);
    digest.add(mean_wait.interval().half_width);
  }

  SampleStats waits;
  SteadyMean mean_wait{Transient::cut};
  TimeAverage length;
  std::vector<std::int64_t> log;

 private:
  void serve() { engine_.schedule_in(engine_.scale().duration(random_.gamma(0.7, 1e-3)), *this); }
  struct Customer {
    Time at;
    std::uint64_t source;
  };
  Engine& engine_;
  RandomStream random_;
  std::deque<Customer> waiting_;
};

/// Sends customers at random times.
class Source final : public EventHandler {
 public:
  Source(Engine& engine, Server& server, std::uint64_t number)
      : engine_(engine), server_(server), number_(number), random_(engine.stream("source/" + std::to_string(number))) {
    schedule();
  }
  void on_event(std::uint64_t) override {
    server_.arrive(number_);
    if (++sent_ < 3000) schedule();
  }

 private:
  void schedule() {
    engine_.schedule_in(engine_.scale().duration(random_.weibull(0.8, 2e-3 + 1e-3 * static_cast<double>(number_))),
                        *this);
  }
  Engine& engine_;
  Server& server_;
  std::uint64_t number_;
  RandomStream random_;
  int sent_ = 0;
};

std::uint64_t run_sources(const std::vector<std::uint64_t>& order) {
  Engine engine(17);
  Server server(engine);
  std::deque<Source> sources;
  for (const std::uint64_t number : order) sources.emplace_back(engine, server, number);
  engine.run();
  Digest digest;
  server.report(digest);
  return digest.value();
}

}  // namespace

void hold_with_cancellations(Digest& digest) {
  Engine engine(3);
  Hold hold(engine, digest);
  engine.run(Time{30'000});
  digest.add(engine.events());
  digest.add(engine.pending());
}

void queue_with_statistics(Digest& digest) {
  digest.add(run_sources({0}));
  digest.add(run_sources({0, 1, 2}));
}

/// Streams hang on names: the order in which components are made shows nowhere (no two events fall on one picosecond).
void components_in_any_order(Digest& digest) {
  const std::uint64_t reference = run_sources({0, 1, 2, 3});
  for (const auto& order : {std::vector<std::uint64_t>{3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}})
    if (run_sources(order) != reference)
      throw std::runtime_error("components made in another order give another result");
  digest.add(reference);
}

void sample_statistics(Digest& digest) {
  RandomStream random(9, "samples");
  SampleStats exact, large, merged;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<std::int64_t>(random.log_normal(18, 2));
    exact.add(value);
    large.add(value, 70);
    if (i % 7 == 0) exact.add_run(value, random.integer(0, 1000), random.integer(0, 5));
    if (i % 11 == 0) large.add_run(value, random.integer(0, 1000), random.integer(0, 500));
  }
  merged.merge(exact);
  merged.merge(large);
  for (const SampleStats* stats : {&exact, &large, &merged}) {
    digest.add(stats->count());
    digest.add(stats->sum());
    digest.add(stats->mean());
    for (double q = 0; q <= 1; q += 0.01) digest.add(stats->quantile(q));
  }
}

void batch_means(Digest& digest) {
  for (std::int64_t n : {1, 9, 100, 1000, 100'000}) {
    RandomStream random(10, "series");
    BatchMeans fixed(50);
    SteadyMean kept, cut(Transient::cut);
    double x = 5;
    for (std::int64_t i = 0; i < n; ++i) {
      x = 0.9 * x + random.normal();
      fixed.add(x);
      kept.add(x);
      cut.add(x);
    }
    digest.add(fixed.mean());
    digest.add(fixed.half_width());
    for (const SteadyMean* mean : {&kept, &cut}) {
      const SteadyMean::Interval interval = mean->interval(0.99);
      digest.add(interval.mean);
      digest.add(interval.half_width);
      digest.add(interval.skipped);
    }
  }
  for (std::int64_t degrees = 1; degrees < 600; ++degrees) digest.add(student_t(0.95, degrees));
}

}  // namespace orrery::determinism
