#include "policies/partition/partition.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_partitions(PartitionRegistry& registry) {
  void add_balanced_partition(PartitionRegistry&); add_balanced_partition(registry);
  void add_by_speed_partition(PartitionRegistry&); add_by_speed_partition(registry);
  void add_even_partition(PartitionRegistry&); add_even_partition(registry);
  void add_listed_partition(PartitionRegistry&); add_listed_partition(registry);
}
// clang-format on

}  // namespace orrery::policies
