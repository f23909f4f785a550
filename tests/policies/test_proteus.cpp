#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "policies/placement/proteus_parts.hpp"
#include "policies/placement/proteus_sentinels.hpp"
#include "tests/models/random_graph.hpp"
#include "tests/policies/pass_run.hpp"

namespace test_proteus {

using namespace orrery;
using namespace orrery::models;
using policies::test::figure;
using policies::test::make_pass;
using policies::test::sorted_lines;
namespace proteus = policies::proteus;

namespace {

/// A fuser that knows cuts: an elementwise op joins the group of its first operand's maker where both are of one part
/// and the groups stay convex. Without `part_of` the whole graph is one part.
OpGraph fuse_elementwise(const OpGraph& graph, const std::vector<std::int32_t>& part_of = {}) {
  Grouping groups(graph.op_count());
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<std::int32_t>(i);
  for (const OpId op : graph.ops()) {
    if (info(graph.op(op).kind).pattern != Pattern::elementwise) continue;
    const std::optional<OpId> maker = graph.producer(graph.op(op).inputs.front());
    if (!maker || (!part_of.empty() && part_of[index(op)] != part_of[index(*maker)])) continue;
    Grouping joined = groups;
    joined[index(op)] = groups[index(*maker)];
    if (is_convex(graph, joined)) groups = joined;
  }
  return fuse_groups(graph, groups);
}

std::vector<OpGraph> graphs_of(const std::vector<Subgraph>& parts) {
  std::vector<OpGraph> graphs;
  for (const Subgraph& part : parts) graphs.push_back(part.graph);
  return graphs;
}

bool is_acyclic(const OpGraph& graph, const std::vector<std::int32_t>& part_of) {
  return is_convex(graph, part_of);
}

double flops_of(const OpGraph& graph) {
  return static_cast<double>(*total_work(graph, {{"batch", 16}}).flops().constant());
}

}  // namespace

TEST_CASE("A chain is cut into as many pieces as were asked for", "[unit]") {
  OpGraph graph;
  graph.name = "chain";
  TensorId x = graph.input("x", {SymExpr::dim("batch"), 8}, ElementType::fp16);
  for (int i = 0; i < 32; ++i) x = graph.emit(OpKind::relu, {x});
  graph.mark_output(x);
  const std::vector<std::int32_t> part_of = proteus::partition(graph, 4, 8, sim::RandomStream(1, "test"));
  // Of a chain, parts are runs; numbered by their first op they do not fall.
  CHECK(std::is_sorted(part_of.begin(), part_of.end()));
  CHECK(part_of.back() == 3);
  // The most balanced of eight tries: no part more than three times the average.
  for (std::int32_t part = 0; part < 4; ++part) CHECK(std::count(part_of.begin(), part_of.end(), part) <= 24);
  CHECK(proteus::partition(graph, 1, 1, sim::RandomStream(1, "test")) == std::vector<std::int32_t>(32, 0));
  CHECK(proteus::partition(graph, 99, 1, sim::RandomStream(1, "test")).back() == 31);
}

TEST_CASE("Saturated groups grow no further while others can", "[prop]") {
  // 2 n / N = 16 ops: two such groups merge with weight 1e-5 beside 1/32 or more, so parts beyond 2 x 16 + 16 are rare.
  OpGraph graph;
  graph.name = "chain";
  TensorId x = graph.input("x", {SymExpr::dim("batch"), 8}, ElementType::fp16);
  for (int i = 0; i < 128; ++i) x = graph.emit(OpKind::relu, {x});
  graph.mark_output(x);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<std::int32_t> part_of = proteus::partition(graph, 16, 8, sim::RandomStream(seed, "test"));
    for (std::int32_t part = 0; part < 16; ++part) CHECK(std::count(part_of.begin(), part_of.end(), part) <= 32);
  }
}

