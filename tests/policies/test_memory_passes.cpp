#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/graph_rewrite.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/memory/graph_buffers.hpp"
#include "policies/memory/remat.hpp"
#include "policies/memory/schedule.hpp"
#include "tests/models/random_graph.hpp"

namespace test_memory_passes {

using namespace orrery;
using namespace orrery::models;
using namespace orrery::policies;

namespace {

const SymExpr kBatch = SymExpr::dim("batch");

OpGraph run_pass(const std::string& name, const OpGraph& graph, const PassContext& context,
                 const std::string& params = "{}", PassReport* report = nullptr) {
  PassRegistry registry("pass");
  register_memory_passes(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  PassReport own;
  return choice.make()->run(graph, context, report == nullptr ? own : *report);
}

double figure(const PassReport& report, const std::string& name) {
  for (const auto& [key, value] : report.figures)
    if (key == name) return value;
  FAIL("no figure " << name);
  return 0;
}

/// A training step of `layers` layers y = gelu(x w): the backward pass reads x and the product of every layer, in the
/// reverse order; all optimizer steps come at the end.
OpGraph training_chain(int layers, std::int64_t width) {
  OpGraph graph;
  std::vector<TensorId> inputs, products, weights, gradients;
  TensorId x = graph.input("x", {kBatch, width}, ElementType::fp16);
  for (int i = 0; i < layers; ++i) {
    weights.push_back(graph.parameter("w" + std::to_string(i), {width, width}, ElementType::fp16));
    inputs.push_back(x);
    products.push_back(graph.emit(OpKind::matmul, {x, weights.back()}));
    x = graph.emit(OpKind::gelu, {products.back()});
  }
  TensorId grad = graph.emit(OpKind::neg, {x});
  for (int i = layers; i-- > 0;) {
    const auto at = static_cast<std::size_t>(i);
    grad = graph.emit(OpKind::gelu_grad, {grad, products[at]});
    gradients.push_back(graph.emit(OpKind::matmul, {inputs[at], grad}, {{"trans_a", SymExpr(1)}}));
    if (i > 0) grad = graph.emit(OpKind::matmul, {grad, weights[at]}, {{"trans_b", SymExpr(1)}});
  }
  for (int i = layers; i-- > 0;) {
    OpNode step;
    step.kind = OpKind::optimizer_step;
    const TensorId w = weights[static_cast<std::size_t>(i)];
    step.inputs = {w, gradients[static_cast<std::size_t>(layers - 1 - i)]};
    step.attributes = {{"updates", std::vector<SymExpr>{0}}};
    Tensor updated = graph.tensor(w);
    updated.name += ".next";
    updated.role = TensorRole::activation;
    graph.mark_output(graph.op(graph.add(std::move(step), {updated})).outputs.front());
  }
  return graph;
}

std::map<OpKind, int> kinds(const OpGraph& graph) {
  std::map<OpKind, int> counts;
  for (const OpId id : graph.ops()) ++counts[graph.op(id).kind];
  return counts;
}

/// The smallest live peak of all orders of a graph's ops, without reuse in place. For a dozen ops.
struct Orders {
  const OpGraph& graph;
  const Bindings& bindings;
  std::vector<OpId> order;
  std::vector<bool> done;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();

  void go() {
    if (order.size() == graph.op_count()) {
      best = std::min(best, liveness(reordered(graph, order), bindings, false).peak);
      return;
    }
    for (const OpId id : graph.ops()) {
      if (done[index(id)]) continue;
      const auto made = [&](TensorId input) { return !graph.producer(input) || done[index(*graph.producer(input))]; };
      if (!std::ranges::all_of(graph.op(id).inputs, made)) continue;
      done[index(id)] = true;
      order.push_back(id);
      go();
      order.pop_back();
      done[index(id)] = false;
    }
  }
};

}  // namespace

TEST_CASE("planned peaks are never below live ones", "[prop]") {
  MemoryPlannerRegistry planners("memory planner");
  register_memory_planners(planners);
  sim::RandomStream random(5, "passes");
  for (int round = 0; round < 30; ++round) {
    const OpGraph graph = models::test::random_graph(random);
    const Liveness alive = liveness(graph, {{"batch", random.integer(1, 64)}});
    const std::vector<Buffer> buffers = buffers_of(alive);
    REQUIRE(lower_bound(buffers) == alive.peak);
    for (const std::string& name : planners.names()) {
      sim::Faults faults;
      const auto planner = planners.prepare(name, nullptr, {}, faults).make();
      if (planner->runs_a_program()) continue;  // minutes, of a solver
      const Plan plan = planner->plan(buffers);
      REQUIRE(plan_fault(buffers, plan.offsets).value_or("") == "");
      REQUIRE(plan.peak >= alive.peak);
    }
  }
}

TEST_CASE("the op with the smallest impact goes first", "[unit]") {
  // Two branches from x: a widens (256 wide), b narrows (32 wide); a sum of rows ends each. The narrow one goes first,
  // although it stands second, and its row sum before anything wide exists.
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  const TensorId wide = graph.emit(OpKind::matmul, {x, graph.parameter("w", {64, 256}, ElementType::fp16)});
  const TensorId narrow = graph.emit(OpKind::matmul, {x, graph.parameter("v", {64, 32}, ElementType::fp16)});
  graph.mark_output(graph.emit(OpKind::reduce_sum, {wide}, {{"axes", std::vector<SymExpr>{1}}}));
  graph.mark_output(graph.emit(OpKind::reduce_sum, {narrow}, {{"axes", std::vector<SymExpr>{1}}}));
  const MemoryOrder order = order_by_memory(Storages(graph), nullptr);
  CHECK(order.ops == std::vector<OpId>{OpId{1}, OpId{3}, OpId{0}, OpId{2}});
  CHECK(order.unknown == 0);
}

TEST_CASE("scheduling runs an update as soon as its gradient is there", "[unit]") {
  // 4 layers of 256 x 256 weights (128 KiB), 16 rows (8 KiB): gradients of all layers wait for the end in the order
  // given, 4 x 128 KiB; each is used up at once in the new one.
  OpGraph graph = training_chain(4, 256);
  graph.facts.in_range(Symbol("batch"), {1, 64});  // so that a gradient is proven to be more than its activations
  const PassContext context{.typical = {{"batch", 16}}};
  PassReport report;
  const OpGraph next = run_pass("symbolic_schedule", graph, context, "{}", &report);
  CHECK(verify(next).empty());
  CHECK(kinds(next) == kinds(graph));
  CHECK(graph_peak(graph, context.typical).live > 4 * 128 * 1024);
  CHECK(graph_peak(next, context.typical).live < 2 * 128 * 1024);
  CHECK(figure(report, "reordered") == 1);
}

TEST_CASE("an update waits for the readers of the old value", "[prop]") {
  for (const std::string name : {"symbolic_schedule", "exact_schedule"}) {
    const OpGraph next = run_pass(name, training_chain(5, 64), {.typical = {{"batch", 512}}});
    for (const OpId id : next.ops()) {
      if (next.op(id).kind != OpKind::optimizer_step) continue;
      CHECK(next.consumers(next.op(id).inputs.front()).back() == id);
    }
  }
}

TEST_CASE("one dimension: orders by symbols and by numbers are the same", "[prop]") {
  // Every size is a number times batch, so each comparison is one of coefficients.
  sim::RandomStream random(6, "passes");
  for (int round = 0; round < 40; ++round) {
    const OpGraph graph = models::test::random_graph(random);
    const Storages storages(graph);
    const MemoryOrder symbolic = order_by_memory(storages, nullptr);
    REQUIRE(symbolic.unknown == 0);
    const Bindings sizes{{"batch", random.integer(1, 1000)}};
    REQUIRE(order_by_memory(storages, &sizes).ops == symbolic.ops);
  }
}

TEST_CASE("no order beats the best of all orders; the scheduler is near it", "[prop]") {
  sim::RandomStream random(7, "passes");
  const Bindings sizes{{"batch", 8}};
  double sum = 0, worst = 1;
  const int rounds = 30;
  for (int round = 0; round < rounds; ++round) {
    const OpGraph graph = models::test::random_graph(random, {.ops = 7, .view = 0});
    Orders all{graph, sizes, {}, std::vector<bool>(graph.op_count(), false)};
    all.go();
    const std::int64_t found =
        liveness(reordered(graph, order_by_memory(Storages(graph), nullptr).ops), sizes, false).peak;
    REQUIRE(found >= all.best);
    const double ratio = static_cast<double>(found) / static_cast<double>(all.best);
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  INFO("mean " << sum / rounds << ", worst " << worst);
  CHECK(sum / rounds < 1.25);  // measured: 1.17; on such small graphs a first step that looks cheap often is not
}

TEST_CASE("a memory pass never raises the peak, whatever the graph", "[prop]") {
  sim::RandomStream random(8, "passes");
  PassRegistry registry("pass");
  register_memory_passes(registry);
  for (int round = 0; round < 40; ++round) {
    OpGraph graph = models::test::random_graph(random, {.ops = 40});
    if (round % 4 == 0) graph = training_chain(2 + round / 8, 64);
    const PassContext context{.typical = {{"batch", random.integer(1, 200)}}};
    const GraphPeak before = graph_peak(graph, context.typical);
    const Liveness alive = liveness(graph, context.typical);
    for (const std::string name : {"symbolic_schedule", "exact_schedule", "symbolic_remat", "raf_remat"}) {
      INFO(name << " in round " << round);
      std::string params = "{}";
      if (name.ends_with("remat"))
        params = "{\"budget\": \"" + std::to_string(alive.persistent + alive.peak * 7 / 10) + " B\"" +
                 (name == "raf_remat" ? ", \"least_bytes\": \"0 B\"}" : "}");
      PassReport report;
      const OpGraph next = run_pass(name, graph, context, params, &report);
      REQUIRE(verify(next).empty());
      const GraphPeak after = graph_peak(next, context.typical);
      REQUIRE(after.never_above(before));
      REQUIRE(next.outputs().size() == graph.outputs().size());
      for (const auto& [kind, count] : kinds(graph)) REQUIRE(kinds(next)[kind] >= count);
      REQUIRE(to_string(run_pass(name, graph, context, params)) == to_string(next));
    }
  }
}

TEST_CASE("saving less for the backward pass never raises the peak, whatever the graph", "[prop]") {
  sim::RandomStream random(9, "passes");
  int applied = 0;
  for (int round = 0; round < 40; ++round) {
    const OpGraph forward = models::test::random_graph(random, {.ops = 24, .matmul = 0.4});
    if (forward.with_role(TensorRole::parameter).empty()) continue;
    const OpGraph graph = differentiate(forward, {.loss = LossKind::mean_square}).graph;
    const PassContext context{.typical = {{"batch", random.integer(1, 200)}}};
    PassReport report;
    const OpGraph next = run_pass("tempo", graph, context, "{}", &report);
    REQUIRE(verify(next).empty());
    REQUIRE(graph_peak(next, context.typical).never_above(graph_peak(graph, context.typical)));
    REQUIRE(next.outputs().size() == graph.outputs().size());
    applied += figure(report, "applied") == 1 ? 1 : 0;
    if (figure(report, "applied") == 0) REQUIRE(to_string(next) == to_string(graph));
  }
  CHECK(applied > 0);
}

TEST_CASE("rematerialisation keeps a training step below its limit", "[unit]") {
  // 8 layers, 64 wide, 4096 rows: a tensor has 512 KiB; inputs (but x) and products of all layers are kept for the
  // backward pass, 15 tensors, against which the weights (8 KiB each) are nothing.
  const OpGraph graph = training_chain(8, 64);
  const Bindings sizes{{"batch", 4096}};
  const Liveness alive = liveness(graph, sizes);
  REQUIRE(alive.peak >= 15 * 512 * 1024);
  for (const std::string name : {"symbolic_remat", "raf_remat"}) {
    INFO(name);
    const std::int64_t budget = alive.persistent + alive.peak * 6 / 10;
    const std::string params = "{\"budget\": \"" + std::to_string(budget) + " B\"" +
                               (name == "raf_remat" ? ", \"least_bytes\": \"0 B\"}" : "}");
    PassReport report;
    const OpGraph next = run_pass(name, graph, {.typical = sizes}, params, &report);
    CHECK(liveness(next, sizes).peak <= alive.peak * 6 / 10);
    CHECK(figure(report, "dropped") > 0);
    CHECK(next.op_count() > graph.op_count());
    CHECK(next.op_count() < 2 * graph.op_count());
    // Nothing to do where it fits.
    const std::string ample = "{\"budget\": \"" + std::to_string(alive.persistent + alive.peak) + " B\"}";
    CHECK(to_string(run_pass(name, graph, {.typical = sizes}, ample)) == to_string(graph));
    CHECK(to_string(run_pass(name, graph, {.typical = sizes})) == to_string(graph));  // no limit is known
  }
}

TEST_CASE("RAF drops by time, reads and size", "[unit]") {
  // Kept over the same stretch: a (gelu of x) and c (a product of x), both read once at the end. c takes far more work
  // to make again: a goes.
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 256}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {256, 256}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::gelu, {x});
  const TensorId c = graph.emit(OpKind::matmul, {x, w});
  TensorId y = graph.emit(OpKind::softmax, {x});
  for (int i = 0; i < 3; ++i) y = graph.emit(OpKind::softmax, {y});
  const TensorId sum = graph.emit(OpKind::add_n, {a, c, y});
  graph.mark_output(sum);
  // 4096 rows: 2 MiB a tensor; the peak is a, c and two of the softmaxes, or a, c, y and (in place of one) the sum.
  const Bindings sizes{{"batch", 4096}};
  const Storages storages(graph);
  const std::vector<double> op_s = op_times(graph, {}, sizes);
  const auto score = [](const Droppable& tensor) {
    return static_cast<double>(tensor.bytes) / (tensor.regenerate_s * 1e6 + 0.1);
  };
  const RematResult result = run_schedule(storages, sizes, 3 * 2 * 1024 * 1024, op_s, {}, score);
  CHECK(result.dropped == 1);
  CHECK(result.again == 1);
  CHECK(result.again_s == op_s[0]);  // the gelu
  CHECK(result.ops == std::vector<OpId>{OpId{0}, OpId{1}, OpId{2}, OpId{3}, OpId{4}, OpId{5}, OpId{0}, OpId{6}});
}

TEST_CASE("a schedule that just fills its limit keeps it", "[unit]") {
  // Two tensors of 16 x 64 x 2 = 2,048 B, both there when the second is made; x is the caller's.
  OpGraph graph;
  graph.mark_output(
      graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {graph.input("x", {16, 64}, ElementType::fp16)})}));
  const Storages storages(graph);
  const auto within = [&](std::int64_t limit) {
    const RematResult result = run_schedule(storages, {}, limit, {1, 1}, {}, [](const Droppable&) { return 1.0; });
    CHECK(result.dropped == 0);
    CHECK(result.ops.size() == 2);
    return result.within_limit;
  };
  CHECK(within(4096));
  CHECK_FALSE(within(4095));
}

