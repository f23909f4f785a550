// mtp: layers of the model itself, trained for it, propose the tokens after the next (multi-token prediction).
//
// Source: DeepSeek-V3 technical report, 2.2 (one module: a layer and the shared head), and EAGLE-like heads. A draft
// step is `layers` layers of the target, its embedding and its head; their weights and KV cache take memory. Modules
// are run one after the other, the same one for every further token, as engines do with a single module.
#include <memory>

#include "policies/speculation/process.hpp"

namespace orrery::policies {
namespace {

struct MtpParams : LengthParams, AcceptanceParams {
  std::int64_t layers = 1;

  static constexpr auto fields() {
    using P = MtpParams;
    return sim::joined(sim::FieldTable{sim::field("layers", &P::layers, sim::Unit::layers, sim::between(1, 64),
                                                  "Number of layers in the module that proposes tokens.")},
                       sim::inherited<P>(LengthParams::fields()), sim::inherited<P>(AcceptanceParams::fields()));
  }
};

class Mtp final : public Speculator {
 public:
  Mtp(const MtpParams& params, const StepPrices& prices, std::uint64_t seed)
      : layers_(params.layers), process_(params, params, prices, seed) {}
  Drafter drafter() const override { return Drafter::layers; }
  std::int64_t draft_layers() const override { return layers_; }
  std::int64_t length(std::int64_t decodes, std::int64_t) override { return process_.length(decodes); }
  std::int64_t accepted(const Sequence& seq, std::int64_t drafted) override { return process_.accepted(seq, drafted); }
  void level(std::span<std::int64_t> kept) override { process_.level(kept); }

 private:
  std::int64_t layers_;
  DraftProcess process_;
};

}  // namespace

void add_mtp(SpeculationRegistry& registry) {
  registry.add<MtpParams>("mtp", "Additional layers of the model propose tokens (multi-token prediction).",
                          [](const MtpParams& params, const StepPrices& prices, std::uint64_t seed) {
                            return std::make_unique<Mtp>(params, prices, seed);
                          });
}

}  // namespace orrery::policies
