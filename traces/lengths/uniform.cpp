// uniform: prompt and answer independent, every length between two bounds equally likely.
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

struct UniformParams {
  std::int64_t prompt_min = 1;
  std::int64_t prompt_max = 1024;
  std::int64_t output_min = 1;
  std::int64_t output_max = 256;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("prompt_min", &UniformParams::prompt_min, Unit::tokens, kTokens, "Shortest prompt."),
        sim::field("prompt_max", &UniformParams::prompt_max, Unit::tokens, kTokens, "Longest prompt."),
        sim::field("output_min", &UniformParams::output_min, Unit::tokens, kTokens, "Shortest output."),
        sim::field("output_max", &UniformParams::output_max, Unit::tokens, kTokens, "Longest output.")};
  }
};

class Uniform final : public LengthSampler {
 public:
  explicit Uniform(const UniformParams& params) : params_(params) {
    if (params.prompt_min > params.prompt_max || params.output_min > params.output_max)
      sim::throw_fault({"uniform lengths", ""}, "expected each minimum not above its maximum");
  }
  Lengths sample(sim::RandomStream& random) override {
    const std::int64_t prompt = between(params_.prompt_min, params_.prompt_max, random);
    return {prompt, between(params_.output_min, params_.output_max, random)};
  }

 private:
  static std::int64_t between(std::int64_t low, std::int64_t high, sim::RandomStream& random) {
    return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low) + 1));
  }
  UniformParams params_;
};

}  // namespace

void add_uniform(LengthRegistry& registry) {
  registry.add<UniformParams>("uniform", "Every length between two bounds is equally likely.",
                              [](const UniformParams& params) { return std::make_unique<Uniform>(params); });
}

}  // namespace orrery::traces::lengths
