#include "experiments/systems/serving/pricing/halves_in_turns.hpp"

#include <algorithm>

#include "experiments/systems/serving/pricing/picoseconds.hpp"

namespace orrery::experiments {

double behind_dispatch(hw::OpClass op) {
  using enum hw::OpClass;
  switch (op) {
    case router:
    case expert_up:
    case expert_down:
    case ffn_up:
    case ffn_down:
    case activation:
    case gather:
    case scatter:
      return 1;
    case norm:
    case residual:
    case quantise:
      return 0.5;
    default:
      return 0;
  }
}

namespace {

std::int64_t half_of(std::int64_t count) {
  return (count + 1) / 2;
}

/// The larger half. A lone chunk is cut in the middle: the mean of its halves reads what is cached and three quarters
/// of its own keys.
PrefillSums half_of(const PrefillSums& whole) {
  PrefillSums half{.sequences = half_of(whole.sequences),
                   .q_tokens = half_of(whole.q_tokens),
                   .kv_tokens = half_of(whole.kv_tokens),
                   .pairs = half_of(whole.pairs),
                   .q_tiles = half_of(whole.q_tiles)};
  if (whole.sequences == 1) half.kv_tokens = whole.kv_tokens - whole.q_tokens / 4;
  return half;
}

DecodeSums half_of(const DecodeSums& whole) {
  if (whole.sequences == 0) return whole;
  const std::int64_t n = half_of(whole.sequences);
  return {n, (whole.context_tokens * n + whole.sequences - 1) / whole.sequences};
}

/// Every other run; of a lone one its first half.
std::vector<TokenRun> half_of(const std::vector<TokenRun>& whole) {
  std::vector<TokenRun> half;
  for (std::size_t i = 0; i < whole.size(); i += 2) half.push_back(whole[i]);
  if (whole.size() == 1) half.front().count = half_of(whole.front().count);
  return half;
}

}  // namespace

void HalvesInTurns::cost(const BatchShape& shape, IterationCost& out) {
  if (shape.segments.size() != 1 || shape.segments.front().tokens < 2) return whole_->cost(shape, out);
  const Segment& all = shape.segments.front();
  half_ = shape;
  half_.logit_rows = 0;
  Segment& segment = half_.segments.front();
  segment.prefill = half_of(all.prefill);
  segment.decode = half_of(all.decode);
  segment.tokens = segment.prefill.q_tokens + half_of(all.tokens - all.prefill.q_tokens);
  segment.runs = half_of(all.runs);
  IterationCost half;
  whole_->cost(half_, half);

  const auto layers = static_cast<double>(
      std::count(exchanges_.routed.begin() + segment.first, exchanges_.routed.begin() + segment.last, true));
  const auto way_s = [&](std::int64_t bytes) {
    return layers * exchanges_.by.time_s(segment.tokens * bytes, exchanges_.ranks);
  };
  double dispatch_s = way_s(exchanges_.dispatch_bytes), combine_s = way_s(exchanges_.combine_bytes);
  // Where one rank has more rows than others (router choices), both ways last as much longer.
  if (const double even_s = dispatch_s + combine_s; exchanges_.alone && even_s > 0) {
    const double took_s = 1e-12 * static_cast<double>(half.class_ps[static_cast<std::size_t>(hw::OpClass::all_reduce)]);
    dispatch_s *= took_s / even_s;
    combine_s *= took_s / even_s;
  }
  double behind_s = 0;
  for (std::size_t i = 0; i < hw::kOpClasses; ++i)
    behind_s += behind_dispatch(static_cast<hw::OpClass>(i)) * 1e-12 * static_cast<double>(half.class_ps[i]);
  const double before_s = 1e-12 * static_cast<double>(half.time_ps) - behind_s - dispatch_s - combine_s;
  const double turns_s = hw::layer_in_turns({.attention_s = std::max(0.0, before_s),
                                             .experts_s = behind_s,
                                             .dispatch_s = dispatch_s,
                                             .combine_s = combine_s,
                                             .cores_share = exchanges_.cores_share});
  IterationCost both;
  if (shape.logit_rows > 0) {
    head_ = shape;
    head_.segments.clear();
    whole_->cost(head_, both);
  }
  const std::int64_t head_ps = both.time_ps;
  both.add_scaled(half, std::int64_t{2});
  both.time_ps = head_ps + picoseconds(turns_s);
  out.add(both);
}

}  // namespace orrery::experiments
