// Orca: iteration-level batching with cache reserved at admission.
//
// Decides: before each iteration, admit in order of arrival while there is a slot and the whole reservation fits; a new
// prompt runs in one piece, in the same iteration as the decodes. Nothing is ever preempted. Source: Orca (OSDI 2022,
// Algorithm 1); the three reservations are those of the PagedAttention paper (SOSP 2023, section 6.1).
#include "policies/batching/batching.hpp"
#include "policies/batching/reservation.hpp"

namespace orrery::policies {
namespace {

struct OrcaParams {
  std::int64_t max_sequences = 128;
  Reservation reservation = Reservation::max;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("max_sequences", &OrcaParams::max_sequences, sim::Unit::sequences,
                                      sim::at_least(1), "Most sequences that run at once."),
                           sim::field("reservation", &OrcaParams::reservation,
                                      "KV cache reserved at admission. max: context limit; oracle: prompt and true "
                                      "output; pow2: the same, output rounded up to a power of two.")};
  }
};

class OrcaBatching final : public Batching {
 public:
  explicit OrcaBatching(const OrcaParams& params) : params_(params) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    admit_reserved(view, params_.max_sequences - view.live(), params_.reservation, out);
  }

 private:
  OrcaParams params_;
};

}  // namespace

void add_orca(BatchingRegistry& registry) {
  registry.add<OrcaParams>("orca", "Iteration-level batching, with the KV cache reserved at admission (OSDI 2022).",
                           [](const OrcaParams& params) { return std::make_unique<OrcaBatching>(params); });
}

}  // namespace orrery::policies
