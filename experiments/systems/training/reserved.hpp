// What PyTorch's caching allocator reserves for a rank: every tensor of two steps allocated and freed in the order in
// which eager ops run (policies/memory/caching_allocator.hpp).
//
// Set up are weights, their fp32 copies, and gradients that keep their memory. A forward pass runs the ops of a part,
// layer by layer; what a backward op reads is kept, all else goes with its last reader. A layer that runs again runs
// its forward ops once more before its backward ops. The first update makes the moments. Left out: libraries'
// workspaces, and blocks of other streams: no answer for copies that share out gradients or weights, which gather and
// sum on streams of their own, and none for what lies in the host's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/systems/training/iteration.hpp"

namespace orrery::experiments::training {

/// Of a rank at its most, bytes.
struct Reserved {
  std::int64_t allocated = 0;  ///< blocks in use
  std::int64_t reserved = 0;   ///< segments
  bool exceeded = false;       ///< segments did not fit, although those that were free had gone back
};

/// A stage's passes in order, without times.
using PassOrder = std::vector<policies::StagePass>;
PassOrder passes_of(const StepRun& run, std::int64_t stage);

/// `sizes`: of the tokens that a rank has. `again`: layers that run again. `capacity`: bytes of the device for
/// segments. Nothing for ZeRO of gradients or weights, for experts whose states copies share out, for halved backward
/// passes and for what lies in the host's memory. Some 5 us an op of a layer's pass.
std::optional<Reserved> reserved_memory(const LayerGraph& layer, const models::Bindings& sizes, const Plan& plan,
                                        const StageCosts& stage, std::int64_t again, const PassOrder& passes,
                                        std::int64_t capacity);

}  // namespace orrery::experiments::training
