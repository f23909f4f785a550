#include "traces/lengths/lengths.hpp"

namespace orrery::traces {

void register_length_samplers(LengthRegistry& registry, const FormatTable& formats) {
  lengths::add_burstgpt(registry);
  lengths::add_empirical(registry, formats);
  lengths::add_fixed(registry);
  lengths::add_geometric(registry);
  lengths::add_log_normal(registry);
  lengths::add_quantiles(registry);
  lengths::add_rank_power(registry);
  lengths::add_uniform(registry);
  lengths::add_zipf(registry);
}

}  // namespace orrery::traces