TEST_CASE("symbolic remat makes no tensor again by more ops in a row than it may", "[unit]") {
  // c is read at the end, and made by three ops: relu and exp, 16 wide, and a product, 64 wide. Its ingredients are
  // gone by then; together they are half as large as c. In between two tensors are 256 wide.
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 16}, ElementType::fp16);
  const auto w = [&](const char* name, std::int64_t from, std::int64_t to) {
    return graph.parameter(name, {from, to}, ElementType::fp16);
  };
  const TensorId c =
      graph.emit(OpKind::matmul, {graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})}), w("w", 16, 64)});
  TensorId y = graph.emit(OpKind::matmul, {x, w("u", 16, 256)});
  y = graph.emit(OpKind::matmul, {y, w("m", 256, 256)});
  y = graph.emit(OpKind::matmul, {y, w("d", 256, 64)});
  graph.mark_output(graph.emit(OpKind::add, {c, y}));
  const Bindings sizes{{"batch", 64}};
  const Liveness alive = liveness(graph, sizes);
  const auto run = [&](int depth, const char* proof) {
    PassReport report;
    static_cast<void>(run_pass("symbolic_remat", graph, {.typical = sizes},
                               R"({"budget": ")" + std::to_string(alive.persistent + alive.peak - 1) +
                                   R"( B", "reserve": 0, "max_depth": )" + std::to_string(depth) + R"(, "proof": )" +
                                   proof + "}",
                               &report));
    return report;
  };
  // Dropped by what it frees, for how long, over the time of all that brings it back.
  std::vector<Droppable> seen;
  const Storages storages(graph);
  const RematResult result = run_schedule(storages, sizes, 65536, {1, 2, 4, 1, 1, 1, 1}, {}, [&](const Droppable& one) {
    seen.push_back(one);
    return 1.0;
  });
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].bytes == 64 * 64 * 2);
  CHECK(seen[0].regenerate_s == 1 + 2 + 4);
  CHECK(seen[0].depth == 3);
  CHECK(seen[0].uses_left == 1);
  CHECK(seen[0].steps_away == 2);  // room is made for the second wide tensor, op 4; op 6 reads c
  CHECK(result.again == 3);
  CHECK(result.again_s == 7);
  CHECK(result.within_limit);
  for (const char* proof : {"true", "false"}) {
    CAPTURE(proof);
    const PassReport three = run(3, proof), two = run(2, proof);
    CHECK(figure(three, "dropped") == 1);
    CHECK(figure(three, "ops_again") == 3);
    CHECK(figure(two, "dropped") == 0);
    CHECK(figure(two, "ops_again") == 0);
  }
  CHECK(figure(run(3, "true"), "candidates") == 1);
  CHECK(figure(run(2, "true"), "candidates") == 0);
}

