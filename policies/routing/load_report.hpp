// What a replica reports of its load, and its virtual usage and freeness as Llumnix computes them.
//
//   paper     V = (demand of the head of the queue) + sum over requests of physical usage + headroom
//             F = (M - V) / B                                     (Algorithm 1)
//   artefact  F = (free - demand of all that wait - reserve) / (running + 1 if any waits, or + all that wait for
//   dispatch)
//
// in blocks; B the requests that run. Headroom (paper) and reserve (artefact) keep a replica that holds requests of
// high priority unloaded: all of its blocks but `ideal_blocks`, the load at which decodes still run at their best
// speed. The paper divides the headroom of a priority among the requests that have it, which sums to one headroom a
// replica. The artefact charges a normal request for it where a high one is, and a high one where none is, so that the
// classes keep apart. A terminating replica is full without end. Source: Llumnix (OSDI 2024, Algorithm 1) and its
// artefact (vllm/instance_info.py, vllm/core/request_scheduler.py).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "policies/batching/batching.hpp"
#include "sim/base/params.hpp"

namespace orrery::policies {

/// Blocks and requests of a replica.
struct LoadReport {
  std::int32_t replica = 0;
  std::int64_t total_blocks = 0, used_blocks = 0;
  std::int64_t running = 0, waiting = 0;
  std::int64_t head_blocks = 0;     ///< that the head of the queue needs
  std::int64_t waiting_blocks = 0;  ///< that all in the queue need
  std::int64_t high = 0;            ///< running requests of a priority above 0
  std::int64_t high_waiting = 0;    ///< and those in the queue
  bool preempted = false;           ///< a preempted request waits
  bool terminating = false;
};

/// Adds a lane to a report: those who run in it, and its queue and KV cache (once, where lanes share these).
void add_running(const BatchView& view, LoadReport& report);
void add_queue(const BatchView& view, LoadReport& report);

enum class Freeness : std::uint8_t { paper, artefact };
constexpr auto enum_names(Freeness) {
  using enum Freeness;
  return sim::names<Freeness>({{"paper", paper}, {"artefact", artefact}});
}

/// Who asks: room for what runs (migration, scaling), or for a new request of normal or of high priority.
enum class RoomFor : std::uint8_t { running, normal, high };

struct FreenessParams {
  Freeness formula = Freeness::paper;
  std::optional<std::int64_t> ideal_blocks;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("formula", &FreenessParams::formula,
                   "How freeness is computed: Algorithm 1 of the Llumnix paper, or as in its artefact."),
        sim::field("ideal_blocks", &FreenessParams::ideal_blocks, sim::Unit::count, sim::at_least(0),
                   "KV blocks that a replica with requests of high priority (above 0) may fill; the rest is kept free. "
                   "The artefact has 100. null: nothing is kept for priorities.")};
  }
};

/// Room and the requests that share it; freeness is their ratio. Both add up over replicas.
struct Room {
  std::int64_t blocks = 0, requests = 0;
};
Room room(const LoadReport& report, const FreenessParams& params, RoomFor who);
/// Room on a replica per request: decode steps before it is full. May be negative. New requests of the artefact divide
/// by all that wait.
double freeness(const LoadReport& report, const FreenessParams& params, RoomFor who);

}  // namespace orrery::policies
