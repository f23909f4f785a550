// An FPGA as a device for single kernels: a chain of one task on the largest design, as hw/fpga/fpga.hpp has it.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "hw/base/real.hpp"
#include "hw/fpga/fpga.hpp"

namespace orrery::hw {
namespace {

/// As many equal cores as the memory has ports, of as many multiply-adds as the part has room for.
FpgaDesign largest_design(const FpgaParams& fpga, FpgaFormat format) {
  FpgaDesign design;
  const double macs = macs_per_cycle(fpga, format);
  design.cores = std::clamp<std::int64_t>(static_cast<std::int64_t>(macs), 1, fpga.memory_ports);
  design.macs_per_core = std::max<std::int64_t>(1, static_cast<std::int64_t>(macs / d(design.cores)));
  design.weight_port_bytes = fpga.memory_bandwidth / fpga.clock_hz / d(design.cores);
  design.spill_port_bytes = fpga.memory_bandwidth / fpga.clock_hz;
  design.format = format;
  return design;
}

class FpgaCost final : public CostModel {
 public:
  explicit FpgaCost(const FpgaParams& fpga) : fpga_(fpga) {}

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    const FpgaDesign design = largest_design(fpga_, fpga_format(kernel.dtype));
    const double held = std::min(work.read_bytes, d(streamed_bytes(kernel)));
    const double compute_s = work.flops / 2 / (d(design.cores) * d(design.macs_per_core)) / fpga_.clock_hz;
    const double weights_s = held / fpga_.memory_bandwidth;
    const double moved_s = (work.read_bytes - held + work.write_bytes) / fpga_.memory_bandwidth;
    PowerParams power;
    power.active_w = fpga_.tdp_w - fpga_.idle_w;
    return booked(power, work,
                  {.time_s = std::max(compute_s, weights_s) + moved_s,
                   .compute_s = compute_s,
                   .memory_s = std::max(weights_s, moved_s),
                   .dram_bytes = work.read_bytes + work.write_bytes});
  }

 private:
  /// Bytes that stream in while cores multiply: weights of a product, cached keys and values of attention.
  static std::int64_t streamed_bytes(const Kernel& kernel) {
    if (const auto* g = std::get_if<Gemm>(&kernel.shape))
      return g->batch * weight_bytes(g->weights, kernel.dtype, g->n * g->k);
    if (const auto* g = std::get_if<GroupedGemm>(&kernel.shape))
      return g->groups * weight_bytes(g->weights, kernel.dtype, g->n * g->k);
    if (const auto* a = std::get_if<AttentionDecode>(&kernel.shape))
      return a->context_tokens * a->kv_heads * cached_elements(*a) * bytes_of(kernel.dtype);
    return 0;
  }

  FpgaParams fpga_;
};

}  // namespace

std::unique_ptr<CostModel> make_fpga_cost(const FpgaParams& fpga) {
  return std::make_unique<FpgaCost>(fpga);
}

}  // namespace orrery::hw
