#include "experiments/systems/serving/pricing/clocked.hpp"

#include <stdexcept>

namespace orrery::experiments {
namespace {

class ModelPricer final : public policies::ClockPricer {
 public:
  ModelPricer(IterationModel& model, std::int32_t layers) : model_(model), layers_(layers) {}

  policies::ClockPrice price(const policies::BatchSketch& sketch, std::int32_t clock) const override {
    BatchShape shape;
    shape.mode = clock;
    shape.sequences = sketch.decodes + (sketch.chunk_tokens > 0 ? 1 : 0);
    shape.logit_rows = shape.sequences;
    Segment segment{.first = 0, .last = layers_};
    segment.tokens = sketch.decodes + sketch.chunk_tokens;
    segment.decode = {sketch.decodes, sketch.decode_context};
    if (sketch.chunk_tokens > 0) segment.prefill.add(sketch.chunk_tokens, sketch.chunk_past);
    shape.segments.push_back(segment);
    const IterationPrice price = model_.price(shape);
    return {price.time_ps, price.energy_pj};
  }

 private:
  IterationModel& model_;
  std::int32_t layers_;
};

class GovernedBatching final : public policies::Batching {
 public:
  GovernedBatching(std::unique_ptr<policies::Batching> batching, ClockChoice choice)
      : batching_(std::move(batching)), choice_(std::move(choice)), pricer_(*choice_.model, choice_.layers) {}

  void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
    batching_->decide(view, out);
    const policies::BatchSketch next = sketch(view, out);
    if (next.decodes + next.chunk_tokens == 0) return;  // nothing runs
    const std::int32_t clock = choice_.policy->choose({.batch = view,
                                                       .next = next,
                                                       .clock = view.mode,
                                                       .clocks_hz = choice_.clocks_hz,
                                                       .tbt_ps = choice_.tbt_ps,
                                                       .pricer = &pricer_});
    if (clock < 0 || clock >= static_cast<std::int32_t>(choice_.clocks_hz.size()))
      throw std::logic_error("a power policy chose a clock that there is not");
    out.mode = clock;
    if (!choice_.policy->holds()) out.stable_iterations = 1;
  }
  std::optional<std::string_view> reject(const policies::Sequence& seq, const policies::KvView& kv,
                                         const policies::ReplicaLimits& limits) const override {
    return batching_->reject(seq, kv, limits);
  }

 private:
  /// The batch as prices know it: its chunks as one.
  static policies::BatchSketch sketch(const policies::BatchView& view, const policies::BatchDecision& out) {
    policies::BatchSketch next;
    policies::BatchSketch counted;  // what the view's sums have of decodes with an item of their own
    for (const policies::Item& item : out.items) {
      const policies::Sequence& seq = view[item.seq];
      if (seq.phase == policies::Phase::decode) {
        next.decodes += (item.new_tokens + item.draft_tokens) * seq.branches;
        next.decode_context += seq.branches * (view.kv_tokens(item.seq) + 1);
        counted.decodes += seq.branches;
        counted.decode_context += seq.branches * (view.kv_tokens(item.seq) + 1);
      } else {
        next.chunk_tokens += item.new_tokens;
        next.chunk_past = std::max(next.chunk_past, seq.prefill_tokens - seq.prefill_left());
      }
    }
    if (out.decode_rest) {
      next.decodes += view.decode_tokens - counted.decodes;
      next.decode_context += view.decode_context - counted.decode_context;
    }
    return next;
  }

  std::unique_ptr<policies::Batching> batching_;
  ClockChoice choice_;
  ModelPricer pricer_;
};

}  // namespace

std::unique_ptr<policies::Batching> with_clocks(std::unique_ptr<policies::Batching> batching, ClockChoice choice) {
  return std::make_unique<GovernedBatching>(std::move(batching), std::move(choice));
}

}  // namespace orrery::experiments
