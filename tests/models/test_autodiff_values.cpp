// Gradients against finite differences, in real numbers: for each family of ops a small graph whose operands are all
// parameters, the mean square of its output to a random target as loss, and for every element of every parameter
//   (L(p + h) - L(p - h)) / 2h = dL/dp    within 1e-6 of the largest gradient (h = 1e-5, double precision).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "models/autodiff/autodiff.hpp"
#include "tests/models/interpreter.hpp"

namespace orrery::models::test_autodiff_values {
namespace {

using test::Feed;
using test::Value;

const Bindings kSizes{{"batch", 3}, {"tokens", 4}};
const SymExpr kBatch = SymExpr::dim("batch"), kTokens = SymExpr::dim("tokens");

void check_gradients(
    OpGraph& graph, TensorId output, LossKind loss = LossKind::mean_square,
    const std::function<void(Feed&)>& adjust = [](Feed&) {}) {
  graph.mark_output(output);
  const TrainingGraph training = differentiate(graph, {.loss = loss, .optimizer = OptimizerKind::none});
  REQUIRE(verify(training.graph) == std::vector<std::string>{});
  REQUIRE(training.unreached.empty());
  Feed feed = test::random_feed(training.graph, kSizes, 7, 3);
  adjust(feed);
  const std::vector<Value> values = test::interpret(training.graph, kSizes, feed);
  const auto loss_at = [&](const Feed& at) {
    return test::interpret(training.graph, kSizes, at)[index(training.loss)].data.front();
  };
  for (const auto& [parameter, gradient] : training.gradients) {
    const Value& slope = values[index(gradient)];
    const std::string& name = training.graph.tensor(parameter).name;
    double scale = 1e-3;
    for (const double v : slope.data) scale = std::max(scale, std::abs(v));
    REQUIRE(slope.data.size() == feed.at(name).data.size());
    for (std::size_t i = 0; i < slope.data.size(); ++i) {
      Feed up = feed, down = feed;
      up.at(name).data[i] += 1e-5;
      down.at(name).data[i] -= 1e-5;
      const double expected = (loss_at(up) - loss_at(down)) / 2e-5;
      INFO(name << "[" << i << "]: " << slope.data[i] << " against " << expected);
      REQUIRE(std::abs(slope.data[i] - expected) < 1e-6 * scale + 1e-9);
    }
  }
}

TensorId weight(OpGraph& graph, const std::string& name, std::vector<SymExpr> shape) {
  return graph.parameter(name, std::move(shape), ElementType::fp32);
}

/// Divisors of at least a half.
void away_from_zero(Feed& feed) {
  for (const char* name : {"b", "c"})
    for (double& v : feed.at(name).data) v += v < 0 ? -0.5 : 0.5;
}

TEST_CASE("Gradients of elementwise ops are right", "[unit][autodiff]") {
  for (const OpKind kind : {OpKind::add, OpKind::sub, OpKind::mul, OpKind::div, OpKind::maximum}) {
    INFO(to_string(kind));
    OpGraph graph;  // the second operand is broadcast from the right, and from 1
    const TensorId y = graph.emit(kind, {weight(graph, "a", {kBatch, 5}), weight(graph, "b", {5})});
    check_gradients(graph, graph.emit(kind, {y, weight(graph, "c", {kBatch, 1})}), LossKind::mean_square,
                    away_from_zero);
  }
  for (const OpKind kind : {OpKind::neg, OpKind::abs, OpKind::exp, OpKind::sin, OpKind::relu, OpKind::gelu,
                            OpKind::silu, OpKind::tanh, OpKind::sigmoid, OpKind::erf, OpKind::dropout}) {
    INFO(to_string(kind));
    OpGraph graph;
    check_gradients(graph, graph.emit(kind, {weight(graph, "a", {kBatch, 5})}));
  }
  const auto positive = [](Feed& feed) {
    for (double& v : feed.at("a").data) v = 0.5 + std::abs(v);
  };
  for (const OpKind kind : {OpKind::log, OpKind::sqrt, OpKind::rsqrt}) {
    INFO(to_string(kind));
    OpGraph graph;
    check_gradients(graph, graph.emit(kind, {weight(graph, "a", {kBatch, 5})}), LossKind::mean_square, positive);
  }
}

TEST_CASE("Gradients of ops with attributes are right", "[unit][autodiff]") {
  const std::vector<std::pair<OpKind, Attributes>> cases{{OpKind::scale, {{"factor", -1.75}}},
                                                         {OpKind::scale, {{"factor", 2.0}, {"offset", 3.0}}},
                                                         {OpKind::scale, {{"divisor", kTokens + 1}}},
                                                         {OpKind::pow, {}},
                                                         {OpKind::pow, {{"exponent", 3.0}}},
                                                         {OpKind::clamp, {{"max", 0.5}, {"min", -0.25}}},
                                                         {OpKind::dropout, {{"p", 0.3}}},
                                                         {OpKind::sin, {{"phase", 0.4}}},
                                                         {OpKind::cast, {{"to", std::string("fp16")}}}};
  for (const auto& [kind, attributes] : cases) {
    INFO(to_string(kind));
    OpGraph graph;
    check_gradients(graph, graph.emit(kind, {weight(graph, "a", {kBatch, 5})}, attributes));
  }
  OpGraph graph;
  const TensorId a = weight(graph, "a", {kBatch, 5}), b = weight(graph, "b", {kBatch, 5});
  const TensorId chosen = graph.emit(OpKind::compare, {a, b}, {{"relation", std::string("greater_equal")}});
  check_gradients(graph, graph.emit(OpKind::where, {chosen, graph.emit(OpKind::mul, {a, a}), b}));
}

TEST_CASE("Gradients of a tensor with several uses are summed", "[unit][autodiff]") {
  OpGraph graph;
  const TensorId a = weight(graph, "a", {kBatch, 5}), t = graph.emit(OpKind::tanh, {a});
  const TensorId sum = graph.emit(OpKind::add_n, {graph.emit(OpKind::mul, {t, t}), graph.emit(OpKind::exp, {t}), t});
  check_gradients(graph, graph.emit(OpKind::mul, {sum, a}));
}

TEST_CASE("Gradients of products are right in every transposition", "[unit][autodiff]") {
  for (const int ta : {0, 1})
    for (const int tb : {0, 1}) {
      INFO("trans_a " << ta << ", trans_b " << tb);
      const Attributes how{{"trans_a", SymExpr(ta)}, {"trans_b", SymExpr(tb)}};
      const std::vector<SymExpr> left = ta != 0 ? std::vector<SymExpr>{2, kTokens} : std::vector<SymExpr>{kTokens, 2};
      const std::vector<SymExpr> right = tb != 0 ? std::vector<SymExpr>{5, 2} : std::vector<SymExpr>{2, 5};
      std::vector<SymExpr> many = left, stacked = right;
      many.insert(many.begin(), kBatch);
      stacked.insert(stacked.begin(), kBatch);
      OpGraph flat, folded, batched, shared;
      check_gradients(flat, flat.emit(OpKind::matmul, {weight(flat, "a", left), weight(flat, "b", right)}, how));
      check_gradients(folded,
                      folded.emit(OpKind::matmul, {weight(folded, "a", many), weight(folded, "b", right)}, how));
      check_gradients(batched,
                      batched.emit(OpKind::matmul, {weight(batched, "a", many), weight(batched, "b", stacked)}, how));
      many.insert(many.begin() + 1, 2);  // [batch, 2, ..] x [batch, 1, ..]
      stacked.insert(stacked.begin() + 1, 1);
      check_gradients(shared,
                      shared.emit(OpKind::matmul, {weight(shared, "a", many), weight(shared, "b", stacked)}, how));
    }
  OpGraph biased;
  check_gradients(biased, biased.emit(OpKind::matmul, {weight(biased, "a", {kBatch, kTokens, 3}),
                                                       weight(biased, "w", {3, 2}), weight(biased, "b", {2})}));
}

TEST_CASE("Gradients of grouped products are right", "[unit][autodiff]") {
  for (const int turned : {0, 1}) {
    OpGraph graph;
    const TensorId x = weight(graph, "x", {kBatch * 4, 3});
    const TensorId w = weight(graph, "w", turned != 0 ? std::vector<SymExpr>{2, 5, 3} : std::vector<SymExpr>{2, 3, 5});
    check_gradients(graph, graph.emit(OpKind::grouped_matmul, {x, w}, {kBatch * 4, 5}, ElementType::fp32,
                                      {{"trans_b", SymExpr(turned)}}));
  }
}

TEST_CASE("Gradients of attention are right: causal or not, grouped heads, another width of values",
          "[unit][autodiff]") {
  for (const int causal : {0, 1})
    for (const int kv_heads : {4, 2, 1}) {
      OpGraph graph;
      const TensorId q = weight(graph, "q", {2, 4, kTokens, 3}), k = weight(graph, "k", {2, kv_heads, kTokens + 1, 3}),
                     v = weight(graph, "v", {2, kv_heads, kTokens + 1, 2});
      check_gradients(graph, graph.emit(OpKind::attention, {q, k, v}, {2, 4, kTokens, 2}, ElementType::fp32,
                                        {{"causal", SymExpr(causal)}}));
    }
}

TEST_CASE("Gradients of attention are right in a window and with sinks", "[unit][autodiff]") {
  for (const int window : {0, 1, 2, 7})
    for (const bool sinks : {false, true}) {
      OpGraph graph;
      std::vector<TensorId> inputs{weight(graph, "q", {2, 4, kTokens, 3}), weight(graph, "k", {2, 2, kTokens + 1, 3}),
                                   weight(graph, "v", {2, 2, kTokens + 1, 2})};
      if (sinks) inputs.push_back(weight(graph, "sinks", {1, 4, 1, 1}));
      check_gradients(
          graph, graph.emit(OpKind::attention, inputs, {2, 4, kTokens, 2}, ElementType::fp32,
                            {{"causal", SymExpr(1)}, {"window", SymExpr(window)}, {"sinks", SymExpr(sinks ? 1 : 0)}}));
    }
}

TEST_CASE("Gradients of grouped products are right with a bias a group", "[unit][autodiff]") {
  for (const int turned : {0, 1}) {
    OpGraph graph;
    const TensorId x = weight(graph, "x", {kBatch * 4, 3}), bias = weight(graph, "bias", {2, 1, 5});
    const TensorId w = weight(graph, "w", turned != 0 ? std::vector<SymExpr>{2, 5, 3} : std::vector<SymExpr>{2, 3, 5});
    check_gradients(graph, graph.emit(OpKind::grouped_matmul, {x, w, bias}, {kBatch * 4, 5}, ElementType::fp32,
                                      {{"trans_b", SymExpr(turned)}, {"bias", SymExpr(1)}}));
  }
}

TEST_CASE("Gradients of reductions and normalisations are right", "[unit][autodiff]") {
  for (const OpKind kind : {OpKind::reduce_sum, OpKind::reduce_mean, OpKind::reduce_max})
    for (const int keep : {0, 1})
      for (const std::vector<SymExpr>& axes : {std::vector<SymExpr>{1}, {-1}, {0, 2}, {0, 1, 2}}) {
        OpGraph graph;
        check_gradients(
            graph, graph.emit(kind, {weight(graph, "a", {kBatch, 2, 5})}, {{"axes", axes}, {"keep", SymExpr(keep)}}));
      }
  OpGraph softmax;
  check_gradients(softmax, softmax.emit(OpKind::softmax, {weight(softmax, "a", {kBatch, 5})}));
  for (const OpKind kind : {OpKind::layer_norm, OpKind::rms_norm})
    for (int affine = 0; affine <= (kind == OpKind::rms_norm ? 1 : 2); ++affine) {
      OpGraph graph;
      std::vector<TensorId> inputs{weight(graph, "x", {kBatch, kTokens, 5})};
      if (affine > 0) inputs.push_back(weight(graph, "gain", {5}));
      if (affine > 1) inputs.push_back(weight(graph, "shift", {5}));
      check_gradients(graph, graph.emit(kind, inputs));
    }
  for (const OpKind kind : {OpKind::batch_norm, OpKind::group_norm}) {
    OpGraph graph;
    const TensorId x = weight(graph, "x", {kBatch, 4, 2, 3});
    check_gradients(graph, graph.emit(kind, {x, weight(graph, "gain", {4}), weight(graph, "shift", {4})},
                                      {{"groups", SymExpr(2)}}));
  }
}

TEST_CASE("Gradients of the losses are right", "[unit][autodiff]") {
  OpGraph entropy, likelihood, squares, sum, given;
  check_gradients(entropy, weight(entropy, "a", {kBatch, kTokens, 5}), LossKind::cross_entropy);
  check_gradients(likelihood, weight(likelihood, "a", {kBatch, kTokens, 5}), LossKind::nll);
  check_gradients(squares, weight(squares, "a", {kBatch, 5}), LossKind::mean_square);
  const TensorId a = weight(sum, "a", {kBatch, 5});
  check_gradients(sum, sum.emit(OpKind::mul, {a, a}), LossKind::sum);
  const TensorId b = weight(given, "b", {kBatch, 5});
  check_gradients(
      given, given.emit(OpKind::reduce_mean, {given.emit(OpKind::exp, {b})}, {{"axes", std::vector<SymExpr>{0, 1}}}),
      LossKind::automatic);
}

TEST_CASE("Gradients of movement are right", "[unit][autodiff]") {
  OpGraph views;
  TensorId x = weight(views, "x", {kBatch, kTokens, 6});
  x = views.emit(OpKind::reshape, {x}, {kBatch, kTokens, 2, 3}, ElementType::fp32);
  x = views.emit(OpKind::transpose, {x}, {kBatch, 2, 3, kTokens}, ElementType::fp32,
                 {{"perm", std::vector<SymExpr>{0, 2, 3, 1}}});
  x = views.emit(OpKind::mul, {x, views.emit(OpKind::expand, {weight(views, "e", {1, 1, 3, 1})},
                                             {kBatch, 2, 3, kTokens}, ElementType::fp32)});
  check_gradients(views, views.emit(OpKind::copy, {x}));

  OpGraph joined;
  const TensorId p = weight(joined, "p", {kBatch, 2}), q = weight(joined, "q", {kBatch, kTokens});
  const TensorId both =
      joined.emit(OpKind::concat, {p, q}, {kBatch, kTokens + 2}, ElementType::fp32, {{"axis", SymExpr(1)}});
  check_gradients(joined, joined.emit(OpKind::mul, {both, both}));

  OpGraph embedded;
  const TensorId table = weight(embedded, "table", {3, 5}),
                 ids = embedded.input("ids", {kBatch, kTokens}, ElementType::int64);
  check_gradients(embedded, embedded.emit(OpKind::embedding, {table, ids}, {kBatch, kTokens, 5}, ElementType::fp32));

  OpGraph picked;
  const TensorId rows = picked.input("rows", {7}, ElementType::int64), source = weight(picked, "s", {kBatch, 2});
  const TensorId messages = picked.emit(OpKind::gather, {source, rows}, {7, 2}, ElementType::fp32);
  check_gradients(picked, picked.emit(OpKind::scatter_add, {weight(picked, "t", {kBatch, 2}), messages, rows},
                                      {kBatch, 2}, ElementType::fp32));

  OpGraph turned;
  check_gradients(turned, turned.emit(OpKind::rope, {weight(turned, "x", {kBatch, kTokens, 4})}));

  OpGraph padded;
  const Attributes frame{{"after", std::vector<SymExpr>{1, 0}}, {"before", std::vector<SymExpr>{2, 3}}};
  check_gradients(
      padded, padded.emit(OpKind::pad, {weight(padded, "x", {kBatch, 2})}, {kBatch + 3, 5}, ElementType::fp32, frame));
}

TEST_CASE("Slices that cover a tensor have their gradients put side by side, others in a frame", "[unit][autodiff]") {
  const auto part = [](OpGraph& graph, TensorId x, std::int64_t start, std::int64_t length) {
    return graph.emit(OpKind::slice, {x}, {kBatch, length}, ElementType::fp32,
                      {{"axis", SymExpr(1)}, {"start", SymExpr(start)}});
  };
  const auto kinds = [](const OpGraph& graph, OpKind kind) {
    int n = 0;
    for (const OpId id : graph.ops()) n += graph.op(id).kind == kind ? 1 : 0;
    return n;
  };
  OpGraph covered, partial, overlapping;
  const TensorId a = weight(covered, "a", {kBatch, 6});
  check_gradients(
      covered, covered.emit(OpKind::mul, {covered.emit(OpKind::mul, {part(covered, a, 0, 2), part(covered, a, 2, 2)}),
                                          part(covered, a, 4, 2)}));
  const TensorId b = weight(partial, "a", {kBatch, 6});
  check_gradients(partial, partial.emit(OpKind::mul, {part(partial, b, 1, 2), part(partial, b, 4, 2)}));
  const TensorId c = weight(overlapping, "a", {kBatch, 4});
  check_gradients(overlapping, overlapping.emit(OpKind::mul, {part(overlapping, c, 0, 3), part(overlapping, c, 1, 3)}));
  CHECK(kinds(differentiate(covered).graph, OpKind::concat) == 1);
  CHECK(kinds(differentiate(covered).graph, OpKind::pad) == 0);
  CHECK(kinds(differentiate(partial).graph, OpKind::pad) == 2);
  CHECK(kinds(differentiate(overlapping).graph, OpKind::pad) == 2);
}

TEST_CASE("Gradients of images are right", "[unit][autodiff]") {
  for (const std::array<int, 4>& how : {std::array{1, 0, 1, 1}, {2, 1, 1, 1}, {1, 2, 2, 1}, {1, 1, 1, 2}}) {
    OpGraph graph;
    const TensorId x = weight(graph, "x", {kBatch, 4, 5, 6}), w = weight(graph, "w", {4, 4 / how[3], 3, 3});
    const Attributes attributes{{"stride", SymExpr(how[0])},
                                {"pad", SymExpr(how[1])},
                                {"dilation", SymExpr(how[2])},
                                {"groups", SymExpr(how[3])}};
    check_gradients(graph, graph.emit(OpKind::conv2d, {x, w, weight(graph, "b", {4})}, attributes));
  }
  for (const OpKind kind : {OpKind::max_pool2d, OpKind::avg_pool2d})
    for (const int kernel : {2, 3}) {
      OpGraph graph;
      check_gradients(graph,
                      graph.emit(kind, {weight(graph, "x", {2, 2, 6, 5})},
                                 {{"kernel", SymExpr(kernel)}, {"stride", SymExpr(2)}, {"pad", SymExpr(kernel - 2)}}));
    }
  OpGraph grown;
  check_gradients(grown, grown.emit(OpKind::upsample, {weight(grown, "x", {2, 2, 3, 2})}, {2, 2, 6, 4},
                                    ElementType::fp32, {{"factor", SymExpr(2)}}));
}

TEST_CASE("A transformer layer with a head has the right gradients", "[unit][autodiff]") {
  OpGraph graph;
  const TensorId ids = graph.input("ids", {2, kTokens}, ElementType::int64);
  const TensorId table = weight(graph, "table", {5, 4});
  TensorId x = graph.emit(OpKind::embedding, {table, ids}, {2, kTokens, 4}, ElementType::fp32);
  const TensorId normed = graph.emit(OpKind::layer_norm, {x, weight(graph, "g1", {4}), weight(graph, "b1", {4})});
  const TensorId qkv = graph.emit(OpKind::matmul, {normed, weight(graph, "wqkv", {12, 4}), weight(graph, "bqkv", {12})},
                                  {{"trans_b", SymExpr(1)}});
  std::vector<TensorId> heads;
  for (int i = 0; i < 3; ++i) {
    const TensorId part = graph.emit(OpKind::slice, {qkv}, {2, kTokens, 4}, ElementType::fp32,
                                     {{"axis", SymExpr(2)}, {"start", SymExpr(4 * i)}});
    heads.push_back(graph.emit(OpKind::transpose,
                               {graph.emit(OpKind::reshape, {part}, {2, kTokens, 2, 2}, ElementType::fp32)},
                               {2, 2, kTokens, 2}, ElementType::fp32, {{"perm", std::vector<SymExpr>{0, 2, 1, 3}}}));
  }
  TensorId out = graph.emit(OpKind::attention, heads, {2, 2, kTokens, 2}, ElementType::fp32, {{"causal", SymExpr(1)}});
  out = graph.emit(OpKind::transpose, {out}, {2, kTokens, 2, 2}, ElementType::fp32,
                   {{"perm", std::vector<SymExpr>{0, 2, 1, 3}}});
  out = graph.emit(OpKind::reshape, {out}, {2, kTokens, 4}, ElementType::fp32);
  out = graph.emit(OpKind::matmul, {out, weight(graph, "wo", {4, 4})}, {{"trans_b", SymExpr(1)}});
  x = graph.emit(OpKind::add, {x, graph.emit(OpKind::dropout, {out}, {{"p", 0.1}})});
  const TensorId up = graph.emit(
      OpKind::matmul, {graph.emit(OpKind::rms_norm, {x, weight(graph, "g2", {4})}), weight(graph, "up", {4, 8})});
  x = graph.emit(OpKind::add,
                 {x, graph.emit(OpKind::matmul, {graph.emit(OpKind::gelu, {up}), weight(graph, "down", {8, 4})})});
  // The head shares the embedding's table: one gradient for two uses.
  check_gradients(graph, graph.emit(OpKind::matmul, {x, table}, {{"trans_b", SymExpr(1)}}), LossKind::cross_entropy);
}

}  // namespace
}  // namespace orrery::models::test_autodiff_values
