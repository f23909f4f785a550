// Which parameters an objective depends on, alone and in pairs, from the trials of any search.
//
// A forest and a Gaussian process are fitted to the trials with a result. Shares of variance are asked of the one that
// explains more of points it has not seen, which is told with them: they are as good as that. Values are exchanged on
// the forest, whose trees have each not seen some trials.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/search/analysis/forest.hpp"
#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

struct ParameterImportance {
  std::string parameter;
  /// Share of the objective's variance over the space that this parameter explains by itself (main effect of a functional ANOVA; Hutter,
  /// Hoos, Leyton-Brown 2014; here from means over a sample of the space).
  double main_effect = 0;
  /// Growth of the squared error where its values are exchanged between trials, as a share of the variance (permutation
  /// importance, Breiman 2001, on trees that have not seen the trial). Above 0 also where it matters only with others.
  double permutation = 0;
  /// Range of the prediction when it alone moves from the best trial, in units of the objective.
  double range_at_best = 0;
};

struct Interaction {
  std::string first, second;
  double share = 0;  ///< of variance that both explain together beyond each alone
};

struct Elementary {
  std::string parameter;
  std::size_t pairs = 0;  ///< trials that differ in it alone, neighbours by value
  double mean = 0;        ///< of |change| over the pairs, in units of the objective per whole interval (mu*)
  double deviation = 0;   ///< of the signed changes: large where its effect depends on the others or bends (sigma)
};

struct Importance {
  std::size_t trials = 0;  ///< that the forest was fitted to
  bool process = false;    ///< shares are a Gaussian process', else the forest's
  double explained = 0;    ///< share of variance on unseen trials, by that model; below 0 is worse than the mean
  double rest = 0;         ///< of the model's variance, what neither a parameter alone nor a pair explains
  std::vector<ParameterImportance> parameters;
  std::vector<Interaction> interactions;  ///< every pair, the largest first
};

struct ImportanceOptions {
  std::uint64_t seed = 1;
  std::size_t sample = 256;     ///< points of the space that means go over
  std::size_t levels = 9;       ///< values of a parameter that is a number or has more choices
  std::size_t trials = 10'000;  ///< of more an even pick: the forest gains little from them
  std::size_t process_trials = 512, process_sample = 2048, process_parameters = 24;  ///< the same of the process, and
                                                                                     ///< the most it is asked about
  ForestOptions forest;
};

/// Of one objective. Empty if fewer than eight trials have a result. O(sample x levels^2 x pairs x trees).
Importance importance(const Space& space, std::span<const Trial> trials, std::size_t objective = 0,
                      const ImportanceOptions& options = {});

/// Elementary effects (Morris 1991) from pairs of trials that differ in one parameter alone, as grids and walks leave
/// them. Distances are of the unit interval, of categories 1.
std::vector<Elementary> elementary_effects(const Space& space, std::span<const Trial> trials,
                                           std::size_t objective = 0);

}  // namespace orrery::experiments::search
