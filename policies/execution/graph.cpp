// Graph: launches captured once per sizes and replayed as one launch (CUDA graphs).
//
// Decides: capture, when sizes are new (one eager pass through the framework, and instantiation), or replay. With a
// step sizes are padded to multiples of it first, as serving engines do with the batch.
#include "policies/execution/execution.hpp"
#include "policies/execution/shape_cache.hpp"

namespace orrery::policies {
namespace {

struct GraphParams {
  std::string symbol = "batch";
  std::int64_t step = 1, entries = 0;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("symbol", &GraphParams::symbol, Unit::text, sim::any_value(), "Symbolic dimension that is padded."),
        sim::field("step", &GraphParams::step, Unit::count, sim::at_least(1),
                   "The dimension is padded to multiples of this; 1: no padding."),
        sim::field("entries", &GraphParams::entries, Unit::count, sim::at_least(0),
                   "Number of captured graphs that are kept; 0: all."),
    };
  }
};

class Graph final : public Execution {
 public:
  explicit Graph(const GraphParams& params)
      : params_(params), symbol_(named_dimension("graph", params.symbol)), cache_(params.entries) {}

  ExecutionDecision decide(const ExecutionView& view) override {
    ExecutionDecision decision;
    decision.sizes = view.request;
    if (const auto size = view.request.find(symbol_))
      decision.sizes.set(symbol_, (*size + params_.step - 1) / params_.step * params_.step);
    decision.style = hw::LaunchStyle::graph;
    if (cache_.use(decision.sizes)) return decision;
    decision.compiled = view.kernels;
    decision.stall_s = view.capture_s;
    decision.compile_s = view.capture_s;
    decision.kernel_compile_s = view.kernels > 0 ? view.capture_s / static_cast<double>(view.kernels) : 0;
    return decision;
  }

 private:
  GraphParams params_;
  models::Symbol symbol_;
  ShapeCache cache_;
};

}  // namespace

void add_graph(ExecutionRegistry& registry) {
  registry.add<GraphParams>(
      "graph", "Launches are captured once for each set of sizes and replayed as one launch (CUDA graphs).",
      [](const GraphParams& params) { return std::make_unique<Graph>(params); });
}

}  // namespace orrery::policies
