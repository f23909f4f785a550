#include "policies/fusion/segments.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_fusion_segments {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::ElementType;
using models::OpGraph;
using models::OpKind;
using models::OpNode;
using models::SymExpr;
using models::TensorId;

namespace {

PassContext sized(std::int64_t batch) {
  PassContext context;
  context.typical = {{"batch", batch}};
  return context;
}

double gain_of(const Segments& segments, const std::vector<Segment>& partition) {
  double sum = 0;
  for (const Segment& segment : partition) sum += segments.gain_s(segment);
  return sum;
}

/// The largest gain of all partitions into stretches: every subset of the places between units is tried.
double best_of_all(const Segments& segments) {
  double best = 0;
  const std::size_t n = segments.size();
  for (std::size_t cuts = 0; cuts < (std::size_t{1} << (n - 1)); ++cuts) {
    std::vector<Segment> partition;
    std::size_t begin = 0;
    bool sound = true;
    for (std::size_t end = 1; end <= n; ++end) {
      if (end < n && ((cuts >> (end - 1)) & 1) == 0) continue;
      partition.push_back({begin, end});
      sound &= segments.fits(partition.back());
      begin = end;
    }
    if (sound) best = std::max(best, gain_of(segments, partition));
  }
  return best;
}

/// matmul [batch, 64] x [64, 64], relu, matmul, relu.
OpGraph two_layers() {
  OpGraph graph;
  TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  for (const char* name : {"w0", "w1"}) {
    x = graph.emit(OpKind::matmul, {x, graph.parameter(name, {64, 64}, ElementType::fp16)});
    x = graph.emit(OpKind::relu, {x});
  }
  graph.mark_output(x);
  return graph;
}

}  // namespace

TEST_CASE("working sets and gains of a chain of two layers", "[unit]") {
  const OpGraph graph = two_layers();
  const Segments segments(graph, sized(1024), {1 << 20, 16, 32, 16});
  // Tiles of 16 rows x 64 x 2 B = 2048 B; panels of 32 columns x 64 rows x 2 B = 4096 B.
  // matmul: x tile, panel, result tile: 8192. matmul and relu: at the product 8192, at the pass two tiles 4096.
  CHECK(segments.working_set({0, 1}) == 8192);
  CHECK(segments.working_set({0, 2}) == 8192);
  // All four: at the second product its operand's tile (inner), a panel, its result.
  CHECK(segments.working_set({0, 4}) == 8192);
  // Without a device a byte is 1 ps and a launch 1 us: an inner tensor of 128 KiB saves a write and a read.
  CHECK(segments.gain_s({0, 1}) == 0);
  CHECK(segments.gain_s({0, 2}) == Approx(2 * 131072e-12 + 1e-6));
  CHECK(segments.gain_s({0, 4}) == Approx(6 * 131072e-12 + 3e-6));
  CHECK(segments.best() == std::vector<Segment>{{0, 4}});

  const Segments tight(graph, sized(1024), {8191, 16, 32, 16});
  // No product fits with anything; a pass alone is no segment.
  CHECK(tight.best() == std::vector<Segment>{{0, 1}, {1, 2}, {2, 3}, {3, 4}});
}

TEST_CASE("a right operand made inside must be on chip whole", "[unit]") {
  OpGraph graph;
  const TensorId a = graph.input("a", {64, 64}, ElementType::fp16);
  const TensorId b = graph.emit(OpKind::relu, {graph.input("b", {64, 512}, ElementType::fp16)});
  graph.mark_output(graph.emit(OpKind::matmul, {a, b}));
  const Segments segments(graph, {}, {1 << 20, 16, 32, 16});
  // b is 64 x 512 x 2 = 65,536 B; a's tile 2048; the result's tile 16 x 512 x 2 = 16,384.
  CHECK(segments.working_set({0, 2}) == 65536 + 2048 + 16384);
}

