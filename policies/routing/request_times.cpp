#include "policies/routing/request_times.hpp"

#include <algorithm>

namespace orrery::policies {
namespace {

constexpr std::int64_t kOutput = 128;  ///< of a request for which nothing is predicted

}  // namespace

std::span<const double> RequestTimes::alone_s(const RouteView& view) {
  alone_s_.clear();
  const RouteRequest& request = view.request;
  const std::int64_t output = request.predicted_tokens > 0 ? request.predicted_tokens : kOutput;
  for (const ReplicaFacts& facts : view.replicas) {
    double time = 0;
    // Replicas of a group share what prices them, and its answer.
    std::size_t same = 0;
    while (same < alone_s_.size() && view.replicas[same].pricer != facts.pricer) ++same;
    if (same < alone_s_.size())
      time = alone_s_[same];
    else if (facts.pricer != nullptr)
      time = 1e-12 * static_cast<double>(alone_ps(*facts.pricer, request.prefill_tokens, request.ready_tokens, output));
    alone_s_.push_back(time);
  }
  return alone_s_;
}

double RequestTimes::ahead_s(const ReplicaFacts& replica) const {
  const auto number = static_cast<std::size_t>(replica.replica);
  return number < ahead_s_.size() ? std::max(0.0, ahead_s_[number]) : 0;
}

void RequestTimes::sent(const RouteView& view, std::size_t place) {
  const auto number = static_cast<std::size_t>(view.replicas[place].replica);
  if (number >= ahead_s_.size()) ahead_s_.resize(number + 1, 0);
  ahead_s_[number] += alone_s_[place];
  placed_[view.request.id] = {number, alone_s_[place]};
}

void RequestTimes::left(std::int64_t request) {
  const auto found = placed_.find(request);
  if (found == placed_.end()) return;
  ahead_s_[found->second.replica] -= found->second.alone_s;
  placed_.erase(found);
}

}  // namespace orrery::policies
