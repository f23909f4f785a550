// A router trace played through an expert cache: what is there when it is asked for.
#pragma once

#include <cstdint>

#include "policies/experts/residency.hpp"
#include "sim/base/enum_names.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::experiments {

/// What is looked up together. `token`: the experts of a token (of all tokens of a batch); those in use stay until all
/// are done, as an engine that offloads experts has to. `request`: one expert after the other, each loaded at once, as
/// published hit rates of caches count.
enum class LookUp : std::uint8_t { token, request };
constexpr auto enum_names(LookUp) {
  using enum LookUp;
  return sim::names<LookUp>({{"token", token}, {"request", request}});
}

struct CacheTrial {
  std::int64_t slots = 1;  ///< experts of the layer that stay
  LookUp look_up = LookUp::token;
  std::int64_t batch = 1;  ///< tokens that are looked up together (traces::side_by_side puts texts next to each other)
};

/// Plays one layer through a cache of its own, empty at first. Slots beyond the layer's experts make no difference.
/// Throws sim::ConfigError where the policy needs what the trace has not.
policies::ExpertCounts play_layer(const traces::RouterTrace& trace, std::size_t layer,
                                  const policies::ExpertCacheRegistry::Choice& policy, const CacheTrial& trial);

/// The sum over all layers of a trace.
policies::ExpertCounts play_trace(const traces::RouterTrace& trace, const policies::ExpertCacheRegistry::Choice& policy,
                                  const CacheTrial& trial);

}  // namespace orrery::experiments
