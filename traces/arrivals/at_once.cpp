// at_once: all requests at the same time: a batch job.
#include "traces/arrivals/arrivals.hpp"

namespace orrery::traces::arrivals {
namespace {

class AtOnce final : public ArrivalProcess {
 public:
  std::int64_t next(std::int64_t previous_ns, sim::RandomStream&) override { return previous_ns; }
};

}  // namespace

void add_at_once(ArrivalRegistry& registry) {
  registry.add<sim::NoParams>("at_once", "All requests arrive at time 0, as a batch.",
                              [](const sim::NoParams&) { return std::make_unique<AtOnce>(); });
}

}  // namespace orrery::traces::arrivals
