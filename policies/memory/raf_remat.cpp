// RAF's rematerialisation: where live bytes exceed the budget, drop the tensor with the lowest
//   score = (time to make it again, gone ingredients included, in us, + 0.1) * (reads left + 1) / size in GB.
// Never dropped: parameters, what is updated in place, tensors below 1 MB, operands of the op at hand, and what takes
// ten or more ops that stand on each other. Source: RAF's rematerialization pass (card 8 of training systems), whose
// profiled latencies are the device model's times here; the unit of the latency is an assumption, it weighs the 0.1.
#include "policies/memory/remat_pass.hpp"

namespace orrery::policies {
namespace {

struct RafRematParams {
  std::optional<std::int64_t> budget;
  double reserve = 0;
  std::int64_t least_bytes = 1'000'000;
  std::int64_t max_depth = 10;

  static constexpr auto fields() {
    using P = RafRematParams;
    return sim::FieldTable{
        sim::field("budget", &P::budget, sim::Unit::bytes, sim::at_least(0),
                   "Memory for weights, activations and all else; null: that of the device."),
        sim::field("reserve", &P::reserve, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the memory left for activations that is kept free for fragmentation."),
        sim::field("least_bytes", &P::least_bytes, sim::Unit::bytes, sim::at_least(0),
                   "Tensors smaller than this are never dropped."),
        sim::field("max_depth", &P::max_depth, sim::Unit::count, sim::between(1, 64),
                   "Tensors that take a chain of at least this many ops to recompute are never dropped.")};
  }
};

class RafRemat final : public GraphPass {
 public:
  explicit RafRemat(const RafRematParams& params) : params_(params) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const auto score = [&](const Droppable& tensor) {
      if (tensor.bytes < params_.least_bytes || tensor.depth >= params_.max_depth) return 0.0;
      const double cost = (tensor.regenerate_s * 1e6 + 0.1) * static_cast<double>(tensor.uses_left + 1);
      return static_cast<double>(tensor.bytes) * 1e-9 / cost;
    };
    return rematerialised(graph, context, params_.budget, params_.reserve, {}, score, report);
  }

 private:
  RafRematParams params_;
};

}  // namespace

void add_raf_remat(PassRegistry& registry) {
  registry.add<RafRematParams>("raf_remat", "Drops tensors by RAF's score where memory runs out, and recomputes them.",
                               [](const RafRematParams& params) { return std::make_unique<RafRemat>(params); });
}

}  // namespace orrery::policies