TEST_CASE("dynamic programming finds the best of all partitions, greedy no better", "[prop]") {
  double greedy_losses = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    sim::RandomStream random(seed, "segments");
    const OpGraph graph = models::test::random_graph(random, {.ops = 11, .matmul = 0.35, .view = 0.05});
    const auto scratch = static_cast<std::int64_t>(2000 + random.below(30000));
    const Segments segments(graph, sized(256), {scratch, 8, 16, 5});
    CAPTURE(seed, scratch);
    const double best = gain_of(segments, segments.best()), greedy = gain_of(segments, segments.greedy());
    CHECK(best == Approx(best_of_all(segments)).epsilon(1e-12));
    CHECK(greedy <= best * (1 + 1e-12));
    greedy_losses += greedy < best * (1 - 1e-9) ? 1 : 0;
    for (const Segment& segment : segments.best()) CHECK(segments.fits(segment));
  }
  CHECK(greedy_losses > 0);  // or the comparison would show nothing
}

TEST_CASE("segment fusion keeps the work, moves no more, and saves what it says", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    sim::RandomStream random(seed, "segment graphs");
    const OpGraph graph = models::test::random_graph(random, {.ops = static_cast<int>(5 + 3 * seed)});
    for (const char* name : {"greedy_fusion", "dp_fusion"}) {
      CAPTURE(seed, name);
      PassReport report;
      const OpGraph fused = apply(name, graph, sized(512), R"({"scratch": "192 KiB"})", &report);
      check_fusion(graph, fused, {{{"batch", 1}}, {{"batch", 512}}, {{"batch", 4096}}});
      CHECK(to_string(fused) == to_string(apply(name, graph, sized(512), R"({"scratch": "192 KiB"})")));
      const double launches = figure(report, "launches_before") - figure(report, "launches_after");
      const double bytes = figure(report, "bytes_before") - figure(report, "bytes_after");
      CHECK(bytes * 1e-12 + launches * 1e-6 >= figure(report, "gain_s") * (1 - 1e-9));
      CHECK(figure(report, "largest_working_set") <= 192 * 1024);
      CHECK(to_string(apply(name, graph, sized(512), R"({"scratch": "0 B"})")) == to_string(graph));
    }
  }
}

TEST_CASE("more on-chip memory never gains less", "[prop]") {
  sim::RandomStream random(7, "scratch");
  const OpGraph graph = models::test::random_graph(random, {.ops = 120});
  double last = -1;
  for (const std::int64_t scratch : {0, 4096, 16384, 65536, 262144, 1 << 20}) {
    const Segments segments(graph, sized(512), {scratch, 16, 64, 12});
    const double gain = gain_of(segments, segments.best());
    CHECK(gain >= last);
    last = gain;
  }
  CHECK(last > 0);
}

TEST_CASE("an unknown scratch memory is said, and fuses nothing", "[unit]") {
  PassReport report;
  const OpGraph graph = two_layers();
  CHECK(to_string(apply("dp_fusion", graph, sized(8), "{}", &report)) == to_string(graph));
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] == "the device's on-chip memory is unknown, so nothing fuses: set scratch");
}

