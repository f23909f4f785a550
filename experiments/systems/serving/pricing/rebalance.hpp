// When experts are placed anew while a replica serves: policies.rebalance (docs/explain/router-traces.md).
#pragma once

#include <cstdint>

#include "sim/base/params.hpp"

namespace orrery::experiments {

struct RebalanceParams {
  std::int64_t interval = 3000, window = 1000;
  bool overlap = false;
  static constexpr auto fields() {
    using R = RebalanceParams;
    return sim::FieldTable{
        sim::field("interval", &R::interval, sim::Unit::count, sim::between(1, 1'000'000'000),
                   "Iterations of a replica between two placements of its experts."),
        sim::field("window", &R::window, sim::Unit::count, sim::between(1, 1'000'000'000),
                   "Iterations before a placement whose tokens decide it; at most the interval."),
        sim::field(
            "overlap", &R::overlap,
            "Iterations go on while weights are copied, and the new placement counts once all are there. Otherwise "
            "the next iteration waits for the copies."),
    };
  }
};

}  // namespace orrery::experiments
