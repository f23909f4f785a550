#include "experiments/systems/serving/replica/rebalancer.hpp"

#include <algorithm>

#include "experiments/experts/placement_trial.hpp"
#include "experiments/systems/serving/pricing/picoseconds.hpp"

namespace orrery::experiments {
namespace {

/// Experts that ranks send and receive of one layer.
struct Traffic {
  explicit Traffic(std::size_t ranks) : sent(ranks), received(ranks) {}
  std::vector<std::int64_t> sent, received;
  std::int64_t most() const { return std::max(std::ranges::max(sent), std::ranges::max(received)); }
};

}  // namespace

ExpertMoves moves_between(const std::vector<policies::LayerPlacement>& from,
                          const std::vector<policies::LayerPlacement>& to, std::int64_t ranks,
                          const ExpertLinks& links) {
  ExpertMoves moves;
  const auto count = static_cast<std::size_t>(ranks), in_node = static_cast<std::size_t>(links.node_ranks);
  for (std::size_t layer = 0; layer < to.size(); ++layer) {
    const auto experts = static_cast<std::size_t>(1 + std::ranges::max(from[layer].expert));
    std::vector<std::vector<std::size_t>> holders(experts);
    std::vector<std::vector<bool>> has(count, std::vector<bool>(experts));
    for (std::size_t slot = 0; slot < from[layer].expert.size(); ++slot) {
      const auto rank = static_cast<std::size_t>(from[layer].gpu[slot]);
      const auto expert = static_cast<std::size_t>(from[layer].expert[slot]);
      if (has[rank][expert]) continue;
      has[rank][expert] = true;
      holders[expert].push_back(rank);
    }
    Traffic near(count), far(count);
    std::int64_t moved = 0;
    for (std::size_t slot = 0; slot < to[layer].expert.size(); ++slot) {
      const auto rank = static_cast<std::size_t>(to[layer].gpu[slot]);
      const auto expert = static_cast<std::size_t>(to[layer].expert[slot]);
      if (has[rank][expert]) continue;
      has[rank][expert] = true;  // a second slot of it on this rank takes no further copy
      const auto beyond = [&](std::size_t holder) { return holder / in_node != rank / in_node; };
      const std::size_t source = *std::ranges::min_element(holders[expert], [&](std::size_t a, std::size_t b) {
        return std::pair(beyond(a), (beyond(a) ? far : near).sent[a]) <
               std::pair(beyond(b), (beyond(b) ? far : near).sent[b]);
      });
      Traffic& traffic = beyond(source) ? far : near;
      ++traffic.sent[source];
      ++traffic.received[rank];
      ++moved;
    }
    const auto bytes = static_cast<double>(links.bytes[layer]);
    double time_s = 0;
    if (near.most() > 0) time_s += static_cast<double>(near.most()) * bytes / links.node_bandwidth;
    if (far.most() > 0) time_s += static_cast<double>(far.most()) * bytes / links.bandwidth;
    moves.experts += moved * links.layers[layer];
    moves.bytes += moved * links.layers[layer] * links.bytes[layer] * links.rank_devices;
    moves.ps += picoseconds(time_s * static_cast<double>(links.layers[layer]));
  }
  return moves;
}

Rebalancer::Rebalancer(RouterReplay& replay, const RebalanceParams& params,
                       std::shared_ptr<const policies::ExpertPlacement> policy, policies::ExpertPlacementView view,
                       std::vector<policies::LayerPlacement> first, ExpertLinks links)
    : replay_(replay),
      params_(params),
      policy_(std::move(policy)),
      view_(std::move(view)),
      experts_(std::move(first)),
      links_(std::move(links)),
      seen_(static_cast<std::size_t>(replay.trace().tokens()) + 1) {}

void Rebalancer::ran(std::size_t lane, const BatchShape& shape, std::int64_t steps) {
  if (lane >= steps_of_.size()) steps_of_.resize(lane + 1);
  steps_of_[lane] += steps;
  if (std::ranges::max(steps_of_) <= params_.interval - params_.window) return;  // before the window
  for (const Segment& segment : shape.segments) {
    replay_.find(segment.runs, stretches_);
    for (const RouterReplay::Stretch& stretch : stretches_) {
      const std::int64_t times = steps * stretch.times * (segment.last - segment.first);
      seen_[static_cast<std::size_t>(stretch.first)] += times;
      seen_[static_cast<std::size_t>(stretch.last)] -= times;
    }
  }
}

std::int64_t Rebalancer::before_iteration(std::size_t lane, const ExactTime& now, std::int64_t ps_per_tick,
                                          RoutedTotals& moved) {
  const bool copying = now < there_;
  if (coming_ && !copying) {
    placement_ = *coming_;
    coming_.reset();
  }
  const bool due = !steps_of_.empty() && std::ranges::max(steps_of_) >= params_.interval;
  if (due && copying) {
    std::ranges::fill(steps_of_, 0);
    std::ranges::fill(seen_, 0);
  } else if (due) {
    move(now, ps_per_tick, moved);
  }
  if (lane >= found_.size()) found_.resize(lane + 1);
  found_[lane] = placement_;
  return !params_.overlap && now < there_ ? there_.minus(now, ps_per_tick) : 0;
}

/// Places the experts anew; copies are under way from `now` on.
void Rebalancer::move(const ExactTime& now, std::int64_t ps_per_tick, RoutedTotals& moved) {
  const std::vector<policies::LayerPlacement> before = experts_;
  place_anew();
  const ExpertMoves moves = moves_between(before, experts_, replay_.ranks(), links_);
  ++moved.placements;
  moved.moved_experts += moves.experts;
  moved.moved_bytes += moves.bytes;
  moved.move_ps += moves.ps;
  there_ = now.plus(moves.ps, ps_per_tick);
  drop_unused();
  added_.push_back(replay_.add(experts_));
  if (params_.overlap && moves.ps > 0)
    coming_ = added_.back();
  else
    placement_ = added_.back();
}

/// Drops placements that neither tokens to come nor an iteration under way find.
void Rebalancer::drop_unused() {
  std::erase_if(added_, [&](std::int32_t number) {
    if (number == placement_ || std::ranges::find(found_, number) != found_.end()) return false;
    replay_.drop(number);
    return true;
  });
}

/// Asks the policy with what was chosen within the window.
void Rebalancer::place_anew() {
  std::vector<double> weights(seen_.size() - 1);
  std::int64_t times = 0;
  for (std::size_t token = 0; token < weights.size(); ++token)
    weights[token] = static_cast<double>(times += seen_[token]);
  std::ranges::fill(seen_, 0);
  std::ranges::fill(steps_of_, 0);
  policies::ExpertPlacementView asked = placement_view(replay_.trace(), weights);
  asked.gpus = view_.gpus;
  asked.nodes = view_.nodes;
  asked.slots = view_.slots;
  asked.groups = view_.groups;
  experts_ = policy_->place(asked);
}

}  // namespace orrery::experiments
