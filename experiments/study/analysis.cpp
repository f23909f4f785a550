#include "experiments/study/analysis.hpp"

#include <algorithm>
#include <map>

#include "experiments/search/analysis/front.hpp"

namespace orrery::experiments::study {
namespace {

using search::Trial;

SearchHistory history_of(const StoredTrials& stored, std::span<const Trial> trials, std::span<const double> reference) {
  SearchHistory history;
  if (!reference.empty()) history.volumes = search::hypervolume_history(trials, reference);
  for (std::size_t o = 0; o < stored.goals.size(); ++o) history.best.push_back(search::best_so_far(trials, o));
  return history;
}

std::vector<SearchHistory> histories(const StoredTrials& stored, std::span<const double> reference) {
  const bool one = std::all_of(stored.repeats.begin(), stored.repeats.end(),
                               [&](std::int64_t repeat) { return repeat == stored.repeats.front(); });
  if (one) return {history_of(stored, stored.trials, reference)};  // stores of one search are the large ones
  std::map<std::int64_t, std::vector<Trial>> searches;
  for (std::size_t i = 0; i < stored.trials.size(); ++i) searches[stored.repeats[i]].push_back(stored.trials[i]);
  std::vector<SearchHistory> all;
  for (const auto& [repeat, trials] : searches) all.push_back(history_of(stored, trials, reference));
  return all;
}

/// Reference, volume and front of all stores together; which points of the front are whose.
void join(StudyAnalysis& analysis) {
  std::vector<Trial> copies;
  std::vector<std::size_t> owner;
  std::span<const Trial> all = analysis.stores.front().stored.trials;
  if (analysis.stores.size() > 1) {
    for (std::size_t s = 0; s < analysis.stores.size(); ++s)
      for (const Trial& trial : analysis.stores[s].stored.trials) {
        copies.push_back(trial);
        owner.push_back(s);
      }
    all = copies;
  }
  const std::vector<std::size_t> front = search::pareto_front(all);
  analysis.joint_front = front.size();
  for (const std::size_t i : front) ++analysis.stores[owner.empty() ? 0 : owner[i]].of_joint_front;
  if (analysis.stores.front().stored.goals.size() < 2) return;
  if (auto reference = search::reference_behind(all)) analysis.reference = *std::move(reference);
  if (analysis.reference.empty()) return;
  std::vector<std::vector<double>> points;
  for (const std::size_t i : front) points.push_back(all[i].result.objectives);
  analysis.joint_volume = search::hypervolume(points, analysis.reference);
}

}  // namespace

StudyAnalysis analyse_stores(std::span<const std::filesystem::path> files, const std::vector<std::string>& objectives) {
  StudyAnalysis analysis;
  std::vector<Column> expected;
  std::string first;
  for (const std::filesystem::path& file : files) {
    StoreReader store(file);
    if (analysis.stores.empty()) {
      expected = objectives_of(store.columns());
      first = store.study();
    }
    check_objectives(store, expected, first);
    StoreAnalysis& one = analysis.stores.emplace_back(StoreAnalysis{.stored = read_trials(store, objectives)});
    one.report = search::analyse(one.stored.space, one.stored.trials, one.stored.goals);
  }
  join(analysis);
  for (StoreAnalysis& store : analysis.stores) store.searches = histories(store.stored, analysis.reference);
  return analysis;
}

}  // namespace orrery::experiments::study
