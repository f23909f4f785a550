#include "experiments/search/search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::experiments::search {
namespace {

/// A figure that is no number is no result.
void check(Evaluation& result) {
  const auto finite = [](double x) { return std::isfinite(x); };
  if (!result.ok() ||
      (!result.objectives.empty() && std::all_of(result.objectives.begin(), result.objectives.end(), finite)))
    return;
  result = {.status = TrialStatus::failed, .reason = "an objective is not a finite number"};
}

}  // namespace

void Gains::hear(const Trial& trial) {
  if (trial.proposal.fidelity < 1) return;
  since_ = gains(trial.result) ? 0 : since_ + 1;
}

bool Gains::gains(const Evaluation& result) {
  if (!result.ok()) return false;
  if (result.objectives.size() == 1 || !result.feasible()) {
    const bool first = !best_ || (result.feasible() && !best_->feasible());
    const double before = first ? 0 : result.feasible() ? best_->objectives[0] : best_->violation();
    const double now = result.feasible() ? result.objectives[0] : result.violation();
    if (!first && (best_->feasible() != result.feasible() || before - now <= share_ * std::abs(before))) return false;
    best_ = result;
    return true;
  }
  best_ = result;  // one that meets the limits is there
  const std::vector<double>& now = result.objectives;
  if (least_.empty()) least_ = most_ = now;
  for (std::size_t i = 0; i < now.size(); ++i) {
    least_[i] = std::min(least_[i], now[i]);
    most_[i] = std::max(most_[i], now[i]);
  }
  const auto reached = [&](const std::vector<double>& other) {
    for (std::size_t i = 0; i < now.size(); ++i)
      if (other[i] > now[i] + share_ * (most_[i] - least_[i])) return false;
    return true;
  };
  const bool gained = std::none_of(front_.begin(), front_.end(), reached);
  const auto beaten = [&](const std::vector<double>& other) {
    return std::equal(now.begin(), now.end(), other.begin(), [](double a, double b) { return a <= b; });
  };
  const auto beats = [&](const std::vector<double>& other) {
    return std::equal(other.begin(), other.end(), now.begin(), [](double a, double b) { return a <= b; });
  };
  if (std::any_of(front_.begin(), front_.end(), beats)) return gained;
  std::erase_if(front_, beaten);
  front_.push_back(now);
  return gained;
}

void ThreadEvaluations::submit(std::span<const Proposal> proposals) {
  std::vector<std::function<void()>> pieces;
  {
    const std::lock_guard lock(mutex_);
    for (const Proposal& proposal : proposals) {
      Slot& slot = out_.emplace_back(Slot{proposal, {}});  // others stay where they are
      pieces.emplace_back([this, &slot] {
        Evaluation result = evaluate_(slot.proposal);
        const std::lock_guard results(mutex_);
        slot.result = std::move(result);
      });
    }
  }
  pool_.submit(std::move(pieces));
}

Evaluation ThreadEvaluations::take() {
  pool_.wait_until([&] {
    const std::lock_guard lock(mutex_);
    return out_.front().result.has_value();
  });
  const std::lock_guard lock(mutex_);
  Evaluation result = *std::move(out_.front().result);
  out_.pop_front();
  return result;
}

std::vector<Proposal> Window::ask(std::size_t most) {
  std::vector<Proposal> proposals = driver_.ask(most);
  add(proposals);
  return proposals;
}

void Window::add(std::vector<Proposal> proposals) {
  for (Proposal& proposal : proposals) out_.push_back(std::move(proposal));
  results_.resize(out_.size());
}

void Window::answer(std::size_t place, Evaluation result) {
  check(result);
  results_[place] = std::move(result);
}

std::vector<Trial> Window::hear(std::size_t count) {
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < count; ++i) trials.push_back({std::move(out_[i]), *std::move(results_[i])});
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(count));
  results_.erase(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(count));
  untold_.insert(untold_.end(), trials.begin(), trials.end());
  if (out_.empty() || !driver_.whole_batches()) driver_.tell(std::exchange(untold_, {}));
  return trials;
}

