// The capacity system: the highest request rate at which a serving config meets its targets.
//
// Its config is a serving config with one section more, `capacity`; the workload's rate is what is searched. The
// setup (part, model, tables of costs) is built once and used for every probe.
#pragma once

#include "experiments/base/experiment.hpp"
#include "experiments/capacity/probe.hpp"

namespace orrery::experiments {

System capacity_system();

namespace capacity {

/// The sections of a capacity config.
struct CapacitySections : ServingParams {
  CapacityParams capacity;

  static constexpr auto fields() {
    using S = CapacitySections;
    return sim::joined(
        sim::inherited<S>(ServingParams::fields()),
        sim::FieldTable{sim::section("capacity", &S::capacity, "Targets to meet, and how the rate is searched for.")});
  }
};

/// Reads section `capacity` of a serving config; reports every fault, one of which is to have no target at all.
CapacityParams read_capacity(const sim::Node& root, const ServingConfig& config, sim::Faults& faults);

/// A probe as it stands in summary.json.
sim::Node probe_node(const Probe& probe);

}  // namespace capacity

}  // namespace orrery::experiments
