// Admission control: whether a request may come in at all. Asked once a request, before a router is.
//
// Contract: the view is valid during the call only; equal views and history give equal answers; a call costs
// O(replicas). `replicas` may be empty (none takes requests now: it would wait for one).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "policies/routing/routing.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

struct AdmissionView {
  sim::Time now;
  std::int64_t ps_per_tick = 1;
  std::span<const ReplicaFacts> replicas;  ///< that take new requests
  RouteRequest request;
  std::int64_t parked = 0;              ///< requests that wait for a replica to be up
  std::optional<std::int64_t> ttft_ps;  ///< the target of the run
};

/// When the request would get its first token at the replica that is soonest, in seconds:
///     (queued tokens + tokens of the request) / prefill rate measured lately,
/// 0 at a replica that was not measured yet. Nothing without a replica.
std::optional<double> first_token_s(const AdmissionView& view);

class AdmissionControl {
 public:
  virtual ~AdmissionControl() = default;
  /// Why the request is turned away ("rejected:REASON"; the text must outlive the run), or nothing.
  virtual std::optional<std::string_view> reject(const AdmissionView& view) = 0;
};

using AdmissionRegistry = sim::Registry<AdmissionControl>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_admission_controls(AdmissionRegistry& registry);

}  // namespace orrery::policies