TEST_CASE("Parts put together are the graph", "[prop]") {
  sim::RandomStream random(5, "proteus");
  for (int run = 0; run < 30; ++run) {
    const OpGraph graph = test::random_graph(random, {.ops = 20 + 2 * run});
    const std::int64_t wanted = 1 + static_cast<std::int64_t>(random.below(9));
    const std::vector<std::int32_t> part_of =
        proteus::partition(graph, wanted, 3, random.child(static_cast<std::uint64_t>(run)));
    REQUIRE(is_acyclic(graph, part_of));
    const std::vector<Subgraph> parts = proteus::cut(graph, part_of);
    CHECK(static_cast<std::int64_t>(parts.size()) >= wanted);
    for (const Subgraph& part : parts) REQUIRE(verify(part.graph).empty());
    // An optimiser that does nothing: what comes back is what went in, to the letter.
    CHECK(to_string(proteus::assemble(graph, parts, graphs_of(parts))) == to_string(graph));
    // A fuser that works part by part gives what it gives on the whole graph with the same cuts forbidden.
    std::vector<OpGraph> fused;
    for (const Subgraph& part : parts) fused.push_back(fuse_elementwise(part.graph));
    const OpGraph rebuilt = proteus::assemble(graph, parts, fused);
    REQUIRE(verify(rebuilt).empty());
    CHECK(to_string(rebuilt) == to_string(fuse_elementwise(graph, part_of)));
    // Dissolved, it is the graph op by op; fusion may have moved some within the order of execution.
    CHECK(sorted_lines(to_string(unfuse(rebuilt))) == sorted_lines(to_string(graph)));
    CHECK(flops_of(rebuilt) == flops_of(graph));
  }
}

TEST_CASE("One part is the whole graph optimised", "[unit]") {
  sim::RandomStream random(6, "proteus/one");
  const OpGraph graph = test::random_graph(random, {.ops = 40});
  const std::vector<Subgraph> parts = proteus::cut(graph, std::vector<std::int32_t>(graph.op_count(), 0));
  CHECK(to_string(proteus::assemble(graph, parts, std::vector<OpGraph>{fuse_elementwise(parts[0].graph)})) ==
        to_string(fuse_elementwise(graph)));
}

TEST_CASE("An optimiser may drop ops and add constants", "[unit]") {
  OpGraph graph;
  graph.name = "casts";
  TensorId x = graph.input("x", {SymExpr::dim("batch"), 8}, ElementType::fp16);
  const TensorId copied = graph.emit(OpKind::copy, {x});
  const TensorId y = graph.emit(OpKind::relu, {copied});
  graph.mark_output(y);
  const std::vector<Subgraph> parts = proteus::cut(graph, std::vector<std::int32_t>{0, 1});
  // Part 0 comes back without its copy: it gives what it takes.
  OpGraph empty;
  empty.name = "part";
  empty.mark_output(empty.add_tensor(parts[0].graph.tensor(static_cast<TensorId>(0))));
  // Part 1 comes back with a constant of its own and an op with a name that the model has too.
  OpGraph more;
  more.name = "part";
  const TensorId in = more.add_tensor(parts[1].graph.tensor(static_cast<TensorId>(0)));
  const TensorId one = more.constant("x", {1}, ElementType::fp16);
  static_cast<void>(one);
  OpNode node = parts[1].graph.op(static_cast<OpId>(0));
  node.inputs = {more.emit(OpKind::mul, {in, one}, {}, "copy_0")};
  more.mark_output(more.op(more.add(node)).outputs.front());
  // The part's input is named after the tensor copy_0; its counterpart for "x" is the model's input, not the constant.
  const OpGraph rebuilt = proteus::assemble(graph, parts, std::vector<OpGraph>{empty, more});
  CHECK(verify(rebuilt).empty());
  CHECK(rebuilt.op_count() == 2);
  CHECK(rebuilt.find_tensor("x.part1"));
  std::vector<OpGraph> wrong = graphs_of(parts);
  wrong[0] = OpGraph{};
  CHECK_THROWS_WITH(proteus::assemble(graph, parts, wrong), "part 0 gave 1 tensors, got 0 back");
}

