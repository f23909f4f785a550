// The stages of a pipeline that send over a network which others use too: those of StagePipe, in events.
//
// A stage takes iterations in the order in which they entered. Its devices and hosts work, then its collectives are
// sent, then what the next stage needs: one transfer after another between two stages, each beginning when the one
// before it has arrived. Where nobody else sends, and sends do not meet each other, that takes what StagePipe::pass()
// says.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "experiments/systems/serving/replica/wire.hpp"

namespace orrery::experiments {

/// What a stage does for an iteration.
struct StageWork {
  std::int64_t time_ps = 0;     ///< its devices and hosts; and its collectives, as where nobody else sends
  SentBytes sent;               ///< by these collectives
  std::int64_t send_ps = 0;     ///< to the next stage, likewise
  std::int64_t send_bytes = 0;  ///< of a device
};

/// An iteration that has left the last stage.
struct Passage {
  std::vector<ExactTime> begin, end;  ///< a stage
  ExactTime entered;
  std::int64_t waited_ps = 0;  ///< by how much its transfers took longer than alone
};

/// Wires of a stage: of its own ranks, and to the next stage.
struct StageWires {
  std::unique_ptr<Wire> own, next;
};

class WiredStages {
 public:
  /// Hears of every iteration that leaves, before whoever waits for it.
  class Books {
   public:
    virtual ~Books() = default;
    virtual void left(const Passage& passage) = 0;
  };

  /// Wires of the stages of each mode.
  WiredStages(std::vector<std::vector<StageWires>> modes, Books& books, std::int64_t ps_per_tick);

  /// An iteration that is ready for the first stage; `listener` hears when it has left the last.
  void enter(ExactTime ready, std::int32_t mode, const std::vector<StageWork>& work, Wire::Listener& listener);
  /// Nothing is in it any longer. Returns when the first of those that were in it entered, or `now`.
  ExactTime clear(ExactTime now);

 private:
  struct Under {
    std::vector<StageWork> work;
    Passage passage;
    std::size_t mode = 0;
    ExactTime ready;  // for what comes next
    Wire::Listener* listener = nullptr;
  };
  /// A stage, or the way to the next one: one iteration at a time, first come, first served.
  struct Line final : Wire::Listener {
    WiredStages* stages = nullptr;
    std::size_t stage = 0;
    bool next = false;  // the way to the next stage
    ExactTime free;
    std::unique_ptr<Under> under;
    std::deque<std::unique_ptr<Under>> queue;
    void sent(ExactTime end) override { stages->done(*this, end); }
  };
  void take(Line& line, std::unique_ptr<Under> under);
  void begin(Line& line);
  void done(Line& line, ExactTime end);
  Wire& wire(const Line& line) const;

  std::vector<std::vector<StageWires>> modes_;
  Books& books_;
  std::int64_t ps_per_tick_;
  std::vector<Line> lines_, ways_;
};

}  // namespace orrery::experiments
