// Dividing parameters among ranks: which tensors, what follows from them, and where sums over ranks stand.
#include <catch2/catch.hpp>

#include "policies/placement/slapo_schedule.hpp"

namespace test_slapo_shard {

using namespace orrery;
using namespace orrery::models;
namespace slapo = policies::slapo;
using slapo::SyncDirection;
using Shape = std::vector<SymExpr>;

namespace {

slapo::PlacedShard divide(const char* scope, const char* param, std::int64_t axis = 0) {
  return {{scope, param, axis, {}}, {5, "shard"}};
}
slapo::PlacedSync sum(const char* scope, SyncDirection direction = SyncDirection::forward) {
  return {{scope, direction}, {7, "sync"}};
}

/// x times ffn.up, relu, times ffn.down: [8, 16] to 32 and to 4 columns.
struct Layer {
  OpGraph graph;
  TensorId up{}, h{}, down{}, y{};
  Layer() {
    graph.set_scope("ffn");
    const TensorId x = graph.input("x", {8, 16}, ElementType::fp16);
    up = graph.parameter("ffn.up", {16, 32}, ElementType::fp16);
    down = graph.parameter("ffn.down", {32, 4}, ElementType::fp16);
    h = graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, up})});
    y = graph.emit(OpKind::matmul, {h, down});
  }
};
const std::vector<slapo::PlacedShard> kPair{divide("ffn", "up", 1), divide("ffn", "down")};

Shape shape_of(const OpGraph& graph, const char* tensor) {
  return graph.tensor(*graph.find_tensor(tensor)).shape;
}

OpGraph sharded(const OpGraph& graph, const std::vector<slapo::PlacedShard>& shards,
                const std::vector<slapo::PlacedSync>& syncs, std::int64_t ranks) {
  return slapo::shard(graph, slapo::divided_tensors(graph, shards, ranks), syncs, ranks);
}