TEST_CASE("what a tiled kernel can hold", "[unit]") {
  // Each op and a relu after it, with all the memory one could want.
  const auto fits = [](const OpGraph& graph) { return Segments(graph, sized(4), {1 << 30, 16, 64, 16}).fits({0, 2}); };
  const auto image = [&](OpKind kind, bool weight) {
    OpGraph graph;
    std::vector<TensorId> inputs{graph.input("x", {SymExpr::dim("batch"), 8, 16, 16}, ElementType::fp16)};
    if (weight) inputs.push_back(graph.parameter("w", {8, 8, 2, 2}, ElementType::fp16));
    graph.mark_output(graph.emit(OpKind::relu, {graph.emit(kind, inputs, {{"kernel", SymExpr(2)}})}));
    return fits(graph);
  };
  CHECK(image(OpKind::conv2d, true));
  CHECK(image(OpKind::max_pool2d, false));
  CHECK(image(OpKind::avg_pool2d, false));
  const auto rows = [&](OpKind kind, models::Attributes attributes) {
    OpGraph graph;
    const TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
    graph.mark_output(graph.emit(OpKind::relu, {graph.emit(kind, {x}, std::move(attributes))}));
    return fits(graph);
  };
  CHECK(rows(OpKind::gelu, {}));
  CHECK(rows(OpKind::softmax, {}));
  CHECK(rows(OpKind::reduce_sum, {{"axes", std::vector<SymExpr>{1}}}));
  CHECK(rows(OpKind::reduce_sum, {{"axes", std::vector<SymExpr>{-1}}}));
  CHECK_FALSE(rows(OpKind::reduce_sum, {{"axes", std::vector<SymExpr>{0}}}));  // across rows
  CHECK_FALSE(rows(OpKind::reduce_sum, {{"axes", std::vector<SymExpr>{0, 1}}}));
  OpGraph heads;
  const std::vector<SymExpr> shape{SymExpr::dim("batch"), 2, 16, 8};
  const auto part = [&](const char* name) { return heads.input(name, shape, ElementType::fp16); };
  const TensorId out = heads.emit(OpKind::attention, {part("q"), part("k"), part("v")}, shape, ElementType::fp16);
  heads.mark_output(heads.emit(OpKind::relu, {out}));
  CHECK(fits(heads));
  OpGraph table;
  const TensorId picked = table.emit(OpKind::embedding,
                                     {table.parameter("t", {100, 64}, ElementType::fp16),
                                      table.input("i", {SymExpr::dim("batch")}, ElementType::int32)},
                                     {SymExpr::dim("batch"), 64}, ElementType::fp16);
  table.mark_output(table.emit(OpKind::sampling, {picked}, {SymExpr::dim("batch")}, ElementType::int32));
  CHECK_FALSE(fits(table));
}

TEST_CASE("working sets of attention and convolutions", "[unit]") {
  // Heads of 16 x 8 x 2 B: tiles of 16 rows are 256 B, panels of 4 rows of keys or values 64 B. Queries, keys, values,
  // result: 256 + 64 + 64 + 256.
  const std::vector<SymExpr> shape{SymExpr::dim("batch"), 2, 16, 8};
  const SegmentLimits limits{1 << 30, 16, 4, 16};
  for (int inside = 0; inside < 4; ++inside) {
    OpGraph graph;
    std::vector<TensorId> parts;
    for (int i = 0; i < 3; ++i) {
      parts.push_back(graph.input("in" + std::to_string(i), shape, ElementType::fp16));
      if (i == inside) parts.back() = graph.emit(OpKind::relu, {parts.back()});
    }
    graph.mark_output(graph.emit(OpKind::attention, parts, shape, ElementType::fp16));
    const Segments segments(graph, sized(4), limits);
    CAPTURE(inside);
    // Queries made inside are there by tiles. Keys or values must be whole, 4 x 2 x 256 = 2,048 B, in place of a panel.
    CHECK(segments.working_set({0, segments.size()}) == (inside == 0 || inside == 3 ? 640 : 640 - 64 + 2048));
  }
  // An image is 8 x 16 x 16 x 2 = 4,096 B; of a weight of 8 x 8 x 3 x 3 x 2 = 1,152 B four of eight filters, 576 B.
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 8, 16, 16}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {8, 8, 3, 3}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::conv2d, {x, w}, {{"pad", SymExpr(1)}}));
  CHECK(Segments(graph, sized(4), limits).working_set({0, 1}) == 4096 + 576 + 4096);
}

TEST_CASE("what is read outside alone does not wait on chip, and a kernel needs something in common", "[unit]") {
  // relu, exp, tanh, and then neg of the relu: a tile of 16 rows has 2,048 B, and at each of the first three ops there
  // are two. With neg the relu's waits too.
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  const TensorId y = graph.input("y", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x});
  graph.mark_output(graph.emit(OpKind::tanh, {graph.emit(OpKind::exp, {a})}));
  graph.mark_output(graph.emit(OpKind::neg, {a}));
  graph.mark_output(graph.emit(OpKind::exp, {y}));
  graph.mark_output(graph.emit(OpKind::tanh, {y}));
  const Segments segments(graph, sized(1024), {1 << 20, 16, 32, 16});
  CHECK(segments.working_set({0, 3}) == 4096);
  CHECK(segments.working_set({0, 4}) == 6144);
  CHECK(segments.fits({0, 4}));
  CHECK_FALSE(segments.fits({3, 5}));  // neg and the exp of y
  CHECK(segments.fits({4, 6}));        // they read one tensor
  CHECK(segments.greedy() == std::vector<Segment>{{0, 4}, {4, 6}});
  CHECK(segments.best() == segments.greedy());
  CHECK(Segments(graph, sized(1024), {1 << 20, 16, 32, 2}).greedy() ==
        std::vector<Segment>{{0, 2}, {2, 3}, {3, 4}, {4, 6}});
}

