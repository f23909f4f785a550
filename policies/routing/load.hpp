// What "load" of a replica can mean, for the routers that compare it.
#pragma once

#include <string_view>

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
constexpr auto enum_names(LoadOf) {
  using enum LoadOf;
  return sim::names<LoadOf>(
      {{"requests", requests}, {"waiting", waiting}, {"queued_tokens", queued_tokens}, {"tokens", tokens}, {"kv", kv}});
}

/// Load of a replica, divided by its weight.
double load_of(const ReplicaFacts& facts, LoadOf what);
/// Whether that needs facts that are only kept for a router that reads_live().
inline bool is_live(LoadOf what) {
  return what == LoadOf::waiting || what == LoadOf::kv;
}
/// Place of the least loaded; the first of equals.
std::size_t least_loaded(std::span<const ReplicaFacts> replicas, LoadOf what);

}  // namespace orrery::policies
