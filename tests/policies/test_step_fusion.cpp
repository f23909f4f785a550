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
}

}  // namespace test_step_fusion
