// Random graphs for property tests: chains and branches of passes and products over tensors of a few shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "sim/base/random.hpp"

namespace orrery::models::test {

struct RandomGraphShape {
  int ops = 30;
  double join = 0.35;    ///< share of ops with two operands
  double matmul = 0.25;  ///< share of products
  double view = 0.1;     ///< share of views
  bool symbolic = true;  ///< first size is the dimension `batch`
};

/// A graph of tensors [batch, w] with w of a few widths: elementwise ops, rows (softmax, norms), products, views.
inline OpGraph random_graph(sim::RandomStream& random, const RandomGraphShape& shape = {}) {
  OpGraph graph;
  graph.name = "random";
  const SymExpr batch = shape.symbolic ? SymExpr::dim("batch") : SymExpr(16);
  constexpr std::int64_t kWidths[] = {32, 64, 256};
  std::vector<TensorId> alive;
  for (const std::int64_t width : kWidths)
    alive.push_back(graph.input("x" + std::to_string(width), {batch, width}, ElementType::fp16));
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random.uniform() * static_cast<double>(n)); };
  constexpr OpKind kUnary[] = {OpKind::relu, OpKind::gelu,    OpKind::exp,        OpKind::scale,
                               OpKind::tanh, OpKind::softmax, OpKind::layer_norm, OpKind::copy};
  constexpr OpKind kBinary[] = {OpKind::add, OpKind::mul, OpKind::sub, OpKind::maximum};
  for (int i = 0; i < shape.ops; ++i) {
    // Mostly recent tensors, so that the graph is deep as well as wide.
    const std::size_t window = alive.size() < 6 || random.uniform() < 0.3 ? alive.size() : 6;
    const TensorId a = alive[alive.size() - 1 - pick(window)];
    const std::vector<SymExpr> dims = graph.tensor(a).shape;
    const double draw = random.uniform();
    if (draw < shape.matmul) {
      const std::int64_t width = kWidths[pick(3)];
      const TensorId w = graph.parameter("w" + std::to_string(i), {dims.back(), width}, ElementType::fp16);
      alive.push_back(graph.emit(OpKind::matmul, {a, w}));
    } else if (draw < shape.matmul + shape.view) {
      alive.push_back(graph.emit(OpKind::reshape, {a}, {dims[0] * dims[1], 1}, ElementType::fp16));
      alive.back() = graph.emit(OpKind::reshape, {alive.back()}, dims, ElementType::fp16);
    } else if (draw < shape.matmul + shape.view + shape.join) {
      std::vector<TensorId> same;
      for (const TensorId other : alive)
        if (graph.tensor(other).shape == dims) same.push_back(other);
      alive.push_back(graph.emit(kBinary[pick(4)], {a, same[pick(same.size())]}));
    } else {
      alive.push_back(graph.emit(kUnary[pick(8)], {a}));
    }
  }
  for (const TensorId id : graph.tensors())
    if (graph.producer(id) && graph.consumers(id).empty()) graph.mark_output(id);
  return graph;
}

}  // namespace orrery::models::test