std::string why(const OpGraph& graph, const std::vector<slapo::PlacedShard>& shards,
                const std::vector<slapo::PlacedSync>& syncs = {}, std::int64_t ranks = 2) {
  try {
    static_cast<void>(sharded(graph, shards, syncs, ranks));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a divided parameter is a rank's part of it, and so is what follows until a sum over ranks", "[unit]") {
  Layer layer;
  layer.graph.mark_output(layer.graph.emit(OpKind::exp, {layer.y}));
  layer.graph.mark_output(layer.graph.emit(OpKind::tanh, {layer.y}));
  const OpGraph split = sharded(layer.graph, kPair, {sum("ffn")}, 4);
  REQUIRE(verify(split).empty());
  CHECK(shape_of(split, "ffn.up") == Shape{16, 8});
  CHECK(shape_of(split, "ffn.down") == Shape{8, 4});
  CHECK(shape_of(split, "x") == Shape{8, 16});
  CHECK(split.tensor(split.op(OpId{1}).outputs.front()).shape == Shape{8, 8});
  // One sum, though two ops read it, named after what it sums.
  REQUIRE(split.op_count() == 6);
  const OpNode& all = split.op(OpId{3});
  CHECK(all.kind == OpKind::all_reduce);
  CHECK(all.name == layer.graph.tensor(layer.y).name + ".sum");
  CHECK(all.scope == "ffn");
  CHECK(all.phase == Phase::forward);
  CHECK(all.op_class == hw::OpClass::all_reduce);
  CHECK(all.integer("ranks", 0) == 4);
  CHECK(split.tensor(all.outputs.front()).shape == Shape{8, 4});
  CHECK(split.op(OpId{4}).inputs.front() == all.outputs.front());
  CHECK(split.op(OpId{5}).inputs.front() == all.outputs.front());
  CHECK(split.outputs().size() == 2);
}

TEST_CASE("partial sums that a model gives are made whole, by a sync of the module that made them", "[unit]") {
  Layer layer;
  layer.graph.mark_output(layer.y);
  const OpGraph split = sharded(layer.graph, kPair, {sum("ffn")}, 2);
  CHECK(split.op(OpId{3}).kind == OpKind::all_reduce);
  CHECK(split.outputs().front() == split.op(OpId{3}).outputs.front());
  const std::string name = layer.graph.tensor(layer.y).name;
  CHECK(why(layer.graph, kPair) == "slapo: the model's results reads partial sums of '" + name +
                                       R"(': add {"sync": {"scope": "ffn", "direction": "forward"}})");
  CHECK(why(layer.graph, kPair, {sum("ffn", SyncDirection::backward)}) == why(layer.graph, kPair));
  CHECK(why(layer.graph, kPair, {sum("*")}) == "none");
  // A sync that is not needed is a fault, also beside one that is.
  CHECK(why(layer.graph, kPair, {sum("ffn"), sum("ffn")}) ==
        "/slapo/schedule/7/sync/scope: expected a module that makes partial sums, got 'ffn' (shard the axis that a "
        "product sums over)");
  CHECK(why(layer.graph, {}, {sum("ffn")}).starts_with("/slapo/schedule/7/sync/scope: "));
}

TEST_CASE("sums of the backward pass are those of gradients", "[unit]") {
  Layer layer;
  layer.graph.set_phase(Phase::backward);
  const TensorId grad = layer.graph.emit(OpKind::matmul, {layer.h, layer.down});
  layer.graph.mark_output(grad);
  CHECK_THAT(why(layer.graph, kPair, {sum("ffn")}), Catch::EndsWith(R"("direction": "backward"}})"));
  const OpGraph split = sharded(layer.graph, kPair, {sum("ffn", SyncDirection::backward)}, 2);
  CHECK(split.op(OpId{4}).phase == Phase::backward);
}

TEST_CASE("what a shard names: parameters and inputs of a module, by the rest of their names", "[unit]") {
  OpGraph graph;
  graph.set_scope("a");
  const auto parameter = [&](const char* name, Shape shape) {
    graph.parameter(name, std::move(shape), ElementType::fp16);
  };
  parameter("a.w", {8, 4});
  parameter("a.q.weight", {8, 4});
  parameter("a.q.bias", {8});
  parameter("ab.w", {8, 4});
  parameter("a", {8, 4});
  graph.input("a.cache", {8, 4}, ElementType::fp16);
  graph.constant("a.k", {8, 4}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::relu, {graph.input("x", {8, 4}, ElementType::fp16)}));
  const auto divided = [&](const char* param, std::int64_t axis = 0) {
    const OpGraph split = sharded(graph, {divide("a", param, axis)}, {}, 2);
    std::vector<std::string> names;
    for (const TensorId id : split.tensors())
      if (const auto before = graph.find_tensor(split.tensor(id).name);
          before && !(graph.tensor(*before).shape == split.tensor(id).shape))
        names.push_back(split.tensor(id).name);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(divided("w") == Names{"a.w"});  // of a name of one letter, and of this module alone
  CHECK(divided("q.weight") == Names{"a.q.weight"});
  CHECK(divided("q.*") == Names{"a.q.weight", "a.q.bias"});
  CHECK(divided("cache", 1) == Names{"a.cache"});
  CHECK(divided("*") == Names{"a.w", "a.cache"});  // one piece
  CHECK(why(graph, {divide("a", "k")})
            .starts_with("/slapo/schedule/5/shard/param: expected a parameter of 'a', got 'k'"));
  CHECK(why(graph, {divide("a", "q")}).starts_with("/slapo/schedule/5/shard/param: "));
  CHECK(why(graph, {divide("a", "q.bias", 1)}) ==
        "/slapo/schedule/5/shard/axis: expected an axis of a.q.bias fp16[8], got 1");
  CHECK(why(graph, {divide("a", "w", 1)}, {}, 8) ==
        "/slapo/schedule/5/shard/axis: expected a size that 8 ranks divide, got 4 of a.w");
  CHECK(why(graph, {divide("a", "w")}, {}, 8) == "none");
  CHECK(why(graph, {divide("b", "w")}).starts_with("/slapo/schedule/5/shard/scope: "));
}

TEST_CASE("optimizer state lies as the parameter that it is named after", "[unit]") {
  OpGraph graph;
  graph.set_scope("a");
  OpNode step;
  step.kind = OpKind::optimizer_step;
  std::vector<TensorId> gradients, states;
  std::vector<Tensor> next;
  for (const char* name : {"a.w", "a.wide"}) {
    step.inputs.push_back(graph.parameter(name, {8, 4}, ElementType::fp16));
    gradients.push_back(graph.input(std::string(name) + ".grad", {8, 4}, ElementType::fp16));
    states.push_back(graph.add_tensor({.name = std::string(name) + ".moment",
                                       .shape = {8, 4},
                                       .type = ElementType::fp32,
                                       .role = TensorRole::state}));
    next.push_back({.name = std::string(name) + ".next", .shape = {8, 4}});
  }
  step.inputs.insert(step.inputs.end(), gradients.begin(), gradients.end());
  step.inputs.insert(step.inputs.end(), states.begin(), states.end());
  step.attributes = {{"parameters", SymExpr(2)}, {"updates", Shape{0, 1}}};
  for (const TensorId made : graph.op(graph.add(std::move(step), next)).outputs) graph.mark_output(made);
  const OpGraph split = sharded(graph, {divide("a", "w"), divide("a", "w.grad")}, {}, 2);
  CHECK(shape_of(split, "a.w") == Shape{4, 4});
  CHECK(shape_of(split, "a.w.moment") == Shape{4, 4});
  CHECK(shape_of(split, "a.w.next") == Shape{4, 4});
  CHECK(shape_of(split, "a.wide") == Shape{8, 4});
  CHECK(shape_of(split, "a.wide.moment") == Shape{8, 4});
  CHECK(shape_of(split, "a.wide.next") == Shape{8, 4});
}

TEST_CASE("partial sums pass what is linear and are whole before what is not", "[unit]") {
  const auto kinds = [](OpKind between, Shape shape = {8, 4}) {
    Layer layer;
    Attributes attributes;
    if (between == OpKind::cast) attributes = {{"to", std::string("fp32")}};
    const TensorId mid = layer.graph.emit(between, {layer.y}, std::move(shape), ElementType::fp16, attributes);
    layer.graph.mark_output(layer.graph.emit(OpKind::exp, {mid}));
    const OpGraph split = sharded(layer.graph, kPair, {sum("ffn")}, 2);
    std::vector<OpKind> all;
    for (const OpId id : split.ops())
      if (index(id) > 2) all.push_back(split.op(id).kind);
    return all;
  };
  using Kinds = std::vector<OpKind>;
  for (const OpKind linear : {OpKind::scale, OpKind::cast, OpKind::copy})
    CHECK(kinds(linear) == Kinds{linear, OpKind::all_reduce, OpKind::exp});
  CHECK(kinds(OpKind::reshape, {32}) == Kinds{OpKind::reshape, OpKind::all_reduce, OpKind::exp});
  for (const OpKind other : {OpKind::relu, OpKind::softmax, OpKind::custom, OpKind::pow})
    CHECK(kinds(other) == Kinds{OpKind::all_reduce, other, OpKind::exp});
}

}  // namespace test_slapo_shard
