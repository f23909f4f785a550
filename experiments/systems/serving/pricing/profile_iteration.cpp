#include "experiments/systems/serving/pricing/profile_iteration.hpp"

#include <algorithm>
#include <cmath>

#include "hw/network/library_collective.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments {
namespace {

template <class T, class Make>
const T& remembered(std::vector<std::optional<T>>& table, std::int64_t index, Make make) {
  const auto i = static_cast<std::size_t>(index);
  if (i >= table.size()) table.resize(i + i / 2 + 64);
  if (!table[i]) table[i] = make();
  return *table[i];
}

}  // namespace

ProfileIteration::ProfileIteration(OpProfile profile, const ProfileParams& params, const ProfileFacts& facts,
                                   IterationModel* counts)
    : profile_(std::move(profile)), params_(params), facts_(facts), counts_(counts) {}

void ProfileIteration::Timed::add(hw::OpClass op, double us) {
  const auto ps = static_cast<std::int64_t>(std::ceil(us * 1e6));
  time_ps += ps;
  class_ps[static_cast<std::size_t>(op)] += ps;
}

void ProfileIteration::Timed::add_to(IterationCost& out, std::int64_t times) const {
  out.time_ps += time_ps * times;
  for (std::size_t i = 0; i < class_ps.size(); ++i) out.class_ps[i] += class_ps[i] * times;
}

std::int64_t ProfileIteration::padded(std::int64_t tokens) const {
  std::int64_t size = 1;
  if (tokens > 256) {
    size = (tokens + 15) / 16 * 16;
  } else if (tokens > 4) {
    size = (tokens + 7) / 8 * 8;
  } else {
    while (size < tokens) size *= 2;
  }
  return size <= params_.graph_tokens ? size : tokens;
}

double ProfileIteration::activated_experts(std::int64_t tokens) const {
  const auto n = static_cast<double>(profile_.experts()), k = static_cast<double>(profile_.experts_per_token());
  const auto all = static_cast<double>(tokens * params_.expert_ranks);
  std::vector<double> weight(static_cast<std::size_t>(profile_.experts()));
  double sum = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    weight[i] = sim::det_exp(-params_.expert_skew * sim::det_log(static_cast<double>(i + 1)));
    sum += weight[i];
  }
  double reached = 0;
  for (const double w : weight) {
    const double chance = std::min(1.0, k * w / sum);
    reached += chance >= 1 ? 1 : 1 - sim::det_exp(all * sim::det_log(1 - chance));
  }
  // No fewer than one token takes, no more than there are.
  return std::clamp(reached, std::min(n, k), n) / static_cast<double>(params_.expert_ranks);
}

ProfileIteration::Timed ProfileIteration::layer_of(std::int64_t tokens) const {
  Timed out;
  for (const OpProfile::Module& module : profile_.layer())
    out.add(module.op, module.times * module.curve(static_cast<double>(tokens)));
  if (profile_.has_experts()) {
    out.add(hw::OpClass::expert_up, profile_.experts_us(static_cast<double>(tokens), activated_experts(tokens)));
  }
  const std::int64_t bytes = tokens * facts_.hidden * facts_.activation_bytes;
  if (facts_.tensor_parallel > 1) {
    const double s =
        hw::library_collective(facts_.link, hw::LibraryCall::all_reduce, facts_.tensor_parallel, bytes).time_s;
    out.add(hw::OpClass::all_reduce, 2e6 * s);
  }
  if (profile_.has_experts() && params_.expert_ranks > 1) {
    const auto each = [&](hw::LibraryCall call) {
      return 1e6 * hw::library_collective(facts_.link, call, params_.expert_ranks, bytes * params_.expert_ranks).time_s;
    };
    out.add(hw::OpClass::all_reduce, each(hw::LibraryCall::all_gather) + each(hw::LibraryCall::reduce_scatter));
  }
  return out;
}

const ProfileIteration::Timed& ProfileIteration::layer(std::int64_t tokens) {
  return remembered(layers_, tokens, [&] { return layer_of(tokens); });
}

const ProfileIteration::Timed& ProfileIteration::once(std::int64_t tokens) {
  return remembered(onces_, tokens, [&] {
    Timed out;
    for (const OpProfile::Module& module : profile_.once())
      out.add(module.op, module.times * module.curve(static_cast<double>(tokens)));
    return out;
  });
}

const ProfileIteration::Timed& ProfileIteration::head(std::int64_t rows) {
  return remembered(heads_, rows, [&] {
    Timed out;
    for (const OpProfile::Module& module : profile_.head())
      out.add(module.op, module.times * module.curve(static_cast<double>(rows)));
    const std::int64_t logits = rows * facts_.vocab_rows;
    const auto all = static_cast<double>(logits * facts_.tensor_parallel);  // every rank samples for itself
    const bool cached = facts_.l2_bandwidth > 0 && 3 * 4 * all <= facts_.l2_bytes;
    out.add(hw::OpClass::sampling,
            1e6 * params_.sampling_bytes * all / (cached ? facts_.l2_bandwidth : facts_.memory_bandwidth));
    if (facts_.tensor_parallel > 1) {
      const std::int64_t bytes = logits * facts_.tensor_parallel * facts_.activation_bytes;
      out.add(
          hw::OpClass::all_reduce,
          1e6 * hw::library_collective(facts_.link, hw::LibraryCall::all_gather, facts_.tensor_parallel, bytes).time_s);
    }
    return out;
  });
}

/// A launch with chunks in it counts as theirs up to what they take alone.
ProfileIteration::Timed ProfileIteration::attention(const Segment& segment) const {
  const DecodeSums& decode = segment.decode;
  double context = 0;
  if (decode.sequences > 0)
    context = static_cast<double>(decode.context_tokens) / static_cast<double>(decode.sequences);
  Timed out;
  const double all = profile_.attention_us(segment.prefill, decode.sequences, context);
  if (segment.prefill.q_tokens == 0) {
    out.add(hw::OpClass::attention_decode, decode.sequences > 1 ? all * (1 + params_.ragged_decode) : all);
  } else {
    const double alone = std::min(all, profile_.attention_us(segment.prefill, 0, 0));
    out.add(hw::OpClass::attention_prefill, alone);
    out.add(hw::OpClass::attention_decode, all - alone);
  }
  return out;
}

void ProfileIteration::cost(const BatchShape& shape, IterationCost& out) {
  if (counts_ != nullptr) {
    counts_->cost(shape, out);
    out.time_ps = 0;
    out.class_ps = {};
  }
  for (const Segment& segment : shape.segments) {
    const std::int64_t layers = segment.last - segment.first;
    const std::int64_t tokens = padded(segment.tokens);
    if (segment.first == 0) once(tokens).add_to(out, 1);
    layer(tokens).add_to(out, layers);
    attention(segment).add_to(out, layers);
  }
  if (shape.logit_rows > 0) head(shape.logit_rows).add_to(out, 1);
}

}  // namespace orrery::experiments
