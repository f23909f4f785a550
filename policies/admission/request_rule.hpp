// Rules of admission: the names that an expression over a request and the cluster may use.
#pragma once

#include <algorithm>
#include <limits>

#include "policies/admission/admission.hpp"
#include "policies/base/expression.hpp"

namespace orrery::policies {

struct RequestRuleFacts {
  const AdmissionView& view;

  double sum(std::int64_t ReplicaFacts::*what) const {
    std::int64_t all = 0;
    for (const ReplicaFacts& replica : view.replicas) all += replica.*what;
    return static_cast<double>(all);
  }
  /// Infinite where no replica is.
  double least(std::int64_t ReplicaFacts::*what) const {
    double least = std::numeric_limits<double>::infinity();
    for (const ReplicaFacts& replica : view.replicas) least = std::min(least, static_cast<double>(replica.*what));
    return least;
  }
};

template <>
struct ExpressionNames<RequestRuleFacts> {
  using F = const RequestRuleFacts&;
  using U = sim::Unit;
  static constexpr double number(std::int64_t count) { return static_cast<double>(count); }
  static constexpr std::array names{
      ExpressionName<RequestRuleFacts>{
          {"least_queued_tokens", U::tokens, "Tokens to prefill at the replica with the fewest."},
          [](F f) { return f.least(&ReplicaFacts::queued_tokens); }},
      ExpressionName<RequestRuleFacts>{{"least_requests", U::requests, "Requests at the replica with the fewest."},
                                       [](F f) { return f.least(&ReplicaFacts::requests); }},
      ExpressionName<RequestRuleFacts>{{"parked", U::requests, "Requests that wait for a replica to be up."},
                                       [](F f) { return number(f.view.parked); }},
      ExpressionName<RequestRuleFacts>{
          {"predicted_tokens", U::tokens, "Predicted length of the request's output; 0: no prediction."},
          [](F f) { return number(f.view.request.predicted_tokens); }},
      ExpressionName<RequestRuleFacts>{{"prefill_tokens", U::tokens, "Tokens of the request to prefill."},
                                       [](F f) { return number(f.view.request.prefill_tokens); }},
      ExpressionName<RequestRuleFacts>{{"priority", U::none, "Priority of the request."},
                                       [](F f) { return number(f.view.request.priority); }},
      ExpressionName<RequestRuleFacts>{{"queued_tokens", U::tokens, "Tokens to prefill at all replicas."},
                                       [](F f) { return f.sum(&ReplicaFacts::queued_tokens); }},
      ExpressionName<RequestRuleFacts>{{"replicas", U::count, "Number of replicas that take requests now."},
                                       [](F f) { return number(std::ssize(f.view.replicas)); }},
      ExpressionName<RequestRuleFacts>{{"requests", U::requests, "Requests at all replicas."},
                                       [](F f) { return f.sum(&ReplicaFacts::requests); }},
      ExpressionName<RequestRuleFacts>{{"tenant", U::none, "Number of the tenant that the request belongs to."},
                                       [](F f) { return number(f.view.request.tenant); }},
      ExpressionName<RequestRuleFacts>{
          {"ttft_target_s", U::seconds, "TTFT target of the run (slo.ttft); inf without one."}, [](F f) {
            return f.view.ttft_ps ? static_cast<double>(*f.view.ttft_ps) * 1e-12
                                  : std::numeric_limits<double>::infinity();
          }}};
};

using RequestRule = Expression<RequestRuleFacts>;

}  // namespace orrery::policies
