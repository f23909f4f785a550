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

std::vector<Trial> run_search(Driver& driver, const EvaluateBatch& evaluate, const SearchOptions& options) {
  std::vector<Trial> all;
  while (std::ssize(all) < options.budget) {
    if (options.stop && options.stop()) break;
    const auto left = static_cast<std::size_t>(options.budget - std::ssize(all));
    std::vector<Proposal> batch = driver.ask(std::min(std::max<std::size_t>(1, options.batch), left));
    if (batch.empty()) break;
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
      if (!was_known && options.commit) options.commit(all.back());
    }
    driver.tell(std::span(all).subspan(first));
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
