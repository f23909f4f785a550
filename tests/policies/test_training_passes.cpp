// Training passes: casts where the rules ask for them and no more, regions run again, micro-batches summed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/liveness.hpp"
#include "policies/base/graph_pass.hpp"
#include "tests/models/random_graph.hpp"

namespace orrery::policies::test_training_passes {
namespace {

using namespace models;

const SymExpr kBatch = SymExpr::dim("batch");
const Bindings kSizes{{"batch", 64}};

OpGraph run_pass(const std::string& name, const OpGraph& graph, PassReport& report,
                 sim::Node params = sim::Node::object(), const Bindings& sizes = kSizes) {
  static const PassRegistry registry = [] {
    PassRegistry all("pass");
    register_training_passes(all);
    return all;
  }();
  sim::Faults faults;
  const auto choice = registry.prepare(name, &params, {}, faults);
  faults.throw_if_any();
  PassContext context;
  context.typical = sizes;
  OpGraph done = choice.make()->run(graph, context, report);
  REQUIRE(verify(done) == std::vector<std::string>{});
  return done;
}

double figure(const PassReport& report, const std::string& name) {
  for (const auto& [key, value] : report.figures)
    if (key == name) return value;
  FAIL("no figure " + name);
  return 0;
}

sim::Node with(const std::string& key, sim::Node value) {
  sim::Node node = sim::Node::object();
  node.set(key, std::move(value));
  return node;
}

/// `layers` blocks: norm, product, GELU, product, residual; in fp32.
OpGraph blocks(int layers, bool loss = false) {
  OpGraph graph;
  graph.facts.in_range(Symbol("batch"), {1, {}});
  TensorId x = graph.input("x", {kBatch, 32}, ElementType::fp32);
  for (int i = 0; i < layers; ++i) {
    const std::string scope = "layer." + std::to_string(i);
    graph.set_scope(scope);
    const auto weight = [&](const char* name, std::vector<SymExpr> shape) {
      return graph.parameter(scope + "." + name, std::move(shape), ElementType::fp32);
    };
    const TensorId normed = graph.emit(OpKind::layer_norm, {x, weight("gain", {32}), weight("shift", {32})});
    const TensorId up = graph.emit(OpKind::matmul, {normed, weight("up", {32, 128})});
    const TensorId down = graph.emit(OpKind::matmul, {graph.emit(OpKind::gelu, {up}), weight("down", {128, 32})});
    x = graph.emit(OpKind::add, {x, down});
  }
  graph.set_scope("");
  if (loss) x = graph.emit(OpKind::reduce_mean, {x}, {{"axes", std::vector<SymExpr>{0, 1}}});
  graph.mark_output(x);
  return graph;
}

TEST_CASE("The pass differentiates and tells what it made", "[unit][autodiff]") {
  PassReport report;
  const OpGraph graph = run_pass("autodiff", blocks(2, true), report, with("optimizer", sim::Node::string("adam")));
  CHECK(figure(report, "gradients") == 8);  // four a layer
  CHECK(figure(report, "unreached") == 0);
  double saved = 0;
  for (const TensorId id : graph.tensors()) saved += graph.tensor(id).saved ? 1 : 0;
  CHECK(figure(report, "saved_tensors") == saved);
  CHECK(graph.with_role(TensorRole::state).size() == 16);
  CHECK_THROWS_WITH(run_pass("autodiff", graph, report),
                    "autodiff: expected a forward graph; it has been differentiated already");
}

TEST_CASE("Mixed precision casts by kind, weights once, and never twice", "[unit][amp]") {
  PassReport report;
  const OpGraph forward = run_pass("amp", blocks(1), report);
  std::map<std::string, std::string> types;
  for (const OpId id : forward.ops())
    types[std::string(to_string(forward.op(id).kind))] = to_string(forward.tensor(forward.op(id).outputs.front()).type);
  CHECK(types["matmul"] == "fp16");
  CHECK(types["layer_norm"] == "fp32");
  CHECK(types["gelu"] == "fp16");       // follows its operand
  CHECK(types["add"] == "fp32");        // the residual is wide
  CHECK(figure(report, "casts") == 3);  // the norm's output and two weights
  CHECK(figure(report, "weight_casts") == 2);

  for (const bool cast_first : {true, false}) {  // before or after differentiation
    OpGraph graph = blocks(3, true);
    PassReport told;
    graph = run_pass(cast_first ? "amp" : "autodiff", graph, told);
    graph = run_pass(cast_first ? "autodiff" : "amp", graph, told);
    std::map<std::pair<TensorId, std::string>, int> seen;
    for (const OpId id : graph.ops()) {
      const OpNode& op = graph.op(id);
      if (op.kind == OpKind::matmul) {
        for (const TensorId input : op.inputs) CHECK(graph.tensor(input).type == ElementType::fp16);
      }
      if (op.kind == OpKind::optimizer_step)
        for (const TensorId input : op.inputs) CHECK(graph.tensor(input).type == ElementType::fp32);
      if (op.kind != OpKind::cast) continue;
      const TensorId from = op.inputs.front();
      CHECK(graph.tensor(from).type != graph.tensor(op.outputs.front()).type);
      CHECK(++seen[{from, std::string(op.text("to"))}] == 1);
    }
  }
}

TEST_CASE("Mixed precision leaves whole numbers alone", "[unit][amp]") {
  OpGraph graph;
  const TensorId ids = graph.input("ids", {kBatch, 16}, ElementType::int64);
  const TensorId table = graph.parameter("table", {100, 32}, ElementType::fp32);
  const TensorId rows = graph.emit(OpKind::embedding, {table, ids}, {kBatch, 16, 32}, ElementType::fp32);
  graph.mark_output(graph.emit(OpKind::matmul, {rows, graph.parameter("w", {32, 8}, ElementType::fp32)}));
  PassReport report;
  const OpGraph mixed = run_pass("amp", graph, report);
  std::int64_t casts = 0;
  for (const OpId id : mixed.ops()) {
    const OpNode& op = mixed.op(id);
    if (op.kind == OpKind::embedding) CHECK(mixed.tensor(op.inputs[1]).type == ElementType::int64);
    if (op.kind == OpKind::cast) CHECK(mixed.tensor(op.inputs[0]).type != ElementType::int64);
    casts += op.kind == OpKind::cast ? 1 : 0;
  }
  CHECK(casts > 0);
}

TEST_CASE("Mixed precision leaves a graph alone that has its types already", "[unit][amp]") {
  PassReport report;
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp16);
  graph.mark_output(
      graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, graph.parameter("w", {8, 8}, ElementType::fp16)})}));
  CHECK(to_string(run_pass("amp", graph, report)) == to_string(graph));
  CHECK_THROWS_WITH(run_pass("amp", graph, report, with("dtype", sim::Node::string("fp8"))),
                    "amp: dtype: expected fp16 or bf16, got fp8");
}

