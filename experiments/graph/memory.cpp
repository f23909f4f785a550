#include "experiments/graph/memory.hpp"

#include <algorithm>
#include <vector>

#include "models/op_work.hpp"

namespace orrery::experiments::graph {
namespace {

/// Lifetimes of activations, in steps of one op; views live in what they are made of.
std::vector<policies::Buffer> activation_buffers(const models::OpGraph& graph, const models::Bindings& bindings) {
  using models::index;
  std::vector<policies::Buffer> buffers;
  std::vector<std::int32_t> place(graph.tensor_count(), -1);
  const auto steps = static_cast<std::int64_t>(graph.op_count());
  for (const models::TensorId id : graph.tensors()) {
    const models::TensorId root = models::storage_of(graph, id);
    const auto maker = graph.producer(root);
    if (!maker) continue;
    std::int32_t& slot = place[index(root)];
    if (slot < 0) {
      slot = static_cast<std::int32_t>(buffers.size());
      const auto begin = static_cast<std::int64_t>(index(*maker));
      buffers.push_back({.begin = begin, .end = begin + 1, .bytes = models::bytes_of(graph, root, bindings)});
    }
    policies::Buffer& buffer = buffers[static_cast<std::size_t>(slot)];
    for (const models::OpId reader : graph.consumers(id))
      buffer.end = std::max(buffer.end, static_cast<std::int64_t>(index(reader)) + 1);
    if (graph.is_output(id)) buffer.end = steps;
  }
  return buffers;
}

}  // namespace

MemoryFigures memory_of(const models::OpGraph& graph, const models::Bindings& bindings,
                        const policies::MemoryPlanner& planner) {
  MemoryFigures figures;
  for (const models::TensorId id : graph.tensors()) {
    const models::TensorRole role = graph.tensor(id).role;
    if (role == models::TensorRole::activation) continue;
    const std::int64_t bytes = models::bytes_of(graph, id, bindings);
    (role == models::TensorRole::input   ? figures.inputs
     : role == models::TensorRole::state ? figures.state
                                         : figures.parameters) += bytes;
  }
  const std::vector<policies::Buffer> buffers = activation_buffers(graph, bindings);
  figures.live = policies::lower_bound(buffers);
  figures.planned = planner.plan(buffers).peak;
  return figures;
}

}  // namespace orrery::experiments::graph
