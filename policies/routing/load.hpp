// What "load" of a replica can mean, for the routers that compare it.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "policies/routing/routing.hpp"
#include "sim/base/params.hpp"

namespace orrery::policies {

enum class LoadOf : std::uint8_t {
  requests,       ///< there, running or waiting
  waiting,        ///< in its queue
  queued_tokens,  ///< still to prefill
  tokens,         ///< prompt tokens of all that are there
  kv              ///< share of KV blocks in use
};

/// Load of a replica, divided by its weight.
double load_of(const ReplicaFacts& facts, LoadOf what);
/// Whether that needs facts that are only kept for a router that reads_live().
inline bool is_live(LoadOf what) {
  return what == LoadOf::waiting || what == LoadOf::kv;
}
/// Place of the least loaded; the first of equals.
std::size_t least_loaded(std::span<const ReplicaFacts> replicas, LoadOf what);

}  // namespace orrery::policies

template <>
struct orrery::sim::EnumNames<orrery::policies::LoadOf> {
  using E = orrery::policies::LoadOf;
  static constexpr std::array<std::pair<std::string_view, E>, 5> names{{{"requests", E::requests},
                                                                        {"waiting", E::waiting},
                                                                        {"queued_tokens", E::queued_tokens},
                                                                        {"tokens", E::tokens},
                                                                        {"kv", E::kv}}};
};
