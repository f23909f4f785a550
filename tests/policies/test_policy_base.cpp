// What policies of several kinds share: common heads of texts, times of graphs for passes.
#include <catch2/catch.hpp>

#include "policies/base/graph_pass.hpp"
#include "policies/base/types.hpp"

namespace test_policy_base {

using namespace orrery;
using namespace orrery::policies;

namespace {

/// Every kernel takes so long.
class Each final : public hw::CostModel {
 public:
  explicit Each(double seconds) : seconds_(seconds) {}
  hw::Cost cost(const hw::Kernel&) const override { return {.time_s = seconds_}; }

 private:
  double seconds_;
};

}  // namespace

TEST_CASE("texts share equal spans at their heads, and of the first pair that differs the shorter", "[unit]") {
  const Text text{{1, 10}, {2, 5}, {3, 7}};
  CHECK(common_tokens(text, text) == 22);
  CHECK(common_tokens(text, {}) == 0);
  CHECK(common_tokens({}, text) == 0);
  CHECK(common_tokens(text, {{1, 10}}) == 10);
  CHECK(common_tokens({{1, 10}}, text) == 10);
  CHECK(common_tokens(text, {{1, 10}, {2, 3}, {3, 7}}) == 13);
  CHECK(common_tokens({{1, 10}, {2, 3}, {3, 7}}, text) == 13);
  CHECK(common_tokens(text, {{1, 8}, {2, 5}, {3, 7}}) == 8);
  CHECK(common_tokens(text, {{1, 10}, {4, 5}, {3, 7}}) == 10);
  CHECK(common_tokens(text, {{9, 10}, {2, 5}}) == 0);
}

TEST_CASE("the time of a graph is that of its kernels and of their launches", "[unit]") {
  models::OpGraph graph;
  const models::TensorId x = graph.input("x", {8}, models::ElementType::fp32);
  const models::TensorId y = graph.emit(models::OpKind::relu, {x});
  models::OpGraph body;
  const models::TensorId z = body.input("z", {8}, models::ElementType::fp32);
  body.mark_output(body.emit(models::OpKind::tanh, {body.emit(models::OpKind::relu, {z})}));
  models::OpNode loop;
  loop.kind = models::OpKind::loop;
  loop.inputs = {y};
  loop.attributes = {{"trips", models::SymExpr(3)}};
  loop.regions = {std::make_shared<const models::OpGraph>(body)};
  const models::OpId repeated = graph.add(loop, {graph.tensor(y)});
  graph.mark_output(graph.op(repeated).outputs.front());
  const Each cost(2);
  const PassContext context{.cost = &cost, .launch_s = 0.5};
  CHECK(context.time_s(graph, *graph.producer(y), {}) == 2.5);
  CHECK(context.time_s(graph, repeated, {}) == 3 * 2 * 2.5);
  CHECK(context.time_s(graph, {}) == 7 * 2.5);
  const PassContext unknown;
  CHECK_THROWS_WITH(unknown.time_s(graph, {}), "a pass asked for a time without a device");
}

}  // namespace test_policy_base
