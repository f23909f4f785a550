// What an NCCL-class library believes of its protocols (NCCL 2.18 to 2.28, src/graph/tuning.cc): the constants that its
// choice inside a node (library_collective.cpp) and over nodes (library_plan.cpp) share. Beliefs, not measurements:
// what a call takes is said by the constants of a link.
#pragma once

#include <array>

#include "hw/network/library_collective.hpp"

namespace orrery::hw {

/// A ring under a protocol, s: of a call, of a step between devices of a node and of one between nodes.
struct RingEstimate {
  LibraryProtocol protocol;
  double base_s, inner_s, outer_s;
};
constexpr std::array<RingEstimate, 3> kRingEstimates{{{LibraryProtocol::ll, 6.6e-6, 0.6e-6, 2.7e-6},
                                                      {LibraryProtocol::ll128, 14e-6, 1.9e-6, 4e-6},
                                                      {LibraryProtocol::simple, 8.4e-6, 3.4e-6, 14e-6}}};
constexpr const RingEstimate& kLlEstimate = kRingEstimates[0];
constexpr const RingEstimate& kSimpleEstimate = kRingEstimates[2];
constexpr double kLl128Share = 0.92;  ///< of a ring's bandwidth: 120 of 128 bytes, and a little
constexpr double kLl128Payload = 120.0 / 128;
constexpr double kTreeChunk_s = 28e-6;  ///< a chunk of 256 kB through a hop of a tree under Simple

}  // namespace orrery::hw
