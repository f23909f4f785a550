// Parts of the reader of studies that have files of their own.
#pragma once

#include "experiments/study/study.hpp"

namespace orrery::experiments::study {

/// The value of a parameter that a node means; nothing if the parameter has no such value.
std::optional<double> value_of(const search::Parameter& parameter, const sim::Node& node);
/// The space of a study's document alone: of a store, whose experiments need not be at hand. Throws sim::ConfigError.
search::Space read_space(const sim::Node& root);
/// `fidelity`, where it is there and without a fault.
std::optional<Fidelity> read_fidelity(const sim::Node& root, sim::Faults& faults);
/// `objectives`, `limits` and `bottlenecks`: formulas over parameters and measures.
/// Without `systems`, limits do not end runs.
void read_goals(const sim::Node& root, Study& study, const Systems* systems, sim::Faults& faults);
/// `sweep`: parts, and a grid of the parameters that no part names. `steps`: how many values of a range, 0: not said.
void read_sweep(const sim::Node& root, const std::vector<std::int64_t>& steps, Study& study, sim::Faults& faults);

}  // namespace orrery::experiments::study
