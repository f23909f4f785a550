// The training step of a model as a graph of one layer: what a rank of tensor parallelism runs, part by part.
//
// All layers of a model being alike but for some first ones, one of them stands for all; where they differ in how far
// they attend alone, their mean does. The forward graph loses the
// others, is differentiated, divided among ranks (policies/placement/tensor_parallel.hpp) and rewritten by the config's
// passes; its ops then belong to one of three parts, by scope: `layer.N` are the layer's, what comes before the layers
// the embedding's, what comes after them the head's. Sizes stay symbolic, so one graph serves every micro-batch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "policies/placement/tensor_parallel.hpp"

namespace orrery::experiments::training {

enum class PartName : std::uint8_t { embedding, layer, head };
constexpr std::size_t kParts = 3;
constexpr std::size_t index(PartName part) {
  return static_cast<std::size_t>(part);
}

/// A model cut to one layer.
struct OneLayer {
  models::OpGraph forward;
  std::int64_t layers = 0;  ///< that are alike
  std::int64_t before = 0;  ///< unlike ones before them (DeepSeek's dense ones): the embedding's part has them
  std::map<std::int64_t, std::int64_t> windows;  ///< tokens that a layer attends to (0: all), and how many layers do
};

/// Throws models::GraphError, with the reason, for a model that has no layers, or layers that are not alike but for
/// windows of attention and for some first ones, fewer than the others.
OneLayer one_layer(const models::OpGraph& model);

/// The type of the model's largest parameter: its products run at a device's rate for it.
hw::DType product_type(const models::OpGraph& model);

/// Which part an op of a training graph is of, and when it runs.
enum class StepPhase : std::uint8_t { forward, backward_input, backward_weight, optimizer };
struct OpPlace {
  PartName part = PartName::layer;
  StepPhase phase = StepPhase::forward;
  bool core = false;   ///< between the products of attention: what selective recomputation runs again
  bool by_op = false;  ///< what recomputation by op runs again
};

/// A rank's training step, its ops placed.
struct LayerGraph {
  models::OpGraph graph;
  std::vector<OpPlace> places;  ///< by op
  std::int64_t layers = 0;
};

/// Places the ops of a differentiated, divided graph.
LayerGraph placed_graph(models::OpGraph graph, std::int64_t layers);
/// A graph of one layer with another window of its attention, forward and backward.
models::OpGraph with_window(models::OpGraph graph, std::int64_t window);

}  // namespace orrery::experiments::training
