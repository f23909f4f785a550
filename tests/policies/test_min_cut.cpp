// What a training step keeps: the cut by hand and by brute force, the same values after it, regions by themselves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "models/autodiff/autodiff.hpp"
#include "policies/base/graph_pass.hpp"
#include "tests/models/interpreter.hpp"
#include "tests/models/random_graph.hpp"

namespace orrery::policies::test_min_cut {
namespace {

using namespace models;

const SymExpr kBatch = SymExpr::dim("batch");
const Bindings kSizes{{"batch", 4}};

OpGraph run_pass(const std::string& name, const OpGraph& graph, const char* params = "{}",
                 const Bindings& sizes = kSizes, PassReport* told = nullptr) {
  static const PassRegistry registry = [] {
    PassRegistry all("pass");
    register_graph_passes(all);
    return all;
  }();
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "params.json");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  PassContext context;
  context.typical = sizes;
  PassReport report;
  OpGraph done = choice.make()->run(graph, context, report);
  if (told != nullptr) *told = report;
  REQUIRE(verify(done) == std::vector<std::string>{});
  return done;
}

std::set<std::string> saved(const OpGraph& graph) {
  std::set<std::string> names;
  for (const TensorId id : graph.tensors())
    if (graph.tensor(id).saved && graph.tensor(id).role == TensorRole::activation) names.insert(graph.tensor(id).name);
  return names;
}

std::int64_t saved_bytes(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (const TensorId id : graph.tensors())
    if (graph.tensor(id).saved && graph.tensor(id).role == TensorRole::activation) bytes += bytes_of(graph, id, kSizes);
  return bytes;
}

/// x w1, widened, exponential, tanh, times itself widened, narrowed, w2: all in the scope of one layer.
OpGraph chain(bool scopes = false) {
  OpGraph graph;
  graph.set_scope("layer.0");
  const auto weight = [&](const char* name) { return graph.parameter(name, {32, 32}, ElementType::fp16); };
  const auto cast = [&](TensorId x, const char* to, ElementType type) {
    return graph.emit(OpKind::cast, {x}, {kBatch, 32}, type, {{"to", std::string(to)}});
  };
  const TensorId x = graph.input("x", {kBatch, 32}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::matmul, {x, weight("w1")});
  const TensorId wide = cast(a, "fp32", ElementType::fp32);
  const TensorId e = graph.emit(OpKind::exp, {wide});
  if (scopes) graph.set_scope("layer.1");
  const TensorId t = graph.emit(OpKind::tanh, {e});
  const TensorId product = graph.emit(OpKind::mul, {t, e});
  const TensorId narrow = cast(product, "fp16", ElementType::fp16);
  const TensorId y = graph.emit(OpKind::matmul, {narrow, weight("w2")});
  graph.set_scope("");
  graph.mark_output(graph.emit(OpKind::reduce_mean, {y}, {{"axes", std::vector<SymExpr>{0, 1}}}));
  return run_pass("autodiff", graph, R"({"optimizer": "none"})");
}

}  // namespace

TEST_CASE("A chain keeps what products read and the least that the rest is made from", "[unit][min_cut]") {
  const OpGraph before = chain(), after = run_pass("min_cut", before);
  // Eager: exp and tanh (fp32, 512 bytes each) and the second product's operand (fp16, 256), 1,280 in all. Cut: what
  // the first product made (256) gives exp and tanh again; the operand has to lie in memory for the product of w2.
  CHECK(saved_bytes(before) == 1280);
  CHECK(saved_bytes(after) == 512);
  std::set<std::string> kinds;
  for (const std::string& name : saved(after)) kinds.insert(name.substr(0, name.find('_')));
  CHECK(kinds == std::set<std::string>{"matmul", "cast"});
  // Nothing is kept that no backward op reads, and the forward pass is as it was.
  std::int64_t forward = 0;
  for (const OpId id : after.ops()) forward += after.op(id).phase == models::Phase::forward ? 1 : 0;
  std::int64_t forward_before = 0;
  for (const OpId id : before.ops()) forward_before += before.op(id).phase == models::Phase::forward ? 1 : 0;
  CHECK(forward == forward_before);
  CHECK(saved_bytes(run_pass("min_cut", after)) == 512);  // a second cut finds nothing more
}

