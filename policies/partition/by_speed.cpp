// Holmes' self-adapting partition: layers of a stage in proportion to the speed of the machines that run it.
//
// Stage i has floor(L S_i / sum S) layers, the last one what is left (Holmes, arXiv 2312.03549; with speeds of 197 and
// 160 its published layouts of 48 and 30 layers, 26|22 and 16|14). Speeds are stated, or those of the same plan on a
// machine all of whose nodes are as the stage's own.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "policies/partition/partition.hpp"

namespace orrery::policies {
namespace {

struct BySpeedParams {
  std::vector<double> speeds;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field(
        "speeds", &BySpeedParams::speeds, sim::Unit::none, sim::between(1e-12, 1e12),
        "Relative speed of each stage, the first stage first; none: speeds follow from the prices of the stages.")};
  }
};

class BySpeedPartition final : public Partition {
 public:
  explicit BySpeedPartition(const BySpeedParams& params) : params_(params) {}

  std::vector<std::int64_t> divide(const PartitionView& view) const override {
    const std::size_t stages = static_cast<std::size_t>(view.stages);
    std::vector<double> speeds = params_.speeds;
    if (speeds.empty()) speeds.assign(view.speeds.begin(), view.speeds.end());
    if (speeds.empty()) speeds.assign(stages, 1);
    if (speeds.size() != stages) return {};
    const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    std::vector<std::int64_t> counts;
    std::int64_t left = std::ssize(view.layers);
    for (std::size_t s = 0; s + 1 < stages; ++s) {
      // One layer for each stage that follows; a quotient that is whole but for rounding is whole.
      const std::int64_t most = left - static_cast<std::int64_t>(stages - 1 - s);
      const double share = static_cast<double>(view.layers.size()) * speeds[s] / sum;
      counts.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(share + 1e-9)), 1, most));
      left -= counts.back();
    }
    counts.push_back(left);
    return counts;
  }
  bool wants_speeds() const override { return params_.speeds.empty(); }

 private:
  BySpeedParams params_;
};

}  // namespace

void add_by_speed_partition(PartitionRegistry& registry) {
  registry.add<BySpeedParams>("by_speed",
                              "Gives each stage layers in proportion to the speed of its machines (Holmes).",
                              [](const BySpeedParams& params) { return std::make_unique<BySpeedPartition>(params); });
}

}  // namespace orrery::policies