TEST_CASE("Recomputed regions keep what enters and leaves them", "[unit][recompute]") {
  PassReport report;
  const OpGraph training = run_pass("autodiff", blocks(4, true), report);
  const OpGraph graph = run_pass("recompute", training, report);
  CHECK(figure(report, "regions") == 4);
  // Norm, product and GELU of each layer; the last product feeds the residual only, which nothing reads back.
  CHECK(figure(report, "ops_again") == 12);
  CHECK(figure(report, "applied") == 1);
  CHECK(liveness(graph, kSizes).peak < liveness(training, kSizes).peak);
  CHECK(figure(report, "live_before_bytes") == static_cast<double>(liveness(training, kSizes).peak));
  CHECK(figure(report, "live_after_bytes") == static_cast<double>(liveness(graph, kSizes).peak));
  std::int64_t saved = 0;
  for (const TensorId id : graph.tensors()) saved += graph.tensor(id).saved ? 1 : 0;
  CHECK(saved == 3);  // what layers 1 to 3 read; layer 0 reads the input
  PassReport coarse;
  run_pass("recompute", training, coarse, with("every", sim::Node::integer(2)));
  CHECK(figure(coarse, "regions") == 2);
  PassReport none;
  CHECK(to_string(run_pass("recompute", training, none, with("scope", sim::Node::string("block.*")))) ==
        to_string(training));
  CHECK(none.notes.size() == 1);
  CHECK_THROWS_WITH(run_pass("recompute", blocks(1), report),
                    "recompute: expected a training graph; run autodiff before");
}

