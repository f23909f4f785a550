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
    return std::tuple{
        sim::field("max_sequences", &OrcaParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("reservation", &OrcaParams::reservation, "Cache set aside for a sequence at admission.")};
  }
};

class OrcaBatching final : public Batching {
 public:
  explicit OrcaBatching(const OrcaParams& params) : params_(params) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    std::int64_t free = view.kv.free_blocks();
    for (const SeqId id : view.waiting) {
      if (std::ssize(view.running) + std::ssize(out.admit) >= params_.max_sequences) break;
      const Sequence& seq = view[id];
      const std::int64_t reserve = reserved_tokens(seq, params_.reservation, view.limits.max_context);
      const std::int64_t blocks = view.kv.blocks_for(reserve);
      if (blocks > free) break;
      free -= blocks;
      out.admit.push_back({id, reserve});
      out.items.push_back({.seq = id, .new_tokens = seq.prefill_tokens});
    }
  }

 private:
  OrcaParams params_;
};

}  // namespace

void add_orca(BatchingRegistry& registry) {
  registry.add<OrcaParams>("orca", "Iteration-level batching, cache reserved at admission (OSDI 2022).",
                           [](const OrcaParams& params) { return std::make_unique<OrcaBatching>(params); });
}

}  // namespace orrery::policies
