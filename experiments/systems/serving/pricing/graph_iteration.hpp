// Iterations of a decoder written as an operator graph: what passes left of it is lowered op by op and priced by the
// device.
//
// The graph has the dimensions `batch`, `tokens` and `past` (a decoder with a cache). Ops that do equal work form
// groups. By what its work depends on, a group is
//   fixed      nothing: once an iteration
//   head       sequences alone: rows are the positions whose next token is computed
//   dense      new tokens: rows are all new tokens of the segment
//   attention  cached tokens: priced from the exact sums of the batch where it lowers to an attention kernel, else from
//              as many equal sequences of the mean length
// Ops of a layer count for each layer that a segment passes; ops before the first layer go with the first, those behind
// the last with the head. Costs of a row count are kept; attention is priced at every call. Integers as in
// DeviceIterationModel. With several ranks the graph is one rank's. Its collectives go by the library over the device's
// link and are booked as all_reduce, whatever they are; energy, FLOPs and traffic are of all ranks.
// Left out: experts' uneven loads beside the builder's own; chunks of unlike lengths where attention is several kernels
// (the mean length, rounded down, stands for them).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "hw/device/device.hpp"
#include "models/graph/graph_lowering.hpp"

namespace orrery::experiments {

/// What a replica holds of a graph, bytes.
struct GraphMemory {
  std::int64_t weights = 0;          ///< parameters and constants
  std::int64_t cache_per_token = 0;  ///< inputs that grow with `past`, of one sequence
};

GraphMemory graph_memory(const models::OpGraph& graph);

class GraphIteration final : public IterationModel {
 public:
  /// Why the graph is no decoder that can serve in `layers` layers on `ranks` devices; nothing if it is.
  static std::optional<std::string> obstacle(const models::OpGraph& graph, const hw::Device& device,
                                             std::int64_t layers, std::int64_t ranks);

  /// The graph, one rank's, must have no obstacle.
  GraphIteration(models::OpGraph graph, hw::Device device, std::int64_t layers, std::int64_t ranks = 1);
  void cost(const BatchShape& shape, IterationCost& out) override;
  bool additive() const override { return true; }

 private:
  enum class Kind : std::uint8_t { fixed, head, dense, attention };
  /// Ops of equal work that depend on the same sizes.
  struct Group {
    models::OpId first{};
    Kind kind = Kind::fixed;
    std::vector<std::int64_t> before;           ///< by layer: how many of them stand in earlier layers; one entry more
    std::int64_t start = 0, end = 0;            ///< of them before the first and behind the last layer
    std::optional<hw::Kernel> prefill, decode;  ///< of attention that is one kernel for each
    std::map<std::int64_t, IterationCost> known;  ///< by rows, of one
    std::int64_t in_layers(std::int32_t first_layer, std::int32_t last_layer) const;
  };
  const IterationCost& by_rows(Group& group, std::int64_t rows);
  IterationCost attention(const Group& group, const PrefillSums& prefill, const DecodeSums& decode);
  void keep_attention(Group& group) const;
  IterationCost lowered(const Group& group, std::int64_t sequences, std::int64_t tokens, std::int64_t past);

  models::OpGraph graph_;
  hw::Device device_;
  std::int64_t layers_, ranks_;
  std::vector<Group> groups_;
  models::GraphLaunches launches_;
};

}  // namespace orrery::experiments
