// What sequences cost a group of devices: stated constants, or those that the training system's passes give.
#pragma once

#include <string>

#include "experiments/uneven/config.hpp"

namespace orrery::experiments::uneven {

struct Prices {
  policies::SequenceCosts costs;
  double update_s = 0;   ///< of a step, once: the optimizer's
  double fit_error = 0;  ///< of square and linear on the passes that they are fitted on, the furthest
  std::string obstacle;  ///< why there are none; empty: there are
};

/// Four all-to-alls a layer, forward and backward, of two bytes an element (DeepSpeed-Ulysses).
Prices stated_prices(const StatedCostParams& params);

/// Passes of the model on a device that is full, of packed sequences of a sixteenth, a quarter and all of its tokens
/// and of longer ones that 2, 4, 8 … devices share; square and linear are fitted to their kernels by least squares of
/// relative errors, the exchange of each degree is that of its own pass. FlexSP profiles the same on its devices.
Prices priced(const training::TrainingConfig& config, const PlanParams& plan, std::int64_t longest);

}  // namespace orrery::experiments::uneven
