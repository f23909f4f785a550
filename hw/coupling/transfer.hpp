// Bytes between host and device: pinned and pageable copies, page migration, coherent access.
//
// A pinned copy takes fixed + bytes / bandwidth of a copy engine. A pageable one is staged: a CPU thread copies it
// piece by piece into a pinned buffer, and each piece is sent while the next is staged,
//   t = fixed + piece / stage + (bytes - piece) / min(stage, link) + piece / link
// and the CPU thread is busy with it throughout; over a coherent link the device reads pageable memory as it reads
// pinned memory. Managed pages fault one by one: ceil(bytes / page) (fault + page / bandwidth); a prefetch moves them
// as one copy; over a coherent link they are read in place, at the link's bandwidth. Source: the CUDA programming guide
// on page-locked and managed memory. Left out: NUMA placement, page tables, write combining, migration back under
// pressure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "hw/coupling/platform.hpp"

namespace orrery::hw {

enum class CopyDirection : std::uint8_t { to_device, to_host };
enum class HostMemory : std::uint8_t { pinned, pageable };
/// How a kernel comes to data in managed memory that lies on the other side.
enum class ManagedAccess : std::uint8_t { fault, prefetch, in_place };

/// Time of a copy, s; zero bytes cost the fixed part.
double copy_time(const Platform& platform, CopyDirection direction, HostMemory memory, std::int64_t bytes);
/// Time the dispatching thread is kept busy by it, beside the call: all of it where it stages, none where it does not.
double copy_cpu_time(const Platform& platform, CopyDirection direction, HostMemory memory, std::int64_t bytes);
/// Time until `bytes` of managed memory were read once by the other side, s. `in_place` needs a coherent link, else it
/// is priced as `fault`.
double managed_time(const Platform& platform, CopyDirection direction, ManagedAccess access, std::int64_t bytes);

}  // namespace orrery::hw
