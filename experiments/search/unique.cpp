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
    std::vector<Proposal> batch = inner_->ask(most);
    if (batch.empty()) return proposed_ ? std::vector<Proposal>{} : first_points(most);
    proposed_ = true;
    std::vector<Proposal> fresh = fresh_of(std::move(batch), round >= kStall);
    if (!fresh.empty() || round > kStall) return fresh;
    if (!out_.empty()) return {};  // nothing new: the driver hears what is known after what is out
    tell({});                      // and now if nothing is, and is asked again
  }
}

void UniqueDriver::ask_for(Proposal proposal, std::vector<Proposal>& fresh) {
  Key one = key(proposal);
  out_.insert(one);
  fresh.push_back(proposal);
  asked_.push_back({std::move(proposal), std::move(one)});
}

/// Those of a batch that nobody has seen; with `replace`, unseen ones in the place of the others.
std::vector<Proposal> UniqueDriver::fresh_of(std::vector<Proposal> batch, bool replace) {
  std::vector<Proposal> fresh;
  for (Proposal& proposal : batch) {
    Key one = key(proposal);
    if (!seen(one)) {
      ask_for(std::move(proposal), fresh);
    } else if (auto other = replace ? unseen(proposal.fidelity) : std::nullopt) {
      ask_for(*std::move(other), fresh);
    } else {
      asked_.push_back({std::move(proposal), std::move(one)});
    }
  }
  return fresh;
}

/// For a driver that draws no allowed point, because they are so few: what a walk of the grid finds.
std::vector<Proposal> UniqueDriver::first_points(std::size_t most) {
  std::vector<Proposal> fresh;
  while (fresh.size() < most) {
    auto other = unseen(1);
    if (!other) break;
    ask_for(*std::move(other), fresh);
  }
  return fresh;
}

/// The inner driver waits for known points too, of which it will be told with those that are out.
bool UniqueDriver::can_ask(std::span<const Proposal> out) {
  if (out.empty()) return inner_->can_ask({});
  std::vector<Proposal> all;
  for (const Asked& one : asked_) all.push_back(one.proposal);
  return inner_->can_ask(all);
}

void UniqueDriver::tell(std::span<const Trial> trials) {
  const bool unasked = asked_.empty();
  for (const Trial& trial : trials) {
    const Key one = key(trial.proposal);
    known_.emplace(one, trial.result);
    out_.erase(one);
  }
  if (unasked && !trials.empty()) return inner_->tell(trials);
  std::vector<Trial> all;
  std::erase_if(asked_, [&](Asked& one) {
    if (out_.contains(one.key)) return false;
    all.push_back({std::move(one.proposal), known_.at(one.key)});
    return true;
  });
  inner_->tell(all);
}

/// A point that nobody has seen, if there is one; what is out becomes known, so there will be none later either.
std::optional<Proposal> UniqueDriver::unseen(double fidelity) {
  const auto fresh = [&](const Point& point) { return space_.allowed(point) && !seen({space_.key(point), fidelity}); };
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
  exhausted_.insert(fidelity);
  return std::nullopt;
}

}  // namespace orrery::experiments::search