TEST_CASE("Sentinels are sound graphs of about their part's size", "[prop]") {
  sim::RandomStream random(9, "proteus/sentinels");
  for (int run = 0; run < 8; ++run) {
    const OpGraph graph = test::random_graph(random, {.ops = 60});
    const std::vector<Subgraph> parts = proteus::cut(graph, proteus::partition(graph, 4, 2, random.child(1)));
    const proteus::SentinelMaker maker(graph, 0.2);
    std::set<std::string> all;
    for (const Subgraph& part : parts)
      for (std::uint64_t k = 0; k < 10; ++k) {
        const OpGraph sentinel = maker.make(part, random.child("sentinel").child(k));
        for (const std::string& fault : verify(sentinel)) FAIL(fault << "\n" << to_string(sentinel));
        const double share = static_cast<double>(sentinel.op_count()) / static_cast<double>(part.graph.op_count());
        CHECK(std::abs(share - 1) <= 0.2 + 0.5 / static_cast<double>(part.graph.op_count()) + 1e-9);
        CHECK(!sentinel.outputs().empty());
        CHECK(to_string(sentinel) == to_string(maker.make(part, random.child("sentinel").child(k))));
        all.insert(to_string(sentinel));
      }
    CHECK(all.size() > 4 * 10 * 3 / 4);  // tiny parts may have equal sentinels
  }
}

TEST_CASE("The pass tells its figures, and without an optimiser changes nothing", "[unit]") {
  sim::RandomStream random(2, "proteus/pass");
  const OpGraph graph = test::random_graph(random, {.ops = 64});
  policies::PassContext context;
  policies::PassReport report;
  const auto pass = make_pass("proteus", R"({"parts": 4, "sentinels": 3, "specificity": 0.5})");
  CHECK(to_string(pass->run(graph, context, report)) == to_string(graph));
  CHECK(figure(report, "parts") == 4);
  // (1 + 0.5 * 3)^4 = 39.0625 and 4^4 = 256.
  CHECK(figure(report, "log10_alternatives") == Approx(1.591760));
  CHECK(figure(report, "log10_alternatives_no_adversary") == Approx(2.408240));
  CHECK(figure(report, "graphs_optimised") == 16);
  CHECK(figure(report, "optimiser_cost_ratio") == Approx(4).epsilon(0.15));
  CHECK(figure(report, "unsound_sentinels") == 0);
  CHECK(figure(report, "kernels") == figure(report, "kernels_before"));
  policies::PassReport again;
  static_cast<void>(pass->run(graph, context, again));
  CHECK(again.figures == report.figures);
}

TEST_CASE("Proteus: faults of the inner optimiser say where", "[unit]") {
  CHECK_THROWS_WITH(make_pass("proteus", R"({"inner": {"policy": "proteos"}})"),
                    "test.json:/inner/policy: unknown pass policy 'proteos' (did you mean 'proteus'?)");
  CHECK_THROWS_WITH(make_pass("proteus", R"({"inner": {"policy": "byoc", "byoc": {"targts": []}}})"),
                    Catch::Contains("test.json:/inner/byoc/targts") && Catch::Contains("did you mean 'targets'?"));
}

namespace {

OpGraph chain(int ops) {
  OpGraph graph;
  TensorId x = graph.input("x", {SymExpr::dim("batch"), 8}, ElementType::fp16);
  for (int i = 0; i < ops; ++i) x = graph.emit(OpKind::relu, {x});
  graph.mark_output(x);
  return graph;
}

}  // namespace

TEST_CASE("Contractions are drawn by the sizes of what they join", "[theory]") {
  const OpGraph three = chain(3), four = chain(4);
  int front = 0, even = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    front += proteus::partition(three, 2, 1, sim::RandomStream(seed, "test"))[1] == 0 ? 1 : 0;
    even += proteus::partition(four, 2, 1, sim::RandomStream(seed, "test")) == std::vector<std::int32_t>{0, 0, 1, 1};
  }
  // Of three ops both pairs are alike: half of 1,000, with a deviation of 16.
  CHECK(front == Approx(500).margin(80));
  // Of four the first pair is one of three. After an outer one the two that are left have weight 1 / 2, it and its
  // neighbour 1 / 3: even with 2/3 x 3/5 = 0.4. After the middle one never.
  CHECK(even == Approx(400).margin(80));
}

namespace {

std::vector<std::int64_t> sizes_of(const Tensor& tensor) {
  std::vector<std::int64_t> sizes;
  for (const SymExpr& size : tensor.shape) sizes.push_back(size.constant().value_or(-1));
  return sizes;
}

/// Sentinels of a model in one part, with kinds of the model only.
std::vector<OpGraph> sentinels_of(const OpGraph& model) {
  const std::vector<Subgraph> parts = proteus::cut(model, std::vector<std::int32_t>(model.op_count(), 0));
  const proteus::SentinelMaker maker(model, 0);
  std::vector<OpGraph> all;
  for (std::uint64_t k = 0; k < 60; ++k) {
    all.push_back(maker.make(parts.front(), sim::RandomStream(k, "sentinel")));
    REQUIRE(verify(all.back()) == std::vector<std::string>{});
    const auto real = static_cast<double>(model.op_count()), made = static_cast<double>(all.back().op_count());
    CHECK(std::abs(made - real) <= 0.2 * real + 0.5);
  }
  return all;
}

using Shapes = std::set<std::vector<std::int64_t>>;

}  // namespace

