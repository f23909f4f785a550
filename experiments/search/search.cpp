#include "experiments/search/search.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/base/parallel.hpp"

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

std::vector<Trial> run_search(Driver& driver, const EvaluateBatch& evaluate, const SearchOptions& options) {
  std::vector<Trial> all;
  std::int64_t done = 0;
  Gains gains(options.gain);
  const auto look_at = [&](std::vector<Proposal> batch) {
    std::vector<std::optional<Evaluation>> results(batch.size());
    std::vector<Proposal> fresh;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (options.known) results[i] = options.known(batch[i]);
      if (!results[i]) fresh.push_back(batch[i]);
    }
    std::vector<Evaluation> made = fresh.empty() ? std::vector<Evaluation>{} : evaluate(fresh);
    std::size_t next = 0;
    const std::size_t first = all.size();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const bool was_known = results[i].has_value();
      if (!was_known) results[i] = std::move(made[next++]);
      check(*results[i]);
      all.push_back({std::move(batch[i]), *std::move(results[i])});
      if (options.patience > 0) gains.hear(all.back());
      if (!was_known && options.commit) options.commit(all.back());
    }
    done += std::ssize(batch);
    driver.tell(std::span(all).subspan(first));
    if (!options.keep) all.clear();
  };
  const std::size_t most = std::max<std::size_t>(1, options.batch);
  const auto left = [&] {
    return options.budget - std::max<std::int64_t>(0, done - static_cast<std::int64_t>(options.free));
  };
  const auto ended = [&] { return left() <= 0 || (options.stop && options.stop()); };
  for (std::size_t at = 0; at < options.first.size() && !ended();) {
    const std::size_t rest = at < options.free ? options.free - at : static_cast<std::size_t>(left());
    const std::size_t count = std::min({most, rest, options.first.size() - at});
    const auto from = options.first.begin() + static_cast<std::ptrdiff_t>(at);
    look_at({from, from + static_cast<std::ptrdiff_t>(count)});
    at += count;
  }
  gains.begin();
  while (!ended() && (options.patience == 0 || gains.since() < options.patience)) {
    std::vector<Proposal> batch = driver.ask(std::min(most, static_cast<std::size_t>(left())));
    if (batch.empty()) break;
    look_at(std::move(batch));
  }
  return all;
}

EvaluateBatch on_threads(Evaluate evaluate, std::size_t jobs) {
  return [evaluate = std::move(evaluate), jobs](std::span<const Proposal> batch) {
    std::vector<Evaluation> results(batch.size());
    parallel_for(batch.size(), jobs, [&](std::size_t i) { results[i] = evaluate(batch[i]); });
    return results;
  };
}

}  // namespace orrery::experiments::search
