// The arrival processes: one file each, listed in register_arrival_processes (register.cpp).
#pragma once

#include "traces/generator.hpp"

namespace orrery::traces::arrivals {

/// Rates that a generator takes: from one request in eleven days to one a nanosecond.
inline constexpr sim::Range kRates = sim::between(1e-6, 1e9);

void add_at_once(ArrivalRegistry& registry);
void add_diurnal(ArrivalRegistry& registry);
void add_fixed(ArrivalRegistry& registry);
void add_gamma(ArrivalRegistry& registry);
void add_poisson(ArrivalRegistry& registry);
void add_windowed_gamma(ArrivalRegistry& registry);

}  // namespace orrery::traces::arrivals