TEST_CASE("Sentinels: weights of products and norms fit what they are put beside", "[unit]") {
  // 64 wide to 32 and back, once as it stands and once transposed, with a norm in between.
  for (const bool transposed : {false, true}) {
    CAPTURE(transposed);
    OpGraph model;
    TensorId x = model.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
    for (const auto& [from, to] : {std::pair(64, 32), std::pair(32, 64)}) {
      const std::string name = std::to_string(to);
      const std::vector<SymExpr> shape = transposed ? std::vector<SymExpr>{to, from} : std::vector<SymExpr>{from, to};
      x = model.emit(OpKind::matmul, {x, model.parameter("w" + name, shape, ElementType::fp16)},
                     {{"trans_b", SymExpr(transposed ? 1 : 0)}});
      if (to == 64) continue;
      const TensorId gain = model.parameter("gain", {to}, ElementType::fp16);
      x = model.emit(OpKind::layer_norm, {x, gain, model.parameter("shift", {to}, ElementType::fp16)});
    }
    model.mark_output(x);
    Shapes weights;
    std::set<std::int64_t> norms;
    for (const OpGraph& sentinel : sentinels_of(model))
      for (const OpId id : sentinel.ops()) {
        const OpNode& op = sentinel.op(id);
        const SymExpr& width = sentinel.tensor(op.inputs[0]).shape.back();
        if (op.kind == OpKind::matmul) {
          const Tensor& weight = sentinel.tensor(op.inputs[1]);
          CHECK(weight.shape[transposed ? 1 : 0] == width);
          weights.insert(sizes_of(weight));
        }
        if (op.kind != OpKind::layer_norm) continue;
        norms.insert(width.constant().value_or(-1));
        CHECK(sentinel.tensor(op.inputs[1]).shape == std::vector<SymExpr>{width});
        CHECK(sentinel.tensor(op.inputs[2]).shape == std::vector<SymExpr>{width});
      }
    CHECK(norms == std::set<std::int64_t>{32, 64});
    // Beside those of the model, the two that fit a width that the model gives to the other product.
    CHECK(weights == Shapes{{64, 32}, {32, 64}, {64, 64}, {32, 32}});
  }
}

TEST_CASE("Sentinels: weights of convolutions follow channels, and keep their windows", "[unit]") {
  OpGraph model;
  TensorId x = model.input("x", {SymExpr::dim("batch"), 3, 10, 12}, ElementType::fp16);
  std::int64_t channels = 3;
  const auto layer = [&](std::int64_t to, std::int64_t groups) {
    const std::string name = std::to_string(to) + "." + std::to_string(groups);
    x = model.emit(OpKind::conv2d, {x, model.parameter("w" + name, {to, channels / groups, 3, 3}, ElementType::fp16)},
                   {{"pad", SymExpr(1)}, {"groups", SymExpr(groups)}});
    const TensorId gain = model.parameter("g" + name, {to}, ElementType::fp16);
    x = model.emit(OpKind::batch_norm, {x, gain, model.parameter("b" + name, {to}, ElementType::fp16)});
    channels = to;
  };
  layer(8, 1);
  layer(16, 1);
  layer(16, 16);  // each channel by itself: put beside no other number of channels
  model.mark_output(x);
  Shapes weights;
  int norms = 0;
  for (const OpGraph& sentinel : sentinels_of(model))
    for (const OpId id : sentinel.ops()) {
      const OpNode& op = sentinel.op(id);
      const SymExpr& given = sentinel.tensor(op.inputs[0]).shape[1];
      if (op.kind == OpKind::conv2d) {
        const std::vector<std::int64_t> weight = sizes_of(sentinel.tensor(op.inputs[1]));
        CHECK(weight[1] * op.integer("groups", 1) == given.constant());
        CHECK(weight[2] == 3);
        CHECK(weight[3] == 3);
        weights.insert(weight);
      }
      if (op.kind != OpKind::batch_norm) continue;
      ++norms;
      CHECK(sentinel.tensor(op.inputs[1]).shape == std::vector<SymExpr>{given});
      CHECK(sentinel.tensor(op.inputs[2]).shape == std::vector<SymExpr>{given});
    }
  CHECK(norms > 20);
  CHECK(weights.contains({8, 8, 3, 3}));
  CHECK(weights.contains({16, 16, 3, 3}));
  CHECK(weights.contains({16, 3, 3, 3}));
}

