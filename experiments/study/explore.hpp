// Sweeps and searches: points proposed, run, judged and stored, batch by batch, in one order for any number of threads.
//
// A driver proposes (a sweep is one that goes through a list); equal configs run once; rows go to the store
// (store.hpp). Started again over a store that is not complete, the same driver is asked the same questions and told
// the stored answers until it comes to what is new.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/search/search.hpp"
#include "experiments/study/runs.hpp"

namespace orrery::experiments::study {

struct ExploreOptions {
  bool search = false;  ///< else the sweep
  std::filesystem::path out;
  std::vector<std::filesystem::path> from{};  ///< earlier stores (earlier.hpp)
  std::size_t jobs = 1;
  bool any_build = false;
  std::function<void(std::int64_t done, std::optional<std::int64_t> total)> progress;  ///< may be empty
  std::function<bool()> stop;                                                          ///< may be empty
  Executor* executor = nullptr;  ///< on other machines, of configs as texts; none: `jobs` threads of this process
};

struct ExploreResult {
  bool interrupted = false, was_complete = false;
  std::int64_t points = 0, known = 0;  ///< of which the store had
  std::int64_t runs = 0;               ///< done now
  std::int64_t earlier = 0;            ///< points that earlier stores had
  std::size_t forbidden = 0;           ///< points of a sweep that constraints leave out
  std::vector<std::string> notes;
};

/// Columns of points: parameters, derived figures, measures, objectives, limits.
std::vector<Column> columns_of(const Study& study);
/// What a store of this study would say of itself.
StoreFacts facts_of(const Study& study, bool search);
/// `runs/<name>-<first 8 of the hash>.sqlite`.
std::filesystem::path default_store(const Study& study, bool search);

/// How a search of the study goes: budget, batches, first points, when it ends.
search::SearchOptions search_options(const Study& study);
/// The driver of one of the independent searches: never a point twice.
std::unique_ptr<search::Driver> make_driver(const Study& study, std::int64_t repeat);

/// Points to go through in all, if that is known beforehand; what makes the study impossible to explore is a
/// sim::ConfigError: nothing to sweep, no objective to search for, constraints that no point meets, a base that cannot
/// be read at any point.
std::optional<std::int64_t> check_explorable(const Study& study, bool search);

/// Explores to the end or until stopped. Throws sim::ConfigError for a store of another study and for figures that no
/// run has, StoreError if it cannot be written; what was done until then is in the store.
ExploreResult explore(const Study& study, const ExploreOptions& options);

}  // namespace orrery::experiments::study
