// The order of what happens at one instant of a serving run.
//
// A leap schedules one end where steps schedule many, and one that is interrupted schedules it anew. So the order of
// scheduling must decide nothing between iterations and the rest. What decides instead:
//
//   1. Iterations live in exact time, to the picosecond, whatever the tick. Ends within the tick that leads up to an
//      instant come before all else of that instant, by exact time, then by replica and lane. Who decides on a next
//      iteration does so at the exact time of the end, after all other ends of that time.
//   2. Ends at the instant itself come next, by replica and lane.
//   3. Then what is under way arrives (transfers, copies, looks of a scaler or of the migrator, programs that go on),
//      and then requests from outside and failures, each in the order of scheduling: which is the same however
//      iterations are taken, as only what leaping and stepping share schedules any of it.
//   4. Then everybody who has to decides, by replica and lane. What comes of that at this instant (a rejected request
//      whose client sends another) begins again at 3., for those who have not decided.
//   5. Then programs send the calls that follow from what ended: they join the iteration after.
//
// Where a leap passes an end, somebody decided there that all goes on. So whoever looks at a replica, or interrupts it,
// must find it as steps would have it: `begun()` says whether the decisions of a time have been made.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

/// Whose iterations end, and who decides on the next: a replica's lane, or what decides for several.
class TurnTaker {
 public:
  virtual ~TurnTaker() = default;
  /// The end that was announced is there.
  virtual void land() {}
  /// It asked for a turn: time to decide.
  virtual void take_turn() = 0;
};

class Instants final : private sim::EventHandler {
 public:
  /// `engine` must outlive it.
  explicit Instants(sim::Engine& engine) : engine_(engine) {}
  Instants(const Instants&) = delete;
  Instants& operator=(const Instants&) = delete;

  /// Takes part from now on; its number tells its place among others. It must outlive the last event.
  std::size_t add(TurnTaker& taker);
  /// The exact time at which things happen now: that of the engine's tick, or of an end within the tick before it.
  ExactTime now() const { return ending_ ? at_ : ExactTime{engine_.now().ticks, 0}; }
  /// Whether an iteration that begins then has begun: stepping, it would have been decided upon.
  bool begun(const ExactTime& start) const { return start <= decided_ || start < now(); }

  /// Has `who` land() at this time, which is to come. One end at a time for each.
  void ends_at(std::size_t who, const ExactTime& end);
  /// It does not.
  void cancel(std::size_t who);
  /// `who` is to decide at this very time. settle() follows.
  void ask_turn(std::size_t who);
  /// Whoever asked decides, as soon as all else of this instant is through: maybe at once, so that this is the last act
  /// of whoever handles an event. `goes_on`: it is not, the event may do more.
  void settle(bool goes_on = false);
  /// Where nothing else is due at this instant, what could be decided has been: the run stops here, or what comes yet
  /// comes after.
  void close();

 private:
  static constexpr std::uint64_t kDecide = ~std::uint64_t{0};  // payload; else who ends
  struct Of {
    TurnTaker* taker = nullptr;
    sim::EventId event;
    ExactTime end;
    bool flies = false, asks = false;
  };
  struct End {
    ExactTime at;
    std::size_t who;
    friend constexpr auto operator<=>(const End&, const End&) = default;
  };

  void on_event(std::uint64_t payload) override;
  void due(std::size_t who);
  End next_due();
  void go_through(End end);
  void decide();

  sim::Engine& engine_;
  std::vector<Of> of_;
  std::vector<End> due_;                     // a heap: ends within this tick, those that were put off included
  std::vector<std::size_t> asking_, turns_;  // and whose turn it is in the round under way
  ExactTime at_;                             // of the end at hand
  ExactTime decided_{-1, 0};                 // when turns were taken last
  bool ending_ = false, deciding_ = false, decide_due_ = false;
};

}  // namespace orrery::experiments