TEST_CASE("Sizes of parts are those of the smallest and the largest", "[unit]") {
  const OpGraph graph = chain(60);
  for (const int parts : {1, 7, 60}) {
    policies::PassReport report;
    const std::string params = R"({"sentinels": 0, "parts": )" + std::to_string(parts) + "}";
    static_cast<void>(make_pass("proteus", params)->run(graph, {}, report));
    const double least = figure(report, "smallest_part_ops"), most = figure(report, "largest_part_ops");
    CHECK(figure(report, "parts") == parts);
    CHECK(figure(report, "cut_uses") == parts - 1);
    if (parts != 7) {
      CHECK(least == 60 / parts);
      CHECK(most == 60 / parts);
      continue;
    }
    // 60 / 7 is no whole number: the smallest has 8 at most, the largest 9 at least.
    CHECK(least >= 1);
    CHECK(least <= 8);
    CHECK(most >= 9);
    CHECK(most + 6 * least <= 60);
    CHECK(least + 6 * most >= 60);
  }
}

TEST_CASE("Sentinels of foreign ops alone have kinds that the model lacks, of one operand and of two", "[unit]") {
  OpGraph model;
  const TensorId x = model.input("x", {SymExpr::dim("batch"), 8}, ElementType::fp16);
  TensorId y = x;
  for (int i = 0; i < 6; ++i) y = model.emit(OpKind::add, {model.emit(OpKind::tanh, {y}), x});
  model.mark_output(y);
  const std::vector<Subgraph> parts = proteus::cut(model, std::vector<std::int32_t>(model.op_count(), 0));
  const proteus::SentinelMaker maker(model, 1);
  std::set<OpKind> seen;
  for (std::uint64_t k = 0; k < 30; ++k) {
    const OpGraph sentinel = maker.make(parts.front(), sim::RandomStream(k, "sentinel"));
    for (const OpId id : sentinel.ops()) seen.insert(sentinel.op(id).kind);
  }
  CHECK(seen == std::set<OpKind>{OpKind::sigmoid, OpKind::silu, OpKind::abs, OpKind::sqrt, OpKind::exp, OpKind::sub,
                                 OpKind::mul, OpKind::div, OpKind::maximum});
}

TEST_CASE("More tries never give parts that are less alike", "[prop]") {
  const auto squares = [](const std::vector<std::int32_t>& part_of) {
    std::map<std::int32_t, double> sizes;
    for (const std::int32_t part : part_of) sizes[part] += 1;
    double sum = 0;
    for (const auto& [part, size] : sizes) sum += size * size;
    return sum;
  };
  const OpGraph graph = chain(40);
  int better = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const sim::RandomStream random(seed, "tries");
    std::vector<std::int32_t> last = proteus::partition(graph, 6, 1, random);
    for (std::int64_t tries = 2; tries <= 8; ++tries) {
      const std::vector<std::int32_t> now = proteus::partition(graph, 6, tries, random);
      CHECK(squares(now) <= squares(last));
      CHECK((now == last) == (squares(now) == squares(last)));  // of equals the first
      better += squares(now) < squares(last) ? 1 : 0;
      last = now;
    }
  }
  CHECK(better > 10);
}

TEST_CASE("Parts that do not hang together stay apart, and are numbered by their first ops", "[unit]") {
  OpGraph graph;  // two rows, one op of each in turn
  TensorId x = graph.input("x", {8}, ElementType::fp16), y = graph.input("y", {8}, ElementType::fp16);
  for (int i = 0; i < 4; ++i) {
    x = graph.emit(OpKind::relu, {x});
    y = graph.emit(OpKind::exp, {y});
  }
  graph.mark_output(x);
  graph.mark_output(y);
  CHECK(proteus::partition(graph, 1, 3, sim::RandomStream(1, "rows")) ==
        std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(proteus::partition(graph, 0, 1, sim::RandomStream(1, "rows")).back() == 1);
  const std::vector<Subgraph> parts = proteus::cut(graph, std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1});
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].graph.op_count() == 4);
  CHECK(parts[1].graph.name == ".part1");
}

