// log_normal: prompt and answer independent and log-normal, rounded to whole tokens (at least 1). Mean m and
// coefficient of variation c give the logarithm's sigma^2 = ln(1 + c^2) and mu = ln(m) - sigma^2 / 2. The mean is the
// one before limits of the generator cut the tails.
#include <cmath>

#include "sim/base/math.hpp"
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

struct LogNormalParams {
  double prompt_mean = 512;
  double prompt_cv = 1;
  double output_mean = 128;
  double output_cv = 1;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr auto kSpread = sim::between(0, 100);
    return sim::FieldTable{
        sim::field("prompt_mean", &LogNormalParams::prompt_mean, Unit::tokens, kTokens, "Mean length of a prompt."),
        sim::field("prompt_cv", &LogNormalParams::prompt_cv, Unit::ratio, kSpread,
                   "Coefficient of variation of prompt lengths."),
        sim::field("output_mean", &LogNormalParams::output_mean, Unit::tokens, kTokens, "Mean length of an output."),
        sim::field("output_cv", &LogNormalParams::output_cv, Unit::ratio, kSpread,
                   "Coefficient of variation of output lengths.")};
  }
};

/// Mean and deviation of a logarithm.
struct Logarithm {
  double mean, sigma;
  Logarithm(double of_mean, double of_cv) : mean(0), sigma(0) {
    const double variance = sim::det_log(1 + of_cv * of_cv);
    mean = sim::det_log(of_mean) - variance / 2;
    sigma = std::sqrt(variance);
  }
};

class LogNormal final : public LengthSampler {
 public:
  explicit LogNormal(const LogNormalParams& params)
      : prompt_(params.prompt_mean, params.prompt_cv), output_(params.output_mean, params.output_cv) {}
  Lengths sample(sim::RandomStream& random) override {
    const std::int64_t prompt = to_tokens(random.log_normal(prompt_.mean, prompt_.sigma));
    const std::int64_t output = to_tokens(random.log_normal(output_.mean, output_.sigma));
    return {prompt, output};
  }

 private:
  Logarithm prompt_, output_;
};

}  // namespace

void add_log_normal(LengthRegistry& registry) {
  registry.add<LogNormalParams>("log_normal", "Independent log-normal lengths with given means and spreads.",
                                [](const LogNormalParams& params) { return std::make_unique<LogNormal>(params); });
}

}  // namespace orrery::traces::lengths