namespace {

/// relu, exp, tanh … over [64, 64] of two bytes, one after another.
OpGraph row(std::initializer_list<OpKind> kinds) {
  OpGraph graph;
  TensorId x = graph.input("x", {64, 64}, ElementType::fp16);
  for (const OpKind kind : kinds) x = graph.emit(kind, {x});
  graph.mark_output(x);
  return graph;
}
constexpr double kTensor = 64 * 64 * 2 * 1e-12, kLaunch = 1e-6;  // what a tensor less and a launch less are worth

}  // namespace

TEST_CASE("a segment saves what only it reads, what it reads again, and launches", "[unit]") {
  const OpGraph graph = row({OpKind::relu, OpKind::exp, OpKind::tanh});
  const SegmentLimits limits{1 << 30, 16, 64, 16};
  const Segments three(graph, {}, limits);
  CHECK(three.gain_s({0, 2}) == Approx(2 * kTensor + kLaunch));
  CHECK(three.gain_s({0, 3}) == Approx(4 * kTensor + 2 * kLaunch));
  CHECK(three.gain_s({2, 3}) == 0);
  // What is given as well is written all the same, and only its read is saved; so is what others read.
  OpGraph given = graph;
  given.mark_output(given.op(models::OpId{0}).outputs.front());
  CHECK(Segments(given, {}, limits).gain_s({0, 2}) == Approx(kTensor + kLaunch));
  OpGraph seen = graph;  // a view of it is given
  seen.mark_output(seen.emit(OpKind::reshape, {seen.op(models::OpId{0}).outputs.front()}, {4096}, ElementType::fp16));
  CHECK(Segments(seen, {}, limits).gain_s({0, 2}) == Approx(kTensor + kLaunch));
  OpGraph read = graph;
  read.mark_output(read.emit(OpKind::neg, {read.op(models::OpId{0}).outputs.front()}));
  CHECK(Segments(read, {}, limits).gain_s({0, 2}) == Approx(kTensor + kLaunch));
  CHECK(Segments(read, {}, limits).gain_s({0, 4}) == Approx(5 * kTensor + 3 * kLaunch));  // now nobody else does
  // An input that two read is read once; one that an op has twice was always.
  OpGraph shared;
  const TensorId x = shared.input("x", {64, 64}, ElementType::fp16);
  shared.mark_output(shared.emit(OpKind::relu, {x}));
  shared.mark_output(shared.emit(OpKind::mul, {x, x}));
  CHECK(Segments(shared, {}, limits).gain_s({0, 2}) == Approx(kTensor + kLaunch));
  OpGraph twice;
  const TensorId y = twice.emit(OpKind::relu, {twice.input("y", {64, 64}, ElementType::fp16)});
  twice.mark_output(twice.emit(OpKind::mul, {y, y}));
  CHECK(Segments(twice, {}, limits).gain_s({0, 2}) == Approx(2 * kTensor + kLaunch));
  // What was expanded is read at the size that it had: a write and a read of one row of 64.
  OpGraph wide;
  const TensorId small = wide.emit(OpKind::relu, {wide.input("s", {1, 64}, ElementType::fp16)});
  wide.mark_output(wide.emit(OpKind::exp, {wide.emit(OpKind::expand, {small}, {64, 64}, ElementType::fp16)}));
  CHECK(Segments(wide, {}, limits).gain_s({0, 2}) == Approx(2 * kTensor / 64 + kLaunch));
}

