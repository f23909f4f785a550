// What a replica reports of its load, and its virtual usage and freeness as Llumnix computes them.
//
//   paper     V = (demand of the head of the queue) + sum over requests of physical usage + headroom
//             F = (M - V) / B                                     (Algorithm 1)
//   artefact  F = (free - demand of all that wait - reserve) / (running + 1 if any waits, or + all that wait for
//   dispatch)
//
// in blocks; B the requests that run. Headroom (paper) and reserve (artefact) keep a replica that holds high-priority
// requests unloaded. A terminating replica is full without end. Source: Llumnix (OSDI 2024, Algorithm 1) and its
// artefact (vllm/instance_info.py).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

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
  bool preempted = false;           ///< a preempted request waits
  bool terminating = false;
};

/// Adds what a batching policy would see of one lane. O(queue).
void add_load(const BatchView& view, LoadReport& report);

enum class Freeness : std::uint8_t { paper, artefact };

struct FreenessParams {
  Freeness formula = Freeness::paper;
  std::int64_t headroom_blocks = 0;

  static constexpr auto fields() {
    return std::tuple{
        sim::field("formula", &FreenessParams::formula, "Algorithm 1 of the paper, or what its artefact computes."),
        sim::field("headroom_blocks", &FreenessParams::headroom_blocks, sim::Unit::count, sim::at_least(0),
                   "Blocks kept from others on a replica that runs requests of high priority.")};
  }
};

/// Room on a replica per request: decode steps before it is full. May be negative. `dispatch`: as the artefact divides
/// for new requests.
double freeness(const LoadReport& report, const FreenessParams& params, bool dispatch);

}  // namespace orrery::policies

template <>
struct orrery::sim::EnumNames<orrery::policies::Freeness> {
  using E = orrery::policies::Freeness;
  static constexpr std::array<std::pair<std::string_view, E>, 2> names{
      {{"paper", E::paper}, {"artefact", E::artefact}}};
};
