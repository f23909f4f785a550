// `roofline`: the time of a kernel is the longer of its FLOPs at peak and its compulsory bytes at peak, and a launch.
//
//   t = launch + max(flops / (peak * compute_efficiency), bytes / (bandwidth * memory_efficiency))
//
// The baseline that everybody knows (Williams, Waterman and Patterson, "Roofline", CACM 2009); with both efficiencies
// at 1 it is a lower bound. It knows nothing of tiles, waves, caches or achieved rates.
#include <algorithm>
#include <memory>

#include "hw/cost/cost_model.hpp"

namespace orrery::hw {
namespace {

struct RooflineParams {
  double compute_efficiency = 1;
  double memory_efficiency = 1;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("compute_efficiency", &RooflineParams::compute_efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of the peak FLOP/s that kernels reach."),
        sim::field("memory_efficiency", &RooflineParams::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of the peak memory bandwidth that kernels reach."),
    };
  }
};

/// Peak and energy of products, with weights that a GPU may widen on their way or multiply in their own format.
struct Products {
  double peak = 0, flop_j = 0;
};
Products products_of(const Device& device, const Kernel& kernel) {
  if (const auto* gpu = device.as<GpuParams>()) {
    const MatrixOperands matrix = matrix_operands(*gpu, kernel.dtype, weights_of(kernel));
    return {matrix.peak, matrix.flop_j};
  }
  return {device.peak(kernel.dtype), device.flop_energy(kernel.dtype)};
}

class Roofline final : public CostModel {
 public:
  Roofline(const RooflineParams& params, const Device& device) : params_(params), device_(device) {
    device_.make_cost = nullptr;  // its own business
  }

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    const bool vector = !uses_matrix_units(kernel);
    const Products products = products_of(device_, kernel);
    const double peak = vector ? device_.vector_peak() : products.peak;
    const double bytes = work.read_bytes + work.write_bytes;
    const double compute_s = work.flops / (peak * params_.compute_efficiency);
    const double memory_s = bytes / (device_.memory_bandwidth * params_.memory_efficiency);
    const double launch_s = device_.launch.in_cost_s;
    return booked(device_.power, work,
                  {.time_s = launch_s + std::max(compute_s, memory_s),
                   .compute_s = compute_s,
                   .memory_s = memory_s,
                   .fixed_s = launch_s,
                   .dram_bytes = bytes,
                   .flop_j = vector ? device_.power.fp32_flop_j : products.flop_j});
  }

 private:
  RooflineParams params_;
  Device device_;
};

}  // namespace

void register_roofline(CostModelRegistry& registry) {
  registry.add<RooflineParams>(
      "roofline", "The longer of the times at peak FLOP/s and at peak bandwidth, plus the launch.",
      [](const RooflineParams& params, const Device& device) -> std::unique_ptr<CostModel> {
        if (device.as<BankPimParams>() != nullptr || device.as<AttentionPimParams>() != nullptr)
          return nullptr;  // they run some kernels only
        return std::make_unique<Roofline>(params, device);
      });
}

}  // namespace orrery::hw
