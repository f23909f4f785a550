// Scores of replicas: the names that an expression over a replica and the request at hand may use. Names marked live
// are only kept for a router that reads them.
#pragma once

#include "policies/base/expression.hpp"
#include "policies/routing/routing.hpp"

namespace orrery::policies {

struct ReplicaScoreFacts {
  const RouteView& view;
  const ReplicaFacts& replica;
  double alone_s = 0, ahead_s = 0;  ///< request_times.hpp; only for a score that reads_times()

  double seconds(std::int64_t ticks) const {
    return static_cast<double>(ticks) * static_cast<double>(view.ps_per_tick) * 1e-12;
  }
  double kv_share() const {
    return static_cast<double>(replica.kv_blocks) / static_cast<double>(std::max<std::int64_t>(1, replica.kv_total));
  }
  std::int64_t cached() const {
    return view.request.text != nullptr && !view.request.text->empty() ? replica.match(*view.request.text) : 0;
  }
};

template <>
struct ExpressionNames<ReplicaScoreFacts> {
  using F = const ReplicaScoreFacts&;
  using U = sim::Unit;
  static constexpr double number(std::int64_t count) { return static_cast<double>(count); }
  static constexpr std::array names{
      ExpressionName<ReplicaScoreFacts>{
          {"ahead_s", U::seconds,
           "Time that requests sent to the replica and not yet finished would take, one after the other."},
          [](F f) { return f.ahead_s; }},
      ExpressionName<ReplicaScoreFacts>{
          {"alone_s", U::seconds, "Time that the request would take at the replica if it were alone there."},
          [](F f) { return f.alone_s; }},
      ExpressionName<ReplicaScoreFacts>{
          {"cached_tokens", U::tokens, "Tokens at the head of the prompt that are in the replica's prefix cache."},
          [](F f) { return number(f.cached()); }},
      ExpressionName<ReplicaScoreFacts>{
          {"kv_share", U::ratio, "Share of the replica's KV blocks that are in use.", true},
          [](F f) { return f.kv_share(); }},
      ExpressionName<ReplicaScoreFacts>{{"now_s", U::seconds, "Time since the start of the run."},
                                        [](F f) { return f.seconds(f.view.now.ticks); }},
      ExpressionName<ReplicaScoreFacts>{
          {"predicted_tokens", U::tokens, "Predicted length of the request's output; 0: no prediction."},
          [](F f) { return number(f.view.request.predicted_tokens); }},
      ExpressionName<ReplicaScoreFacts>{
          {"prefill_rate", U::none, "Prompt tokens per second that the replica prefilled lately; 0: not measured yet."},
          [](F f) { return f.replica.prefill_tokens_per_s; }},
      ExpressionName<ReplicaScoreFacts>{
          {"prefill_tokens", U::tokens,
           "Tokens of the request that precede its next token: the prompt and, after a failure, the output so far."},
          [](F f) { return number(f.view.request.prefill_tokens); }},
      ExpressionName<ReplicaScoreFacts>{{"priority", U::none, "Priority of the request."},
                                        [](F f) { return number(f.view.request.priority); }},
      ExpressionName<ReplicaScoreFacts>{
          {"queued_tokens", U::tokens, "Tokens to prefill of the replica's requests whose prefill is not done."},
          [](F f) { return number(f.replica.queued_tokens); }},
      ExpressionName<ReplicaScoreFacts>{{"replica", U::none, "Number of the replica."},
                                        [](F f) { return number(f.replica.replica); }},
      ExpressionName<ReplicaScoreFacts>{{"requests", U::requests, "Requests at the replica or on their way to it."},
                                        [](F f) { return number(f.replica.requests); }},
      ExpressionName<ReplicaScoreFacts>{{"tenant", U::none, "Number of the tenant that the request belongs to."},
                                        [](F f) { return number(f.view.request.tenant); }},
      ExpressionName<ReplicaScoreFacts>{{"tokens", U::tokens, "Prompt tokens of all requests at the replica."},
                                        [](F f) { return number(f.replica.tokens); }},
      ExpressionName<ReplicaScoreFacts>{{"waiting", U::requests, "Requests in the replica's queue.", true},
                                        [](F f) { return number(f.replica.waiting); }},
      ExpressionName<ReplicaScoreFacts>{
          {"weight", U::ratio, "The replica's share of the load relative to others, as configured."},
          [](F f) { return f.replica.weight; }}};
};

using ReplicaScore = Expression<ReplicaScoreFacts>;

/// Whether it names ahead_s or alone_s, which cost calls of the device model.
inline bool reads_times(const ReplicaScore& score) {
  return score.reads("ahead_s") || score.reads("alone_s");
}

}  // namespace orrery::policies
