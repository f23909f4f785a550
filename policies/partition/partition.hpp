// Partition: which layers each stage of a pipeline has.
//
// Asked once for each kind of replica that has stages, before anything runs. Contract: a pure function of the view. The
// answer is checked by the caller: a number for each stage, each at least 1, together the layers; anything else is a
// design that cannot be built, with the reason said.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What there is to divide, in bytes of weights that a rank holds (all experts of it included), each above 0.
struct PartitionView {
  std::int64_t stages = 2;               ///< at most as many as layers
  std::span<const std::int64_t> layers;  ///< of each layer, in order
  std::int64_t embedding = 0;            ///< of the first stage beside its layers; a step reads a row a token of it
  std::int64_t head = 0;             ///< of the last stage beside its layers (a tied table too): a step reads it all
  std::span<const double> speeds{};  ///< of the machines of each stage; none: they are alike
};

class Partition {
 public:
  virtual ~Partition() = default;
  /// Layers of each stage, first stage first.
  virtual std::vector<std::int64_t> divide(const PartitionView& view) const = 0;
  /// Whether it reads the speeds of stages' machines, which take runs to find.
  virtual bool wants_speeds() const { return false; }
};

using PartitionRegistry = sim::Registry<Partition>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_partitions(PartitionRegistry& registry);

}  // namespace orrery::policies
