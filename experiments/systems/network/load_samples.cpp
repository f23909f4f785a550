#include "experiments/systems/network/load_samples.hpp"

#include <algorithm>

namespace orrery::experiments::network {
namespace {

constexpr std::size_t kMaxSamples = 1024;
constexpr std::size_t kMaxValues = 8'000'000;  // 32 MB
constexpr std::size_t kFewest = 16;            // fewer say nothing

}  // namespace

LoadSamples::LoadSamples(std::size_t links)
    : links_(links), limit_(std::min(kMaxSamples, kMaxValues / std::max<std::size_t>(links, 1))) {
  if (limit_ < kFewest) limit_ = 0;
}

void LoadSamples::take(sim::Time now, const sim::FlowNetwork& flows) {
  if (limit_ == 0 || (now - last_).ticks < spacing_) return;
  Sample sample{last_, std::vector<float>(links_)};
  for (std::size_t link = 0; link < links_; ++link)
    sample.load[link] = static_cast<float>(flows.load(static_cast<sim::FlowNetwork::Link>(link)));
  samples_.push_back(std::move(sample));
  last_ = now;
  if (samples_.size() < limit_) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < samples_.size(); i += 2) std::swap(samples_[kept++], samples_[i]);
  samples_.resize(kept);
  spacing_ = std::max(spacing_ * 2, now.ticks / static_cast<std::int64_t>(limit_));
}

}  // namespace orrery::experiments::network
