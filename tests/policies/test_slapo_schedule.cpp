// Primitives of a schedule, one by one: modules by pattern, kernels, recomputation, stages, captures, and what is told.
#include "policies/placement/slapo_schedule.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/liveness.hpp"
#include "policies/fusion/marks.hpp"
#include "tests/policies/pass_run.hpp"

namespace test_slapo_schedule {

using namespace orrery;
using namespace orrery::models;
using policies::kCaptureMark;
using policies::test::figure;
using policies::test::make_pass;
namespace slapo = policies::slapo;
using Names = std::vector<std::string>;

namespace {

constexpr slapo::Place kPlace{3, "fuse"};

/// Ops of these scopes and kinds, one after another over [8, 8].
OpGraph row(const std::vector<std::pair<std::string, OpKind>>& ops) {
  OpGraph graph;
  TensorId x = graph.input("x", {8, 8}, ElementType::fp16);
  for (const auto& [scope, kind] : ops) {
    graph.set_scope(scope);
    x = kind == OpKind::matmul ? graph.emit(kind, {x, graph.parameter(scope + ".w" + std::to_string(graph.op_count()),
                                                                      {8, 8}, ElementType::fp16)})
                               : graph.emit(kind, {x});
  }
  graph.mark_output(x);
  return graph;
}

Names of_ops(const OpGraph& graph, const std::function<std::string(const OpNode&)>& what) {
  Names all;
  for (const OpId id : graph.ops()) all.push_back(what(graph.op(id)));
  return all;
}
Names kinds(const OpGraph& graph) {
  return of_ops(graph, [](const OpNode& op) { return std::string(to_string(op.kind)); });
}

}  // namespace

TEST_CASE("pieces of a path fit patterns with any number of stars", "[unit]") {
  const auto fits = [](std::string_view pattern, std::string_view scope) {
    return slapo::module_of(pattern, scope).has_value();
  };
  CHECK(fits("*", "a"));
  CHECK(fits("**", "a"));
  CHECK(fits("a*", "a"));
  CHECK(fits("*a", "a"));
  CHECK(fits("*b*", "abc"));
  CHECK(fits("a*c*e", "abcde"));
  CHECK_FALSE(fits("a*c*f", "abcde"));
  CHECK_FALSE(fits("*b", "abc"));
  CHECK_FALSE(fits("b*", "abc"));
  CHECK_FALSE(fits("*", ""));
  CHECK_FALSE(fits("a.b", "a"));
  CHECK(slapo::module_of("*.b", "a.b.c") == "a.b");
  CHECK(slapo::module_of("a", "a.b.c") == "a");
  CHECK(slapo::module_of("a.b.c", "a.b.c") == "a.b.c");
  CHECK_FALSE(slapo::module_of("a.b.c.d", "a.b.c"));
}

TEST_CASE("modules are named once, in the order of execution", "[unit]") {
  const OpGraph graph =
      row({{"l.1.a", OpKind::relu}, {"l.0", OpKind::exp}, {"l.1.b", OpKind::relu}, {"h", OpKind::exp}});
  CHECK(slapo::modules(graph, "l.*", kPlace) == Names{"l.1", "l.0"});
  CHECK(slapo::modules(graph, "*", kPlace) == Names{"l", "h"});
  CHECK(slapo::modules(graph, "l.*.a", kPlace) == Names{"l.1.a"});
  CHECK_THROWS_WITH(slapo::modules(graph, "k", kPlace),
                    Catch::StartsWith("/slapo/schedule/3/fuse/scope: expected a module of the model, got 'k'"));
}

TEST_CASE("a module's kernel takes over all of it, or the kinds named; its two passes are two", "[unit]") {
  OpGraph graph =
      row({{"a", OpKind::relu}, {"a", OpKind::exp}, {"b", OpKind::tanh}, {"a", OpKind::relu}, {"a", OpKind::exp}});
  graph.annotate(OpId{3}).phase = graph.annotate(OpId{4}).phase = Phase::backward;
  const OpGraph all = slapo::replace(graph, {"a", "fast", {}}, kPlace);
  CHECK(kinds(all) == Names{"fused", "tanh", "fused"});
  CHECK(of_ops(all, [](const OpNode& op) { return op.dialect; }) == Names{"fast", "", "fast"});
  CHECK(all.op(OpId{2}).phase == Phase::backward);
  const OpGraph some = slapo::replace(graph, {"a", "fast", {{"relu"}}}, kPlace);
  CHECK(kinds(some) == Names{"relu", "exp", "tanh", "relu", "exp"});
  CHECK(of_ops(some, [](const OpNode& op) { return op.dialect; }) == Names{"fast", "", "", "fast", ""});
  const OpGraph each = slapo::replace(graph, {"*", "fast", {}}, kPlace);
  CHECK(kinds(each) == Names{"fused", "tanh", "fused"});
  CHECK_THROWS_WITH(slapo::replace(graph, {"a", "fast", {{"rely"}}}, kPlace),
                    Catch::Contains("/fuse/ops: expected a kind of op, got 'rely'"));
}

TEST_CASE("chains of a scope fuse from the first op on, none twice, and none across its border", "[unit]") {
  const OpGraph graph = row({{"a", OpKind::relu}, {"a", OpKind::relu}, {"a", OpKind::relu}, {"b", OpKind::relu}});
  CHECK(kinds(slapo::fuse(graph, {"a", "relu+relu"}, kPlace)) == Names{"fused", "relu", "relu"});
  CHECK(kinds(slapo::fuse(graph, {"*", "relu+relu"}, kPlace)) == Names{"fused", "fused"});
  CHECK(kinds(slapo::fuse(graph, {"a", "relu+relu+relu"}, kPlace)) == Names{"fused", "relu"});
  CHECK_THROWS_WITH(slapo::fuse(graph, {"b", "relu+relu"}, kPlace),
                    Catch::StartsWith("/slapo/schedule/3/fuse/ops: expected a chain that is in 'b', got 'relu+relu'"));
  CHECK_THROWS_WITH(slapo::fuse(graph, {"c", "relu+relu"}, kPlace), Catch::Contains("/fuse/scope: "));
}

TEST_CASE("captures of modules are numbered past those that are there", "[unit]") {
  OpGraph graph =
      row({{"h", OpKind::relu}, {"a", OpKind::exp}, {"b", OpKind::tanh}, {"b", OpKind::relu}, {"a", OpKind::exp}});
  graph.annotate(OpId{4}).phase = Phase::backward;
  const auto marks = [](const OpGraph& of) {
    std::vector<std::int64_t> all;
    for (const OpId id : of.ops()) all.push_back(of.op(id).integer(kCaptureMark, -1));
    return all;
  };
  using Marks = std::vector<std::int64_t>;
  // Two numbers a module: forward and backward.
  const OpGraph first = slapo::cudagraph(graph, {"a"}, kPlace);
  CHECK(marks(first) == Marks{-1, 0, -1, -1, 1});
  CHECK(marks(slapo::cudagraph(first, {"b"}, kPlace)) == Marks{-1, 0, 2, 2, 1});
  CHECK(marks(slapo::cudagraph(graph, {"*"}, kPlace)) == Marks{0, 2, 4, 4, 3});
}

TEST_CASE("stages send what crosses them once, each way, and take on what has no cut", "[unit]") {
  // x -> a -> b -> c, cut before b and c; a's result is read by b (twice) and by c.
  OpGraph graph;
  const TensorId x = graph.input("x", {8, 8}, ElementType::fp16);
  graph.set_scope("a");
  const TensorId a = graph.emit(OpKind::relu, {x}, {}, "first");
  graph.set_scope("b");
  const TensorId b = graph.emit(OpKind::add, {graph.emit(OpKind::exp, {a}), a});
  graph.set_scope("c");
  graph.set_phase(Phase::backward);
  graph.mark_output(graph.emit(OpKind::add, {b, a}));
  const OpGraph staged = slapo::pipeline(graph, {{{"b", "c"}}}, kPlace);
  REQUIRE(verify(staged).empty());
  CHECK(of_ops(staged, [](const OpNode& op) { return std::string(to_string(op.kind)) + " " + op.target; }) ==
        Names{"relu stage.0", "send stage.0", "recv stage.1", "exp stage.1", "add stage.1", "send stage.1",
              "recv stage.2", "send stage.0", "recv stage.2", "add stage.2"});
  const OpNode& sent = staged.op(OpId{1});
  CHECK(sent.name == graph.tensor(a).name + ".send.stage1");
  CHECK(staged.op(OpId{2}).name == sent.name + ".recv.stage1");
  CHECK(sent.scope == "a");
  CHECK(sent.phase == Phase::forward);
  CHECK(staged.op(OpId{3}).inputs.front() == staged.op(OpId{2}).outputs.front());
  CHECK(staged.op(OpId{4}).inputs[1] == staged.op(OpId{2}).outputs.front());         // the one that was received
  CHECK(slapo::pipeline(graph, {{{"a"}}}, kPlace).op(OpId{0}).target == "stage.1");  // nothing before the first cut
  CHECK_THROWS_WITH(slapo::pipeline(graph, {{{"b", "d"}}}, kPlace), Catch::Contains("got 'd'"));
}

TEST_CASE("a checkpointed module makes again what its backward pass reads, and keeps what others read", "[unit]") {
  // Module a: relu, exp, tanh; b: neg. The gradients of a read the relu's and the exp's result.
  OpGraph graph = row({{"a", OpKind::relu}, {"a", OpKind::exp}, {"a", OpKind::tanh}, {"b", OpKind::neg}});
  const auto made = [&](int op) { return graph.op(OpId{op}).outputs.front(); };
  graph.set_phase(Phase::backward);
  graph.set_scope("a");
  TensorId grad = graph.emit(OpKind::mul, {made(3), made(1)}, {}, "late");  // exp: relu and exp again
  grad = graph.emit(OpKind::mul, {grad, made(0)}, {}, "early");             // relu: made again already
  graph.mark_output(graph.emit(OpKind::mul, {grad, made(2)}, {}, "last"));  // tanh: b reads it, it is kept
  const OpGraph again = slapo::checkpoint(graph, {"a", 1}, kPlace);
  REQUIRE(verify(again).empty());
  CHECK(kinds(again) == Names{"relu", "exp", "tanh", "neg", "relu", "exp", "mul", "mul", "mul"});
  CHECK(again.op(OpId{4}).name == graph.op(OpId{0}).name + ".again");
  CHECK(again.op(OpId{4}).phase == Phase::backward);
  CHECK(again.tensor(again.op(OpId{5}).outputs.front()).name == graph.tensor(made(1)).name + ".again");
  CHECK(again.op(OpId{6}).inputs[1] == again.op(OpId{5}).outputs.front());
  CHECK(again.op(OpId{7}).inputs[1] == again.op(OpId{4}).outputs.front());
  CHECK(again.op(OpId{8}).inputs[1] == again.op(OpId{2}).outputs.front());
  // Of what is left only what crosses is saved: x, which exists, and what b and the last product read.
  for (const OpId id : again.ops())
    for (const TensorId output : again.op(id).outputs)
      CHECK(again.tensor(output).saved == (id == OpId{2} || id == OpId{3}));
  // No module, nothing again.
  CHECK(kinds(slapo::checkpoint(graph, {"a", 0}, kPlace)) == kinds(graph));
  // A result that the graph gives is kept too.
  OpGraph given = graph;
  given.mark_output(made(1));
  CHECK(kinds(slapo::checkpoint(given, {"a", 1}, kPlace)) ==
        Names{"relu", "exp", "tanh", "neg", "mul", "relu", "mul", "mul"});
}

TEST_CASE("a share of the modules is checkpointed, the first ones, rounded to whole ones", "[unit]") {
  // Five layers of relu and exp whose backward pass reads every relu.
  std::vector<std::pair<std::string, OpKind>> ops;
  for (int i = 0; i < 5; ++i)
    for (const OpKind kind : {OpKind::relu, OpKind::exp}) ops.emplace_back("l." + std::to_string(i), kind);
  OpGraph graph = row(ops);
  graph.set_phase(Phase::backward);
  TensorId grad = graph.outputs()[0];
  for (int i = 5; i-- > 0;) grad = graph.emit(OpKind::mul, {grad, graph.op(OpId{2 * i}).outputs.front()});
  graph.mark_output(grad);
  const auto again = [&](double ratio) {
    Names all;
    const OpGraph after = slapo::checkpoint(graph, {"l.*", ratio}, kPlace);
    for (const OpId id : after.ops())
      if (after.op(id).name.ends_with(".again")) all.push_back(after.op(id).scope);
    std::sort(all.begin(), all.end());
    return all;
  };
  CHECK(again(0).empty());
  CHECK(again(0.09).empty());
  CHECK(again(0.1) == Names{"l.0"});
  CHECK(again(0.29) == Names{"l.0"});
  CHECK(again(0.5) == Names{"l.0", "l.1", "l.2"});
  CHECK(again(1) == Names{"l.0", "l.1", "l.2", "l.3", "l.4"});
}

TEST_CASE("memory is what ZeRO leaves of each, and with everything divided the largest module gathered", "[unit]") {
  // Two modules of products, of one and of two weights of 8 x 8 in half precision; Adam in single.
  OpGraph forward = row({{"a", OpKind::matmul}, {"b", OpKind::matmul}, {"b", OpKind::matmul}});
  const OpGraph training = differentiate(forward, {.loss = LossKind::sum}).graph;
  const auto told = [&](int stage, int ranks) {
    policies::PassReport report;
    static_cast<void>(make_pass("slapo", R"({"zero": {"stage": )" + std::to_string(stage) + R"(, "ranks": )" +
                                             std::to_string(ranks) + "}}")
                          ->run(training, {}, report));
    CHECK(figure(report, "parameter_bytes") == 3 * 128);
    CHECK(figure(report, "gradient_bytes") == 3 * 128);
    CHECK(figure(report, "state_bytes") == 3 * 512);
    return figure(report, "memory_bytes") - figure(report, "live_bytes");
  };
  CHECK(told(0, 4) == 384 + 1536 + 384);
  CHECK(told(1, 4) == 384 + 384 + 384);
  CHECK(told(2, 4) == 384 + 384 + 96);
  CHECK(told(3, 4) == 96 + 384 + 96 + 256);
  CHECK(told(3, 1) == 384 + 1536 + 384 + 256);
}

TEST_CASE("a report counts sums, what was sent and captured, and how far the fullest stage is from the mean",
          "[unit]") {
  // Products in three modules: one, one and two. Cut into three stages, of four products the fullest has two.
  const OpGraph graph =
      row({{"a", OpKind::matmul}, {"b", OpKind::matmul}, {"c", OpKind::matmul}, {"c", OpKind::matmul}});
  policies::PassReport report;
  static_cast<void>(make_pass("slapo", R"({"schedule": [{"pipeline": {"cuts": ["b", "c"]}},
                                                        {"cudagraph": {"scope": "c"}}]})")
                        ->run(graph, {}, report));
  CHECK(figure(report, "stages") == 3);
  CHECK(figure(report, "stage_imbalance") == Approx(2 * 3 / 4.0));
  CHECK(figure(report, "sent_bytes") == 2 * 128);
  CHECK(figure(report, "captured_ops") == 2);  // the products; what comes in from b is a part of b
  CHECK(figure(report, "flops_ratio") == 1);
  CHECK(figure(report, "all_reduces") == 0);
  CHECK(figure(report, "all_reduce_bytes") == 0);
  policies::PassReport plain;
  static_cast<void>(make_pass("slapo")->run(graph, {}, plain));
  CHECK(figure(plain, "stages") == 0);
  CHECK(figure(plain, "stage_imbalance") == 1);
  CHECK(figure(plain, "sent_bytes") == 0);
  CHECK(figure(plain, "captured_ops") == 0);
  CHECK(figure(plain, "parameter_bytes") == 4 * 128);
  CHECK(figure(plain, "state_bytes") == 0);
  CHECK(figure(plain, "saved_bytes") == 0);
}