TEST_CASE("Recomputing never raises the peak", "[prop][recompute]") {
  sim::RandomStream random(5, "recompute");
  for (int round = 0; round < 40; ++round) {
    const OpGraph forward = models::test::random_graph(random, {.ops = 24, .matmul = 0.4});
    if (forward.with_role(TensorRole::parameter).empty()) continue;
    OpGraph scoped = differentiate(forward, {.loss = LossKind::mean_square}).graph;
    std::int64_t n = 0;
    for (const OpId id : scoped.ops())
      if (scoped.op(id).phase == models::Phase::forward) scoped.annotate(id).scope = "layer." + std::to_string(n++ / 6);
    PassReport report;
    const OpGraph done = run_pass("recompute", scoped, report);
    CHECK(liveness(done, kSizes).peak <= liveness(scoped, kSizes).peak);
  }
}

TEST_CASE("Accumulation repeats forward and backward, and steps once", "[unit][accumulate]") {
  PassReport report;
  const OpGraph once = run_pass("autodiff", run_pass("amp", blocks(2, true), report), report);
  const OpGraph graph = run_pass("accumulate", once, report, with("micro_batches", sim::Node::integer(4)));
  const auto count = [](const OpGraph& g, OpKind kind) {
    std::int64_t n = 0;
    for (const OpId id : g.ops()) n += g.op(id).kind == kind ? 1 : 0;
    return n;
  };
  CHECK(count(graph, OpKind::matmul) == 4 * count(once, OpKind::matmul));
  CHECK(count(graph, OpKind::optimizer_step) == 8);
  // Residual sums of each micro-batch, and three additions for each of the eight gradients.
  CHECK(count(graph, OpKind::add) == 4 * count(once, OpKind::add) + 3 * 8);
  CHECK(graph.with_role(TensorRole::input).size() == 4);
  // Four weights are cast once, all other casts in every micro-batch.
  CHECK(count(graph, OpKind::cast) == 4 * (count(once, OpKind::cast) - 4) + 4);
  CHECK(graph.outputs().size() == once.outputs().size() + 3);
  CHECK_THROWS_WITH(run_pass("accumulate", blocks(1), report),
                    "accumulate: expected a training graph with optimizer steps; run autodiff before");
  CHECK(to_string(run_pass("accumulate", once, report, with("micro_batches", sim::Node::integer(1)))) ==
        to_string(once));
}

/// The type that the only op of a kind computes in, in a graph that the pass has gone over.
ElementType type_of(const OpGraph& graph, OpKind kind) {
  std::optional<ElementType> type;
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == kind) type = graph.tensor(graph.op(id).outputs.front()).type;
  REQUIRE(type);
  return *type;
}

TEST_CASE("Mixed precision: which kinds compute in 32 bits whatever comes, and which follow their operand",
          "[unit][amp]") {
  for (const auto& [kind, wide] :
       {std::pair(OpKind::exp, true), std::pair(OpKind::log, true), std::pair(OpKind::pow, true),
        std::pair(OpKind::rsqrt, true), std::pair(OpKind::softmax, true), std::pair(OpKind::rms_norm, true),
        std::pair(OpKind::layer_norm, true), std::pair(OpKind::relu, false), std::pair(OpKind::tanh, false),
        std::pair(OpKind::sqrt, false), std::pair(OpKind::neg, false)}) {
    CAPTURE(to_string(kind));
    OpGraph graph;
    const TensorId x = graph.input("x", {kBatch, 16}, ElementType::fp16);
    graph.mark_output(graph.emit(kind, {x}));
    PassReport report;
    const OpGraph mixed = run_pass("amp", graph, report);
    CHECK(type_of(mixed, kind) == (wide ? ElementType::fp32 : ElementType::fp16));
    CHECK(figure(report, "casts") == (wide ? 1 : 0));
    CHECK(figure(report, "weight_casts") == 0);
    CHECK(figure(report, "low_ops") == 0);
  }
}

