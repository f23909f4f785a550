#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <stdexcept>
#include <vector>

#include "sim/engine.hpp"

namespace test_engine {

using namespace orrery::sim;

namespace {

/// Records the payloads in the order of delivery, and may act on them.
class Recorder : public EventHandler {
 public:
  explicit Recorder(Engine& engine) : engine_(engine) {}
  std::vector<std::pair<std::int64_t, std::uint64_t>> seen;
  std::function<void(std::uint64_t)> act;
  void on_event(std::uint64_t payload) override {
    seen.emplace_back(engine_.now().ticks, payload);
    if (act) act(payload);
  }

 private:
  Engine& engine_;
};

}  // namespace

TEST_CASE("events fire by time, equal times by order of scheduling", "[unit]") {
  Engine engine;
  Recorder recorder(engine);
  engine.schedule_at(Time{5}, recorder, 1);
  engine.schedule_at(Time{3}, recorder, 2);
  engine.schedule_at(Time{5}, recorder, 3);
  engine.schedule_at(Time{0}, recorder, 4);
  engine.run();
  CHECK(recorder.seen == std::vector<std::pair<std::int64_t, std::uint64_t>>{{0, 4}, {3, 2}, {5, 1}, {5, 3}});
  CHECK(engine.events() == 4);
  CHECK(engine.pending() == 0);
}

TEST_CASE("at equal times ranks come before the order of scheduling", "[unit]") {
  Engine engine;
  Recorder recorder(engine);
  std::vector<bool> more, more_at_all;
  recorder.act = [&](std::uint64_t payload) {
    more.push_back(engine.more_now());
    more_at_all.push_back(engine.more_now(Rank::last));
    if (payload == 4) engine.schedule_in(Duration{0}, recorder, 5, Rank::first);  // its turn has not passed
  };
  engine.schedule_at(Time{2}, recorder, 7, Rank::last);
  engine.schedule_at(Time{2}, recorder, 6, Rank::late);
  engine.schedule_at(Time{2}, recorder, 4);
  engine.schedule_at(Time{2}, recorder, 2, Rank::first);
  engine.schedule_at(Time{2}, recorder, 3, Rank::first);
  engine.schedule_at(Time{1}, recorder, 1, Rank::last);
  engine.schedule_at(Time{3}, recorder, 8, Rank::first);
  engine.run();
  CHECK(recorder.seen == std::vector<std::pair<std::int64_t, std::uint64_t>>{
                             {1, 1}, {2, 2}, {2, 3}, {2, 4}, {2, 5}, {2, 6}, {2, 7}, {3, 8}});
  // What is decided last is nothing that others wait for.
  CHECK(more == std::vector<bool>{false, true, true, true, true, false, false, false});
  CHECK(more_at_all == std::vector<bool>{false, true, true, true, true, true, false, false});
}

TEST_CASE("a cancelled event does not fire, and its id goes stale", "[unit]") {
  Engine engine;
  Recorder recorder(engine);
  const EventId first = engine.schedule_at(Time{1}, recorder, 1);
  engine.schedule_at(Time{2}, recorder, 2);
  CHECK(engine.cancel(first));
  CHECK_FALSE(engine.cancel(first));
  CHECK(engine.pending() == 1);
  engine.run();
  CHECK(recorder.seen.size() == 1);
  const EventId reused = engine.schedule_at(Time{9}, recorder, 3);
  CHECK_FALSE(engine.cancel(first));  // the slot lives again, under another generation
  CHECK(engine.cancel(reused));
}

TEST_CASE("handlers schedule on, and run() can stop between", "[unit]") {
  Engine engine;
  Recorder recorder(engine);
  recorder.act = [&](std::uint64_t payload) {
    if (payload < 10) engine.schedule_in(Duration{2}, recorder, payload + 1);
  };
  engine.schedule_at(Time{0}, recorder, 0);
  engine.run(Time{7});  // events at 0, 2, 4, 6; the next is at 8
  CHECK(recorder.seen.size() == 4);
  CHECK(engine.now() == Time{7});
  engine.run(Time{8});
  CHECK(recorder.seen.size() == 5);
  engine.run();
  CHECK(recorder.seen.size() == 11);
  CHECK(engine.now() == Time{20});
}

TEST_CASE("nothing can be scheduled in the past", "[unit]") {
  Engine engine;
  Recorder recorder(engine);
  recorder.act = [&](std::uint64_t) { engine.schedule_at(Time{1}, recorder); };
  engine.schedule_at(Time{2}, recorder);
  CHECK_THROWS_AS(engine.run(), std::logic_error);
}

TEST_CASE("the sequence of the key does not wrap in silence", "[unit]") {
  EventQueue queue((1ULL << EventQueue::kSequenceBits) - 2);
  queue.push(Time{1}, 0);
  queue.push(Time{1}, 1);
  CHECK(queue.top().slot() == 0);  // the order holds up to the last sequence
  CHECK_THROWS_AS(queue.push(Time{1}, 2), std::length_error);
}

TEST_CASE("the queue sorts like a stable sort", "[prop]") {
  RandomStream random(11, "queue");
  for (int round = 0; round < 20; ++round) {
    EventQueue queue;
    std::vector<std::pair<std::int64_t, std::uint32_t>> expected;
    for (std::uint32_t slot = 0; slot < 500; ++slot) {
      const auto time = static_cast<std::int64_t>(random.below(50));
      queue.push(Time{time}, slot);
      expected.emplace_back(time, slot);
    }
    std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time, slot] : expected) {
      REQUIRE(queue.top().time == Time{time});
      REQUIRE(queue.top().slot() == slot);
      queue.pop();
    }
    CHECK(queue.empty());
  }
}

}  // namespace test_engine
