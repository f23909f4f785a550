// What a search with driver `select` came to: its candidates, how each stands, whether the best is known.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/search/selection.hpp"
#include "experiments/study/trials.hpp"

namespace orrery::experiments::study {

struct SelectedCandidate {
  std::int64_t id = 0;  ///< of the point of its first run
  search::Point point;
  search::Standing standing = search::Standing::contending;
  std::int64_t by = 0;  ///< id of the candidate that is better; 0: none
  std::int64_t runs = 0;
  search::MeanInterval mean;        ///< of the objective as the study states it
  search::MeanInterval difference;  ///< to the first candidate's, over seeds in common
  std::string reason;               ///< why it did not run, or which limit it breaks
};

struct Selected {
  StoredTrials stored;
  search::SelectionParams params;
  bool decided = false;
  std::vector<SelectedCandidate> candidates;  ///< those that contend first, each group best first
};

/// Whether a store is of a search with driver `select`; reads no rows.
bool is_selection(const std::filesystem::path& store);
/// Nothing where the store is of another kind of search, or has no points yet. Throws sim::ConfigError as read_trials.
std::optional<Selected> read_selected(const std::filesystem::path& store);
/// A table for people, and JSON.
std::string selected_text(const Selected& selected);
sim::Node selected_json(const Selected& selected);

/// Throws sim::ConfigError where a study's search is a selection that cannot be made: `over` is no parameter for it,
/// several objectives, too many candidates.
void check_selection(const Study& study);

/// What the name of a confirming study ends with.
inline constexpr std::string_view kConfirmSuffix = "-confirm";

struct ConfirmOptions {
  std::filesystem::path study;  ///< where the store's study is now; empty: where the store says
  std::size_t candidates = 10;  ///< of the store's best points
  double within = 0.01, confidence = 0.95;
  std::int64_t runs = 1000;  ///< at most
  std::size_t batch = 8;
};

/// The study that runs a store's best points again, with seeds that the store has not used, until it is known which is
/// best. Throws sim::ConfigError: several objectives, another study at the place, no point that ran.
Study confirming_study(const Systems& systems, const std::filesystem::path& store, const ConfirmOptions& options);
/// The same for a study at hand.
Study confirming_study(const Systems& systems, const Study& study, const std::filesystem::path& store,
                       const ConfirmOptions& options);

/// The selection where there is one store, and it is of one.
std::optional<Selected> selected_of(std::span<const std::filesystem::path> files);
/// What `orrery best --json` says: of a selection its verdict, else the best points.
sim::Node best_answer_json(std::span<const std::filesystem::path> files, std::size_t top);

}  // namespace orrery::experiments::study
