// What a run tells observers beside what ends: the phases of requests, chunks of prompts, replicas that come and go.
// For timelines; nothing is told where nobody asks (RunObserver::wants_steps).
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/enum_names.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {

/// What a request does from some time on.
enum class RequestPhase : std::uint8_t { queued, prefill, decode, preempted, loading, moving };
constexpr auto enum_names(RequestPhase) {
  using enum RequestPhase;
  return sim::names<RequestPhase>({{"queued", queued},
                                   {"prefill", prefill},
                                   {"decode", decode},
                                   {"preempted", preempted},
                                   {"loading KV", loading},
                                   {"moving KV", moving}});
}

struct RequestStep {
  std::int64_t request = 0;
  sim::Time at;
  RequestPhase phase = RequestPhase::queued;
  std::int32_t replica = -1;  ///< -1: none yet
  std::int32_t stream = -1;   ///< of its iterations; -1: a step outside of any
};

/// A prompt's part in the iteration of a stream that comes next.
struct ChunkStep {
  std::int64_t request = 0, tokens = 0;
};

/// Time of one stage of a pipeline.
struct StageTime {
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// Something that happens to a replica, or to a request between replicas.
struct ClusterEvent {
  enum class Kind : std::uint8_t { routed, transferred, migrated, failed, returned, starting, on, draining, off };
  Kind kind = Kind::routed;
  sim::Time at;
  std::int32_t replica = 0;   ///< of a transfer: where it goes
  std::int32_t from = -1;     ///< of transfers and migrations
  std::int64_t request = -1;  ///< likewise, and of a choice of the router
  std::int64_t bytes = 0;
  sim::Time since;  ///< when it began
};

}  // namespace orrery::experiments
