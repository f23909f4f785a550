// What draft_model, n_gram and mtp share: the length of proposals and the process that keeps or drops them.
#pragma once

#include <optional>
#include <vector>

#include "policies/speculation/speculation.hpp"
#include "sim/base/params.hpp"
#include "sim/base/random.hpp"

namespace orrery::policies {

/// How far the sequences of a batch go on after a step.
enum class Ragged : std::uint8_t {
  own,   ///< each by what it kept
  least  ///< all by the least that any of them kept: batches that must stay in step
};
constexpr auto enum_names(Ragged) {
  using enum Ragged;
  return sim::names<Ragged>({{"own", own}, {"least", least}});
}

struct LengthParams {
  std::int64_t drafts = 4;
  bool adaptive = false;
  std::int64_t context = 1024;
  std::int64_t max_batch = 1'000'000;

  static constexpr auto fields() {
    using P = LengthParams;
    return sim::FieldTable{
        sim::field("drafts", &P::drafts, sim::Unit::tokens, sim::between(0, 64), "Tokens proposed per step; 0: none."),
        sim::field("adaptive", &P::adaptive,
                   "Whether to choose from 0 to `drafts` tokens by the number of decodes. The choice has the least "
                   "expected time per token, given the models' costs and the acceptance rate."),
        sim::field("context", &P::context, sim::Unit::tokens, sim::between(1, 1e7),
                   "Context length of a sequence for which `adaptive` takes the models' costs."),
        sim::field("max_batch", &P::max_batch, sim::Unit::sequences, sim::at_least(0),
                   "Nothing is proposed when an iteration has more decodes than this.")};
  }
};

struct AcceptanceParams {
  double acceptance = 0.7;
  double spread = 0;
  Ragged ragged = Ragged::own;

  static constexpr auto fields() {
    using P = AcceptanceParams;
    return sim::FieldTable{
        sim::field("acceptance", &P::acceptance, sim::Unit::ratio, sim::between(0, 1),
                   "Probability that a proposed token is accepted if all before it are; the mean over requests."),
        sim::field("spread", &P::spread, sim::Unit::ratio, sim::between(0, 0.5),
                   "Standard deviation of the acceptance between requests (a beta distribution); 0: all alike."),
        sim::field("ragged", &P::ragged,
                   "How far sequences of a batch advance after a step: each by the tokens it kept (own), or all by the "
                   "fewest (least).")};
  }
};

/// Chooses lengths and keeps tokens. `P` is LengthParams and AcceptanceParams in one struct.
class DraftProcess {
 public:
  DraftProcess(const LengthParams& length, const AcceptanceParams& acceptance, const StepPrices& prices,
               std::uint64_t seed)
      : length_(length), acceptance_(acceptance), prices_(prices), random_(seed, "speculation") {}
  std::int64_t length(std::int64_t decodes);
  std::int64_t accepted(const Sequence& seq, std::int64_t drafted) const;
  void level(std::span<std::int64_t> kept) const;
  /// A draw of the sequence at its place, apart from those of accepted().
  bool chance(const Sequence& seq, std::int64_t generated, double probability) const;

 private:
  std::int64_t best_length(std::int64_t decodes) const;
  double rate_of(const Sequence& seq) const;
  double uniform(std::int64_t order, std::int64_t place, std::uint64_t purpose) const;

  LengthParams length_;
  AcceptanceParams acceptance_;
  const StepPrices& prices_;
  sim::RandomStream random_;
  std::vector<std::optional<std::int64_t>> table_;  // by decodes
};

}  // namespace orrery::policies