TEST_CASE("what was made again takes its place, and is dropped again where it must", "[unit]") {
  // c, 64 wide, is read by two sums, and before each two tensors of 256 wide stand side by side.
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  const auto w = [&](const std::string& name, std::int64_t from, std::int64_t to) {
    return graph.parameter(name, {from, to}, ElementType::fp16);
  };
  const TensorId c = graph.emit(OpKind::relu, {x});
  TensorId y = x;
  for (int i = 0; i < 2; ++i) {
    const std::string name = std::to_string(i);
    y = graph.emit(OpKind::matmul, {y, w("u" + name, 64, 256)});
    y = graph.emit(OpKind::matmul, {y, w("m" + name, 256, 256)});
    y = graph.emit(OpKind::matmul, {y, w("d" + name, 256, 64)});
    y = graph.emit(OpKind::add, {c, y});
  }
  graph.mark_output(y);
  // With 64 rows a wide tensor has 32 KiB: two of them fill the limit, so that c goes both times.
  const Storages storages(graph);
  const std::vector<double> op_s(graph.op_count(), 1);
  const RematResult result =
      run_schedule(storages, {{"batch", 64}}, 65536, op_s, {}, [](const Droppable&) { return 1.0; });
  CHECK(result.dropped == 2);
  CHECK(result.again == 2);
  CHECK(result.within_limit);
  CHECK_FALSE(result.gave_up);
  CHECK(result.ops.size() == graph.op_count() + 2);
}

