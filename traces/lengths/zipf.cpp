// zipf: prompt and answer independent, P(n) proportional to n^-exponent on 1 … max: many short ones and a heavy tail.
// The cumulative weights are tabulated once and searched for each draw.
#include <algorithm>
#include <vector>

#include "sim/base/math.hpp"
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

struct ZipfParams {
  std::int64_t prompt_max = 4096;
  double prompt_exponent = 1.1;
  std::int64_t output_max = 1024;
  double output_exponent = 1.1;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr auto kLongest = sim::between(1, 1e6);
    constexpr auto kExponent = sim::between(0, 20);
    return sim::FieldTable{sim::field("prompt_max", &ZipfParams::prompt_max, Unit::tokens, kLongest, "Longest prompt."),
                           sim::field("prompt_exponent", &ZipfParams::prompt_exponent, Unit::none, kExponent,
                                      "Exponent of the power law of prompt lengths."),
                           sim::field("output_max", &ZipfParams::output_max, Unit::tokens, kLongest, "Longest output."),
                           sim::field("output_exponent", &ZipfParams::output_exponent, Unit::none, kExponent,
                                      "Exponent of the power law of output lengths.")};
  }
};

class ZipfLaw {
 public:
  ZipfLaw(std::int64_t max, double exponent) {
    double sum = 0;
    for (std::int64_t n = 1; n <= max; ++n)
      cumulative_.push_back(sum += sim::det_pow(static_cast<double>(n), -exponent));
  }
  std::int64_t draw(sim::RandomStream& random) const {
    const double point = random.uniform() * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, point);
    return found - cumulative_.begin() + 1;
  }

 private:
  std::vector<double> cumulative_;
};

class Zipf final : public LengthSampler {
 public:
  explicit Zipf(const ZipfParams& params)
      : prompt_(params.prompt_max, params.prompt_exponent), output_(params.output_max, params.output_exponent) {}
  Lengths sample(sim::RandomStream& random) override {
    const std::int64_t prompt = prompt_.draw(random);
    return {prompt, output_.draw(random)};
  }

 private:
  ZipfLaw prompt_, output_;
};

}  // namespace

void add_zipf(LengthRegistry& registry) {
  registry.add<ZipfParams>("zipf", "Power-law lengths: many short ones and a heavy tail.",
                           [](const ZipfParams& params) { return std::make_unique<Zipf>(params); });
}

}  // namespace orrery::traces::lengths
