// A request on its way through the system, whichever replicas it passes: what was asked, what has been observed.
//
// Replicas hold sequences; a request outlives them (it migrates, its prefill and its decode run on different replicas),
// so its latencies are kept here. Requests live in a pool with stable addresses; slots are used again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/systems/serving/observe/metrics.hpp"
#include "policies/base/types.hpp"
#include "sim/base/units.hpp"
#include "traces/asked.hpp"

namespace orrery::experiments {

/// A point of time to the picosecond, whatever the tick: iterations last whole picoseconds, events fall on ticks.
struct ExactTime {
  std::int64_t ticks = 0;  ///< whole ticks before it
  std::int64_t ps = 0;     ///< and picoseconds after them, fewer than a tick has
  /// `length` (>= 0, in ps) later.
  ExactTime plus(std::int64_t length, std::int64_t ps_per_tick) const {
    if (ps_per_tick == 1) return {ticks + length, 0};
    const std::int64_t sum = ps + length;
    return {ticks + sum / ps_per_tick, sum % ps_per_tick};
  }
  /// Picoseconds since `earlier`, which is not later; the most there is past 106 days (a replica may be down as long).
  std::int64_t minus(const ExactTime& earlier, std::int64_t ps_per_tick) const {
    return to_ps(static_cast<__int128>(ticks - earlier.ticks) * ps_per_tick + ps - earlier.ps, 1);
  }
  /// The first tick not before it.
  sim::Time tick() const { return {ticks + (ps > 0 ? 1 : 0)}; }
  friend constexpr auto operator<=>(const ExactTime&, const ExactTime&) = default;
};

/// All of a request but its text: what is new when its slot is used again.
struct RequestState : traces::Asked {
  std::int64_t id = 0;
  sim::Time arrived;
  std::int64_t session = -1;  ///< conversation or workflow; -1: none
  std::int32_t kind = 0;      ///< what a workload wants to know again when the request ends (stage, step)
  // as it stands
  std::int64_t generated = 0;     ///< output tokens emitted, when it is not in a replica
  std::int64_t ready_tokens = 0;  ///< tokens whose KV travels with it to the next replica
  std::int64_t cached_tokens = 0;
  std::optional<sim::Time> admitted, first_token;
  ExactTime last_token;
  TbtVerdict tbts;
  std::int32_t preemptions = 0, restarts = 0;       ///< the latter because replicas failed
  std::int32_t replica = 0;                         ///< where it is, or was last
  std::int32_t lane = 0;                            ///< of that replica
  bool placed = false;                              ///< a replica has it, or it is on its way to one
  std::int64_t queued_tokens = 0, load_tokens = 0;  ///< what the cluster counts it for at its replica
};

struct Request : RequestState {
  policies::Text text;  ///< what prompt and output say; empty: like no other
};

/// What is reported of a request when it is over.
inline RequestRecord record_of(const Request& request, std::string_view status, std::optional<sim::Time> finished) {
  return {request.asked(),     request.id, request.arrived,       request.admitted,
          request.first_token, finished,   request.cached_tokens, request.preemptions,
          request.replica,     status};
}

/// Requests at stable addresses.
class RequestPool {
 public:
  /// A request as new.
  Request& make() {
    if (free_.empty()) return requests_.emplace_back();
    Request& request = *free_.back();
    free_.pop_back();
    static_cast<RequestState&>(request) = kFresh;
    request.text.clear();  // its memory is kept
    return request;
  }
  void recycle(Request& request) { free_.push_back(&request); }

 private:
  static constexpr RequestState kFresh{};
  std::deque<Request> requests_;
  std::vector<Request*> free_;
};

/// Whoever sends requests to a replica hears here what becomes of them.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  /// It is over: "completed", "rejected:REASON" or "unfinished". The request may be recycled; `finished` is set if it
  /// completed. Called while the replica is between decisions: submit to it freely, its wake() follows.
  virtual void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) = 0;
  /// Its prefill is done and a token emitted; true takes it away from the replica (to decode elsewhere): its blocks
  /// stay until Replica::let_go(seq).
  virtual bool prefill_done(Request&, policies::SeqId /*seq*/) { return false; }
  /// A replica that was asked for it (Replica::ask_boundary) is between two decisions: sequences may be taken out.
  virtual void boundary(std::int32_t /*replica*/) {}
};

}  // namespace orrery::experiments
