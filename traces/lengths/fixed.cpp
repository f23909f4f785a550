// fixed: every request has the same lengths.
#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

struct FixedParams {
  std::int64_t prompt = 512;
  std::int64_t output = 128;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("prompt", &FixedParams::prompt, sim::Unit::tokens, kTokens, "Length of every prompt."),
        sim::field("output", &FixedParams::output, sim::Unit::tokens, kTokens, "Length of every output.")};
  }
};

class Fixed final : public LengthSampler {
 public:
  explicit Fixed(const FixedParams& params) : lengths_{params.prompt, params.output} {}
  Lengths sample(sim::RandomStream&) override { return lengths_; }

 private:
  Lengths lengths_;
};

}  // namespace

void add_fixed(LengthRegistry& registry) {
  registry.add<FixedParams>("fixed", "The same lengths for every request.",
                            [](const FixedParams& params) { return std::make_unique<Fixed>(params); });
}

}  // namespace orrery::traces::lengths
