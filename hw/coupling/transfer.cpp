#include "hw/coupling/transfer.hpp"

#include <algorithm>

namespace orrery::hw {
namespace {

const CopyPath& path_of(const Platform& platform, CopyDirection direction) {
  const CopyParams& copies = platform.params.copies;
  return direction == CopyDirection::to_device ? copies.to_device : copies.to_host;
}

bool is_staged(const Platform& platform, HostMemory memory) {
  return memory == HostMemory::pageable && !is_coherent(platform.params.link);
}

double staging_bandwidth(const Platform& platform) {
  const double given = platform.params.copies.staging_bandwidth;
  return given > 0 ? given : platform.cpu.core_bandwidth / 2;
}

}  // namespace

double copy_time(const Platform& platform, CopyDirection direction, HostMemory memory, std::int64_t bytes) {
  const CopyPath& path = path_of(platform, direction);
  const auto size = static_cast<double>(bytes);
  if (!is_staged(platform, memory)) return path.fixed_s + size / path.bandwidth;
  const double stage = staging_bandwidth(platform);
  const double piece = std::min(size, static_cast<double>(platform.params.copies.staging_bytes));
  return path.fixed_s + piece / stage + piece / path.bandwidth + (size - piece) / std::min(stage, path.bandwidth);
}

double copy_cpu_time(const Platform& platform, CopyDirection direction, HostMemory memory, std::int64_t bytes) {
  return is_staged(platform, memory) ? copy_time(platform, direction, memory, bytes) : 0;
}

double managed_time(const Platform& platform, CopyDirection direction, ManagedAccess access, std::int64_t bytes) {
  const CopyPath& path = path_of(platform, direction);
  const MigrationParams& migration = platform.params.migration;
  const auto size = static_cast<double>(bytes);
  if (access == ManagedAccess::prefetch) return migration.prefetch_s + path.fixed_s + size / path.bandwidth;
  if (access == ManagedAccess::in_place && is_coherent(platform.params.link)) return size / path.bandwidth;
  const std::int64_t faults = bytes / migration.page_bytes + (bytes % migration.page_bytes != 0 ? 1 : 0);
  return static_cast<double>(faults) * (migration.fault_s + static_cast<double>(migration.page_bytes) / path.bandwidth);
}

}  // namespace orrery::hw
