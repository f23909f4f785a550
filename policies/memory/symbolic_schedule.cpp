// Op scheduling for memory, before sizes are known (`symbolic_schedule`, BladeDISC++) and for known ones
// (`exact_schedule`, what a compiler of static shapes would do).
//
// Both run the list scheduler of schedule.hpp; the first compares impacts as expressions, once for all sizes, the
// second as numbers, for the typical sizes of the context. The new order is kept only if at none of the sizes that the
// context knows (typical, seen) the peak is higher than that of the order given, live bytes and best-fit arena alike.
// Source: BladeDISC++ (card 15 of training systems).
#include <algorithm>

#include "policies/base/graph_pass.hpp"
#include "policies/memory/graph_buffers.hpp"
#include "policies/memory/schedule.hpp"

namespace orrery::policies {
namespace {

class Schedule final : public GraphPass {
 public:
  explicit Schedule(bool exact) : exact_(exact) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const models::Storages storages(graph);
    const MemoryOrder order = order_by_memory(storages, exact_ ? &context.typical : nullptr);
    models::OpGraph next = reordered(graph, order.ops);
    report.tell("comparisons_proven", static_cast<double>(order.proven));
    report.tell("comparisons_unknown", static_cast<double>(order.unknown));
    std::vector<models::Bindings> known{context.typical};
    if (!exact_)
      for (const models::Bindings& sizes : context.seen)
        if (std::find(known.begin(), known.end(), sizes) == known.end()) known.push_back(sizes);
    bool kept = true;
    for (const models::Bindings& sizes : known) {
      const GraphPeak before = graph_peak(graph, sizes), after = graph_peak(next, sizes);
      if (sizes == context.typical) {
        report.tell("live_before", static_cast<double>(before.live));
        report.tell("live_after", static_cast<double>(after.live));
      }
      kept = kept && after.never_above(before);
    }
    report.tell("reordered", kept ? 1 : 0);
    return kept ? next : graph;
  }

 private:
  bool exact_;
};

}  // namespace

void add_schedule(PassRegistry& registry) {
  registry.add<sim::NoParams>("symbolic_schedule",
                              "Orders ops by their symbolic memory impact, once for all sizes (BladeDISC++).",
                              [](const sim::NoParams&) { return std::make_unique<Schedule>(false); });
  registry.add<sim::NoParams>("exact_schedule", "Orders ops by their memory impact at the typical sizes.",
                              [](const sim::NoParams&) { return std::make_unique<Schedule>(true); });
}

}  // namespace orrery::policies
