#include "experiments/search/unique.hpp"

namespace orrery::experiments::search {
namespace {

constexpr int kStall = 20;                ///< batches of known points in a row before some are drawn instead
constexpr int kUnseenDraws = 200;         ///< draws for an unseen point before the grid is walked
constexpr std::uint64_t kWalk = 1 << 22;  ///< most grid points worth walking

}  // namespace

UniqueDriver::UniqueDriver(std::unique_ptr<Driver> inner, const Space& space, sim::RandomStream random)
    : inner_(std::move(inner)), space_(space), random_(std::move(random)) {}

UniqueDriver::Key UniqueDriver::key(const Proposal& proposal) const {
  return {space_.key(proposal.point), proposal.fidelity};
}

std::vector<Proposal> UniqueDriver::ask(std::size_t most) {
  for (int round = 0;; ++round) {
    asked_ = inner_->ask(most);
    if (asked_.empty()) return proposed_ ? std::vector<Proposal>{} : first_points(most);
    proposed_ = true;
    std::set<Key> taken;
    std::vector<Proposal> fresh;
    for (Proposal& proposal : asked_) {
      const bool seen = known_.contains(key(proposal)) || taken.contains(key(proposal));
      if (seen && round >= kStall) {
        auto other = unseen(proposal.fidelity, taken);
        if (!other) continue;
        proposal = *std::move(other);
      } else if (seen) {
        continue;
      }
      taken.insert(key(proposal));
      fresh.push_back(proposal);
    }
    if (!fresh.empty() || round > kStall) return fresh;
    tell({});  // nothing new: the driver hears what is known and is asked again
  }
}

/// For a driver that draws no allowed point, because they are so few: what a walk of the grid finds.
std::vector<Proposal> UniqueDriver::first_points(std::size_t most) {
  std::set<Key> taken;
  while (asked_.size() < most) {
    auto other = unseen(1, taken);
    if (!other) break;
    taken.insert(key(*other));
    asked_.push_back(*std::move(other));
  }
  return asked_;
}

void UniqueDriver::tell(std::span<const Trial> trials) {
  for (const Trial& trial : trials) known_.emplace(key(trial.proposal), trial.result);
  if (asked_.empty() && !trials.empty()) return inner_->tell(trials);
  std::vector<Trial> all;
  for (Proposal& proposal : asked_)
    if (const auto found = known_.find(key(proposal)); found != known_.end())
      all.push_back({std::move(proposal), found->second});
  asked_.clear();
  inner_->tell(all);
}

std::optional<Proposal> UniqueDriver::unseen(double fidelity, const std::set<Key>& taken) {
  const auto fresh = [&](const Point& point) {
    const Key key{space_.key(point), fidelity};
    return space_.allowed(point) && !known_.contains(key) && !taken.contains(key);
  };
  for (int i = 0; i < kUnseenDraws; ++i)
    if (auto point = space_.sample(random_, 1); point && fresh(*point)) return Proposal{*std::move(point), fidelity};
  const auto size = space_.grid_size();
  if (!size || *size > kWalk || exhausted_.contains(fidelity)) return std::nullopt;
  for (std::uint64_t i = 0; i < *size; ++i) {
    Point point = space_.grid_point((next_grid_ + i) % *size);
    if (!fresh(point)) continue;
    next_grid_ = (next_grid_ + i) % *size;
    return Proposal{std::move(point), fidelity};
  }
  exhausted_.insert(fidelity);  // what is taken becomes known: there will be none later either
  return std::nullopt;
}

}  // namespace orrery::experiments::search
