// geometric: the memoryless lengths, P(n) = (1 - p)^(n-1) p for n >= 1 with p = 1 / mean, by inversion:
// n = 1 + floor(ln U / ln(1 - p)). A fixed prompt with geometric answers is the service of an M/M/1 queue in whole
// tokens.
#include <cmath>

#include "sim/base/math.hpp"
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

struct GeometricParams {
  double prompt_mean = 512;
  double output_mean = 128;
  bool fixed_prompt = false;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("prompt_mean", &GeometricParams::prompt_mean, Unit::tokens, kTokens, "Mean length of a prompt."),
        sim::field("output_mean", &GeometricParams::output_mean, Unit::tokens, kTokens, "Mean length of an output."),
        sim::field("fixed_prompt", &GeometricParams::fixed_prompt,
                   "Whether every prompt has prompt_mean tokens, rounded.")};
  }
};

class Geometric final : public LengthSampler {
 public:
  explicit Geometric(const GeometricParams& params) : params_(params) {}
  Lengths sample(sim::RandomStream& random) override {
    const std::int64_t prompt =
        params_.fixed_prompt ? to_tokens(params_.prompt_mean) : draw(params_.prompt_mean, random);
    return {prompt, draw(params_.output_mean, random)};
  }

 private:
  static std::int64_t draw(double mean, sim::RandomStream& random) {
    const double u = 1.0 - random.uniform();  // in (0, 1]
    if (mean <= 1) return 1;
    return to_tokens(1 + std::floor(sim::det_log(u) / sim::det_log(1 - 1 / mean)));
  }
  GeometricParams params_;
};

}  // namespace

void add_geometric(LengthRegistry& registry) {
  registry.add<GeometricParams>("geometric", "Memoryless lengths: the exponential distribution in whole tokens.",
                                [](const GeometricParams& params) { return std::make_unique<Geometric>(params); });
}

}  // namespace orrery::traces::lengths