TEST_CASE("Mixed precision: sums are wide in the forward pass, and follow their operand in the backward pass",
          "[unit][amp]") {
  for (const OpKind kind : {OpKind::reduce_sum, OpKind::reduce_mean})
    for (const models::Phase phase : {models::Phase::forward, models::Phase::backward}) {
      OpGraph graph;
      const TensorId x = graph.input("x", {kBatch, 16}, ElementType::fp16);
      graph.set_phase(phase);
      graph.mark_output(graph.emit(kind, {x}, {{"axes", std::vector<SymExpr>{0, 1}}}));
      PassReport report;
      CHECK(type_of(run_pass("amp", graph, report), kind) ==
            (phase == models::Phase::forward ? ElementType::fp32 : ElementType::fp16));
    }
}

TEST_CASE("Mixed precision: what is widest among operands is the type of the op, in any order", "[unit][amp]") {
  using Type = ElementType;
  for (const auto& [a, b, type] :
       {std::tuple(Type::fp32, Type::fp16, Type::fp32), std::tuple(Type::fp16, Type::fp32, Type::fp32),
        std::tuple(Type::fp16, Type::fp16, Type::fp16), std::tuple(Type::fp32, Type::fp32, Type::fp32)}) {
    OpGraph graph;
    const TensorId x = graph.input("x", {kBatch, 16}, a), y = graph.input("y", {kBatch, 16}, b);
    graph.mark_output(graph.emit(OpKind::add, {x, y}));
    PassReport report;
    const OpGraph mixed = run_pass("amp", graph, report);
    CHECK(type_of(mixed, OpKind::add) == type);
    CHECK(figure(report, "casts") == 0);  // read as they are
  }
}

TEST_CASE("Mixed precision: further kinds by name, in either type, and bfloat16", "[unit][amp]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 16}, ElementType::fp32);
  const TensorId up = graph.emit(OpKind::matmul, {x, graph.parameter("w", {16, 16}, ElementType::fp32)});
  graph.mark_output(graph.emit(OpKind::tanh, {graph.emit(OpKind::neg, {up})}));
  const auto mixed = [&](sim::Node params, double low_ops) {
    PassReport report;
    OpGraph done = run_pass("amp", graph, report, std::move(params));
    CHECK(figure(report, "low_ops") == low_ops);
    return done;
  };
  const OpGraph usual = mixed(sim::Node::object(), 1);
  CHECK(type_of(usual, OpKind::matmul) == ElementType::fp16);
  CHECK(type_of(usual, OpKind::tanh) == ElementType::fp16);
  const OpGraph wide = mixed(with("wide", sim::Node::string("tanh,matmul")), 0);
  CHECK(type_of(wide, OpKind::matmul) == ElementType::fp32);
  CHECK(type_of(wide, OpKind::tanh) == ElementType::fp32);
  const OpGraph low = mixed(with("low", sim::Node::string("neg")), 2);
  CHECK(type_of(low, OpKind::neg) == ElementType::fp16);
  const OpGraph brain = mixed(with("dtype", sim::Node::string("bf16")), 1);
  CHECK(type_of(brain, OpKind::matmul) == ElementType::bf16);
  PassReport report;
  CHECK_THROWS_WITH(run_pass("amp", graph, report, with("low", sim::Node::string("warp"))),
                    "amp: 'warp' is no kind of op");
}

TEST_CASE("Mixed precision: a cast has the scope of its reader, and is asked back as what it was cast from",
          "[unit][amp]") {
  // x goes to 16 bits for two products, one of which it was cast for before; exp reads what that cast made.
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 16}, ElementType::fp32);
  graph.set_scope("first");
  const TensorId half = graph.emit(OpKind::cast, {x}, {{"to", std::string("fp16")}});
  graph.set_scope("second");
  graph.mark_output(graph.emit(OpKind::exp, {half}));
  graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("w", {16, 16}, ElementType::fp32)}));
  graph.set_scope("third");
  graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("v", {16, 16}, ElementType::fp32)}));
  PassReport report;
  const OpGraph mixed = run_pass("amp", graph, report);
  CHECK(figure(report, "casts") == 3);  // x and two weights
  CHECK(figure(report, "weight_casts") == 2);
  std::vector<std::string> made;
  for (const OpId id : mixed.ops()) {
    const OpNode& op = mixed.op(id);
    if (op.kind == OpKind::exp) CHECK(mixed.tensor(op.inputs.front()).name == "x");
    if (op.kind == OpKind::cast) made.push_back(op.scope + " " + mixed.tensor(op.inputs.front()).name);
  }
  CHECK(made == std::vector<std::string>{"first x", "second w", "third v"});
}