TEST_CASE("panels of a right operand have all rows and some columns, or some rows where it is transposed", "[unit]") {
  // [64, 32] times [32, 256]: a tile of 16 x 32 x 2 B and one of 16 x 256 x 2 B; a panel of 8 columns is 32 x 8 x 2 B.
  const auto working_set = [](bool transposed, std::int64_t panel, std::int64_t rows) {
    OpGraph graph;
    const TensorId x = graph.input("x", {64, 32}, ElementType::fp16);
    const std::vector<SymExpr> shape = transposed ? std::vector<SymExpr>{256, 32} : std::vector<SymExpr>{32, 256};
    graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("w", shape, ElementType::fp16)},
                                 {{"trans_b", SymExpr(transposed ? 1 : 0)}}));
    return Segments(graph, {}, {1 << 30, rows, panel, 16}).working_set({0, 1});
  };
  CHECK(working_set(false, 8, 16) == 16 * 32 * 2 + 16 * 256 * 2 + 32 * 8 * 2);
  CHECK(working_set(true, 8, 16) == 16 * 32 * 2 + 16 * 256 * 2 + 8 * 32 * 2);
  CHECK(working_set(false, 1000, 16) == 16 * 32 * 2 + 16 * 256 * 2 + 32 * 256 * 2);  // no more than all
  CHECK(working_set(true, 1000, 16) == 16 * 32 * 2 + 16 * 256 * 2 + 32 * 256 * 2);
  CHECK(working_set(false, 8, 1000) == 64 * 32 * 2 + 64 * 256 * 2 + 32 * 8 * 2);
  CHECK(working_set(false, 8, 1) == 32 * 2 + 256 * 2 + 32 * 8 * 2);
  // A bias is an operand like others: one tile, no larger than it is.
  OpGraph biased;
  const TensorId x = biased.input("x", {64, 32}, ElementType::fp16);
  biased.mark_output(biased.emit(OpKind::matmul, {x, biased.parameter("w", {32, 256}, ElementType::fp16),
                                                  biased.parameter("b", {256}, ElementType::fp16)}));
  CHECK(Segments(biased, {}, {1 << 30, 16, 8, 16}).working_set({0, 1}) ==
        16 * 32 * 2 + 16 * 256 * 2 + 32 * 8 * 2 + 256 * 2);
}

TEST_CASE("a tensor that is read in other rows must be there whole", "[unit]") {
  // relu over [64, 64] (a tile of 16 rows: 2,048 B, all of it 8,192 B), then exp of a view of it.
  const auto working_set = [](OpKind view, std::vector<SymExpr> shape) {
    OpGraph graph;
    const TensorId a = graph.emit(OpKind::relu, {graph.input("x", {64, 64}, ElementType::fp16)});
    graph.mark_output(graph.emit(OpKind::exp, {graph.emit(view, {a}, std::move(shape), ElementType::fp16)}));
    return Segments(graph, {}, {1 << 30, 16, 64, 16}).working_set({0, 2});
  };
  CHECK(working_set(OpKind::reshape, {8, 8, 64}) == 2 * 2048);    // the same rows
  CHECK(working_set(OpKind::reshape, {32, 128}) == 8192 + 4096);  // rows of 128: a tile has 4,096 B
  CHECK(working_set(OpKind::slice, {32, 64}) == 8192 + 2048);     // moves elements
  CHECK(working_set(OpKind::transpose, {64, 64}) == 2 * 2048);    // looks the same
}

TEST_CASE("a kernel of several results holds each as long as it waits", "[unit]") {
  OpGraph graph;
  OpNode norm;
  norm.kind = OpKind::layer_norm;
  norm.inputs = {graph.input("x", {64, 64}, ElementType::fp16)};
  const models::OpId made =
      graph.add(std::move(norm), {{.shape = {64, 64}}, {.shape = {64, 1}, .type = ElementType::fp32}});
  const std::vector<TensorId> outputs = graph.op(made).outputs;
  const TensorId b = graph.emit(OpKind::relu, {outputs[0]});
  graph.mark_output(graph.emit(OpKind::mul, {b, outputs[1]}));
  const Segments segments(graph, {}, {1 << 30, 16, 64, 16});
  // Norm: x, its result and 16 statistics of 4 B. Then the result, the statistics and the relu's; then the relu's, the
  // statistics and the product.
  CHECK(segments.working_set({0, 1}) == 2048 + 2048 + 64);
  CHECK(segments.working_set({0, 2}) == 2048 + 2048 + 64);  // at the norm
  CHECK(segments.working_set({1, 2}) == 4096);
  CHECK(segments.working_set({0, 3}) == 4096 + 64);
  CHECK(segments.working_set({1, 3}) == 4096 + 64);
}

