// Kernels of a model on bank-level units, with the host behind them; what goes where is told in hw/pim/bank_pim.hpp.
//
// Units take products of 16-bit formats (each row of activations is one vector and streams all weights once more),
// residual adds, and activations of one operation an element. A product's results return to the host: the sums of
// HBM-PIM's lanes (a column access an output), AiM's already within its commands.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "hw/base/cost_model.hpp"
#include "hw/base/real.hpp"
#include "hw/memory/dram_rate.hpp"
#include "hw/pim/bank_pim.hpp"

namespace orrery::hw {
namespace {

constexpr double kMostFlops = 1e18;  // what 64-bit counts of clocks and commands hold with ease

struct Job {
  PimKernel kernel;
  std::int64_t times = 1;
};

class BankPimCost final : public CostModel {
 public:
  BankPimCost(const BankPimParams& pim, std::unique_ptr<CostModel> host)
      : pim_(pim), host_(std::move(host)), readback_(pim.external_bandwidth() * streaming_share(pim.dram)) {}

  Cost cost(const Kernel& kernel) const override {
    const std::optional<Job> job = job_of(kernel);
    if (!job || work_of(kernel).flops > kMostFlops) return on_host(kernel);
    const PimCounts counts = pim_counts(pim_, job->kernel);
    if (counts.clocks == 0) return on_host(kernel);
    const Work work = work_of(kernel);
    Cost cost;
    const double units_s = d(job->times) * d(counts.clocks) / pim_.dram.clock_hz;
    double back_s = 0;
    if (pim_.style == PimStyle::hbm_pim && job->kernel.op == PimOp::gemv)
      back_s = d(job->times) * d(job->kernel.batch) * d(job->kernel.outputs) * d(pim_.dram.access_bytes()) / readback_;
    cost.time_s = pim_.launch_s + units_s + back_s;
    if (pim_.offload == PimOffload::fastest && host_ != nullptr) {
      const Cost host = host_->cost(kernel);
      if (host.time_s <= cost.time_s) return host;
    }
    cost.flops = work.flops;
    const double commands = d(job->times) * d(counts.unit_reads + counts.unit_writes) * d(counts.set_banks);
    const double cells = commands * d(pim_.dram.access_bytes()) * d(pim_.dram.lanes()) * d(pim_.devices);
    cost.dram_bytes = std::max(work.read_bytes + work.write_bytes, cells + back_s * readback_);
    const double macs = job->kernel.op == PimOp::gemv ? work.flops / 2 : work.flops;
    cost.compute_energy_j = macs * pim_.energy.mac_j + d(pim_.devices) * pim_.energy.standby_w * units_s;
    const double all = d(job->times) * pim_energy_j(pim_, counts);
    const double back_bits = 8 * back_s * readback_;
    cost.memory_energy_j = std::max(0.0, all - cost.compute_energy_j) + back_bits * pim_.dram.access_bit_j();
    cost.bound = pim_.launch_s > units_s + back_s ? Bound::launch : Bound::memory;
    return cost;
  }

  std::optional<std::string> obstacle(const Kernel& kernel) const override {
    if (host_ != nullptr || is_empty(work_of(kernel))) return std::nullopt;
    if (const auto job = job_of(kernel); job && pim_counts(pim_, job->kernel).clocks > 0) return std::nullopt;
    return fmt::format("units at the banks run products of 16-bit formats and element-wise passes, no {}",
                       to_string(kernel.op));
  }

 private:
  Cost on_host(const Kernel& kernel) const {
    if (const auto why = obstacle(kernel)) throw std::invalid_argument(*why);
    return host_ != nullptr ? host_->cost(kernel) : Cost{};
  }

  std::optional<Job> job_of(const Kernel& kernel) const {
    if (kernel.dtype != DType::fp16 && kernel.dtype != DType::bf16) return std::nullopt;
    if (const auto* g = std::get_if<Gemm>(&kernel.shape)) {
      if (g->m <= 0 || g->n <= 0 || g->k <= 0 || g->batch <= 0) return std::nullopt;
      return Job{{.op = PimOp::gemv, .outputs = g->n, .inputs = g->k, .batch = g->m}, g->batch};
    }
    if (const auto* s = std::get_if<Streaming>(&kernel.shape)) {
      const std::int64_t elements = s->write_bytes / 2;
      if (kernel.op == OpClass::residual && s->read_bytes == 2 * s->write_bytes)
        return Job{{.op = PimOp::add, .elements = elements}, 1};
      if (kernel.op == OpClass::activation && s->read_bytes == s->write_bytes && s->flops <= elements)
        return Job{{.op = PimOp::relu, .elements = elements}, 1};
    }
    return std::nullopt;
  }

  BankPimParams pim_;
  std::unique_ptr<CostModel> host_;
  double readback_;
};

}  // namespace

std::unique_ptr<CostModel> make_bank_pim_cost(const BankPimParams& pim, std::unique_ptr<CostModel> host) {
  return std::make_unique<BankPimCost>(pim, std::move(host));
}

}  // namespace orrery::hw