TEST_CASE("Mixed precision: casts to whole numbers stay, casts to the type that is there go", "[unit][amp]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 16}, ElementType::fp32);
  const TensorId y = graph.emit(OpKind::matmul, {x, graph.parameter("w", {16, 16}, ElementType::fp32)});
  graph.mark_output(graph.emit(OpKind::relu, {graph.emit(OpKind::cast, {y}, {{"to", std::string("fp16")}})}));
  graph.mark_output(graph.emit(OpKind::cast, {y}, {{"to", std::string("int64")}}));
  PassReport report;
  const OpGraph mixed = run_pass("amp", graph, report);
  std::map<std::string, int> casts;
  for (const OpId id : mixed.ops())
    if (mixed.op(id).kind == OpKind::cast) ++casts[std::string(mixed.op(id).text("to"))];
  CHECK(casts == std::map<std::string, int>{{"fp16", 2}, {"int64", 1}});  // x and w; the product is in 16 bits already
}

TEST_CASE("Regions are what begins as the pattern says, so many in a row", "[unit][recompute]") {
  PassReport told;
  const OpGraph training = run_pass("autodiff", blocks(4, true), told);
  const auto regions = [&](const std::string& scope, std::int64_t every = 1) {
    PassReport report;
    sim::Node params = with("scope", sim::Node::string(scope));
    params.set("every", sim::Node::integer(every));
    run_pass("recompute", training, report, std::move(params));
    return figure(report, "regions");
  };
  CHECK(regions("layer.*") == 4);
  CHECK(regions("*.*") == 4);
  CHECK(regions("layer") == 1);
  CHECK(regions("*") == 1);
  CHECK(regions("layer.1") == 1);
  CHECK(regions("layer.*.up") == 0);
  CHECK(regions("lay") == 0);
  CHECK(regions("") == 0);
  CHECK(regions("layer.*", 2) == 2);
  CHECK(regions("layer.*", 3) == 2);
  CHECK(regions("layer.*", 4) == 1);
  CHECK(regions("layer.*", 9) == 1);
}

TEST_CASE("Where nothing is made again the graph stays, and a line says why", "[unit][recompute]") {
  PassReport report, told;
  const OpGraph training = run_pass("autodiff", blocks(1, true), told);
  run_pass("recompute", training, report, with("scope", sim::Node::string("block.*")));
  CHECK(report.notes ==
        std::vector<std::string>{"no forward op whose scope begins as 'block.*' makes what the backward pass reads"});
  CHECK(figure(report, "ops_again") == 0);
  CHECK(report.figures.size() == 2);
}

TEST_CASE("Where the sizes are not known nobody can say whether recomputing helps: it is done", "[unit][recompute]") {
  PassReport report, told;
  const OpGraph training = run_pass("autodiff", blocks(2, true), told);
  const OpGraph graph = run_pass("recompute", training, report, sim::Node::object(), {});
  CHECK(figure(report, "ops_again") == 6);
  CHECK(report.figures.size() == 2);
  CHECK(graph.op_count() == training.op_count() + 6);
}

TEST_CASE("What is run again has a name, its phase, and readers in the backward pass alone", "[unit][recompute]") {
  PassReport report, told;
  const OpGraph training = run_pass("autodiff", blocks(2, true), told);
  const OpGraph graph = run_pass("recompute", training, report);
  double again = 0;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (!op.name.ends_with(".again")) continue;
    ++again;
    CHECK(op.phase == models::Phase::backward);
    for (const TensorId output : op.outputs) {
      CHECK(graph.tensor(output).name.ends_with(".again"));
      for (const OpId reader : graph.consumers(output)) CHECK(graph.op(reader).phase == models::Phase::backward);
    }
  }
  CHECK(again == figure(report, "ops_again"));
}

