// Experts in several numbers of bits (D2MoE, card 19 of shared/systems/serving.md), step by step and layer by layer.
//
//   a layer:  [ dense part on the GPU ] router chooses at t, and the bits of each choice
//             link   missing levels one after the other, from t on, as policies.order says; through the drive, if there
//                    is one, whose reads go on while an earlier level crosses the link
//             GPU    tokens by expert and level: those whose weights are there in one launch a product and level; the
//                    others each once its levels have arrived (all once the last has, without policies.as_they_come)
// Nested, a level needs all of those below it; else a level is a copy by itself. All layers share one cache, in which
// each level of an expert takes as many slots as it has bits.
#pragma once

#include <cstdint>

#include "experiments/systems/experts/run.hpp"

namespace orrery::experiments::experts {

/// Slots that level `level` takes: the bits of a weight that it has.
std::int64_t level_slots(const BitsParams& bits, std::size_t level);
/// Of an expert, all of its levels.
std::int64_t all_level_slots(const BitsParams& bits);

/// `slots` of all layers. Counts are of levels: `fetched` those that came, `on_gpu` products of one expert and level.
RunTotals play_nested(const Config& config, const Prices& prices, std::int64_t slots);

}  // namespace orrery::experiments::experts
