// The start rule of sim/task/executor.hpp, word for word and as slow as it reads: the executor is held to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "sim/task/graph.hpp"

namespace orrery::test {

struct PlainTask {
  std::int64_t duration = 0, release = 0;
  std::int32_t priority = 0;
  std::vector<sim::Demand> on;
  std::vector<std::uint32_t> after;
  bool flow = false;  // carried at one byte a tick: the same as a duration
};

struct PlainGraph {
  std::vector<std::int64_t> capacity;
  std::vector<sim::TaskOrder> order;
  std::vector<PlainTask> tasks;
};

struct PlainRun {
  static constexpr std::int64_t kNot = std::numeric_limits<std::int64_t>::max();
  std::int64_t ready = kNot, start = kNot, finish = kNot;
  bool done = false;
  friend bool operator==(const PlainRun&, const PlainRun&) = default;
};

/// The custom order of the tests: a scrambled, many-valued function of the id.
inline std::int64_t plain_custom_key(std::uint32_t task) {
  return static_cast<std::int64_t>(task * 2654435761U % 7);
}

class ReferenceSimulator {
 public:
  explicit ReferenceSimulator(const PlainGraph& graph) : g_(graph), runs_(graph.tasks.size()) {}

  std::vector<PlainRun> run() {
    for (now_ = 0; now_ != PlainRun::kNot; now_ = next_instant())
      while (settle() | start_what_can()) {
      }
    return runs_;
  }

 private:
  /// Ends, readiness and milestones of this instant; true if anything happened.
  bool settle() {
    bool any = false, more = true;
    for (; more; any |= more) {
      more = false;
      for (std::uint32_t t = 0; t < runs_.size(); ++t) {
        PlainRun& run = runs_[t];
        if (!run.done && run.finish <= now_) run.done = more = true;
        if (run.ready != PlainRun::kNot || g_.tasks[t].release > now_) continue;
        const auto& after = g_.tasks[t].after;
        if (!std::all_of(after.begin(), after.end(), [&](std::uint32_t p) { return runs_[p].done; })) continue;
        run.ready = now_;
        more = true;
        if (g_.tasks[t].on.empty()) start(t);
      }
    }
    return any;
  }
  bool start_what_can() {
    bool any = false;
    while (true) {
      std::uint32_t best = ~0U;
      for (std::uint32_t t = 0; t < runs_.size(); ++t)
        if (can_start(t) && (best == ~0U || key(t) < key(best))) best = t;
      if (best == ~0U) return any;
      start(best);
      any = true;
    }
  }
  bool can_start(std::uint32_t t) const {
    if (runs_[t].ready == PlainRun::kNot || runs_[t].start != PlainRun::kNot) return false;
    for (const sim::Demand& d : g_.tasks[t].on) {
      std::int64_t used = 0;
      for (std::uint32_t o = 0; o < runs_.size(); ++o)
        for (const sim::Demand& held : g_.tasks[o].on) {
          if (held.resource != d.resource) continue;
          if (runs_[o].start != PlainRun::kNot && !runs_[o].done) used += held.units;
          if (g_.order[d.resource.index] == sim::TaskOrder::program && o < t && runs_[o].start == PlainRun::kNot)
            return false;
        }
      if (used + d.units > g_.capacity[d.resource.index]) return false;
    }
    return true;
  }
  void start(std::uint32_t t) {
    runs_[t].start = now_;
    runs_[t].finish = now_ + g_.tasks[t].duration;
  }
  std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> key(std::uint32_t t) const {
    using sim::TaskOrder;
    const PlainTask& task = g_.tasks[t];
    const std::int64_t ready = runs_[t].ready;
    std::int64_t cause = 0;
    for (const std::uint32_t p : task.after)
      if (runs_[p].finish == ready && !g_.tasks[p].on.empty())
        cause = std::max<std::int64_t>(cause, g_.tasks[p].on[0].resource.index + 1);
    for (const sim::Demand& d : task.on) switch (g_.order[d.resource.index]) {
        case TaskOrder::program:
          continue;
        case TaskOrder::fifo:
          return {ready, ready, cause, t};
        case TaskOrder::priority:
          return {-std::int64_t{task.priority}, ready, cause, t};
        case TaskOrder::lifo:
          return {-ready, ready, (std::int64_t{1} << 40) - cause, (std::int64_t{1} << 40) - t};
        case TaskOrder::shortest:
          return {task.duration, ready, cause, t};
        case TaskOrder::longest:
          return {-task.duration, ready, cause, t};
        case TaskOrder::custom:
          return {plain_custom_key(t), ready, cause, t};
      }
    return {ready, ready, cause, t};
  }
  std::int64_t next_instant() const {
    std::int64_t next = PlainRun::kNot;
    for (std::uint32_t t = 0; t < runs_.size(); ++t) {
      if (runs_[t].start != PlainRun::kNot && !runs_[t].done) next = std::min(next, runs_[t].finish);
      if (g_.tasks[t].release > now_) next = std::min(next, g_.tasks[t].release);
    }
    return next;
  }

  const PlainGraph& g_;
  std::vector<PlainRun> runs_;
  std::int64_t now_ = 0;
};

}  // namespace orrery::test
