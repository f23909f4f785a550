// Step fusion: launches and traffic by hand, the limit of what a thread holds, and graphs without steps.
#include <array>
#include <catch2/catch.hpp>

#include "models/builders/builder.hpp"
#include "models/graph/op_work.hpp"
#include "policies/base/graph_pass.hpp"

namespace test_step_fusion {

using namespace orrery;
using models::Bindings;
using models::OpGraph;

namespace {

OpGraph environments(const std::string& params) {
  models::BuilderRegistry registry("builder");
  models::register_builders(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "params.json");
  const auto choice = registry.prepare("rl_step", &node, {}, faults);
  faults.throw_if_any();
  return choice.make()->build();
}

struct Fused {
  OpGraph graph;
  policies::PassReport report;
  double figure(std::string_view name) const {
    for (const auto& [key, value] : report.figures)
      if (key == name) return value;
    return -1;
  }
};

Fused fused(const OpGraph& graph, const std::string& params, std::int64_t scratch = 0) {
  policies::PassRegistry registry("pass");
  policies::register_graph_passes(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "params.json");
  const auto choice = registry.prepare("step_fusion", &node, {}, faults);
  faults.throw_if_any();
  policies::PassContext context;
  context.typical = Bindings{{"batch", 1000}};
  context.scratch_bytes = scratch;
  Fused result;
  result.graph = choice.make()->run(graph, context, result.report);
  CHECK(models::verify(result.graph).empty());
  return result;
}

std::size_t launches(const OpGraph& graph) {
  return models::lower(graph, {{"batch", 1000}}).kernels.size();
}
std::int64_t bytes(const OpGraph& graph) {
  return models::total_work(graph, {{"batch", 1000}}).bytes().constant().value();
}

}  // namespace

TEST_CASE("step fusion: launches and traffic by hand", "[unit]") {
  const OpGraph graph = environments(R"({"steps": 8, "state_bytes": 64})");
  // An environment carries 16 bytes of state, 4 of summed reward and the further 64.
  for (const std::int64_t steps : {1, 2, 4, 8}) {
    const Fused f = fused(graph, "{\"steps\": " + std::to_string(steps) + "}");
    INFO(steps);
    CHECK(f.figure("carried_bytes") == 84);
    CHECK(f.figure("steps_a_launch") == static_cast<double>(steps));
    CHECK(launches(f.graph) == static_cast<std::size_t>(8 / steps));
    // A launch reads and writes the state and the sum (none is read at first), reads an action a step and the
    // simulator's three constants.
    CHECK(bytes(f.graph) == 1000 * (8 / steps * 2 * 84 - 4 + 8 * 4) + 8 / steps * 12);
    // What is computed stays.
    CHECK(models::total_work(f.graph, {{"batch", 1000}}).flops() ==
          models::total_work(graph, {{"batch", 1000}}).flops());
  }
  // A number of steps that does not divide leaves a shorter launch.
  CHECK(launches(fused(graph, R"({"steps": 3})").graph) == 3);
}

TEST_CASE("step fusion: state that does not fit a thread stays in memory", "[unit]") {
  // Registers of a thread hold 1,020 bytes: 20 of CartPole and 1,000 more do, 1,004 do not.
  const Fused fits = fused(environments(R"({"steps": 4, "state_bytes": 1000})"), "{}");
  CHECK(fits.figure("steps_a_launch") == 4);
  const OpGraph large = environments(R"({"steps": 4, "state_bytes": 1004})");
  const Fused spills = fused(large, "{}");
  CHECK(spills.figure("steps_a_launch") == 1);
  REQUIRE(spills.report.notes.size() == 1);
  CHECK(spills.report.notes[0] == "state of 1024 bytes an element does not fit 1020 bytes on chip: steps stay apart");
  CHECK(launches(spills.graph) == 4);
  // Shared on-chip memory of 1 MiB holds it for 1,024 threads, not for 1,025.
  CHECK(fused(large, R"({"lanes": 1024})", 1 << 20).figure("steps_a_launch") == 4);
  CHECK(fused(large, R"({"lanes": 1025})", 1 << 20).figure("steps_a_launch") == 1);
}

TEST_CASE("step fusion: results of every step are written as before", "[unit]") {
  const OpGraph graph = environments(R"({"steps": 8, "collect": true})");
  const Fused one = fused(graph, R"({"steps": 1})"), all = fused(graph, R"({"steps": 8})");
  // What leaves a step: 16 bytes of observation, 4 of reward, 1 of end; only the state between steps is saved.
  CHECK(bytes(all.graph) >= 1000 * 8 * 21);
  CHECK(bytes(one.graph) - bytes(all.graph) <= 1000 * 7 * 2 * 20 + 7 * 12);
}

TEST_CASE("step fusion: a graph without steps is left alone", "[unit]") {
  OpGraph graph;
  models::TensorId x = graph.input("x", {models::SymExpr::dim("batch"), 4}, models::ElementType::fp32);
  for (int i = 0; i < 3; ++i) x = graph.emit(models::OpKind::relu, {x});
  // Nor are these: a step is "step.1".
  constexpr std::array kScopes{"step_0", "step", "step.x"};
  for (const models::OpId id : graph.ops()) graph.annotate(id).scope = kScopes.at(index(id));
  graph.mark_output(x);
  const Fused f = fused(graph, "{}");
  CHECK(launches(f.graph) == 3);
  CHECK(f.figure("steps") == 0);
  CHECK(f.figure("carried_bytes") == 0);
  CHECK(f.figure("room_bytes") == 1020);
  CHECK(f.figure("steps_a_launch") == 1);
}

namespace {

/// A relu a scope, one after another over [batch, 8] of two bytes, the last one given.
OpGraph scoped(const std::vector<std::string>& scopes) {
  OpGraph graph;
  models::TensorId x = graph.input("x", {models::SymExpr::dim("batch"), 8}, models::ElementType::fp16);
  for (const std::string& scope : scopes) {
    x = graph.emit(models::OpKind::relu, {x});
    graph.annotate(*graph.producer(x)).scope = scope;
  }
  graph.mark_output(x);
  return graph;
}

}  // namespace

TEST_CASE("step fusion: steps are told by their scopes, joined by number, and others stay alone", "[unit]") {
  const OpGraph row = scoped({"step.0", "step.0.act", "step.1", "step.2", "step.3", "end"});
  const Fused pairs = fused(row, R"({"steps": 2})");
  CHECK(pairs.figure("steps") == 4);
  CHECK(pairs.figure("steps_a_launch") == 2);
  CHECK(launches(pairs.graph) == 3);           // steps 0 and 1, 2 and 3, the end
  CHECK(pairs.figure("carried_bytes") == 16);  // a row of 8, of two bytes
  CHECK(pairs.figure("launches_before") == 6);
  CHECK(pairs.figure("launches_after") == 3);
  CHECK(launches(fused(row, R"({"steps": 1})").graph) == 5);
  CHECK(launches(fused(row, R"({"steps": 3})").graph) == 3);
  CHECK(fused(row, R"({"steps": 100})").figure("steps_a_launch") == 4);  // no more than there are
  CHECK(launches(fused(row, R"({"steps": 100})").graph) == 2);
  // Another prefix, and numbers of more than a digit.
  CHECK(fused(row, R"({"prefix": "end"})").figure("steps") == 0);
  CHECK(launches(fused(scoped({"turn.9", "turn.10", "turn.11"}), R"({"steps": 10, "prefix": "turn"})").graph) == 2);
}

TEST_CASE("step fusion: what is carried is what a later step reads, at the cut where most is", "[unit]") {
  const auto carried = [](const OpGraph& graph) { return fused(graph, "{}").figure("carried_bytes"); };
  CHECK(carried(scoped({"step.0", "step.0"})) == 0);  // within a step
  CHECK(carried(scoped({"step.0", "step.1"})) == 16);
  CHECK(carried(scoped({"step.0", "end"})) == 0);                // read outside
  CHECK(carried(scoped({"first", "step.1"})) == 0);              // made outside
  CHECK(carried(scoped({"step.0", "step.1", "step.2"})) == 16);  // one after the other
  OpGraph both = scoped({"step.0", "step.1", "step.2"});  // the first is read in the third too: both pass the cut
  const models::TensorId first = both.op(models::OpId{0}).outputs.front();
  const models::TensorId sum = both.emit(models::OpKind::add, {first, both.outputs()[0]});
  both.annotate(*both.producer(sum)).scope = "step.2";
  both.mark_output(sum);
  CHECK(carried(both) == 32);
  // A view launches nothing, and what reads it reads what it shows.
  OpGraph seen = scoped({"step.0"});
  const models::SymExpr batch = models::SymExpr::dim("batch");
  const models::TensorId view =
      seen.emit(models::OpKind::reshape, {seen.outputs()[0]}, {batch, 2, 4}, models::ElementType::fp16);
  seen.annotate(*seen.producer(view)).scope = "step.0";
  const models::TensorId reader = seen.emit(models::OpKind::relu, {view});
  seen.annotate(*seen.producer(reader)).scope = "step.3";
  seen.mark_output(reader);
  CHECK(carried(seen) == 16);
  CHECK(fused(seen, "{}").figure("steps") == 4);
}

TEST_CASE("step fusion: a thread's room is its registers or its share of the device's memory", "[unit]") {
  const OpGraph row = scoped({"step.0", "step.1"});  // carries 16 bytes
  const auto joined = [&](const std::string& params, std::int64_t scratch) {
    const Fused f = fused(row, params, scratch);
    CHECK(f.report.notes.size() == (f.figure("steps_a_launch") == 1 ? 1 : 0));
    return std::pair(f.figure("room_bytes"), f.figure("steps_a_launch"));
  };
  using Told = std::pair<double, double>;
  CHECK(joined(R"({"thread_bytes": 16})", 0) == Told{16, 2});
  CHECK(joined(R"({"thread_bytes": 15})", 0) == Told{15, 1});
  CHECK(joined(R"({"thread_bytes": 15, "lanes": 10})", 160) == Told{16, 2});
  CHECK(joined(R"({"thread_bytes": 15, "lanes": 10})", 159) == Told{15, 1});
  CHECK(joined(R"({"thread_bytes": 15})", 1000) == Told{15, 1});  // nobody shares
  CHECK(joined(R"({"thread_bytes": 0, "lanes": 1})", 100) == Told{100, 2});
}

}  // namespace test_step_fusion
