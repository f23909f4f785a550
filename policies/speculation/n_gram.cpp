// n_gram: tokens that followed the same few tokens earlier in the text are proposed again (prompt lookup).
//
// Source: prompt lookup decoding as in vLLM's `ngram` speculator. Looking up costs nothing here. Whether the last
// tokens occurred before is drawn a step and sequence with probability `match`; without a match nothing is proposed for
// the sequence in this step. What is proposed is kept with probability `acceptance` a token: how repetitive text is.
#include <memory>

#include "policies/speculation/process.hpp"

namespace orrery::policies {
namespace {

struct NGramParams : LengthParams, AcceptanceParams {
  double match = 0.5;

  static constexpr auto fields() {
    using P = NGramParams;
    return sim::joined(
        sim::FieldTable{sim::field("match", &P::match, sim::Unit::ratio, sim::between(0, 1),
                                   "Probability that a sequence has a match, and so something to propose, in a step.")},
        sim::inherited<P>(LengthParams::fields()), sim::inherited<P>(AcceptanceParams::fields()));
  }
};

class NGram final : public Speculator {
 public:
  NGram(const NGramParams& params, const StepPrices& prices, std::uint64_t seed)
      : match_(params.match), process_(params, params, prices, seed) {}
  Drafter drafter() const override { return Drafter::none; }
  std::int64_t length(std::int64_t decodes, std::int64_t) override { return process_.length(decodes); }
  std::int64_t drafts(const Sequence& seq, std::int64_t generated, std::int64_t most) override {
    return process_.chance(seq, generated, match_) ? most : 0;
  }
  std::int64_t accepted(const Sequence& seq, std::int64_t drafted) override { return process_.accepted(seq, drafted); }
  void level(std::span<std::int64_t> kept) override { process_.level(kept); }

 private:
  double match_;
  DraftProcess process_;
};

}  // namespace

void add_n_gram(SpeculationRegistry& registry) {
  registry.add<NGramParams>("n_gram",
                            "Proposes the tokens that followed the same n-gram earlier in the text, at no cost.",
                            [](const NGramParams& params, const StepPrices& prices, std::uint64_t seed) {
                              return std::make_unique<NGram>(params, prices, seed);
                            });
}

}  // namespace orrery::policies