TEST_CASE("segments have so many ops at most, of one place, and fit to the byte", "[unit]") {
  OpGraph graph = row({OpKind::relu, OpKind::exp, OpKind::tanh, OpKind::neg, OpKind::abs});
  const auto fits = [&](const SegmentLimits& limits, Segment segment) {
    return Segments(graph, {}, limits).fits(segment);
  };
  CHECK(fits({4096, 16, 64, 16}, {0, 5}));
  CHECK_FALSE(fits({4095, 16, 64, 16}, {0, 5}));
  CHECK(fits({0, 16, 64, 16}, {2, 3}));  // one always
  CHECK(fits({4096, 16, 64, 4}, {0, 4}));
  CHECK_FALSE(fits({4096, 16, 64, 4}, {0, 5}));
  using Parts = std::vector<Segment>;
  const auto best = [&](std::int64_t ops) { return Segments(graph, {}, {4096, 16, 64, ops}).best(); };
  CHECK(best(16) == Parts{{0, 5}});
  CHECK(best(5) == Parts{{0, 5}});
  CHECK(best(1) == Parts{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
  const Parts four = best(4);
  CHECK(four.size() == 2);
  graph.annotate(models::OpId{2}).phase = models::Phase::backward;
  CHECK_FALSE(fits({4096, 16, 64, 16}, {1, 3}));
  CHECK(best(16) == Parts{{0, 2}, {2, 3}, {3, 5}});
  CHECK(Segments(graph, {}, {4096, 16, 64, 16}).greedy() == best(16));
}

TEST_CASE("segments of two ops or more are groups, numbered by their first", "[unit]") {
  CHECK(groups_of({{0, 1}, {1, 4}, {4, 5}, {5, 7}}, 7) == UnitGroups{-1, 1, 1, 1, -1, 5, 5});
  CHECK(groups_of({}, 0).empty());
  CHECK(groups_of({{0, 2}}, 3) == UnitGroups{0, 0, -1});
}

TEST_CASE("what segment fusion tells is what it chose", "[unit]") {
  const OpGraph graph = row({OpKind::relu, OpKind::exp, OpKind::tanh});
  for (const char* name : {"greedy_fusion", "dp_fusion"}) {
    const auto told = [&](const char* params, std::int64_t device = 0) {
      PassContext context;
      context.scratch_bytes = device;
      PassReport report;
      const OpGraph fused = apply(name, graph, context, params, &report);
      CHECK(report.notes.size() == (std::string(params) == "{}" && device == 0 ? 1 : 0));
      CHECK(figure(report, "groups") == (fused.op_count() < 3 ? 1 : 0));
      if (fused.op_count() == 1) CHECK(figure(report, "gain_s") == Approx(4 * kTensor + 2 * kLaunch));
      if (fused.op_count() == 3) CHECK(figure(report, "gain_s") == 0);
      return std::pair(fused.op_count(), figure(report, "largest_working_set"));
    };
    using Told = std::pair<std::size_t, double>;
    CHECK(told(R"({"scratch": "4096 B"})") == Told{1, 4096});
    CHECK(told(R"({"scratch": "4095 B"})") == Told{3, 0});
    CHECK(told("{}", 4096) == Told{1, 4096});
    CHECK(told("{}") == Told{3, 0});
    CHECK(told(R"({"scratch": "0 B"})", 4096) == Told{3, 0});
    CHECK(told(R"({"scratch": "4096 B", "max_ops": 2})").first == 2);
    CHECK(told(R"({"scratch": "4096 B", "tile_rows": 8})").second == 2048);
  }
}

}  // namespace test_fusion_segments