TEST_CASE("The pass says which parameters the loss does not depend on", "[unit][autodiff]") {
  for (const int spare : {0, 1, 2}) {
    OpGraph graph;
    const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp32);
    graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("w", {8, 8}, ElementType::fp32)}));
    for (int i = 0; i < spare; ++i) graph.parameter("spare" + std::to_string(i), {8}, ElementType::fp32);
    PassReport report;
    const OpGraph training = run_pass("autodiff", graph, report);
    CHECK(figure(report, "unreached") == spare);
    CHECK(figure(report, "gradients") == 1);
    std::vector<std::string> notes;
    if (spare > 0)
      notes.push_back(std::string("the loss does not depend on parameter 'spare0'") + (spare > 1 ? " and others" : ""));
    CHECK(report.notes == notes);
    double backward = 0;
    for (const OpId id : training.ops()) backward += training.op(id).phase == models::Phase::backward ? 1 : 0;
    CHECK(figure(report, "backward_ops") == backward);
  }
}

TEST_CASE("Accumulation names what it repeats and sums by the micro-batch", "[unit][accumulate]") {
  PassReport report, told;
  const OpGraph once = run_pass("autodiff", blocks(1, true), told);
  const OpGraph graph = run_pass("accumulate", once, report, with("micro_batches", sim::Node::integer(3)));
  CHECK(figure(report, "micro_batches") == 3);
  std::map<std::string, int> inputs, sums, repeated;
  for (const TensorId id : graph.with_role(TensorRole::input)) ++inputs[graph.tensor(id).name];
  CHECK(inputs == std::map<std::string, int>{{"x", 1}, {"x.micro1", 1}, {"x.micro2", 1}});
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    const std::size_t at = op.name.find(".micro");
    const bool sum = op.name.find(".sum.micro") != std::string::npos;
    if (sum) CHECK(op.phase == models::Phase::backward);
    if (sum) CHECK(op.inputs.size() == 2);
    if (at != std::string::npos) ++(sum ? sums : repeated)[op.name.substr(at)];
  }
  CHECK(sums == std::map<std::string, int>{{".micro1", 4}, {".micro2", 4}});  // four gradients
  CHECK(repeated.size() == 2);
  CHECK(repeated[".micro1"] == repeated[".micro2"]);
}

namespace recomputed {

/// exp and relu of a layer, whose tanh a neg outside reads; the backward pass reads all three.
struct Small {
  OpGraph graph;
  TensorId a{}, b{}, c{};
  explicit Small(bool output = false, bool optimizer = false) {
    const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp32);
    graph.set_scope("layer.0");
    a = graph.emit(OpKind::exp, {x}, {}, "a");
    b = graph.emit(OpKind::relu, {a}, {}, "b");
    c = graph.emit(OpKind::tanh, {b}, {}, "c");
    graph.set_scope("");
    graph.mark_output(graph.emit(OpKind::neg, {c}, {}, "d"));
    if (output) graph.mark_output(a);
    graph.set_phase(models::Phase::backward);
    const TensorId e = graph.emit(OpKind::mul, {a, c}, {}, "e");
    graph.mark_output(graph.emit(OpKind::mul, {e, b}, {}, "f"));
    graph.set_phase(models::Phase::optimizer);
    if (optimizer) graph.mark_output(graph.emit(OpKind::neg, {a}, {}, "step"));
  }
};

