#include "traces/arrivals/arrivals.hpp"

namespace orrery::traces {

void register_arrival_processes(ArrivalRegistry& registry) {
  arrivals::add_at_once(registry);
  arrivals::add_diurnal(registry);
  arrivals::add_fixed(registry);
  arrivals::add_gamma(registry);
  arrivals::add_poisson(registry);
  arrivals::add_windowed_gamma(registry);
}

}  // namespace orrery::traces
