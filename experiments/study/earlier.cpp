#include "experiments/study/earlier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/base/run_folder.hpp"
#include "experiments/search/ranking.hpp"
#include "experiments/study/trials.hpp"

namespace orrery::experiments::study {
namespace {

namespace fs = std::filesystem;
using search::Proposal;
using sim::Node;

/// Everything in a study's document that decides what a point gives.
std::string measurement(Node document) {
  for (const char* key : {"title", "$schema", "sweep", "search", "bottlenecks"}) document.erase(key);
  return document.dump();
}

/// What was laid over the base of a store's study.
std::set<std::string> laid_over_base(const std::string& list, const fs::path& file) {
  std::set<std::string> all;
  if (list.empty()) return all;
  const Node texts = sim::parse_json(list, file.string());
  for (const Node& text : texts.items())
    if (text.is_string() && text.as_string().starts_with("base.")) all.insert(text.as_string());
  return all;
}

bool same_measurement(const Study& study, StoreReader& store) {
  std::set<std::string> own;
  for (const std::string& text : study.assignments)
    if (text.starts_with("base.")) own.insert(text);
  return measurement(sim::parse_json(store.fact("document"), store.file().string())) == measurement(study.document) &&
         laid_over_base(store.fact("set"), store.file()) == own;
}

class EarlierReader {
 public:
  explicit EarlierReader(const Study& study) : study_(study) {}

  void add(const fs::path& file, bool any_build) {
    StoreReader store(file);
    if (!any_build && (store.fact("version") != version() || store.fact("build") != build_id()))
      sim::throw_fault({file.string(), ""}, "the store was made by another build of orrery, whose results may differ",
                       "--any-build takes it all the same");
    const std::uint64_t before = digest_;
    const bool same = same_measurement(study_, store);
    if (same)
      take_all(store);
    else
      take_best(store);
    if (digest_ != before) return;
    sim::throw_fault({file.string(), ""},
                     same ? "the store has no points yet"
                          : fmt::format("no point of it is one of '{}': expected a store of this study, or one whose "
                                        "parameters have the same names",
                                        study_.name));
  }

  Earlier done() && {
    if (!earlier_.known.empty() || !earlier_.guesses.empty())
      earlier_.fact =
          fmt::format("{} points known, {} guesses, {:016x}", earlier_.known.size(), earlier_.guesses.size(), digest_);
    return std::move(earlier_);
  }

 private:
  bool fresh(const Proposal& proposal) {
    const std::string key = fmt::format("{} {}", study_.space.key(proposal.point), proposal.fidelity);
    if (!seen_.insert(key).second) return false;
    digest_ = sim::hash_text(key, digest_);
    return true;
  }

  void take_all(StoreReader& store) {
    store.for_each([&](const PointRow& row) {
      const Proposal proposal{stored_point(study_.space, store.columns(), row), row.fidelity};
      if (fresh(proposal)) earlier_.known.push_back(proposal);
    });
    store.for_each_run(
        [&](const std::string& key, RunResult result) { earlier_.runs.emplace(key, std::move(result)); });
  }

  /// Its best points, as far as they are points of this space.
  void take_best(StoreReader& store) {
    const StoredTrials stored = read_trials(store, {});
    std::vector<std::size_t> from;
    for (const search::Parameter& own : study_.space.parameters()) {
      const auto& theirs = stored.space.parameters();
      const auto found = std::find_if(theirs.begin(), theirs.end(), [&](auto& one) { return one.name == own.name; });
      if (found == theirs.end()) return;
      from.push_back(static_cast<std::size_t>(found - theirs.begin()));
    }
    std::vector<const search::Evaluation*> results;
    for (const search::Trial& trial : stored.trials) results.push_back(&trial.result);
    auto left = static_cast<std::size_t>(study_.search.batch);
    for (const std::size_t i : search::best_first(results)) {
      if (left == 0 || !stored.trials[i].result.ok()) return;
      if (stored.trials[i].proposal.fidelity < 1) continue;
      const auto point = translated(stored.space, stored.trials[i].proposal.point, from);
      if (!point || !fresh({*point})) continue;
      earlier_.guesses.push_back({*point});
      --left;
    }
  }

  std::optional<Point> translated(const search::Space& theirs, const Point& point, std::span<const std::size_t> from) {
    Point own(study_.space.size(), std::nan(""));
    for (std::size_t p = 0; p < own.size(); ++p) {
      const double value = point[from[p]];
      if (std::isnan(value)) continue;
      const search::Parameter &mine = study_.space.parameters()[p], &other = theirs.parameters()[from[p]];
      if (mine.has_choices() != other.has_choices()) return std::nullopt;
      if (!mine.has_choices()) {
        if (value < mine.low || value > mine.high) return std::nullopt;
        own[p] = value;
        continue;
      }
      const std::string& label = other.choices[static_cast<std::size_t>(value)].label;
      const auto found = std::find_if(mine.choices.begin(), mine.choices.end(),
                                      [&](const Choice& choice) { return choice.label == label; });
      if (found == mine.choices.end()) return std::nullopt;
      own[p] = static_cast<double>(found - mine.choices.begin());
    }
    own = study_.space.canonical(std::move(own));
    return study_.space.allowed(own) ? std::optional(own) : std::nullopt;
  }

  const Study& study_;
  Earlier earlier_;
  std::set<std::string> seen_;
  std::uint64_t digest_ = sim::hash_text("earlier");
};

}  // namespace

Earlier read_earlier(const Study& study, std::span<const fs::path> files, bool any_build) {
  EarlierReader reader(study);
  for (const fs::path& file : files) reader.add(file, any_build);
  return std::move(reader).done();
}

}  // namespace orrery::experiments::study
