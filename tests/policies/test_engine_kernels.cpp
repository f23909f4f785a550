// The pass engine_kernels: what becomes one kernel of an inference engine's library, and what does not.
#include "policies/fusion/engine_kernels.hpp"

#include "models/graph/graph_lowering.hpp"
#include "tests/models/builder_support.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_engine_kernels {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::ElementType;
using models::OpGraph;
using models::OpKind;
using models::SymExpr;
using models::TensorId;

namespace {

constexpr const char* kDecoder =
    R"({"layers": 3, "hidden": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "intermediate": 512, "vocab": 1000,
        "tied": false, "cache": true, "merged": true, "sample": true, "dtype": "fp16"})";

models::Bindings step() {
  return {{"batch", 5}, {"tokens", 1}, {"past", 99}};
}

/// Kernels of a class in the order of execution.
std::vector<hw::Streaming> passes(const OpGraph& graph, hw::OpClass op) {
  std::vector<hw::Streaming> all;
  for (const models::GraphKernel& launch : models::lower(graph, step()).kernels)
    if (launch.kernel.op == op) all.push_back(std::get<hw::Streaming>(launch.kernel.shape));
  return all;
}

}  // namespace

TEST_CASE("a decoder's rotations, gates and cache writes become a kernel each", "[unit]") {
  const OpGraph graph = models::test::built("decoder", kDecoder);
  EngineKernels made;
  const OpGraph engine = with_engine_kernels(graph, made);
  CHECK(made.rotations == 3);
  CHECK(made.gates == 3);
  CHECK(made.cache_writes == 3);
  check_fusion(graph, engine, {step(), {{"batch", 2}, {"tokens", 40}, {"past", 0}}});
  CHECK(count_launches(graph) - count_launches(engine) == 9);
  // Five rows: queries and keys of 4 + 2 heads of 64, two bytes each, and one row of angles.
  const std::vector<hw::Streaming> rotations = passes(engine, hw::OpClass::rope);
  REQUIRE(rotations.size() == 3);
  CHECK(rotations[0].pass == hw::Pass::rope);
  CHECK(rotations[0].rows == 5);
  CHECK(rotations[0].read_bytes == 5 * 6 * 64 * 2 + 64 * 2);
  CHECK(rotations[0].write_bytes == 5 * 6 * 64 * 2);
  // Both halves of 512 are read, one is written; silu takes four operations an element and the product one.
  const std::vector<hw::Streaming> gates = passes(engine, hw::OpClass::activation);
  REQUIRE(gates.size() == 3);
  CHECK(gates[0].pass == hw::Pass::gated_activation);
  CHECK(gates[0].rows == 5);
  CHECK(gates[0].read_bytes == 5 * 2 * 512 * 2);
  CHECK(gates[0].write_bytes == 5 * 512 * 2);
  CHECK(gates[0].flops == 5 * 512 * 5);
  const std::vector<hw::Streaming> writes = passes(engine, hw::OpClass::kv_write);
  REQUIRE(writes.size() == 3);
  CHECK(writes[0].read_bytes == 5 * 2 * 2 * 64 * 2);
  CHECK(writes[0].write_bytes == writes[0].read_bytes);
  // The choice of the next token reads all logits.
  REQUIRE(passes(engine, hw::OpClass::sampling).size() == 1);
  CHECK(passes(engine, hw::OpClass::sampling)[0].read_bytes == 5 * 1000 * 2);
  // A second time there is nothing left to do.
  EngineKernels again;
  CHECK(to_string(with_engine_kernels(engine, again)) == to_string(engine));
  CHECK(again.gates == 0);
}

TEST_CASE("rows of a prompt are its tokens, whatever the heads", "[unit]") {
  EngineKernels made;
  const OpGraph engine = with_engine_kernels(models::test::built("decoder", kDecoder), made);
  for (const models::GraphKernel& launch : models::lower(engine, {{"batch", 2}, {"tokens", 40}, {"past", 7}}).kernels)
    if (launch.kernel.op == hw::OpClass::rope) CHECK(std::get<hw::Streaming>(launch.kernel.shape).rows == 80);
}

TEST_CASE("a gate that others read, and rotations that follow each other, stay as they are", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 4, SymExpr::dim("tokens"), 64}, ElementType::fp16);
  const TensorId angles = graph.input("angles", {SymExpr::dim("tokens"), 64}, ElementType::fp16);
  const TensorId silu = graph.emit(OpKind::silu, {x});
  const TensorId gate = graph.emit(OpKind::mul, {silu, x});
  const TensorId first = graph.emit(OpKind::rope, {gate, angles});
  const TensorId scaled = graph.emit(OpKind::scale, {first});
  const TensorId second = graph.emit(OpKind::rope, {scaled, angles});
  graph.mark_output(second);
  graph.mark_output(silu);
  EngineKernels made;
  CHECK(to_string(with_engine_kernels(graph, made)) == to_string(graph));
  CHECK(made.rotations + made.gates + made.cache_writes == 0);
}

TEST_CASE("engine kernels on random graphs keep what they compute", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::RandomStream random(seed, "engine");
    const OpGraph graph = models::test::random_graph(random, {.ops = 60});
    EngineKernels made;
    check_fusion(graph, with_engine_kernels(graph, made), {});
  }
}

}  // namespace test_engine_kernels
