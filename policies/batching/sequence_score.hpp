// Scores of sequences: the names that an expression over a sequence and its replica may use.
//
// A sequence that waits is scored for the queue, one that runs for preemption. Names marked live change while it waits.
#pragma once

#include <algorithm>
#include <limits>

#include "policies/base/expression.hpp"
#include "policies/batching/batching.hpp"

namespace orrery::policies {

struct SequenceFacts {
  const BatchView& view;
  SeqId id;

  const Sequence& seq() const { return view[id]; }
  double seconds(std::int64_t ticks) const {
    return static_cast<double>(ticks) * static_cast<double>(view.ps_per_tick) * 1e-12;
  }
  /// Output tokens that are left by prediction; without one, as many as there may ever be.
  std::int64_t predicted_left() const {
    if (seq().predicted_tokens <= 0) return view.limits.max_context;
    return std::max<std::int64_t>(0, seq().predicted_tokens - view.generated(id));
  }
  /// Tokens to compute before the next one is emitted.
  std::int64_t to_compute() const {
    return seq().phase == Phase::waiting ? tokens_to_compute(view, id) : seq().prefill_left();
  }
  double kv_share() const {
    const auto total = static_cast<double>(std::max<std::int64_t>(1, view.kv.total_blocks()));
    return 1 - static_cast<double>(view.kv.available_blocks()) / total;
  }
};

template <>
struct ExpressionNames<SequenceFacts> {
  using F = const SequenceFacts&;
  using U = sim::Unit;
  static constexpr double number(std::int64_t count) { return static_cast<double>(count); }
  static constexpr std::array names{
      ExpressionName<SequenceFacts>{{"arrived_s", U::seconds, "When it arrived, since the start of the run."},
                                    [](F f) { return f.seconds(f.seq().arrived.ticks); }},
      ExpressionName<SequenceFacts>{{"branches", U::count, "Outputs that are sampled side by side."},
                                    [](F f) { return number(f.seq().branches); }},
      ExpressionName<SequenceFacts>{
          {"compute_tokens", U::tokens, "Still to compute before its next token; what the cache has is not.", true},
          [](F f) { return number(f.to_compute()); }},
      ExpressionName<SequenceFacts>{{"deadline_s", U::seconds, "By when it should end, since the start; none: inf."},
                                    [](F f) {
                                      const std::int64_t ticks = f.seq().deadline_ticks;
                                      constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
                                      return ticks == kNone ? std::numeric_limits<double>::infinity()
                                                            : f.seconds(ticks);
                                    }},
      ExpressionName<SequenceFacts>{{"decoding", U::sequences, "Of the replica: how many are in decode.", true},
                                    [](F f) { return number(f.view.decoding); }},
      ExpressionName<SequenceFacts>{{"generated_tokens", U::tokens, "Of the output, emitted so far."},
                                    [](F f) { return number(f.view.generated(f.id)); }},
      ExpressionName<SequenceFacts>{{"kv_share", U::ratio, "Of the replica: share of KV blocks that are taken.", true},
                                    [](F f) { return f.kv_share(); }},
      ExpressionName<SequenceFacts>{{"kv_tokens", U::tokens, "Whose keys and values it has in the cache."},
                                    [](F f) { return number(f.view.kv_tokens(f.id)); }},
      ExpressionName<SequenceFacts>{{"now_s", U::seconds, "Time since the start of the run.", true},
                                    [](F f) { return f.seconds(f.view.now.ticks); }},
      ExpressionName<SequenceFacts>{{"order", U::none, "Number of its arrival at the replica."},
                                    [](F f) { return number(f.seq().order); }},
      ExpressionName<SequenceFacts>{{"predicted_left", U::tokens,
                                     "predicted_tokens less generated_tokens, at least 0; without a prediction the "
                                     "most that a request may have."},
                                    [](F f) { return number(f.predicted_left()); }},
      ExpressionName<SequenceFacts>{{"predicted_tokens", U::tokens, "Of the output, as predicted; 0: no prediction."},
                                    [](F f) { return number(f.seq().predicted_tokens); }},
      ExpressionName<SequenceFacts>{{"preemptions", U::count, "How often it was stopped."},
                                    [](F f) { return number(f.seq().preemptions); }},
      ExpressionName<SequenceFacts>{
          {"prefill_tokens", U::tokens, "Prompt, and after a preemption what had been generated."},
          [](F f) { return number(f.seq().prefill_tokens); }},
      ExpressionName<SequenceFacts>{{"priority", U::none, "Of the request; higher is meant to go first."},
                                    [](F f) { return number(f.seq().priority); }},
      ExpressionName<SequenceFacts>{{"prompt_tokens", U::tokens, "Of the prompt."},
                                    [](F f) { return number(f.seq().prompt_tokens); }},
      ExpressionName<SequenceFacts>{{"running", U::sequences, "Of the replica: how many run.", true},
                                    [](F f) { return number(std::ssize(f.view.running)); }},
      ExpressionName<SequenceFacts>{{"tenant", U::none, "Number of the tenant."},
                                    [](F f) { return number(f.seq().tenant); }},
      ExpressionName<SequenceFacts>{{"waited_s", U::seconds, "Time since it arrived.", true},
                                    [](F f) { return f.seconds((f.view.now - f.seq().arrived).ticks); }},
      ExpressionName<SequenceFacts>{{"waiting", U::sequences, "Of the replica: how many wait.", true},
                                    [](F f) { return number(std::ssize(f.view.waiting)); }}};
};

using SequenceScore = Expression<SequenceFacts>;

}  // namespace orrery::policies
