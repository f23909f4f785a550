// rank_power: prompt and answer independent; a rank r in 1 ... 2 mean - 1 is drawn with P(r) proportional to
// r^-exponent, then scaled to the mean, rounded up and capped. `sample` ranks are drawn at a time and scaled by the
// mean over their own, so that every sample has the mean asked for, but for rounding and cap; with 0 the law's mean is
// used. That matters: with exponent 1.5 the ranks have a CV of 3, so the mean of 3,000 of them is off by 6 %, more than
// the distance of two loads near saturation. Source: the generator of Llumnix's artefact (benchmark_throughput.py),
// whose sample is all of a run; exponents 2.0, 1.5, 1.15 for means 128, 256, 512.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/math.hpp"
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

struct RankPowerParams {
  std::int64_t prompt_mean = 256;
  double prompt_exponent = 1.5;
  std::int64_t output_mean = 256;
  double output_exponent = 1.5;
  std::int64_t cap = 6144, sample = 0;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr auto kMean = sim::between(1, 1e6);
    constexpr auto kExponent = sim::between(0, 20);
    return sim::FieldTable{
        sim::field("prompt_mean", &RankPowerParams::prompt_mean, Unit::tokens, kMean, "Mean length of a prompt."),
        sim::field("prompt_exponent", &RankPowerParams::prompt_exponent, Unit::none, kExponent,
                   "Exponent of the power law of prompt lengths."),
        sim::field("output_mean", &RankPowerParams::output_mean, Unit::tokens, kMean, "Mean length of an output."),
        sim::field("output_exponent", &RankPowerParams::output_exponent, Unit::none, kExponent,
                   "Exponent of the power law of output lengths."),
        sim::field("cap", &RankPowerParams::cap, Unit::tokens, sim::between(1, 1e9), "Longest prompt or output."),
        sim::field("sample", &RankPowerParams::sample, Unit::count, sim::between(0, 1e8),
                   "Number of requests that are drawn together and scaled to the mean, usually all of a run; 0: scaled "
                   "by the law's mean.")};
  }
};

class RankLaw {
 public:
  RankLaw(std::int64_t mean, double exponent) {
    double sum = 0, first = 0;
    for (std::int64_t r = 1; r < 2 * mean; ++r) {
      const double weight = sim::det_pow(static_cast<double>(r), -exponent);
      cumulative_.push_back(sum += weight);
      first += weight * static_cast<double>(r);
    }
    scale_ = static_cast<double>(mean) * sum / first;
  }
  /// Takes the law's mean to the mean asked for.
  double scale() const { return scale_; }
  std::int64_t draw(sim::RandomStream& random) const {
    const double point = random.uniform() * cumulative_.back();
    return std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, point) - cumulative_.begin() + 1;
  }

 private:
  std::vector<double> cumulative_;
  double scale_ = 1;
};

class RankPower final : public LengthSampler {
 public:
  explicit RankPower(const RankPowerParams& p)
      : params_(p), prompt_(p.prompt_mean, p.prompt_exponent), output_(p.output_mean, p.output_exponent) {}
  Lengths sample(sim::RandomStream& random) override {
    if (params_.sample == 0) {
      const std::int64_t prompt = prompt_.draw(random);
      return {length(prompt, prompt_.scale()), length(output_.draw(random), output_.scale())};
    }
    if (next_ == ranks_.size()) draw_ranks(random);
    const Lengths ranks = ranks_[next_++];
    return {length(ranks.prompt_tokens, prompt_scale_), length(ranks.output_tokens, output_scale_)};
  }

 private:
  void draw_ranks(sim::RandomStream& random) {
    ranks_.clear();
    next_ = 0;
    std::int64_t prompts = 0, outputs = 0;
    for (std::int64_t i = 0; i < params_.sample; ++i) {
      const std::int64_t prompt = prompt_.draw(random);
      const std::int64_t output = output_.draw(random);
      ranks_.push_back({prompt, output});
      prompts += prompt;
      outputs += output;
    }
    prompt_scale_ = static_cast<double>(params_.prompt_mean * params_.sample) / static_cast<double>(prompts);
    output_scale_ = static_cast<double>(params_.output_mean * params_.sample) / static_cast<double>(outputs);
  }
  std::int64_t length(std::int64_t rank, double scale) const {
    return std::min(params_.cap, static_cast<std::int64_t>(std::ceil(static_cast<double>(rank) * scale)));
  }

  RankPowerParams params_;
  RankLaw prompt_, output_;
  std::vector<Lengths> ranks_;
  std::size_t next_ = 0;
  double prompt_scale_ = 1, output_scale_ = 1;
};

}  // namespace

void add_rank_power(LengthRegistry& registry) {
  registry.add<RankPowerParams>("rank_power", "Power-law ranks scaled to a mean (Llumnix's generated traces).",
                                [](const RankPowerParams& params) { return std::make_unique<RankPower>(params); });
}

}  // namespace orrery::traces::lengths