TEST_CASE("A region is cut by itself: what it hands on is kept, not made again across the border", "[unit][min_cut]") {
  // exp leaves layer.0: it is kept (512) for both, tanh is made from it, and the product's operand is kept (256).
  const OpGraph after = run_pass("min_cut", chain(true));
  CHECK(saved_bytes(after) == 768);
  CHECK(std::ranges::any_of(saved(after), [](const std::string& name) { return name.starts_with("exp"); }));
  CHECK(saved_bytes(run_pass("min_cut", chain(true), R"({"scope": "no.such"})")) == 512);  // one region of all
}

TEST_CASE("What leaves a region through a view is kept, and without sizes nothing is cut", "[unit][min_cut]") {
  // tanh of layer.0 goes on as a reshape: layer.1's backward pass may not make it again from layer.0's product.
  OpGraph graph;
  graph.set_scope("layer.0");
  const TensorId x = graph.input("x", {kBatch, 32}, ElementType::fp32);
  const TensorId a = graph.emit(OpKind::matmul, {x, graph.parameter("w", {32, 32}, ElementType::fp32)});
  const TensorId t = graph.emit(OpKind::tanh, {a});
  const TensorId turned = graph.emit(OpKind::reshape, {t}, {kBatch * 32, 1}, ElementType::fp32);
  graph.set_scope("layer.1");
  const TensorId y = graph.emit(OpKind::exp, {graph.emit(OpKind::gelu, {turned})});
  graph.mark_output(graph.emit(OpKind::reduce_mean, {y}, {{"axes", std::vector<SymExpr>{0, 1}}}));
  const OpGraph step = run_pass("autodiff", graph, R"({"optimizer": "none"})");
  const std::set<std::string> kept = saved(run_pass("min_cut", step));
  CHECK(std::ranges::any_of(kept, [](const std::string& name) { return name.starts_with("tanh"); }));
  CHECK(std::ranges::none_of(kept, [](const std::string& name) { return name.starts_with("matmul"); }));
  CHECK(saved_bytes(run_pass("min_cut", step)) == 512);
  PassReport report;
  CHECK(to_string(run_pass("min_cut", step, "{}", {}, &report)) == to_string(step));
  CHECK(report.notes.size() == 1);
}

TEST_CASE("After the cut a step gives the same gradients, and keeps no more", "[prop][min_cut]") {
  sim::RandomStream random(3, "min_cut");
  std::int64_t smaller = 0;
  for (int trial = 0; trial < 40; ++trial) {
    CAPTURE(trial);
    OpGraph graph = models::test::random_graph(random, {.ops = 14});
    const OpGraph before = run_pass("autodiff", graph, R"({"loss": "sum", "optimizer": "none"})");
    const OpGraph after = run_pass("min_cut", before);
    CHECK(saved_bytes(after) <= saved_bytes(before));
    smaller += saved_bytes(after) < saved_bytes(before) ? 1 : 0;
    const models::test::Feed feed = models::test::random_feed(before, kSizes, static_cast<std::uint64_t>(trial), 4);
    const auto a = models::test::interpret(before, kSizes, feed), b = models::test::interpret(after, kSizes, feed);
    REQUIRE(before.outputs().size() == after.outputs().size());
    for (std::size_t i = 0; i < before.outputs().size(); ++i)
      CHECK(a[index(before.outputs()[i])].data == b[index(after.outputs()[i])].data);
  }
  CHECK(smaller > 20);
}

