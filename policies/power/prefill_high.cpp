// The highest clock while prompts wait or are under way, the lowest for decodes alone: decoding is bound by memory,
// whose speed does not depend on the clock, prompts are bound by compute (phase-aware clocks, as in Splitwise, ISCA
// 2024, section 3: decode power can be capped with little loss).
#include "policies/power/power.hpp"

namespace orrery::policies {
namespace {

class PrefillHighClock final : public ClockPolicy {
 public:
  std::int32_t choose(const ClockView& view) override {
    const bool prompts = !view.batch.waiting.empty() || view.next.chunk_tokens > 0;
    return prompts ? 0 : static_cast<std::int32_t>(view.clocks_hz.size()) - 1;
  }
};

}  // namespace

void add_prefill_high_clock(ClockRegistry& registry) {
  registry.add<sim::NoParams>("prefill_high",
                              "The highest clock while there are prompts, the lowest for decodes alone.",
                              [](const sim::NoParams&) { return std::make_unique<PrefillHighClock>(); });
}

}  // namespace orrery::policies
