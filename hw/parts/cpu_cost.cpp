// The cost of a kernel on a CPU; equations in hw/parts/cpu.hpp.
#include <algorithm>
#include <cmath>
#include <memory>

#include "hw/base/cost_model.hpp"
#include "hw/base/real.hpp"
#include "hw/parts/cpu.hpp"

namespace orrery::hw {
namespace {

constexpr double kOutputSide = 32;    // outputs a side that a thread takes of a product at least
constexpr double kPartBytes = 4096;   // bytes that a thread takes of a pass at least
constexpr double kCacheOperands = 3;  // blocks of a product that share the cache

double blocks(double count, double size) {
  return std::ceil(count / size);
}

/// A kernel as the roofline sees it.
struct Demand {
  double compute_s = 0;    ///< on one core
  double streamed = 0;     ///< bytes that no kernel has just written: weights, cached keys
  double activations = 0;  ///< bytes that one has
  double reloads = 0;      ///< bytes that a product moves if its operands exceed the cache
  double parts = 1;        ///< pieces that threads can take
};

class CpuCost final : public CostModel {
 public:
  explicit CpuCost(const CpuParams& cpu) : cpu_(cpu), cache_(d(cpu.l3_bytes) * cpu.l3_keep) {}

  Cost cost(const Kernel& kernel) const override {
    const Work work = work_of(kernel);
    if (is_empty(work)) return {};
    const Demand demand = demand_of(kernel, work);
    const double total = demand.streamed + demand.activations;
    const double kept = resident(demand);
    const double dram = total - kept + (total > cache_ ? std::max(0.0, demand.reloads - total) : 0);

    const double alone_s = std::max(demand.compute_s, dram / cpu_.core_bandwidth + kept / cpu_.l3_core_bandwidth);
    Cost cost;
    double threads = 1;
    cost.time_s = alone_s;
    const double wanted = std::floor(0.5 + 0.5 * std::sqrt(1 + 4 * alone_s / std::max(1e-12, cpu_.fork_per_thread_s)));
    const double many = std::max(1.0, std::min({d(cpu_.cores), demand.parts, wanted}));
    const double memory_s =
        dram / std::min(many * cpu_.core_bandwidth, stream_bandwidth(cpu_)) + kept / (many * cpu_.l3_core_bandwidth);
    const double shared_s = std::max(demand.compute_s / many, memory_s) + cpu_.fork_s + many * cpu_.fork_per_thread_s;
    if (many > 1 && shared_s < alone_s) {
      cost.time_s = shared_s;
      threads = many;
    }
    cost.flops = work.flops;
    cost.dram_bytes = std::max(dram, total);
    const double width = d(bytes_of(kernel.dtype)) / 4;
    cost.compute_energy_j = work.flops * cpu_.power.flop_j * width + threads * cpu_.power.core_active_w * cost.time_s;
    cost.memory_energy_j = dram * cpu_.power.memory_byte_j;
    const double compute_s = demand.compute_s / threads;
    const double busy_s = threads > 1 ? std::max(compute_s, memory_s) : alone_s;
    cost.bound = cost.time_s > 2 * busy_s      ? Bound::launch
                 : compute_s >= busy_s * 0.999 ? Bound::compute
                                               : Bound::memory;
    return cost;
  }

 private:
  Demand demand_of(const Kernel& kernel, const Work& work) const {
    const double element = d(bytes_of(kernel.dtype));
    const auto cached = [&](std::int64_t own) { return own > 0 ? d(own) : element; };
    const double clock = cpu_.vector_clock_hz();
    const double vector_rate = core_rate(cpu_, DType::fp32) * clock;
    const double rate = core_rate(cpu_, kernel.dtype) * clock;
    Demand out;
    out.activations = work.read_bytes + work.write_bytes;
    out.parts = blocks(out.activations, kPartBytes);
    out.compute_s = work.flops / (vector_rate * cpu_.vector_efficiency);
    if (const auto* g = std::get_if<Gemm>(&kernel.shape)) {
      const double rows = d(cpu_.per_cycle.tile_rows);
      const double padded = rate > vector_rate ? blocks(d(g->m), rows) * rows / d(g->m) : 1;
      out.compute_s = std::min(work.flops * padded / (rate * cpu_.gemm_efficiency),
                               work.flops / (vector_rate * cpu_.gemm_efficiency));
      out.streamed = d(g->batch) * d(weight_bytes(g->weights, kernel.dtype, g->n * g->k));
      out.reloads = work.flops * element / std::sqrt(std::max(1.0, cache_ / (kCacheOperands * element)));
      out.parts = blocks(d(g->m), kOutputSide) * blocks(d(g->n), kOutputSide) * d(g->batch);
    } else if (const auto* p = std::get_if<AttentionPrefill>(&kernel.shape)) {
      out.compute_s = work.flops / (rate * cpu_.vector_efficiency);
      out.streamed = d(p->kv_tokens) * d(p->kv_heads) * (d(p->head_dim) + d(p->values())) * cached(p->cache_element);
      out.parts = std::max(1.0, d(p->q_tiles) * d(p->heads));
    } else if (const auto* a = std::get_if<AttentionDecode>(&kernel.shape)) {
      out.streamed = d(a->context_tokens) * d(a->kv_heads) * d(cached_elements(*a)) * cached(a->cache_element);
      out.parts = std::max(1.0, d(a->sequences) * d(a->kv_heads));
    } else if (const auto* e = std::get_if<GroupedGemm>(&kernel.shape)) {
      out.compute_s = work.flops / (rate * cpu_.gemm_efficiency);
      out.streamed = d(e->groups) * d(weight_bytes(e->weights, kernel.dtype, e->n * e->k));
      out.parts = std::max(1.0, d(e->groups) * blocks(d(e->n), kOutputSide));
    } else if (uses_matrix_units(kernel)) {
      out.compute_s = work.flops / (rate * cpu_.gemm_efficiency);
    }
    out.streamed = std::min(out.streamed, out.activations);
    out.activations -= out.streamed;
    return out;
  }

  /// Bytes that the last-level cache holds when the kernel starts, or takes up when it writes.
  double resident(const Demand& demand) const {
    switch (cpu_.residency) {
      case CacheResidency::cold:
        return 0;
      case CacheResidency::activations:
        return std::min(demand.activations, cache_);
      case CacheResidency::all:
        return std::min(demand.activations + demand.streamed, cache_);
    }
    return 0;
  }

  CpuParams cpu_;
  double cache_;
};

}  // namespace

std::unique_ptr<CostModel> make_cpu_cost(const CpuParams& cpu) {
  return std::make_unique<CpuCost>(cpu);
}

}  // namespace orrery::hw