TEST_CASE("Parts keep parameters and constants for what they are, and other parts' results are inputs", "[unit]") {
  OpGraph graph;
  graph.name = "model";
  const TensorId x = graph.input("x", {8, 8}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::matmul, {x, graph.parameter("w", {8, 8}, ElementType::fp16)});
  graph.mark_output(graph.emit(OpKind::add, {a, graph.constant("c", {8}, ElementType::fp16)}));
  const std::vector<Subgraph> parts = proteus::cut(graph, std::vector<std::int32_t>{0, 1});
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].graph.name == "model.part0");
  const auto role = [](const Subgraph& part, int tensor) { return part.graph.tensor(TensorId{tensor}).role; };
  CHECK(role(parts[0], 0) == TensorRole::input);
  CHECK(role(parts[0], 1) == TensorRole::parameter);
  CHECK(role(parts[1], 0) == TensorRole::input);
  CHECK(role(parts[1], 1) == TensorRole::constant);
  CHECK(parts[1].inputs == std::vector<TensorId>{a, *graph.find_tensor("c")});
  CHECK(parts[0].outputs == std::vector<TensorId>{a});
}

TEST_CASE("Parts that wait for each other, or lack a tensor, are told", "[unit]") {
  // 0 -> 1 -> 2: the first and the last as one part, which an optimiser made one op of.
  const OpGraph graph = chain(3);
  const std::vector<Subgraph> parts = proteus::cut(graph, std::vector<std::int32_t>{0, 1, 0});
  std::vector<OpGraph> optimised = graphs_of(parts);
  CHECK(to_string(proteus::assemble(graph, parts, optimised)) == to_string(graph));  // op by op there is an order
  optimised[0] = fuse_groups(optimised[0], {0, 0});
  CHECK_THROWS_WITH(proteus::assemble(graph, parts, optimised),
                    "parts wait for each other: one was optimised across a path outside of it");
  OpGraph stranger;
  stranger.mark_output(
      stranger.emit(OpKind::relu, {stranger.input("nobody", {SymExpr::dim("batch"), 8}, ElementType::fp16)}));
  optimised = graphs_of(parts);
  optimised[1] = stranger;
  // An input that the part did not have is one of the optimiser's own.
  CHECK(proteus::assemble(graph, parts, optimised).find_tensor("nobody"));
}

TEST_CASE("The number of parts is that of ops over the ops of a part, to the nearest, and one at least", "[unit]") {
  const auto parts = [](int ops, int part_ops) {
    policies::PassReport report;
    static_cast<void>(make_pass("proteus", R"({"sentinels": 0, "part_ops": )" + std::to_string(part_ops) + "}")
                          ->run(chain(ops), {}, report));
    return figure(report, "parts");
  };
  CHECK(parts(32, 16) == 2);
  CHECK(parts(39, 16) == 2);
  CHECK(parts(40, 16) == 3);
  CHECK(parts(3, 16) == 1);
  CHECK(parts(1, 16) == 1);
  CHECK(parts(5, 1) == 5);
  policies::PassReport report;
  OpGraph empty;
  CHECK(make_pass("proteus")->run(empty, {}, report).op_count() == 0);
  CHECK(report.figures.empty());
}

namespace {

/// Every kernel takes two seconds.
class TwoSeconds final : public hw::CostModel {
 public:
  hw::Cost cost(const hw::Kernel&) const override { return {.time_s = 2}; }
};

}  // namespace