/// What each op reads, "reader < operand operand".
std::vector<std::string> readers(const OpGraph& graph) {
  std::vector<std::string> lines;
  for (const OpId id : graph.ops()) {
    std::string line = graph.op(id).name + " <";
    for (const TensorId input : graph.op(id).inputs) {
      const std::optional<OpId> maker = graph.producer(input);
      line += " " + (maker ? graph.op(*maker).name : graph.tensor(input).name);
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace recomputed

TEST_CASE("What the backward pass reads of a region is made again, and what others keep is not", "[unit][recompute]") {
  using Lines = std::vector<std::string>;
  const auto lines = [](const recomputed::Small& small, double again) {
    PassReport report;
    const OpGraph done = run_pass("recompute", small.graph, report, sim::Node::object(), {});
    CHECK(figure(report, "ops_again") == again);
    CHECK(figure(report, "regions") == (again > 0 ? 1 : 0));
    return recomputed::readers(done);
  };
  CHECK(lines(recomputed::Small(), 2) == Lines{"a < x", "b < a", "c < b", "d < c", "a.again < x", "b.again < a.again",
                                               "e < a.again c", "f < e b.again"});
  // An output of the graph stays, and so does what the optimizer reads.
  CHECK(lines(recomputed::Small(true), 1) ==
        Lines{"a < x", "b < a", "c < b", "d < c", "e < a c", "b.again < a", "f < e b.again"});
  CHECK(lines(recomputed::Small(false, true), 1) ==
        Lines{"a < x", "b < a", "c < b", "d < c", "e < a c", "b.again < a", "f < e b.again", "step < a"});
}

TEST_CASE("Recomputing that would raise the peak is not done, and the pass says so", "[unit][recompute]") {
  sim::RandomStream random(8, "recompute");
  int kept = 0, left = 0;
  for (int round = 0; round < 60; ++round) {
    const OpGraph forward = models::test::random_graph(random, {.ops = 24, .matmul = 0.4});
    if (forward.with_role(TensorRole::parameter).empty()) continue;
    OpGraph scoped = differentiate(forward, {.loss = LossKind::mean_square}).graph;
    std::int64_t n = 0;
    for (const OpId id : scoped.ops())
      if (scoped.op(id).phase == models::Phase::forward) scoped.annotate(id).scope = "layer." + std::to_string(n++ / 6);
    PassReport report;
    const OpGraph done = run_pass("recompute", scoped, report);
    if (figure(report, "ops_again") == 0) continue;
    const bool applied = figure(report, "applied") == 1;
    if (!applied) CHECK(figure(report, "applied") == 0);
    CHECK(figure(report, "live_before_bytes") == static_cast<double>(liveness(scoped, kSizes).peak));
    CHECK(figure(report, "live_after_bytes") == static_cast<double>(liveness(done, kSizes).peak));
    CHECK((to_string(done) == to_string(scoped)) == !applied);
    CHECK(report.notes ==
          (applied ? std::vector<std::string>{}
                   : std::vector<std::string>{"recomputing would raise the peak: the graph stays as it was"}));
    ++(applied ? kept : left);
  }
  CHECK(kept > 0);
  CHECK(left > 0);
}

TEST_CASE("Mixed precision: the row sums that attention keeps stay in 32 bits", "[unit][amp]") {
  OpGraph graph;
  std::vector<TensorId> operands;
  for (const char* name : {"q", "k", "v"}) operands.push_back(graph.input(name, {kBatch, 4, 16, 8}, ElementType::fp32));
  const auto tensor = [](std::vector<SymExpr> shape) {
    Tensor made;
    made.shape = std::move(shape);
    made.type = ElementType::fp32;
    return made;
  };
  OpNode node;
  node.kind = OpKind::attention;
  node.inputs = operands;
  const OpId attention = graph.add(node, {tensor({kBatch, 4, 16, 8}), tensor({kBatch, 4, 16})});
  const std::vector<TensorId> made = graph.op(attention).outputs;
  graph.mark_output(made[0]);
  graph.set_phase(models::Phase::backward);
  OpNode grad;
  grad.kind = OpKind::attention_grad;
  grad.inputs = {graph.input("d", {kBatch, 4, 16, 8}, ElementType::fp32), operands[0], operands[1], operands[2],
                 made[1]};
  const Tensor like = tensor({kBatch, 4, 16, 8});
  const OpId backward = graph.add(grad, {like, like, like});
  for (const TensorId output : std::vector<TensorId>(graph.op(backward).outputs)) graph.mark_output(output);
  PassReport report;
  const OpGraph mixed = run_pass("amp", graph, report);
  CHECK(figure(report, "casts") == 4);  // three operands and a gradient
  CHECK(figure(report, "low_ops") == 2);
  for (const OpId id : mixed.ops()) {
    const OpNode& op = mixed.op(id);
    if (op.kind == OpKind::attention) {
      CHECK(mixed.tensor(op.outputs[0]).type == ElementType::fp16);
      CHECK(mixed.tensor(op.outputs[1]).type == ElementType::fp32);
    }
    if (op.kind != OpKind::attention_grad) continue;
    for (std::size_t slot = 0; slot < op.inputs.size(); ++slot)
      CHECK(mixed.tensor(op.inputs[slot]).type == (slot == 4 ? ElementType::fp32 : ElementType::fp16));
    for (const TensorId output : op.outputs) CHECK(mixed.tensor(output).type == ElementType::fp16);
  }
}

}  // namespace
}  // namespace orrery::policies::test_training_passes
