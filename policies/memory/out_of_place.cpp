// Every op writes memory of its own: what a framework does that runs operators one by one.
//
// Decides nothing: it marks elementwise ops (attribute `in_place` = 0), so that liveness does not let them write where
// an operand dies (models/graph/liveness.hpp). Optimizer steps and caches are updated in place as before. Run it last.
#include "policies/base/graph_pass.hpp"

namespace orrery::policies {
namespace {

class OutOfPlace final : public GraphPass {
 public:
  models::OpGraph run(const models::OpGraph& graph, const PassContext&, PassReport& report) const override {
    models::OpGraph marked = graph;
    double ops = 0;
    for (const models::OpId id : marked.ops()) {
      models::OpNode& op = marked.annotate(id);
      if (op.find("updates") != nullptr || models::info(op.kind).pattern != models::Pattern::elementwise) continue;
      op.set("in_place", models::SymExpr(0));
      ops += 1;
    }
    report.tell("ops", ops);
    return marked;
  }
};

}  // namespace

void add_out_of_place(PassRegistry& registry) {
  registry.add<sim::NoParams>("out_of_place", "Elementwise ops write to new memory, as in eager frameworks.",
                              [](const sim::NoParams&) { return std::make_unique<OutOfPlace>(); });
}

}  // namespace orrery::policies
