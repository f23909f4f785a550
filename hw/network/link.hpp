// The links of a node: what one device can send, and what a collective over them costs beside the bytes.
//
// `bandwidth` is what one device can send while it receives as much (NVLink: all its links together, per direction).
// The constants are those of the closed form in hw/network/all_reduce.hpp; they hold for devices behind one NVSwitch.
#pragma once

#include <tuple>

#include "sim/base/params.hpp"

namespace orrery::hw {

/// Link of a device into its node. Times in s, bandwidth in bytes/s, energy in J.
struct LinkParams {
  double bandwidth = 0;
  double efficiency = 1;
  double fixed_s = 0;
  double per_rank_s = 0;
  double chunk_s = 0;
  double start_skew_s = 0;
  double byte_j = 0;

  static constexpr auto fields() {
    using sim::Unit;
    return std::tuple{
        sim::required(sim::field("bandwidth", &LinkParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Peak a device sends, per direction, over all its links.")),
        sim::field("efficiency", &LinkParams::efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of the peak that large messages reach."),
        sim::field("fixed", &LinkParams::fixed_s, Unit::seconds, sim::at_least(0), "Cost of a collective of any size."),
        sim::field("per_rank", &LinkParams::per_rank_s, Unit::seconds, sim::at_least(0),
                   "Added for every rank after the first: synchronisation steps."),
        sim::field(
            "chunk", &LinkParams::chunk_s, Unit::seconds, sim::at_least(0),
            "Overhead of one pipelined chunk; the best chunking costs twice the root of chunk * bytes / bandwidth."),
        sim::field("start_skew", &LinkParams::start_skew_s, Unit::seconds, sim::at_least(0),
                   "Wait for the last rank to start, where hosts launch one by one; 0 for captured graphs."),
        sim::field("energy_per_byte", &LinkParams::byte_j, Unit::joules, sim::at_least(0), "Energy of a byte sent."),
    };
  }
};

}  // namespace orrery::hw
