// A tier of memory or storage as a part of the catalog: DRAM, HBM, CXL expanders, NVMe drives.
//
// R requests of together S bytes, each rounded up to whole granules of g bytes (a cache line, a flash page):
//   moved = sum of the requests' granules * g,   lines = moved / g
//   time  = latency + max(moved / bandwidth, max(0, lines - outstanding) / outstanding * latency, R / iops)
// The first granule comes after the latency. From then on the tier delivers at its bandwidth, unless fewer granules can
// be under way than that takes: `outstanding` of them every `latency` (Little's law), or the requests themselves are
// bounded (I/O operations per second of a drive). Reads and writes have figures of their own; both at once share
// nothing here. Energy counts what moves. Left out: row buffers, refresh and bank conflicts (hw/memory models them),
// wear and garbage collection of flash.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/params.hpp"

namespace orrery::hw {

/// One way of access: bandwidth in bytes/s, latency in s, iops per s (0: no bound).
struct TierAccess {
  double bandwidth = 0;
  double latency_s = 0;
  double iops = 0;
  double byte_j = 0;
  static sim::FieldRows<TierAccess> fields();
};

/// Sizes in bytes.
struct MemoryTier {
  static constexpr std::string_view kKind = "memory";
  std::int64_t capacity_bytes = 0;
  std::int64_t granule_bytes = 64;
  std::int64_t outstanding = 1;
  TierAccess read, write;

  static sim::FieldRows<MemoryTier> fields();
};

enum class TierDirection : std::uint8_t { read, write };

/// What a transfer moves: `requests` of together `bytes`, cut evenly, in whole granules. No bytes: nothing.
double moved_bytes(const MemoryTier& tier, std::int64_t bytes, std::int64_t requests = 1);
/// Seconds until the last byte is there. `depth` > 0 bounds the granules under way further (a core's line fill buffers,
/// a queue of an application). No bytes take no time. Constant time.
double transfer_time(const MemoryTier& tier, TierDirection direction, std::int64_t bytes, std::int64_t requests = 1,
                     std::int64_t depth = 0);
double transfer_energy(const MemoryTier& tier, TierDirection direction, std::int64_t bytes, std::int64_t requests = 1);

}  // namespace orrery::hw