TEST_CASE("a tensor pays whose one ingredient is smaller, within the depth", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 16}, ElementType::fp16);
  const TensorId narrow = graph.emit(OpKind::relu, {x});
  const TensorId c = graph.emit(OpKind::matmul, {narrow, graph.parameter("w", {16, 64}, ElementType::fp16)});
  TensorId y = graph.emit(OpKind::matmul, {x, graph.parameter("u", {16, 64}, ElementType::fp16)});
  y = graph.emit(OpKind::softmax, {y});
  graph.mark_output(graph.emit(OpKind::add, {c, y}));
  for (const int depth : {1, 2, 3}) {
    PassReport report;
    static_cast<void>(run_pass("symbolic_remat", graph, {.typical = {{"batch", 64}}},
                               R"({"max_depth": )" + std::to_string(depth) + "}", &report));
    CHECK(figure(report, "candidates") == (depth >= 2 ? 1 : 0));
  }
}

TEST_CASE("symbolic remat drops what is quickly made again", "[unit]") {
  // A relu and a product of x, as large and as far from the sum that reads them; one of them is too much beside two
  // wide tensors.
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  const auto w = [&](const char* name, std::int64_t from, std::int64_t to) {
    return graph.parameter(name, {from, to}, ElementType::fp16);
  };
  const TensorId dear = graph.emit(OpKind::matmul, {x, w("w", 64, 64)});
  const TensorId cheap = graph.emit(OpKind::relu, {x});
  TensorId y = graph.emit(OpKind::matmul, {x, w("u", 64, 256)});
  y = graph.emit(OpKind::matmul, {y, w("m", 256, 256)});
  y = graph.emit(OpKind::matmul, {y, w("d", 256, 64)});
  graph.mark_output(graph.emit(OpKind::add_n, {dear, cheap, y}));
  const Bindings sizes{{"batch", 64}};
  const Liveness alive = liveness(graph, sizes);
  const OpGraph next =
      run_pass("symbolic_remat", graph, {.typical = sizes},
               R"({"reserve": 0, "budget": ")" + std::to_string(alive.persistent + alive.peak - 1) + R"( B"})");
  CHECK(kinds(next)[OpKind::relu] == 2);
  CHECK(kinds(next)[OpKind::matmul] == 4);
}

