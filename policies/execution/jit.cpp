// JIT: kernels are compiled when sizes are seen for the first time, and kept.
//
// Decides: nothing but the stall. Per new shape `graph` once (tracing) and `kernel` for each launch, over `workers`
// compiling at a time; `once` compiles for all shapes together at the first request, as compilers of symbolic shapes
// do. Launches cost `call` instead of the framework's dispatch.
#include <algorithm>

#include "policies/execution/execution.hpp"
#include "policies/execution/shape_cache.hpp"

namespace orrery::policies {
namespace {

struct JitParams {
  double graph_s = 0.5, kernel_s = 2, call_s = 5e-6;
  std::int64_t workers = 1, entries = 0;
  bool once = false;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("graph", &JitParams::graph_s, Unit::seconds, sim::at_least(0),
                   "Time to trace the graph for new sizes."),
        sim::field("kernel", &JitParams::kernel_s, Unit::seconds, sim::at_least(0), "Time to compile one kernel."),
        sim::field("call", &JitParams::call_s, Unit::seconds, sim::at_least(0),
                   "Host time per launch from compiled code, besides the driver's call."),
        sim::field("workers", &JitParams::workers, Unit::count, sim::between(1, 4096),
                   "Number of kernels that are compiled in parallel."),
        sim::field("entries", &JitParams::entries, Unit::count, sim::at_least(0),
                   "Number of shapes that the cache of compiled kernels holds; 0: all."),
        sim::field("once", &JitParams::once, "Whether one compilation, at the first request, serves all sizes."),
    };
  }
};

class Jit final : public Execution {
 public:
  explicit Jit(const JitParams& params) : params_(params), cache_(params.entries) {}

  ExecutionDecision decide(const ExecutionView& view) override {
    ExecutionDecision decision;
    decision.sizes = view.request;
    decision.host_kernel_s = params_.call_s;
    if (cache_.use(params_.once ? models::Bindings{} : view.request)) return decision;
    const std::int64_t rounds = (view.kernels + params_.workers - 1) / params_.workers;
    decision.compiled = view.kernels;
    decision.kernel_compile_s = params_.kernel_s;
    decision.stall_s = params_.graph_s + static_cast<double>(rounds) * params_.kernel_s;
    decision.compile_s = params_.graph_s + static_cast<double>(view.kernels) * params_.kernel_s;
    return decision;
  }

 private:
  JitParams params_;
  ShapeCache cache_;
};

}  // namespace

void add_jit(ExecutionRegistry& registry) {
  registry.add<JitParams>("jit", "Kernels are compiled when sizes are seen for the first time, and kept.",
                          [](const JitParams& params) { return std::make_unique<Jit>(params); });
}

}  // namespace orrery::policies
