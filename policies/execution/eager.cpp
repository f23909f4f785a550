// Eager: the framework dispatches operator by operator; nothing is compiled, nothing padded.
#include "policies/execution/execution.hpp"

namespace orrery::policies {
namespace {

struct EagerParams {
  static constexpr auto fields() { return sim::FieldTable<EagerParams, 0>(); }
};

class Eager final : public Execution {
 public:
  ExecutionDecision decide(const ExecutionView& view) override {
    ExecutionDecision decision;
    decision.sizes = view.request;
    return decision;
  }
};

}  // namespace

void add_eager(ExecutionRegistry& registry) {
  registry.add<EagerParams>("eager",
                            "The framework dispatches one operator after another; nothing is compiled or padded.",
                            [](const EagerParams&) { return std::make_unique<Eager>(); });
}

}  // namespace orrery::policies
