// draft_model: a smaller model of the same vocabulary proposes tokens one after the other.
//
// Source: Leviathan, Kalman, Matias 2023 (speculative decoding); batches: arXiv 2310.18813. The draft model runs on the
// replica's devices between two iterations of the target, for all decodes at once, as many steps as the longest
// proposal has tokens; it also computes every prompt, and its weights and KV cache take memory.
#include <memory>
#include <string>

#include "policies/speculation/process.hpp"

namespace orrery::policies {
namespace {

struct DraftModelParams : LengthParams, AcceptanceParams {
  std::string model;
  double step_overhead_s = 0;

  static constexpr auto fields() {
    using P = DraftModelParams;
    return sim::joined(
        sim::FieldTable{sim::required(sim::field("model", &P::model, sim::Unit::reference, sim::any_value(),
                                                 "The draft model: a Hugging Face config.json, or \"catalog:NAME\".")),
                        sim::field("step_overhead", &P::step_overhead_s, sim::Unit::seconds, sim::between(0, 1),
                                   "CPU time of each draft step, during which the devices wait.")},
        sim::inherited<P>(LengthParams::fields()), sim::inherited<P>(AcceptanceParams::fields()));
  }
};

class DraftModel final : public Speculator {
 public:
  DraftModel(const DraftModelParams& params, const StepPrices& prices, std::uint64_t seed)
      : process_(params, params, prices, seed) {}
  Drafter drafter() const override { return Drafter::model; }
  std::int64_t length(std::int64_t decodes, std::int64_t) override { return process_.length(decodes); }
  std::int64_t accepted(const Sequence& seq, std::int64_t drafted) override { return process_.accepted(seq, drafted); }
  void level(std::span<std::int64_t> kept) override { process_.level(kept); }

 private:
  DraftProcess process_;
};

}  // namespace

void add_draft_model(SpeculationRegistry& registry) {
  registry.add<DraftModelParams>("draft_model", "A smaller draft model proposes tokens, one per step.",
                                 [](const DraftModelParams& params, const StepPrices& prices, std::uint64_t seed) {
                                   return std::make_unique<DraftModel>(params, prices, seed);
                                 });
}

}  // namespace orrery::policies
