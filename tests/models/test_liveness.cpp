#include "models/graph/liveness.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "models/graph/graph_rewrite.hpp"
#include "models/graph/op_work.hpp"
#include "tests/models/random_graph.hpp"

namespace test_liveness {

using namespace orrery;
using namespace orrery::models;

namespace {

const SymExpr kBatch = SymExpr::dim("batch");
const Bindings kFour{{"batch", 4}};

}  // namespace

TEST_CASE("a chain of passes needs two tensors, or one in place", "[unit]") {
  OpGraph graph;
  TensorId at = graph.input("x", {kBatch, 8}, ElementType::fp32);
  for (int i = 0; i < 4; ++i) at = graph.emit(OpKind::relu, {at});
  graph.mark_output(at);
  // Each tensor has 4 x 8 x 4 B = 128 B; the input is there before the run.
  const Liveness apart = liveness(graph, kFour, false);
  CHECK(apart.persistent == 128);
  CHECK(apart.live == std::vector<std::int64_t>{128, 256, 256, 256});
  CHECK(apart.peak == 256);
  CHECK(apart.peak_step == 1);
  const Liveness placed = liveness(graph, kFour);
  CHECK(placed.live == std::vector<std::int64_t>{128, 128, 128, 128});
  CHECK(placed.lifetimes[2].in_place_of == 1);
  CHECK_FALSE(placed.lifetimes[0].in_place_of);  // the input is not ours to overwrite
}

TEST_CASE("scratch is held while its op runs", "[unit]") {
  OpGraph graph;
  TensorId at = graph.input("x", {kBatch, 8}, ElementType::fp32);
  for (int i = 0; i < 3; ++i) at = graph.emit(OpKind::relu, {at});
  graph.mark_output(at);
  graph.annotate(*graph.producer(at)).set("scratch", kBatch * 10);
  // 128 B a tensor in place; the last op has 4 x 10 B more.
  CHECK(liveness(graph, kFour).live == std::vector<std::int64_t>{128, 128, 168});
}

TEST_CASE("views hold what they are made of, products take no operand's place", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {8, 8}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::gelu, {x});                                         // 0: 64 B
  const TensorId v = graph.emit(OpKind::reshape, {a}, {kBatch * 8, 1}, ElementType::fp16);  // 1: a view of it
  const TensorId y = graph.emit(OpKind::matmul, {a, w});                                    // 2: 64 B
  const TensorId z = graph.emit(OpKind::exp, {v});                                          // 3: in place of a
  graph.mark_output(y);
  graph.mark_output(z);
  const Liveness alive = liveness(graph, kFour);
  CHECK(alive.persistent == 64 + 128);
  REQUIRE(alive.lifetimes.size() == 3);
  CHECK(alive.lifetimes[0].end == 4);
  CHECK_FALSE(alive.lifetimes[1].in_place_of);
  CHECK(alive.lifetimes[2].in_place_of == 0);
  CHECK(alive.live == std::vector<std::int64_t>{64, 64, 128, 128});
  const Storages storages(graph);
  CHECK(storages.of(v) == storages.of(a));
  CHECK(storages.all()[storages.of(a)].uses.size() == 3);
}

TEST_CASE("a transposed view is read elsewhere than written: no take-over", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, kBatch}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::gelu, {x});
  const TensorId t = graph.emit(OpKind::transpose, {a}, {kBatch, kBatch}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::exp, {t}));
  CHECK(liveness(graph, kFour).peak == 2 * 4 * 4 * 2);
}

TEST_CASE("what stays inside a fused op never exists", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp32);
  const TensorId a = graph.emit(OpKind::softmax, {x});
  const TensorId b = graph.emit(OpKind::softmax, {a});
  graph.mark_output(graph.emit(OpKind::softmax, {b}));
  CHECK(liveness(graph, kFour).peak == 256);
  CHECK(liveness(fuse_groups(graph, {0, 0, 0}), kFour).peak == 128);
}

TEST_CASE("an update writes over what it updates, unless the old value is read later", "[unit]") {
  const auto build = [](bool read_later) {
    OpGraph graph;
    const TensorId w = graph.parameter("w", {8, 8}, ElementType::fp32);  // 256 B
    const TensorId g = graph.emit(OpKind::exp, {w});
    OpNode step;
    step.kind = OpKind::optimizer_step;
    step.inputs = {w, g};
    step.attributes = {{"updates", std::vector<SymExpr>{0}}};
    Tensor updated = graph.tensor(w);
    updated.name = "w.next";
    updated.role = TensorRole::activation;
    const OpId id = graph.add(std::move(step), {updated});
    graph.mark_output(graph.op(id).outputs.front());
    if (read_later) graph.mark_output(graph.emit(OpKind::relu, {w}));
    return graph;
  };
  const OpGraph once = build(false);
  CHECK(liveness(once, {}).live == std::vector<std::int64_t>{256, 256});  // the gradient alone
  const Storages storages(once);
  CHECK(storages.before(OpId{1}) == std::vector<OpId>{OpId{0}});  // exp reads the old value
  CHECK(liveness(build(true), {}).live == std::vector<std::int64_t>{256, 512, 512});
}

TEST_CASE("regions of a loop need their peak beside its operands", "[unit]") {
  auto body = std::make_shared<OpGraph>();
  const TensorId in = body->input("x", {kBatch, 8}, ElementType::fp32);
  const TensorId soft = body->emit(OpKind::softmax, {in});
  body->mark_output(body->emit(OpKind::softmax, {soft}));
  OpGraph graph;
  OpNode loop;
  loop.kind = OpKind::loop;
  loop.inputs = {graph.input("x", {kBatch, 8}, ElementType::fp32)};
  loop.attributes = {{"trips", SymExpr(3)}};
  loop.regions = {body};
  Tensor out{.name = "y", .shape = {kBatch, 8}, .type = ElementType::fp32};
  graph.mark_output(graph.op(graph.add(std::move(loop), {out})).outputs.front());
  CHECK(liveness(graph, kFour).live == std::vector<std::int64_t>{128 + 256});
}

TEST_CASE("symbolic impacts sum up to live bytes", "[prop]") {
  sim::RandomStream random(4, "liveness");
  for (int round = 0; round < 40; ++round) {
    const OpGraph graph = test::random_graph(random);
    const Bindings bindings{{"batch", random.integer(1, 64)}};
    const Liveness alive = liveness(graph, bindings, false);
    const std::vector<SymExpr> impacts = memory_impacts(graph);
    SymExpr sum;
    for (std::size_t step = 0; step < impacts.size(); ++step) {
      sum += impacts[step];
      std::int64_t after = 0;  // what is live past this step
      for (const Lifetime& life : alive.lifetimes) {
        const bool kept = life.end == static_cast<std::int64_t>(graph.op_count());
        if (life.begin <= static_cast<std::int64_t>(step) && (life.end > static_cast<std::int64_t>(step) + 1 || kept))
          after += life.bytes;
      }
      // At the last step, what the graph does not give is gone.
      if (step + 1 < impacts.size()) REQUIRE(sum.eval(bindings) == after);
    }
    const Liveness placed = liveness(graph, bindings);
    REQUIRE(placed.peak <= alive.peak);
    REQUIRE(placed.persistent == alive.persistent);
    for (std::size_t step = 0; step < placed.live.size(); ++step) REQUIRE(placed.live[step] <= alive.live[step]);
  }
}

}  // namespace test_liveness