TEST_CASE("No choice of kept tensors is smaller, by trying all", "[theory][min_cut]") {
  // Chains and joins of elementwise ops after one product: any set of tensors from which all that is read can be made.
  sim::RandomStream random(9, "min_cut");
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    OpGraph graph;
    const TensorId x = graph.input("x", {kBatch, 8}, ElementType::fp16);
    std::vector<TensorId> made{graph.emit(OpKind::matmul, {x, graph.parameter("w", {8, 8}, ElementType::fp16)})};
    for (int i = 0; i < 7; ++i) {
      const auto pick = [&] { return made[static_cast<std::size_t>(random.integer(0, std::ssize(made) - 1))]; };
      const TensorId a = pick();
      const double draw = random.uniform();
      const bool wide = graph.tensor(a).type == ElementType::fp32;
      if (draw < 0.3)
        made.push_back(graph.emit(OpKind::cast, {a}, {kBatch, 8}, wide ? ElementType::fp16 : ElementType::fp32,
                                  {{"to", std::string(wide ? "fp16" : "fp32")}}));
      else if (draw < 0.7)
        made.push_back(graph.emit(OpKind::tanh, {a}));
      else {
        std::vector<TensorId> like;
        for (const TensorId other : made)
          if (graph.tensor(other).type == graph.tensor(a).type) like.push_back(other);
        made.push_back(
            graph.emit(OpKind::mul, {a, like[static_cast<std::size_t>(random.integer(0, std::ssize(like) - 1))]}));
      }
    }
    for (const TensorId id : std::vector(made))
      if (graph.consumers(id).empty()) graph.mark_output(id);
    const OpGraph before = run_pass("autodiff", graph, R"({"loss": "sum", "optimizer": "none"})");
    // What backward ops read of the forward pass, without views (there are none here).
    std::vector<TensorId> wanted, forward;
    for (const TensorId id : before.tensors()) {
      const auto maker = before.producer(id);
      if (!maker || before.op(*maker).phase != models::Phase::forward) continue;
      forward.push_back(id);
      if (before.tensor(id).saved) wanted.push_back(id);
    }
    REQUIRE(forward.size() <= 20);
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (std::uint32_t kept = 0; kept < (1U << forward.size()); ++kept) {
      std::map<TensorId, bool> there;
      std::int64_t bytes = 0;
      for (std::size_t i = 0; i < forward.size(); ++i) {
        const OpNode& maker = before.op(*before.producer(forward[i]));
        const bool keeps = (kept >> i & 1U) != 0;
        if (keeps) bytes += bytes_of(before, forward[i], kSizes);
        bool can = maker.kind != OpKind::matmul && maker.kind != OpKind::reduce_sum;
        for (const TensorId input : maker.inputs) can = can && (!before.producer(input) || there[input]);
        there[forward[i]] = keeps || can;
      }
      if (std::ranges::all_of(wanted, [&](TensorId id) { return there[id]; })) best = std::min(best, bytes);
    }
    CHECK(saved_bytes(run_pass("min_cut", before)) == best);
  }
}

TEST_CASE("What min_cut cannot take is said in one line", "[unit][min_cut]") {
  OpGraph forward;
  const TensorId x = forward.input("x", {kBatch, 8}, ElementType::fp16);
  forward.mark_output(forward.emit(OpKind::relu, {forward.emit(OpKind::tanh, {x})}));
  CHECK_THROWS_WITH(run_pass("min_cut", forward), "min_cut: expected a training graph; run autodiff before");
  CHECK_THROWS_WITH(run_pass("min_cut", run_pass("loop_fusion", chain())),
                    "min_cut: expected a graph without fused ops; fusion runs after it");
  CHECK_THROWS_WITH(run_pass("min_cut", chain(), "{}", {{"batch", std::int64_t{1} << 52}}),
                    "min_cut: more bytes than can be weighed; smaller typical sizes make fewer");
}

}  // namespace orrery::policies::test_min_cut
