// Shared resources: each work takes shares of what the device and its host have once, and all run as fast as that lets
// them.
//
//   device           kernels take all of it (multiprocessors, memory); a collective's own kernels take a share
//   link, each way   a copy takes all of its direction; a collective that crosses the network may pass both
//   host             its memory and the thread that copies: each takes a share
//
// Work runs at a speed of at most 1. Speeds are max-min fair: all rise together until a resource is full; those that
// use it stay, the others rise on. Defaults are those of an A100 among eight in a node (docs/explain/interference.md
// says how they were found, and what they are elsewhere).
#pragma once

#include "hw/interference/interference.hpp"

namespace orrery::hw {

/// Shares, from 0 to 1.
struct SharesParams {
  double node_collective = 0.44, network_collective = 0.15;
  double network_link = 1;
  double host_copy = 0.86, host_collective = 0, host_kernels = 0;
  static constexpr auto fields() {
    using S = SharesParams;
    constexpr sim::Range kShare = sim::between(0, 1);
    return sim::FieldTable{
        sim::field("node_collective", &S::node_collective, sim::Unit::ratio, kShare,
                   "Share of the device that a collective inside a node takes from kernels."),
        sim::field("network_collective", &S::network_collective, sim::Unit::ratio, kShare,
                   "The same for a collective that crosses the network."),
        sim::field("network_link", &S::network_link, sim::Unit::ratio, kShare,
                   "Share of the host link, each way, that a collective across the network takes. 1: its bytes pass "
                   "the host, as over TCP; 0: adapters have paths of their own to device memory."),
        sim::field("host_copy", &S::host_copy, sim::Unit::ratio, kShare,
                   "Share of the host that copies in one direction take. Up to 0.5, both directions run at full "
                   "speed; 1: one after the other, as from memory that is not pinned."),
        sim::field("host_collective", &S::host_collective, sim::Unit::ratio, kShare,
                   "Share of the host that a collective takes; 1: copies block the thread that launches it."),
        sim::field("host_kernels", &S::host_kernels, sim::Unit::ratio, kShare, "Share of the host that kernels take.")};
  }
};

std::unique_ptr<Interference> make_shares(const SharesParams& params);

}  // namespace orrery::hw
