// What the parts of a model allocate and release in a pass, op by op, as eager execution does.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/systems/training/layer_graph.hpp"
#include "experiments/systems/training/plan.hpp"

namespace orrery::experiments::training {

/// What is allocated beside storages of the graph, by number.
constexpr std::int32_t kStream = -1;          // what a part hands to the next
constexpr std::int32_t kGradientStream = -2;  // its gradient, which the part gets back
constexpr std::int32_t kAgain = -3;           // the stream of a layer that runs again

/// Whose a storage is, as the part that runs sees it: its own, the part's before it, the chunk's first's or last's.
enum class StorageOwner : std::uint8_t { own, before, first, last };

/// What an event is about: a storage of the graph or one of the above.
struct StorageRef {
  std::int32_t id = 0;
  StorageOwner owner = StorageOwner::own;
};

/// What an op does to the memory.
struct MemoryEvent {
  enum class Kind : std::uint8_t { allocate, release, take, gradient, scratch };
  Kind kind = Kind::allocate;
  StorageRef what, from;  ///< `take`: what lies where `from` lay
  std::int64_t bytes = 0;
};
using MemoryProgram = std::vector<MemoryEvent>;

/// A parameter, with its states in the optimizer.
struct HeldParameter {
  std::int32_t id = 0;
  std::int64_t elements = 0, bytes = 0;
  std::int64_t states = 0;  ///< of 4 bytes an element each
};

/// Of embedding, layer and head.
struct PartPrograms {
  std::array<MemoryProgram, kParts> forwards, backwards;
  MemoryProgram forward_again, backward_again;  ///< of a layer that runs again
  std::array<std::vector<HeldParameter>, kParts> held;
  std::int64_t stream_bytes = 0;  ///< of what a part hands to the next

  const MemoryProgram& forward(PartName part, bool again) const {
    return again && part == PartName::layer ? forward_again : forwards[index(part)];
  }
  const MemoryProgram& backward(PartName part, bool again) const {
    return again && part == PartName::layer ? backward_again : backwards[index(part)];
  }
  const std::vector<HeldParameter>& parameters(PartName part) const { return held[index(part)]; }
};

/// `sizes`: of the tokens that a rank has. What a backward op reads is kept, all else goes with its last reader.
PartPrograms part_programs(const LayerGraph& layer, const models::Bindings& sizes, Recompute recompute);

}  // namespace orrery::experiments::training
