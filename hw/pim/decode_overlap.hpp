// A decode step on a GPU (or NPU) with attention in memory beside it, on one clock.
//
// A layer is a block of products on the GPU (projections and feed-forward), then attention, which needs them and which
// the next layer's products need. Three schedules, the first always there as the baseline:
//   gpu_only     one after the other on the GPU
//   serial       products on the GPU, attention on the device, one waits for the other
//   split        as serial, but attention of a share of the sequences only on the device; the GPU does the others'
//                meanwhile
//   interleaved  two half batches that take turns: one's attention runs beside the other's products (NeuPIMs). Half the
//                batch reads all weights again, so products of a half cost more than half.
// Contention where the stacks are the GPU's own memory: the part of a product that waits for memory
// (`gemm_memory_share`) and attention exclude each other if banks are blocked. With dual row buffers units work from a
// buffer of their own, and only openings of rows meet at the cells: the units' (one a row period, all banks in step)
// waits half a tRCD on average where the host is opening a row of the pseudo-channel, which at the streaming rate it
// does for tRCD of every n tCCD_S clocks:
//   slow-down = 1 + gemm_memory_share min(1, tRCD / (n tCCD_S)) tRCD / (2 row period)     n = accesses of a row
// The step is a task graph run by the engine (sim/task/executor.hpp).
// Source: Heo et al., "NeuPIMs", ASPLOS 2024. Left out: more than two sub-batches, sub-batches whose attention is
// split, the command bus that host and units share (NeuPIMs' composite commands relieve it), waits of the host for the
// units.
#pragma once

#include <cstdint>

#include "hw/base/cost_model.hpp"
#include "hw/pim/attention_pim.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class DecodeSchedule : std::uint8_t { gpu_only, serial, split, interleaved };
constexpr auto enum_names(DecodeSchedule) {
  using enum DecodeSchedule;
  return sim::names<DecodeSchedule>(
      {{"gpu_only", gpu_only}, {"serial", serial}, {"split", split}, {"interleaved", interleaved}});
}

/// Times of one layer, s, for a whole batch and for half of it.
struct LayerPhases {
  double gemm_s = 0, gemm_half_s = 0;
  double gpu_attention_s = 0;
  double pim_attention_s = 0, pim_attention_half_s = 0;
  double gemm_memory_share = 0;  ///< of the products' time, whole batch or half
  std::int64_t layers = 1;
  double pim_split_s = 0, gpu_split_s = 0;  ///< attention of the sequences on the device, and of the others
};

struct DecodeStep {
  double time_s = 0;
  double gpu_busy_s = 0, pim_busy_s = 0;
};

/// Plays one decode step of all layers.
DecodeStep decode_step(const AttentionPimParams& pim, const LayerPhases& phases, DecodeSchedule schedule);

/// A dense transformer layer with a gated feed-forward block.
struct DecodeLayer {
  std::int64_t hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0, layers = 1;
  DType dtype = DType::fp16;
};

/// Phases of a layer for `batch` sequences of `context` tokens each, from the host's cost model and the device's.
/// `split`: how many of the sequences have their attention on the device in that schedule.
LayerPhases layer_phases(const AttentionPimParams& pim, const CostModel& host, const DecodeLayer& layer,
                         std::int64_t batch, std::int64_t context, std::int64_t split = 0);

}  // namespace orrery::hw
