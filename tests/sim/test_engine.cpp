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

TEST_CASE("an engine says what cannot be scheduled", "[unit]") {
  Engine engine;
  Recorder recorder(engine);
  engine.schedule_at(Time{5}, recorder, 1);
  engine.run();
  CHECK_THROWS_WITH(engine.schedule_at(Time{4}, recorder), "an event was scheduled in the past");
  CHECK_NOTHROW(engine.schedule_at(Time{5}, recorder, 2));  // now is not past
  CHECK(engine.has_time_for(Duration{kNever.ticks - 5}));
  CHECK_FALSE(engine.has_time_for(Duration{kNever.ticks - 4}));
  CHECK_THROWS_WITH(engine.schedule_in(Duration{kNever.ticks - 4}, recorder), Catch::Contains("set run.tick to"));
  CHECK_THROWS_AS(engine.expect_time_for(Duration{kNever.ticks}), std::overflow_error);
  CHECK_NOTHROW(engine.expect_time_for(Duration{kNever.ticks - 5}));
  CHECK(engine.pending() == 1);
  engine.run();
  CHECK(engine.events() == 2);
  EventQueue queue(1ULL << EventQueue::kSequenceBits);
  CHECK_THROWS_WITH(queue.push(Time{1}, 2), "event queue: 2^38 events have been scheduled");
}

TEST_CASE("a run that stops leaves the clock where it was told, one that ends at the last event", "[unit]") {
  Engine engine;
  Recorder recorder(engine);
  CHECK_FALSE(engine.step());
  engine.run(Time{7});
  CHECK(engine.now() == Time{0});  // nothing to come
  engine.schedule_at(Time{10}, recorder, 1);
  engine.schedule_at(Time{20}, recorder, 2);
  engine.run(Time{10});
  CHECK(recorder.seen.size() == 1);
  CHECK(engine.now() == Time{10});
  engine.run(Time{3});  // the clock does not go back
  CHECK(engine.now() == Time{10});
  engine.run(Time{15});
  CHECK(engine.now() == Time{15});
  CHECK(engine.step());
  CHECK(engine.now() == Time{20});
  CHECK_FALSE(engine.step());
  engine.run(Time{99});
  CHECK(engine.now() == Time{20});
  CHECK_FALSE(engine.more_now());
}

TEST_CASE("keys of cancelled events are swept out when they are more than half", "[unit]") {
  // Swept where the queue has more than twice the live events and 1,024 more.
  Engine engine;
  Recorder recorder(engine);
  std::vector<EventId> ids;
  for (std::uint64_t i = 0; i < 3000; ++i)
    ids.push_back(engine.schedule_at(Time{static_cast<std::int64_t>(i * 7919 % 3000)}, recorder, i));
  std::size_t cancelled = 0;
  for (; engine.queued() == 3000; ++cancelled) CHECK(engine.cancel(ids[cancelled]));
  CHECK(cancelled == 2013);  // 3000 > 2 * (3000 - c) + 1024 from c = 2,013 on
  CHECK(engine.queued() == 987);
  CHECK(engine.pending() == 987);
  engine.run();
  CHECK(recorder.seen.size() == 987);
  CHECK(std::is_sorted(recorder.seen.begin(), recorder.seen.end()));
  for (const auto& [at, payload] : recorder.seen) CHECK(payload >= 2013);
  CHECK_FALSE(engine.cancel(ids.back()));  // fired
  CHECK_FALSE(engine.cancel(EventId{}));
}

TEST_CASE("the slot that comes after the top", "[unit]") {
  EventQueue queue;
  queue.push(Time{3}, 30);
  CHECK(queue.top().slot() == 30);
  CHECK(queue.next_slot() == 30);  // alone
  for (const std::int64_t at : {9, 5, 7, 4, 8, 6}) queue.push(Time{at}, static_cast<std::uint32_t>(10 * at));
  CHECK(queue.size() == 7);
  for (std::uint32_t at = 3; at < 9; ++at) {
    CHECK(queue.top().slot() == 10 * at);
    CHECK(queue.next_slot() == 10 * (at + 1));
    queue.pop();
  }
  CHECK(queue.size() == 1);
  queue.push(Time{1}, 1, Rank::last);  // into the hole
  queue.push(Time{1}, 2, Rank::late);
  CHECK(queue.top().rank() == Rank::late);
  CHECK(queue.next_slot() == 1);
}

TEST_CASE("a queue that loses any of its keys still sorts", "[prop]") {
  RandomStream random(13, "sweeps");
  for (std::size_t count = 0; count < 60; ++count) {
    EventQueue queue;
    std::vector<std::pair<std::int64_t, std::uint32_t>> expected;
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      const auto time = static_cast<std::int64_t>(random.below(20));
      queue.push(Time{time}, slot);
      if (slot % 3 != 0) expected.emplace_back(time, slot);
    }
    if (count % 2 == 0 && count > 0) {  // with a hole at the root
      const std::uint32_t taken = queue.top().slot();
      queue.pop();
      std::erase_if(expected, [&](const auto& one) { return one.second == taken; });
    }
    queue.remove_if([](std::uint64_t order) { return (order & EventQueue::kSlotMask) % 3 == 0; });
    std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    REQUIRE(queue.size() == expected.size());
    for (const auto& [time, slot] : expected) {
      REQUIRE(queue.top().slot() == slot);
      queue.pop();
    }
    CHECK(queue.empty());
  }
}

TEST_CASE("streams of an engine are those of its seed", "[unit]") {
  CHECK(Engine(7).stream("a").bits() == RandomStream(7, "a").bits());
  CHECK(Engine().stream("a").bits() == RandomStream(1, "a").bits());
  CHECK(Engine(1, TickScale(5)).scale().ps_per_tick() == 5);
}

}  // namespace test_engine
