// What of a rank lies in its host's memory, and what that adds to its passes, to the update and to its memory.
//
// Activations go there during the forward pass and return during the backward pass. Weights come for each pass, layer
// by layer, and are dropped after it. Sums of gradients come for each backward pass and return (Mist's four shares,
// Zhu et al. 2025, section 4; all weights: ZeRO-Infinity, Rajbhandari et al. 2021). The device holds two layers of
// each, one at hand and one on its way.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/training/iteration.hpp"

namespace orrery::experiments::training {

/// Sends a share of the layers' activations to the host: of a chunk that has its layers, and no edges yet.
void offload_activations(const TrainingMachine& machine, double share, ChunkCosts& chunk);

/// What a rank keeps of a part, as its copies share it out, bytes.
struct KeptBytesOfPart {
  std::int64_t weights = 0, gradients = 0;
};

/// A chunk's parts: one of its layers, and the edges that it has.
struct ChunkParts {
  KeptBytesOfPart layer, embedding, head;
};

/// Brings weights and sums of gradients to a chunk's passes. `sums`: whether gradients of earlier micro-batches are
/// there. Answers what the device holds for it, bytes.
std::int64_t offload_parameters(const TrainingMachine& machine, const HostShares& shares, const ChunkParts& parts,
                                bool sums, ChunkCosts& chunk);

/// The update of a stage with states, weights or gradients in the host's memory, as the machine's policy has it;
/// `all_ranks`: of the plan, a node of which shares a host; `parameters`: whose states the rank has; `weights_shared`:
/// and whose weights it keeps. Moves the bytes of states.
void offload_update(const TrainingMachine& machine, const HostShares& shares, std::int64_t all_ranks,
                    std::int64_t parameters, bool weights_shared, StageCosts& stage);

/// What the fullest node's ranks keep in its host's memory; `stage_bytes`: what a rank of each stage keeps there.
std::int64_t fullest_host(const Plan& plan, std::int64_t node_devices, const std::vector<std::int64_t>& stage_bytes);

/// Moves the bytes of weights and gradients, once the stage has those that its rank keeps.
void offload_kept(const HostShares& shares, StageCosts& stage);

}  // namespace orrery::experiments::training
