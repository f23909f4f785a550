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

class Roofline final : public CostModel {
 public:
  Roofline(const RooflineParams& params, const GpuParams& gpu) : params_(params), gpu_(gpu) {}

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    const bool vector = !uses_matrix_units(kernel);
    const MatrixOperands matrix = matrix_operands(gpu_, kernel.dtype, weights_of(kernel));
    const double peak = vector ? gpu_.peak.fp32 : matrix.peak;
    const double bytes = work.read_bytes + work.write_bytes;
    const double compute_s = work.flops / (peak * params_.compute_efficiency);
    const double memory_s = bytes / (gpu_.memory_bandwidth * params_.memory_efficiency);
    return booked(gpu_.power, work,
                  {.time_s = gpu_.launch_s() + std::max(compute_s, memory_s),
                   .compute_s = compute_s,
                   .memory_s = memory_s,
                   .fixed_s = gpu_.launch_s(),
                   .dram_bytes = bytes,
                   .flop_j = vector ? gpu_.power.fp32_flop_j : matrix.flop_j});
  }

 private:
  RooflineParams params_;
  GpuParams gpu_;
};

}  // namespace

void register_roofline(CostModelRegistry& registry) {
  registry.add<RooflineParams>("roofline",
                               "Peak FLOP/s, peak bandwidth and a launch: the longer of the two, and the launch.",
                               [](const RooflineParams& params, const GpuParams& gpu) -> std::unique_ptr<CostModel> {
                                 return std::make_unique<Roofline>(params, gpu);
                               });
}

}  // namespace orrery::hw
