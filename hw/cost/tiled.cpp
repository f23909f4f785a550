// `tiled`: tile choice, wave quantisation, split-K and split contexts, L2 reuse, achieved bandwidth, launch and tail.
//
// Equations in hw/tiled/tiled.hpp, constants per device in hw/catalog/*.json, errors against measurement in
// docs/explain/hardware.md. It has no parameters of its own: what can be chosen belongs to the device.
#include <algorithm>
#include <memory>

#include "hw/cost/cost_model.hpp"
#include "hw/tiled/grouped.hpp"
#include "hw/tiled/shapes.hpp"
#include "hw/tiled/stream.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::hw {
namespace {

struct TiledParams {
  static constexpr auto fields() { return sim::FieldTable<TiledParams, 0>(); }
};

struct TiledTimeOf {
  const GpuParams& gpu;
  OpClass op;
  DType dtype;
  TiledTime operator()(const Gemm& s) const { return plan_gemm(gpu, s, dtype).time; }
  TiledTime operator()(const AttentionPrefill& s) const { return tiled_prefill(gpu, s, dtype); }
  TiledTime operator()(const AttentionDecode& s) const { return tiled_decode(gpu, s, dtype); }
  TiledTime operator()(const Streaming& s) const { return tiled_streaming(gpu, s, op, dtype); }
  TiledTime operator()(const GroupedGemm& s) const { return tiled_grouped(gpu, s, dtype); }
  TiledTime operator()(const Sparse& s) const { return tiled_sparse(gpu, s, dtype); }
  TiledTime operator()(const Fft& s) const { return tiled_fft(gpu, s, dtype); }
  TiledTime operator()(const Conv& s) const { return tiled_conv(gpu, s, dtype); }
  TiledTime operator()(const Fused& s) const { return tiled_fused(gpu, s, dtype); }
};

class Tiled final : public CostModel {
 public:
  explicit Tiled(const GpuParams& gpu) : gpu_(gpu) {}

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    const TiledTime t = time_of(kernel);
    const bool vector = !uses_matrix_units(kernel);
    Cost cost = booked(
        gpu_.power, work,
        {.time_s = gpu_.launch_s() + t.time_s,
         .compute_s = t.compute_s,
         .memory_s = t.memory_s,
         .fixed_s = gpu_.launch_s() + t.fixed_s,
         .dram_bytes = t.dram_bytes,
         .flop_j = vector ? gpu_.power.fp32_flop_j : matrix_operands(gpu_, kernel.dtype, weights_of(kernel)).flop_j});
    keep_to_tdp(cost);
    return cost;
  }

 private:
  /// The board holds its power at the TDP: the clock it forces, which the time has in it already, comes with a lower
  /// voltage, so that FLOPs get cheaper until the sum fits.
  void keep_to_tdp(Cost& cost) const {
    const double most_j = std::max(0.0, gpu_.power.tdp_w - gpu_.power.idle_w) * cost.time_s;
    const double over_j = cost.compute_energy_j + cost.memory_energy_j - most_j;
    if (over_j <= 0) return;
    const double compute_j = std::min(over_j, cost.compute_energy_j);
    cost.compute_energy_j -= compute_j;
    cost.memory_energy_j -= over_j - compute_j;
  }

  TiledTime time_of(const Kernel& kernel) const {
    return std::visit(TiledTimeOf{gpu_, kernel.op, kernel.dtype}, kernel.shape);
  }

  GpuParams gpu_;
};

}  // namespace

std::unique_ptr<CostModel> make_tiled(const GpuParams& gpu) {
  return std::make_unique<Tiled>(gpu);
}

void register_tiled(CostModelRegistry& registry) {
  registry.add<TiledParams>(
      "tiled", "Models tiles, waves, split-K, L2 reuse and achieved bandwidth, with constants fitted per GPU.",
      [](const TiledParams&, const Device& device) -> std::unique_ptr<CostModel> {
        const auto* gpu = device.as<GpuParams>();
        return gpu != nullptr ? make_tiled(*gpu) : nullptr;
      });
}

}  // namespace orrery::hw
