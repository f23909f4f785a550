// Made-up traffic of threads to one pseudo-channel of a memory.
//
// A stream is `sequential` 1, scattered accesses 0; a chain of pointers is `dependent`; what shared servers do lies
// between: runs of neighbours, pages some of which are wanted much more often than others, several threads.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/memory/dram_design.hpp"
#include "sim/base/random.hpp"

namespace orrery::hw {

struct DramTraffic {
  std::int64_t accesses = 2000, threads = 1;
  double interval_s = 10e-9, write_share = 0.3, sequential = 0.5, skew = 0;
  double footprint_bytes = 64.0 * 1024 * 1024;
  bool dependent = false;

  static constexpr auto fields() {
    using sim::Unit;
    using T = DramTraffic;
    return sim::FieldTable{
        sim::field("accesses", &T::accesses, Unit::count, sim::between(1, 1e7),
                   "Number of accesses of all threads together."),
        sim::field("threads", &T::threads, Unit::count, sim::between(1, 1024),
                   "Number of threads; accesses are dealt out to them in turn."),
        sim::field(
            "interval", &T::interval_s, Unit::seconds, sim::at_least(0),
            "Mean time between accesses of a thread (exponentially distributed), or after a response if dependent."),
        sim::field("write_share", &T::write_share, Unit::ratio, sim::between(0, 1), "Share of accesses that write."),
        sim::field("sequential", &T::sequential, Unit::ratio, sim::between(0, 1),
                   "Share of accesses that go to the burst after the thread's previous one; the others go anywhere."),
        sim::field(
            "skew", &T::skew, Unit::none, sim::between(0, 10),
            "Exponent of Zipf's law over 4 KiB pages for non-sequential accesses; 0: all pages are equally likely."),
        sim::field("footprint", &T::footprint_bytes, Unit::bytes, sim::at_least(4096),
                   "Size of the memory that the accesses touch."),
        sim::field("dependent", &T::dependent, "Whether a thread waits for the response to its previous access."),
    };
  }
};

/// Draws the accesses of all threads, in order of their clocks. Pages are spread over the memory by a fixed shuffle, so
/// that wanted ones are not neighbours. Throws std::invalid_argument for a footprint past the memory.
std::vector<DramAccess> draw_traffic(const DramParams& dram, const DramTraffic& traffic, sim::RandomStream random);

}  // namespace orrery::hw
