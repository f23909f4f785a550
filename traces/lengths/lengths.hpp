// The length samplers: one file each, listed in register_length_samplers (register.cpp).
#pragma once

#include "traces/generator.hpp"

namespace orrery::traces::lengths {

/// Lengths and mean lengths that a sampler takes.
inline constexpr sim::Range kTokens = sim::between(1, 1e9);

void add_burstgpt(LengthRegistry& registry);
void add_empirical(LengthRegistry& registry, const FormatTable& formats);
void add_fixed(LengthRegistry& registry);
void add_geometric(LengthRegistry& registry);
void add_log_normal(LengthRegistry& registry);
void add_quantiles(LengthRegistry& registry);
void add_rank_power(LengthRegistry& registry);
void add_uniform(LengthRegistry& registry);
void add_zipf(LengthRegistry& registry);

}  // namespace orrery::traces::lengths
