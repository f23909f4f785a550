// The layers of each stage as somebody wrote them down: what engines take from a list (vLLM's VLLM_PP_LAYER_PARTITION).
#include "policies/partition/partition.hpp"

namespace orrery::policies {
namespace {

struct ListedParams {
  std::vector<std::int64_t> layers;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("layers", &ListedParams::layers, sim::Unit::count, sim::between(1, 4096),
                   "Number of layers of each stage, the first stage first; the sum is that of the model.")};
  }
};

class ListedPartition final : public Partition {
 public:
  explicit ListedPartition(const ListedParams& params) : params_(params) {}
  std::vector<std::int64_t> divide(const PartitionView&) const override { return params_.layers; }

 private:
  ListedParams params_;
};

}  // namespace

void add_listed_partition(PartitionRegistry& registry) {
  registry.add<ListedParams>("listed", "Uses a given list of layers per stage.",
                             [](const ListedParams& params) { return std::make_unique<ListedPartition>(params); });
}

}  // namespace orrery::policies
