// Which dropouts of probabilities are made again for the backward pass, and what stands in their place.
#include "policies/memory/tempo_rewrite.hpp"

#include <catch2/catch.hpp>
#include <functional>

namespace test_tempo_rewrite {

using namespace orrery;
using namespace orrery::models;
using policies::rewrite_saved_tensors;
using policies::TempoCounts;
using policies::TempoRewrites;

namespace {

/// Probabilities, a dropout of them with its mask, and a product of the backward pass that reads the dropout's result.
struct Attention {
  OpGraph graph;
  TensorId scores = graph.input("scores", {8, 8}, ElementType::fp32), dy = graph.input("dy", {8, 8}, ElementType::fp32);
  TensorId probabilities{}, kept{};

  explicit Attention(OpKind kind = OpKind::softmax, bool mask = true, bool cast = false) {
    graph.set_scope("layer.0");
    probabilities = graph.emit(kind, {scores});
    TensorId from = probabilities;
    if (cast) from = graph.emit(OpKind::cast, {from}, {{"to", std::string("fp32")}});
    OpNode drop;
    drop.kind = OpKind::dropout;
    drop.name = "drop";
    drop.inputs = {from};
    drop.set("p", 0.25);
    std::vector<Tensor> outputs{{.name = "kept", .shape = {8, 8}, .type = ElementType::fp32}};
    if (mask) outputs.push_back({.name = "mask", .shape = {8, 8}, .type = ElementType::boolean});
    kept = graph.op(graph.add(std::move(drop), std::move(outputs))).outputs.front();
    graph.mark_output(graph.emit(OpKind::relu, {kept}));  // the forward pass reads it as well
  }
  void backward(TensorId read, OpKind kind = OpKind::matmul) {
    graph.set_phase(Phase::backward);
    graph.mark_output(graph.emit(kind, {dy, read}));
  }
  std::int64_t rewritten(const TempoRewrites& how = {}) {
    TempoCounts counts;
    const OpGraph done = rewrite_saved_tensors(graph, how, counts);
    CHECK(verify(done).empty());
    CHECK(counts.gelus == 0);
    CHECK(counts.norms == 0);
    return counts.attentions;
  }
};

std::int64_t rewritten(Attention attention, const std::function<TensorId(Attention&)>& read = nullptr,
                       const std::function<void(Attention&)>& after = nullptr, const TempoRewrites& how = {}) {
  attention.backward(read ? read(attention) : attention.kept);
  if (after) after(attention);
  return attention.rewritten(how);
}

}  // namespace

TEST_CASE("A dropout of probabilities is made again from them and its mask, before the product that reads it",
          "[unit][tempo]") {
  Attention attention;
  attention.backward(attention.kept);
  TempoCounts counts;
  const OpGraph done = rewrite_saved_tensors(attention.graph, {}, counts);
  REQUIRE(verify(done).empty());
  CHECK(counts.attentions == 1);
  REQUIRE(done.op_count() == attention.graph.op_count() + 1);
  const OpNode &again = done.op(OpId{3}), &product = done.op(OpId{4});
  CHECK(again.kind == OpKind::dropout_grad);
  CHECK(again.name == "drop.again");
  CHECK(again.scope == "layer.0");
  CHECK(again.phase == Phase::backward);
  CHECK(again.number("p", 0) == 0.25);
  REQUIRE(again.inputs.size() == 2);
  CHECK(again.inputs[0] == done.op(OpId{0}).outputs.front());
  CHECK(done.tensor(again.inputs[1]).name == "mask");
  CHECK(product.kind == OpKind::matmul);
  CHECK(product.inputs[1] == again.outputs.front());
  CHECK(done.tensor(product.inputs[0]).name == "dy");
  // Kept for the backward pass: probabilities and mask, not what the dropout gave.
  CHECK(done.tensor(done.op(OpId{0}).outputs.front()).saved);
  CHECK(done.tensor(*done.find_tensor("mask")).saved);
  CHECK_FALSE(done.tensor(*done.find_tensor("kept")).saved);
}

TEST_CASE("A dropout stays that is not of probabilities, has no mask, or is kept by others", "[unit][tempo]") {
  CHECK(rewritten(Attention{}) == 1);
  CHECK(rewritten(Attention{OpKind::relu}) == 0);
  CHECK(rewritten(Attention{OpKind::softmax, false}) == 0);
  CHECK(rewritten(Attention{OpKind::softmax, true, true}) == 1);  // a cast of probabilities
  CHECK(rewritten(Attention{OpKind::relu, true, true}) == 0);
  CHECK(rewritten(Attention{}, [](Attention& one) { return one.probabilities; }) == 0);  // reads something else
  CHECK(rewritten(Attention{}, nullptr, [](Attention& one) { one.graph.mark_output(one.kept); }) == 0);
  CHECK(rewritten(Attention{}, nullptr, [](Attention& one) {
          one.graph.mark_output(one.graph.emit(OpKind::neg, {one.kept}));  // of the backward pass
        }) == 0);
  CHECK(rewritten(Attention{}, nullptr, nullptr, {true, true, false}) == 0);
  CHECK(rewritten(Attention{}, nullptr, nullptr, {true, true, true, 1}) == 1);
  CHECK(rewritten(Attention{}, nullptr, nullptr, {true, true, true, 0}) == 0);
  CHECK(rewritten(Attention{}, nullptr, nullptr, {true, true, true, 1, "block."}) == 0);
  Attention other;  // another op than a product
  other.backward(other.kept, OpKind::add);
  CHECK(other.rewritten() == 0);
}

TEST_CASE("What is made again is seen as before: in the same shape, and in the same type", "[unit][tempo]") {
  Attention viewed;
  const TensorId flat = viewed.graph.emit(OpKind::reshape, {viewed.kept}, {4, 2, 8}, ElementType::fp32);
  const TensorId left = viewed.graph.input("left", {4, 8, 2}, ElementType::fp32);
  viewed.graph.set_phase(Phase::backward);
  viewed.graph.mark_output(viewed.graph.emit(OpKind::matmul, {left, flat}));
  TempoCounts counts;
  const OpGraph done = rewrite_saved_tensors(viewed.graph, {}, counts);
  REQUIRE(verify(done).empty());
  CHECK(counts.attentions == 1);
  const OpNode& product = done.op(OpId{static_cast<std::int32_t>(done.op_count() - 1)});
  const OpNode& view = done.op(*done.producer(product.inputs[1]));
  CHECK(view.kind == OpKind::reshape);
  CHECK(view.phase == Phase::backward);
  CHECK(view.scope == "layer.0");
  CHECK(done.tensor(view.outputs.front()).shape == std::vector<SymExpr>{4, 2, 8});
  CHECK(done.op(*done.producer(view.inputs.front())).name == "drop.again");
  // A view that another op of the backward pass reads keeps the dropout's result too.
  viewed.graph.mark_output(viewed.graph.emit(OpKind::neg, {flat}));
  CHECK(viewed.rewritten() == 0);

  Attention halves;
  const TensorId half = halves.graph.emit(OpKind::cast, {halves.kept}, {{"to", std::string("fp16")}});
  const TensorId gradient = halves.graph.input("gradient", {8, 8}, ElementType::fp16);
  halves.graph.set_phase(Phase::backward);
  halves.graph.mark_output(halves.graph.emit(OpKind::matmul, {gradient, half}));
  counts = {};
  const OpGraph cast = rewrite_saved_tensors(halves.graph, {}, counts);
  REQUIRE(verify(cast).empty());
  CHECK(counts.attentions == 1);
  const OpNode& last = cast.op(OpId{static_cast<std::int32_t>(cast.op_count() - 1)});
  const OpNode& same = cast.op(*cast.producer(last.inputs[1]));
  CHECK(same.kind == OpKind::cast);
  CHECK(same.name.ends_with(".again"));
  CHECK(same.phase == Phase::backward);
  CHECK(cast.tensor(same.outputs.front()).type == ElementType::fp16);
  CHECK(cast.op(*cast.producer(same.inputs.front())).name == "drop.again");
}

}  // namespace test_tempo_rewrite