namespace {

/// A search under way.
class Loop {
 public:
  Loop(Driver& driver, Evaluations& evaluations, const SearchOptions& options)
      : evaluations_(evaluations),
        options_(options),
        batch_(std::max<std::size_t>(1, options.batch)),
        window_(driver, std::max(batch_, options.in_flight)),
        gains_(options.gain) {}

  std::vector<Trial> run() {
    look_at_first();
    gains_.begin();
    for (;;) {
      if (may_ask() && window_.can_ask()) {
        hand_in(window_.ask(std::min(batch_, static_cast<std::size_t>(left()))));
        if (handed_in_) continue;
      }
      if (window_.out().empty()) return std::move(all_);
      hear();
    }
  }

 private:
  /// Evaluations of the budget that have not been proposed.
  std::int64_t left() const {
    return options_.budget - std::max<std::int64_t>(0, proposed_ - static_cast<std::int64_t>(options_.free));
  }
  bool ended() const { return left() <= 0 || (options_.stop && options_.stop()); }
  bool may_ask() const {
    const bool room = window_.out().empty() || window_.room() >= batch_;
    return room && !ended() && (options_.patience == 0 || gains_.since() < options_.patience);
  }

  void look_at_first() {
    const std::vector<Proposal>& first = options_.first;
    for (std::size_t at = 0; at < first.size() && !ended();) {
      const std::size_t rest = at < options_.free ? options_.free - at : static_cast<std::size_t>(left());
      const std::size_t count = std::min({batch_, rest, first.size() - at});
      while (window_.room() < batch_) hear();
      const auto from = first.begin() + static_cast<std::ptrdiff_t>(at);
      std::vector<Proposal> some{from, from + static_cast<std::ptrdiff_t>(count)};
      window_.add(some);
      hand_in(std::move(some));
      at += count;
    }
    while (!window_.out().empty()) hear();
  }

  /// Hands in what the window has new: known results are there at once.
  void hand_in(std::vector<Proposal> proposals) {
    handed_in_ = !proposals.empty();
    proposed_ += std::ssize(proposals);
    const std::size_t first = window_.out().size() - proposals.size();
    std::vector<Proposal> fresh;
    for (std::size_t i = 0; i < proposals.size(); ++i) {
      auto known = options_.known ? options_.known(proposals[i]) : std::nullopt;
      known_.push_back(known.has_value());
      if (known)
        window_.answer(first + i, *std::move(known));
      else
        fresh.push_back(std::move(proposals[i]));
    }
    if (!fresh.empty()) evaluations_.submit(fresh);
  }

  void hear() {
    const std::size_t count = std::min(batch_, window_.out().size());
    for (std::size_t i = 0; i < count; ++i)
      if (!window_.answered(i)) window_.answer(i, evaluations_.take());
    for (Trial& trial : window_.hear(count)) {
      if (options_.patience > 0) gains_.hear(trial);
      if (!known_.front() && options_.commit) options_.commit(trial);
      known_.pop_front();
      if (options_.keep) all_.push_back(std::move(trial));
    }
  }

  Evaluations& evaluations_;
  const SearchOptions& options_;
  std::size_t batch_;
  Window window_;
  Gains gains_;
  std::deque<bool> known_;  ///< of those that are out
  std::vector<Trial> all_;
  std::int64_t proposed_ = 0;
  bool handed_in_ = false;
};

}  // namespace

std::vector<Trial> run_search(Driver& driver, Evaluations& evaluations, const SearchOptions& options) {
  return Loop(driver, evaluations, options).run();
}

std::vector<Trial> run_search(Driver& driver, Evaluations&& evaluations, const SearchOptions& options) {
  return Loop(driver, evaluations, options).run();
}

}  // namespace orrery::experiments::search
