// The order of what happens at one instant.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "experiments/systems/serving/replica/instants.hpp"

namespace test_instants {

using namespace orrery;
using namespace orrery::experiments;

namespace {

constexpr std::int64_t kTick_ps = 1000;

using Story = std::vector<std::string>;

/// Writes down when it lands and takes its turn, and asks for a turn whenever it has landed.
class Teller final : public TurnTaker {
 public:
  Teller(Instants& instants, Story& story, std::string name)
      : instants_(instants), story_(story), name_(std::move(name)), number(instants.add(*this)) {}
  void land() override {
    tell("lands");
    instants_.ask_turn(number);
  }
  void take_turn() override {
    tell("decides");
    if (decides) decides();
  }
  std::function<void()> decides;

 private:
  void tell(const std::string& what) {
    const ExactTime now = instants_.now();
    story_.push_back(name_ + " " + what + " at " + std::to_string(now.ticks * kTick_ps + now.ps));
  }
  Instants& instants_;
  Story& story_;
  std::string name_;

 public:
  std::size_t number;
};

/// Others that act at an instant.
struct Other final : sim::EventHandler {
  std::function<void()> act;
  void on_event(std::uint64_t) override { act(); }
};

struct Scene {
  sim::Engine engine{1, sim::TickScale{kTick_ps}};
  Instants instants{engine};
  Story story;
  Teller a{instants, story, "a"}, b{instants, story, "b"}, c{instants, story, "c"};
  Other other;
};

}  // namespace

TEST_CASE("ends within a tick come by exact time, decisions after all ends of their time, the rest after that",
          "[unit]") {
  Scene s;
  s.other.act = [&] { s.story.push_back("other"); };
  s.engine.schedule_at(sim::Time{2}, s.other);
  s.instants.ends_at(s.c.number, {1, 300});
  s.instants.ends_at(s.b.number, {2, 0});
  s.instants.ends_at(s.a.number, {1, 300});
  // The next end of c is within the same tick.
  s.c.decides = [&] {
    s.instants.ends_at(s.c.number, {1, 900});
    s.c.decides = nullptr;
  };
  s.engine.run();
  CHECK(s.story == Story{"a lands at 1300", "c lands at 1300", "a decides at 1300", "c decides at 1300",
                         "c lands at 1900", "c decides at 1900", "b lands at 2000", "other", "b decides at 2000"});
}

TEST_CASE("whoever is asked to decide by several events of an instant decides once, after them", "[unit]") {
  Scene s;
  std::vector<bool> begun;
  s.other.act = [&] {
    s.story.push_back("other");
    begun.push_back(s.instants.begun({5, 0}));
    s.instants.ask_turn(s.b.number);
    s.instants.ask_turn(s.a.number);
    s.instants.settle();
  };
  s.engine.schedule_at(sim::Time{5}, s.other);
  s.engine.schedule_at(sim::Time{5}, s.other);
  // What comes of a decision comes once all have decided.
  s.a.decides = [&] {
    s.a.decides = nullptr;
    s.engine.schedule_in({}, s.other);
  };
  s.engine.run();
  CHECK(s.story == Story{"other", "other", "a decides at 5000", "b decides at 5000", "other", "a decides at 5000",
                         "b decides at 5000"});
  CHECK(begun == std::vector<bool>{false, false, true});
}

TEST_CASE("an end that is called off or put forward", "[unit]") {
  Scene s;
  s.instants.ends_at(s.a.number, {7, 0});
  s.instants.ends_at(s.b.number, {7, 0});
  s.other.act = [&] {
    s.instants.cancel(s.a.number);
    s.instants.cancel(s.b.number);
    s.instants.ends_at(s.b.number, {3, 1});
  };
  s.engine.schedule_at(sim::Time{2}, s.other);
  s.engine.run();
  CHECK(s.story == Story{"b lands at 3001", "b decides at 3001"});
}

TEST_CASE("what has begun, and what an event that goes on leaves to others", "[unit]") {
  Scene s;
  s.other.act = [&] {
    CHECK(s.instants.begun({3, 999}));
    CHECK_FALSE(s.instants.begun({4, 0}));
    s.instants.ask_turn(s.a.number);
    s.instants.settle(true);
    s.story.push_back("goes on");
  };
  s.engine.schedule_at(sim::Time{4}, s.other);
  s.engine.run();
  CHECK(s.story == Story{"goes on", "a decides at 4000"});
  CHECK(s.instants.begun({4, 0}));
  CHECK_FALSE(s.instants.begun({4, 1}));
}

TEST_CASE("where a run stops, what could be decided has been", "[unit]") {
  Scene s;
  s.engine.run(sim::Time{6});
  s.other.act = [] {};
  s.engine.schedule_at(sim::Time{9}, s.other);
  s.engine.schedule_at(sim::Time{9}, s.other);
  s.engine.step();
  s.instants.close();
  CHECK_FALSE(s.instants.begun({9, 0}));  // another event was due
  s.engine.run();
  s.instants.close();
  CHECK(s.instants.begun({9, 0}));
}

}  // namespace test_instants
