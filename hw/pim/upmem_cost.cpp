// UPMEM as a device for single kernels. Operands lie in MRAM, split evenly over every DPU of the system; a launch is
// instructions, transfers of 1 KB, and its fixed cost. What the host has to move between kernels is the caller's:
// parallel_copy_s says what it takes.
#include <algorithm>

#include "hw/pim/upmem.hpp"

namespace orrery::hw {
namespace {

constexpr double kTransferBytes = 1024;

class UpmemCost final : public CostModel {
 public:
  explicit UpmemCost(const UpmemParams& upmem) : upmem_(upmem) {}

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    Cost cost;
    cost.flops = work.flops;
    cost.dram_bytes = std::max(work.read_bytes + work.write_bytes, passes(kernel));
    const auto dpus = static_cast<double>(upmem_.dpus());
    const double share =
        work.read_bytes + work.write_bytes > 0 ? work.write_bytes / (work.read_bytes + work.write_bytes) : 0;
    const double blocks = cost.dram_bytes / dpus / kTransferBytes;
    const double dma = blocks * ((1 - share) * dma_read_cycles(upmem_, kTransferBytes) +
                                 share * dma_write_cycles(upmem_, kTransferBytes));
    const double issue = instructions(kernel, work, cost.dram_bytes) / dpus + blocks * upmem_.instructions.dma_call;
    const auto tasklets = static_cast<double>(upmem_.tasklets);
    const double cycles = free_running_cycles(upmem_, {issue, dma, issue / tasklets, dma / tasklets});
    cost.time_s = upmem_.launch_s + cycles / upmem_.clock_hz;
    cost.bound = upmem_.launch_s * upmem_.clock_hz > cycles ? Bound::launch
                 : dma >= cycles                            ? Bound::memory
                                                            : Bound::compute;
    const double active_w = std::max(0.0, upmem_.dimm_power_w - upmem_.dimm_idle_w) * static_cast<double>(upmem_.dimms);
    const double memory_share = issue + dma > 0 ? dma / (issue + dma) : 0;
    cost.memory_energy_j = active_w * cycles / upmem_.clock_hz * memory_share;
    cost.compute_energy_j = active_w * cycles / upmem_.clock_hz * (1 - memory_share);
    return cost;
  }

 private:
  /// Bytes of a matrix product that has no room for more than a row in WRAM: the weights once a row of activations.
  static double passes(const Kernel& kernel) {
    const auto* gemm = std::get_if<Gemm>(&kernel.shape);
    if (gemm == nullptr) return 0;
    const auto m = static_cast<double>(gemm->m), n = static_cast<double>(gemm->n), k = static_cast<double>(gemm->k);
    return static_cast<double>(gemm->batch) * static_cast<double>(bytes_of(kernel.dtype)) * (m * n * k + m * (n + k));
  }

  /// Issue cycles of all DPUs: a multiply-add with its two loads, its sum and its loop, or a pass word by word.
  double instructions(const Kernel& kernel, const Work& work, double bytes) const {
    if (std::holds_alternative<Streaming>(kernel.shape)) {
      const double words = bytes / 4;
      return words * issue_cycles(upmem_, {4, 2}) + work.flops * arithmetic(kernel.dtype) / 2;
    }
    constexpr Instructions kProductLoop{9, 4};  // 2 addresses, 2 loads, call, index, branch and two moves
    return work.flops / 2 * (issue_cycles(upmem_, kProductLoop) + arithmetic(kernel.dtype));
  }
  /// Issue cycles of a product and a sum.
  double arithmetic(DType dtype) const {
    const UpmemInstructions& counts = upmem_.instructions;
    if (dtype == DType::int8) return 1 + counts.add;  // the multiplier takes 8 bits at once
    return counts.multiply_float + counts.add_float;
  }

  UpmemParams upmem_;
};

}  // namespace

std::unique_ptr<CostModel> make_upmem_cost_model(const UpmemParams& upmem) {
  return std::make_unique<UpmemCost>(upmem);
}

}  // namespace orrery::hw
