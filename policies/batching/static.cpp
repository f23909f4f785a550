// Static batching: form a batch of the earliest requests, run it until the last one ends, form the next.
//
// Decides: admission only while nothing runs. Source: the request-level scheduling that Orca (OSDI 2022, section 2) and
// PagedAttention (SOSP 2023, section 2.3) take as their baseline. Sequences that end early leave the batch and free
// their cache; nobody takes their place.
#include "policies/batching/batching.hpp"
#include "policies/batching/reservation.hpp"
#include "policies/batching/whole_prompts.hpp"

namespace orrery::policies {
namespace {

struct StaticParams {
  std::int64_t max_sequences = 32;
  Reservation reservation = Reservation::max;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("max_sequences", &StaticParams::max_sequences, sim::Unit::sequences,
                                      sim::at_least(1), "Most sequences in a batch."),
                           sim::field("reservation", &StaticParams::reservation,
                                      "KV cache reserved for each sequence when the batch is formed.")};
  }
};

class StaticBatching final : public Batching {
 public:
  explicit StaticBatching(const StaticParams& params) : params_(params) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    if (!view.running.empty()) {
      if (!run_whole_prompts(view, out)) out.stable_iterations = kStable;
      return;
    }
    if (view.live() > 0) return;  // the batch goes on in other lanes
    admit_reserved(view, params_.max_sequences, params_.reservation, out);
  }

 private:
  StaticParams params_;
};

}  // namespace

void add_static(BatchingRegistry& registry) {
  registry.add<StaticParams>("static", "A batch runs until its last sequence ends; then the next one is formed.",
                             [](const StaticParams& params) { return std::make_unique<StaticBatching>(params); });
}

}  // namespace orrery::policies
