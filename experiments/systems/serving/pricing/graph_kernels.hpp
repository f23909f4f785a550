// What a decoder launches that is written as an operator graph: what passes left of it, lowered op by op.
//
// The graph has the dimensions `batch`, `tokens` and `past` (a decoder with a cache). Ops that do equal work form
// groups. By what its work depends on, a group is
//   fixed      nothing: once an iteration
//   head       sequences alone: rows are the positions whose next token is computed
//   dense      new tokens: rows are all new tokens
//   attention  cached tokens: from the exact sums of the batch where it lowers to an attention kernel, else from as
//   many
//              equal sequences of the mean length
// Layers with as many ops of each group are of one kind. Ops before the first layer go with the embedding, those behind
// the last with the head or the ending. With several ranks the graph is one rank's; its collectives go by the library
// over the device's link and are booked as all_reduce, whatever they are. With a router, grouped products over all of
// the model's experts get the rows that it sends; otherwise rows are spread evenly, as the graph has them.
// Left out: chunks of unlike lengths where attention is several kernels (the mean length, rounded down, stands for
// them).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/serving/pricing/decoder_kernels.hpp"
#include "hw/device/device.hpp"
#include "models/graph/graph_lowering.hpp"
#include "models/transformer/router.hpp"

namespace orrery::experiments {

/// Why the graph is no decoder that can serve in `layers` layers on `ranks` devices; nothing if it is.
std::optional<std::string> graph_obstacle(const models::OpGraph& graph, const hw::Device& device, std::int64_t layers,
                                          std::int64_t ranks);

/// How tokens choose among a model's experts.
struct RoutedExperts {
  models::Router router;
  std::int64_t experts = 0;  ///< of a layer
};

/// Kernels of a graph without obstacle, one rank's.
std::unique_ptr<DecoderKernels> graph_kernels(std::shared_ptr<const models::OpGraph> graph, std::int64_t layers,
                                              std::int64_t ranks = 1,
                                              std::optional<RoutedExperts> routed = std::nullopt);

/// Bytes of a rank's share of a decoder: of each layer, and of the edges beside the first and the last.
struct DecoderMemory {
  std::vector<std::int64_t> weights, cache_per_token;  ///< by layer
  std::int64_t embedding = 0, head = 0;                ///< weights; a tied head has the embedding's table again
  std::int64_t whole = 0;                              ///< weights of a rank that has it all
  std::int64_t whole_cache_per_token = 0;
};

/// Of a graph without obstacle: parameters and constants by the first layer that reads them; caches are inputs of each
/// sequence's own that grow with its tokens.
DecoderMemory graph_memory(const models::OpGraph& graph, std::int64_t layers);

}  // namespace orrery::experiments
