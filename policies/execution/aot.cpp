// AOT: kernels compiled ahead for buckets of one dimension; requests are padded to the next bucket.
//
// Decides: the bucket. Without a list, buckets are multiples of `step` from `step` on. Sizes beyond the largest bucket
// are compiled when they come, as by a JIT, and so are new sizes of other dimensions than the padded one. Compiling
// ahead is start-up time: buckets x launches x `kernel`; without a list one bucket is counted, since nobody says how
// many.
#include <algorithm>
#include <utility>

#include "policies/execution/execution.hpp"
#include "policies/execution/shape_cache.hpp"

namespace orrery::policies {
namespace {

struct AotParams {
  std::string symbol = "tokens";
  std::vector<std::int64_t> buckets;
  std::int64_t step = 64;
  double kernel_s = 2, call_s = 5e-6;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("symbol", &AotParams::symbol, Unit::text, sim::any_value(), "Symbolic dimension that is padded."),
        sim::field("buckets", &AotParams::buckets, Unit::count, sim::at_least(1),
                   "Sizes that are compiled ahead of time, in rising order; none: multiples of `step`."),
        sim::field("step", &AotParams::step, Unit::count, sim::at_least(1),
                   "Distance between buckets when `buckets` is not given."),
        sim::field("kernel", &AotParams::kernel_s, Unit::seconds, sim::at_least(0), "Time to compile one kernel."),
        sim::field("call", &AotParams::call_s, Unit::seconds, sim::at_least(0),
                   "Host time per launch from compiled code, besides the driver's call."),
    };
  }
};

class Aot final : public Execution {
 public:
  explicit Aot(const AotParams& params)
      : params_(params), symbol_(named_dimension("aot", params.symbol)), compiled_(0) {
    std::sort(params_.buckets.begin(), params_.buckets.end());
  }

  ExecutionDecision decide(const ExecutionView& view) override {
    ExecutionDecision decision;
    decision.sizes = view.request;
    decision.host_kernel_s = params_.call_s;
    models::Bindings compiled_for = view.request;  // what kernels depend on beside the bucket
    bool ahead = true;
    if (const std::optional<std::int64_t> size = view.request.find(symbol_)) {
      const std::optional<std::int64_t> padded = bucket(*size);
      if (padded) {
        decision.sizes.set(symbol_, *padded);
        compiled_for.set(symbol_, 0);
      }
      ahead = padded.has_value();
    }
    const bool known = compiled_.use(compiled_for);
    const bool prepaid = ahead && std::exchange(first_, false);  // the first such shape is what start-up compiled
    if (!known && !prepaid) {
      decision.compiled = view.kernels;
      decision.kernel_compile_s = params_.kernel_s;
      decision.compile_s = static_cast<double>(view.kernels) * params_.kernel_s;
      decision.stall_s = decision.compile_s;
    }
    return decision;
  }

  double startup_s(const ExecutionView& view) const override {
    const auto count = static_cast<double>(std::max<std::size_t>(1, params_.buckets.size()));
    return count * static_cast<double>(view.kernels) * params_.kernel_s;
  }

 private:
  std::optional<std::int64_t> bucket(std::int64_t size) const {
    if (params_.buckets.empty()) return (size + params_.step - 1) / params_.step * params_.step;
    const auto next = std::lower_bound(params_.buckets.begin(), params_.buckets.end(), size);
    return next == params_.buckets.end() ? std::nullopt : std::optional(*next);
  }

  AotParams params_;
  models::Symbol symbol_;
  ShapeCache compiled_;
  bool first_ = true;
};

}  // namespace

void add_aot(ExecutionRegistry& registry) {
  registry.add<AotParams>("aot",
                          "Kernels are compiled ahead of time for buckets of sizes, to which requests are padded.",
                          [](const AotParams& params) { return std::make_unique<Aot>(params); });
}

}  // namespace orrery::policies
