// rank_power: prompt and answer independent; a rank r in 1 ... 2 mean - 1 is drawn with P(r) proportional to
// r^-exponent, then scaled by mean over the law's own mean, rounded up and capped. So the mean is as given (but for
// rounding and cap) and the tail as long as the exponent is large. Source: the generator of Llumnix's artefact
// (benchmark_throughput.py), which scales by the mean of its sample instead; exponents 2.0, 1.5, 1.15 for means 128,
// 256, 512.
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
  std::int64_t cap = 6144;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr auto kMean = sim::between(1, 1e6);
    constexpr auto kExponent = sim::between(0, 20);
    return std::tuple{
        sim::field("prompt_mean", &RankPowerParams::prompt_mean, Unit::tokens, kMean, "Mean tokens of a prompt."),
        sim::field("prompt_exponent", &RankPowerParams::prompt_exponent, Unit::none, kExponent,
                   "Exponent of the prompts' law."),
        sim::field("output_mean", &RankPowerParams::output_mean, Unit::tokens, kMean, "Mean tokens of an answer."),
        sim::field("output_exponent", &RankPowerParams::output_exponent, Unit::none, kExponent,
                   "Exponent of the answers' law."),
        sim::field("cap", &RankPowerParams::cap, Unit::tokens, sim::between(1, 1e9), "Longest prompt or answer.")};
  }
};

class RankLaw {
 public:
  RankLaw(std::int64_t mean, double exponent, std::int64_t cap) : cap_(cap) {
    double sum = 0, first = 0;
    for (std::int64_t r = 1; r < 2 * mean; ++r) {
      const double weight = sim::det_pow(static_cast<double>(r), -exponent);
      cumulative_.push_back(sum += weight);
      first += weight * static_cast<double>(r);
    }
    scale_ = static_cast<double>(mean) * sum / first;
  }
  std::int64_t draw(sim::RandomStream& random) const {
    const double point = random.uniform() * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, point);
    const auto rank = static_cast<double>(found - cumulative_.begin() + 1);
    return std::min(cap_, static_cast<std::int64_t>(std::ceil(rank * scale_)));
  }

 private:
  std::vector<double> cumulative_;
  double scale_ = 1;
  std::int64_t cap_;
};

class RankPower final : public LengthSampler {
 public:
  explicit RankPower(const RankPowerParams& p)
      : prompt_(p.prompt_mean, p.prompt_exponent, p.cap), output_(p.output_mean, p.output_exponent, p.cap) {}
  Lengths sample(sim::RandomStream& random) override {
    const std::int64_t prompt = prompt_.draw(random);
    return {prompt, output_.draw(random)};
  }

 private:
  RankLaw prompt_, output_;
};

}  // namespace

void add_rank_power(LengthRegistry& registry) {
  registry.add<RankPowerParams>("rank_power", "Power-law ranks scaled to a mean (Llumnix's generated traces)",
                                [](const RankPowerParams& params) { return std::make_unique<RankPower>(params); });
}

}  // namespace orrery::traces::lengths