TEST_CASE("an entry of a schedule is exactly one primitive", "[unit]") {
  const auto fault = [](const std::string& params) -> std::string {
    try {
      static_cast<void>(make_pass("slapo", params));
    } catch (const sim::ConfigError& error) {
      std::string all;
      for (const sim::Fault& one : error.faults()) all += one.where.pointer + ": " + one.message + "\n";
      return all;
    }
    return "none";
  };
  const std::string fuse = R"("fuse": {"scope": "a", "ops": "relu"})", sync = R"("sync": {"scope": "a"})",
                    graph = R"("cudagraph": {"scope": "a"})", shard = R"("shard": {"scope": "a"})";
  CHECK(fault(R"({"schedule": [{)" + fuse + "}, {" + sync + "}, {" + graph + "}, {" + shard + "}]}") == "none");
  CHECK(fault(R"({"schedule": [{)" + fuse + "," + sync + "}, {" + graph + "," + shard + "," + sync + "}]}") ==
        "/slapo/schedule/0: expected one primitive, got 2\n/slapo/schedule/1: expected one primitive, got 3\n");
  CHECK(fault(R"({"ranks": 4, "schedule": [{"shard": {"scope": "a", "ranks": 4}}]})") == "none");
  CHECK(fault(R"({"ranks": 4, "schedule": [{"shard": {"scope": "a", "ranks": 1}}]})") ==
        "/slapo/schedule/0/shard/ranks: expected the schedule's 4 ranks, got 1\n");
  for (const char* kind : {"replace", "checkpoint", "pipeline"}) {
    const std::string body = std::string(kind) == "replace"    ? R"({"scope": "a", "kernel": "k"})"
                             : std::string(kind) == "pipeline" ? R"({"cuts": ["a"]})"
                                                               : R"({"scope": "a"})";
    CHECK(fault(R"({"schedule": [{")" + std::string(kind) + "\": " + body + "}]}") == "none");
    CHECK(fault(R"({"schedule": [{")" + std::string(kind) + "\": " + body + "," + sync + "}]}") ==
          "/slapo/schedule/0: expected one primitive, got 2\n");
  }
}

TEST_CASE("what is live is counted without reuse in place, gradients of parameters apart", "[unit]") {
  // Two passes over [8, 8] of two bytes: at the second both its operand and its result are there.
  policies::PassReport report;
  static_cast<void>(make_pass("slapo")->run(row({{"a", OpKind::relu}, {"a", OpKind::exp}}), {}, report));
  CHECK(figure(report, "live_bytes") == 2 * 128);
  CHECK(figure(report, "memory_bytes") == 2 * 128);
}

}  // namespace test_slapo_schedule
