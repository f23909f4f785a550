// Queueing theory against the engine: clock, queue, named streams and batch means together.
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>

#include "sim/engine.hpp"
#include "sim/statistics.hpp"

namespace test_queueing {

using namespace orrery::sim;

namespace {

/// One server, first come first served, Poisson arrivals; records waiting times.
class Queue : public EventHandler {
 public:
  Queue(Engine& engine, double mean_gap_s, double mean_service_s, bool deterministic, std::int64_t customers,
        BatchMeans& waits)
      : engine_(engine),
        gaps_(engine.stream("arrivals")),
        services_(engine.stream("services")),
        mean_gap_s_(mean_gap_s),
        mean_service_s_(mean_service_s),
        deterministic_(deterministic),
        left_(customers),
        waits_(waits) {
    engine_.schedule_in(draw_gap(), *this, kArrival);
  }

  void on_event(std::uint64_t payload) override {
    if (payload == kArrival) {
      waiting_.push_back(engine_.now());
      if (--left_ > 0) engine_.schedule_in(draw_gap(), *this, kArrival);
    } else {
      busy_ = false;
    }
    if (busy_ || waiting_.empty()) return;
    waits_.add(engine_.scale().seconds(engine_.now() - waiting_.front()));
    waiting_.pop_front();
    busy_ = true;
    const double service = deterministic_ ? mean_service_s_ : services_.exponential(mean_service_s_);
    engine_.schedule_in(engine_.scale().duration(service), *this, kDeparture);
  }

 private:
  static constexpr std::uint64_t kArrival = 0, kDeparture = 1;
  Duration draw_gap() { return engine_.scale().duration(gaps_.exponential(mean_gap_s_)); }

  Engine& engine_;
  RandomStream gaps_, services_;
  double mean_gap_s_, mean_service_s_;
  bool deterministic_;
  std::int64_t left_;
  BatchMeans& waits_;
  std::deque<Time> waiting_;
  bool busy_ = false;
};

void check_queue(bool deterministic, double load) {
  // Mean wait: rho / (1 - rho) * s for M/M/1, half of it for M/D/1 (Pollaczek-Khinchine), service s = 1.
  Engine engine(2024);
  BatchMeans waits(10'000);
  Queue queue(engine, 1.0 / load, 1.0, deterministic, 400'000, waits);
  engine.run();
  const double theory = load / (1 - load) * (deterministic ? 0.5 : 1.0);
  CAPTURE(deterministic, load, theory, waits.mean(), waits.half_width());
  CHECK(waits.batches() == 40);
  // 99.9 % interval: 3.29 / 1.96 of the 95 % one. The interval itself must be tight, or the check says nothing.
  CHECK(std::fabs(waits.mean() - theory) < waits.half_width() * 3.29 / 1.96);
  CHECK(waits.half_width() < 0.1 * theory);
}

}  // namespace

TEST_CASE("M/M/1 waits as theory says", "[theory]") {
  check_queue(false, 0.5);
  check_queue(false, 0.8);
}

TEST_CASE("M/D/1 waits half as long", "[theory]") {
  check_queue(true, 0.5);
  check_queue(true, 0.8);
}

}  // namespace test_queueing