TEST_CASE("views of what was made again are made again, those alone that stood before", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  const auto view = [&](TensorId of) { return graph.emit(OpKind::reshape, {of}, {kBatch, 8, 8}, ElementType::fp16); };
  const auto w = [&](const char* name, std::int64_t from, std::int64_t to) {
    return graph.parameter(name, {from, to}, ElementType::fp16);
  };
  const TensorId c = graph.emit(OpKind::relu, {x});  // 0
  const TensorId seen = view(c);                     // 1
  TensorId y = graph.emit(OpKind::matmul, {x, w("u", 64, 256)});
  y = graph.emit(OpKind::matmul, {y, w("m", 256, 256)});  // 3: no room beside c
  y = graph.emit(OpKind::matmul, {y, w("d", 256, 64)});
  graph.mark_output(graph.emit(OpKind::add, {seen, view(y)}));  // 5 and 6
  graph.mark_output(graph.emit(OpKind::exp, {view(c)}));        // 7 and 8
  const Storages storages(graph);
  const std::vector<double> op_s(graph.op_count(), 1);
  const RematResult result =
      run_schedule(storages, {{"batch", 64}}, 65536, op_s, {}, [](const Droppable&) { return 1.0; });
  CHECK(result.dropped == 1);
  std::vector<std::size_t> ops;
  for (const OpId id : result.ops) ops.push_back(index(id));
  CHECK(ops == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 0, 1, 6, 7, 8});
}

}  // namespace test_memory_passes
