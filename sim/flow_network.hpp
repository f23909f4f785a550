// Flows in time: bytes that move over paths of shared links, at max-min fair rates (sim/max_min.hpp).
//
// A flow waits for its path's latency (nothing is carried meanwhile), then shares every link of the path until its last
// byte has left; then its handler is told. Changes at one instant (starts, ends, capacities) are solved once, after the
// events that were already due at that instant. Rates, bytes left and bytes carried are integers (bytes in 2^-50, rates
// in that unit a tick), so bytes are conserved exactly and the order in which flows were added shows nowhere. An end is
// rounded up to the next tick.
// Left out: packets, windows, loss; a flow takes its share the moment it is solved for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine.hpp"

namespace orrery::sim {

struct LinkId {
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(LinkId, LinkId) = default;
};
struct PathId {
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(PathId, PathId) = default;
};
/// Names a flow for ever; stale once it ended or was cancelled.
struct FlowId {
  std::uint64_t value = ~0ULL;
};
