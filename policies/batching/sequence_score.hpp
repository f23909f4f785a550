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
      ExpressionName<SequenceFacts>{
          {"arrived_s", U::seconds, "Arrival time of the sequence, since the start of the run."},
          [](F f) { return f.seconds(f.seq().arrived.ticks); }},
      ExpressionName<SequenceFacts>{
          {"branches", U::count, "Number of outputs that are sampled in parallel for the request."},
          [](F f) { return number(f.seq().branches); }},
      ExpressionName<SequenceFacts>{
          {"compute_tokens", U::tokens,
           "Tokens still to compute before the sequence's next token, less those found in the prefix cache.", true},
          [](F f) { return number(f.to_compute()); }},
      ExpressionName<SequenceFacts>{
          {"deadline_s", U::seconds, "Deadline of the request, since the start of the run; inf without one."},
          [](F f) {
            const std::int64_t ticks = f.seq().deadline_ticks;
            constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
            return ticks == kNone ? std::numeric_limits<double>::infinity() : f.seconds(ticks);
          }},
      ExpressionName<SequenceFacts>{{"decoding", U::sequences, "Number of sequences of the replica in decode.", true},
                                    [](F f) { return number(f.view.decoding); }},
      ExpressionName<SequenceFacts>{{"generated_tokens", U::tokens, "Output tokens emitted so far."},
                                    [](F f) { return number(f.view.generated(f.id)); }},
      ExpressionName<SequenceFacts>{{"kv_share", U::ratio, "Share of the replica's KV blocks that are in use.", true},
                                    [](F f) { return f.kv_share(); }},
      ExpressionName<SequenceFacts>{
          {"kv_tokens", U::tokens, "Tokens of the sequence whose keys and values are in the KV cache."},
          [](F f) { return number(f.view.kv_tokens(f.id)); }},
      ExpressionName<SequenceFacts>{{"now_s", U::seconds, "Time since the start of the run.", true},
                                    [](F f) { return f.seconds(f.view.now.ticks); }},
      ExpressionName<SequenceFacts>{{"order", U::none, "Place of the sequence in the order of arrival at the replica."},
                                    [](F f) { return number(f.seq().order); }},
      ExpressionName<SequenceFacts>{
          {"predicted_left", U::tokens,
           "predicted_tokens less generated_tokens, at least 0; without a prediction, the context limit."},
          [](F f) { return number(f.predicted_left()); }},
      ExpressionName<SequenceFacts>{
          {"predicted_tokens", U::tokens, "Predicted length of the output; 0: no prediction."},
          [](F f) { return number(f.seq().predicted_tokens); }},
      ExpressionName<SequenceFacts>{{"preemptions", U::count, "How often the sequence was preempted."},
                                    [](F f) { return number(f.seq().preemptions); }},
      ExpressionName<SequenceFacts>{
          {"prefill_tokens", U::tokens,
           "Tokens of the prompt and, after a preemption, of the output generated before it."},
          [](F f) { return number(f.seq().prefill_tokens); }},
      ExpressionName<SequenceFacts>{
          {"priority", U::none, "Priority of the request; a higher one is meant to go first."},
          [](F f) { return number(f.seq().priority); }},
      ExpressionName<SequenceFacts>{{"prompt_tokens", U::tokens, "Tokens of the prompt."},
                                    [](F f) { return number(f.seq().prompt_tokens); }},
      ExpressionName<SequenceFacts>{{"running", U::sequences, "Number of sequences that run on the replica.", true},
                                    [](F f) { return number(std::ssize(f.view.running)); }},
      ExpressionName<SequenceFacts>{{"tenant", U::none, "Number of the tenant that the request belongs to."},
                                    [](F f) { return number(f.seq().tenant); }},
      ExpressionName<SequenceFacts>{{"waited_s", U::seconds, "Time since the sequence arrived.", true},
                                    [](F f) { return f.seconds((f.view.now - f.seq().arrived).ticks); }},
      ExpressionName<SequenceFacts>{{"waiting", U::sequences, "Number of sequences that wait at the replica.", true},
                                    [](F f) { return number(std::ssize(f.view.waiting)); }}};
};

using SequenceScore = Expression<SequenceFacts>;

}  // namespace orrery::policies