TEST_CASE("What hiding costs: kernels and time of the whole, of the parts, and of neither", "[unit]") {
  // Twelve passes in a row become one kernel as a whole, and one of each of three parts.
  const TwoSeconds cost;
  policies::PassContext context;
  context.typical = {{"batch", 4}};
  policies::PassReport report;
  const std::string inner = R"("inner": {"policy": "loop_fusion"}, "sentinels": 2, "parts": 3)";
  static_cast<void>(make_pass("proteus", "{" + inner + "}")->run(chain(12), context, report));
  CHECK(figure(report, "kernels_before") == 12);
  CHECK(figure(report, "kernels_whole") == 1);
  CHECK(figure(report, "kernels") == 3);
  CHECK(figure(report, "graphs_optimised") == 9);
  CHECK_THROWS_AS(figure(report, "time_s"), std::out_of_range);  // no device
  context.cost = &cost;
  policies::PassReport timed;
  static_cast<void>(make_pass("proteus", "{" + inner + "}")->run(chain(12), context, timed));
  CHECK(figure(timed, "time_before_s") == 24);
  CHECK(figure(timed, "time_whole_s") == 2);
  CHECK(figure(timed, "time_s") == 6);
  CHECK(figure(timed, "slowdown") == 3);
  CHECK(figure(timed, "whole_gain") == 12);
  // Every part three times; without sentinels once.
  policies::PassReport alone;
  static_cast<void>(make_pass("proteus", R"({"sentinels": 0, "parts": 3})")->run(chain(12), context, alone));
  CHECK(figure(alone, "optimiser_cost_ratio") == 1);
  CHECK(figure(alone, "log10_alternatives") == 0);
  CHECK(figure(alone, "slowdown") == 1);
}

TEST_CASE("Sentinels of parts without inputs, and of models of several types, are sound", "[unit]") {
  OpGraph bound;
  const TensorId w = bound.parameter("w", {8, 8}, ElementType::fp16);
  TensorId y = bound.emit(OpKind::relu, {w});
  for (int i = 0; i < 4; ++i) y = bound.emit(OpKind::exp, {y});
  bound.mark_output(y);
  const Subgraph whole = proteus::cut(bound, std::vector<std::int32_t>(bound.op_count(), 0)).front();
  CHECK(whole.graph.tensor(TensorId{0}).role == TensorRole::parameter);
  for (const OpGraph& sentinel : sentinels_of(bound)) {
    CHECK(!sentinel.with_role(TensorRole::input).empty());
    for (const TensorId id : sentinel.with_role(TensorRole::input)) {
      CHECK(sizes_of(sentinel.tensor(id)) == std::vector<std::int64_t>{8, 8});
      CHECK(sentinel.tensor(id).type == ElementType::fp16);
    }
  }
  // A product and passes in half precision, a cast, passes in single, and a sum over the last axis.
  OpGraph mixed;
  mixed.facts.in_range(Symbol("batch"), {3, 9});
  TensorId x = mixed.input("x", {SymExpr::dim("batch"), 16}, ElementType::fp16);
  x = mixed.emit(OpKind::relu, {mixed.emit(OpKind::matmul, {x, mixed.parameter("v", {16, 16}, ElementType::fp16)})});
  x = mixed.emit(OpKind::cast, {x}, {{"to", std::string("fp32")}});
  x = mixed.emit(OpKind::add, {mixed.emit(OpKind::exp, {x}), x});
  mixed.mark_output(mixed.emit(OpKind::reduce_sum, {x}, {{"axes", std::vector<SymExpr>{1}}}));
  std::set<ElementType> types;
  std::set<std::size_t> ranks;
  for (const OpGraph& sentinel : sentinels_of(mixed)) {
    CHECK(bounds(SymExpr::dim("batch"), sentinel.facts).hi == 9);
    for (const OpId id : sentinel.ops()) {
      const OpNode& op = sentinel.op(id);
      const Tensor &first = sentinel.tensor(op.inputs.front()), &made = sentinel.tensor(op.outputs.front());
      types.insert(made.type);
      ranks.insert(made.shape.size());
      if (op.kind == OpKind::matmul) CHECK(sentinel.tensor(op.inputs[1]).type == first.type);
      if (op.kind == OpKind::add) CHECK(sentinel.tensor(op.inputs[1]).type == first.type);
      if (op.kind == OpKind::cast) CHECK(first.type == ElementType::fp16);  // as in the model
      if (op.kind == OpKind::exp) CHECK(first.type == ElementType::fp32);
      if (op.kind == OpKind::reduce_sum) CHECK(first.shape.size() == 2);
    }
  }
  CHECK(types == std::set<ElementType>{ElementType::fp16, ElementType::fp32});
  CHECK(ranks == std::set<std::size_t>{1, 2});
}

}  // namespace test_proteus
