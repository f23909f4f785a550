// `tiled`: tile choice, wave quantisation, split-K and split contexts, L2 reuse, achieved bandwidth, launch and tail.
//
// Equations in hw/tiled.hpp, constants per device in hw/catalog/*.json, errors against measurement in docs/hardware.md.
// It has no parameters of its own: what can be chosen belongs to the device.
#include <algorithm>
#include <memory>
#include <tuple>

#include "hw/cost_model.hpp"
#include "hw/tiled.hpp"

namespace orrery::hw {
namespace {

struct TiledParams {
  static constexpr auto fields() { return std::tuple{}; }
};

class Tiled final : public CostModel {
 public:
  explicit Tiled(const GpuParams& gpu) : gpu_(gpu) {}

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    const TiledTime t = time_of(kernel);
    const bool vector = std::holds_alternative<Streaming>(kernel.shape);
    Cost cost;
    cost.time_s = gpu_.launch_s() + t.time_s;
    cost.flops = work.flops;
    cost.dram_bytes = std::max(t.dram_bytes, work.read_bytes + work.write_bytes);
    const double flop_j = vector ? gpu_.power.fp32_flop_j : matrix_flop_energy(gpu_, kernel.dtype);
    cost.compute_energy_j = work.flops * flop_j + gpu_.power.active_w * cost.time_s;
    cost.memory_energy_j = cost.dram_bytes * gpu_.power.memory_byte_j;
    const double busy_s = std::max(t.compute_s, t.memory_s);
    cost.bound = gpu_.launch_s() + t.fixed_s > busy_s ? Bound::launch
                 : t.compute_s > t.memory_s           ? Bound::compute
                                                      : Bound::memory;
    return cost;
  }

 private:
  TiledTime time_of(const Kernel& kernel) const {
    if (const auto* gemm = std::get_if<Gemm>(&kernel.shape)) return plan_gemm(gpu_, *gemm, kernel.dtype).time;
    if (const auto* prefill = std::get_if<AttentionPrefill>(&kernel.shape))
      return tiled_prefill(gpu_, *prefill, kernel.dtype);
    if (const auto* decode = std::get_if<AttentionDecode>(&kernel.shape))
      return tiled_decode(gpu_, *decode, kernel.dtype);
    return tiled_streaming(gpu_, std::get<Streaming>(kernel.shape), kernel.op);
  }

  GpuParams gpu_;
};

}  // namespace

TiledTime tiled_streaming(const GpuParams& gpu, const Streaming& shape, OpClass op) {
  const StreamConstants& c = gpu.stream;
  double share = c.copy;
  if (op == OpClass::norm) share = c.norm;
  if (op == OpClass::activation) share = c.activation;
  if (op == OpClass::rope) share = c.rope;
  TiledTime t;
  t.dram_bytes = static_cast<double>(shape.read_bytes) + static_cast<double>(shape.write_bytes);
  t.memory_s = t.dram_bytes / (gpu.memory_bandwidth * share);
  t.compute_s = static_cast<double>(shape.flops) / gpu.peak.fp32;
  t.fixed_s = c.fixed_s;
  t.time_s = t.fixed_s + norm4(t.compute_s, t.memory_s);
  return t;
}

void register_tiled(CostModelRegistry& registry) {
  registry.add<TiledParams>("tiled",
                            "Tiles, waves, split-K, L2 reuse and achieved bandwidth, with constants fitted per device.",
                            [](const TiledParams&, const GpuParams& gpu) -> std::unique_ptr<CostModel> {
                              return std::make_unique<Tiled>(gpu);
                            });
}

}  // namespace orrery::hw
