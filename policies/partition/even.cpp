// As many layers a stage as go evenly: stage s of S ends with layer floor(L (s + 1) / S). What embedding and head add
// to the first and the last stage is not seen.
#include "policies/partition/partition.hpp"

namespace orrery::policies {
namespace {

class EvenPartition final : public Partition {
 public:
  std::vector<std::int64_t> divide(const PartitionView& view) const override {
    const std::int64_t layers = std::ssize(view.layers);
    std::vector<std::int64_t> counts;
    for (std::int64_t s = 0; s < view.stages; ++s)
      counts.push_back(layers * (s + 1) / view.stages - layers * s / view.stages);
    return counts;
  }
};

}  // namespace

void add_even_partition(PartitionRegistry& registry) {
  registry.add<sim::NoParams>("even", "Divides the layers over the stages as evenly as possible.",
                              [](const sim::NoParams&) { return std::make_unique<EvenPartition>(); });
}

}  // namespace orrery::policies
