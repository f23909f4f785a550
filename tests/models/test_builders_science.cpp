// Builders beyond transformers and images: graph networks, Fourier neural operators, vectorised environments.
#include <catch2/catch.hpp>

#include <cstdio>
#include <fstream>

#include "builder_support.hpp"
#include "models/graph/graph_rewrite.hpp"

namespace test_builders_science {

using namespace orrery;
using namespace orrery::models;
using models::test::built;
using models::test::count;
using models::test::matrix_flops;

namespace {

const Bindings kEight{{"batch", 8}};

/// Bytes that ops of a kind move.
std::int64_t bytes_of_kind(const OpGraph& graph, OpKind kind, const Bindings& sizes) {
  std::int64_t sum = 0;
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == kind) sum += work(graph, id, sizes).bytes().constant().value();
  return sum;
}

/// Bytes that the spectral convolutions' products and the passes around them move.
std::int64_t contraction_bytes(const OpGraph& graph) {
  std::int64_t sum = 0;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    const bool around = op.kind == OpKind::matmul || op.kind == OpKind::sub || op.kind == OpKind::copy ||
                        op.kind == OpKind::pad || op.kind == OpKind::concat;
    if (around && op.scope.ends_with(".spectral")) sum += work(graph, id, kEight).bytes().constant().value();
  }
  return sum;
}

std::string write_file(const std::string& name, const std::string& text) {
  std::ofstream(name) << text;
  return name;
}

}  // namespace

TEST_CASE("fno: parameters and products by hand", "[unit]") {
  // The Navier-Stokes configuration: spectral weights 64 x 64 x 64 x 33 complex numbers a block, besides a bias, a skip
  // of 64 x 64, a gate of 64 and a channel MLP of 64 x 32; lifting 3 -> 256 -> 64, projection 64 -> 256 -> 1.
  const OpGraph graph = built("fno");
  CHECK(verify(graph).empty());
  const std::int64_t spectral = 64LL * 64 * 64 * 33;
  const std::int64_t block = spectral + 64 + 64 * 64 + 64 + (64 * 32 + 32 + 32 * 64 + 64);
  const std::int64_t ends = (3 * 256 + 256 + 256 * 64 + 64) + (64 * 256 + 256 + 256 + 1);
  CHECK(models::test::parameters(graph) == 4 * block + ends);
  // A complex multiply-add is four real ones: 8 FLOPs for each of the 64 x 33 frequencies.
  const std::int64_t pixels = 8LL * 128 * 128;
  const std::int64_t convolutions =
      2 * pixels * (4 * (64 * 64 + 2 * 64 * 32) + (3 * 256 + 256 * 64) + (64 * 256 + 256));
  CHECK(matrix_flops(graph, kEight) == 4 * (8LL * 64 * 33 * 8 * 64 * 64) + convolutions);
  CHECK(count(graph, OpKind::fft) == 8);
}

TEST_CASE("fno: halves do the same products on half the bytes", "[unit]") {
  const OpGraph full = built("fno"), half = built("fno", R"({"precision": "half"})");
  const OpGraph mixed = built("fno", R"({"precision": "mixed"})");
  for (const OpGraph* graph : {&half, &mixed}) {
    CHECK(verify(*graph).empty());
    CHECK(models::test::parameters(*graph) == models::test::parameters(full));
    CHECK(matrix_flops(*graph, kEight) == matrix_flops(full, kEight));
  }
  // Half and mixed contract alike.
  CHECK(contraction_bytes(half) == contraction_bytes(mixed));
  // Transforms: half moves half of what full does; mixed only on the way back, so it saves half as much.
  const std::int64_t fft_full = bytes_of_kind(full, OpKind::fft, kEight),
                     fft_half = bytes_of_kind(half, OpKind::fft, kEight);
  CHECK(2 * fft_half == fft_full);
  CHECK(2 * (fft_full - bytes_of_kind(mixed, OpKind::fft, kEight)) == fft_full - fft_half);
  // The four real products of a result take 8 bytes, as much as a result in complex of fp32.
  for (const OpGraph* graph : {&full, &half}) {
    for (const OpId id : graph->ops()) {
      if (graph->op(id).kind != OpKind::matmul) continue;
      CHECK(bytes_of(*graph, graph->op(id).outputs[0], kEight) == 8LL * 64 * 33 * 8 * 64);
      break;
    }
  }
}

TEST_CASE("fno: factorised weights, stabiliser, AMP", "[unit]") {
  for (const char* precision : {"full", "half", "mixed"}) {
    const std::string tail = std::string(R"("precision": ")") + precision + "\"}";
    const OpGraph cp = built("fno", R"({"rank": 16, )" + tail);
    INFO(precision);
    CHECK(verify(cp).empty());
    // in, out: 64 x 16; rows 64 x 16; columns 33 x 16, complex, in place of 64 x 64 x 64 x 33.
    CHECK(models::test::parameters(built("fno", "{" + tail)) - models::test::parameters(cp) ==
          4 * (64LL * 64 * 64 * 33 - 16 * (64 + 64 + 64 + 33)));
    const OpGraph amp = built("fno", R"({"amp": true, "stabiliser": "tanh", "loss": true, )" + tail);
    CHECK(verify(amp).empty());
    CHECK(count(amp, OpKind::tanh) == 4);
    for (const OpId id : amp.ops())
      if (amp.op(id).kind == OpKind::conv2d) CHECK(amp.tensor(amp.op(id).outputs[0]).type == ElementType::fp16);
  }
}

TEST_CASE("fno: no channel MLP, faults", "[unit]") {
  const OpGraph graph = built("fno", R"({"expansion": 0, "layers": 2})");
  CHECK(verify(graph).empty());
  CHECK(count(graph, OpKind::conv2d) == 2 + 4);
  CHECK_THROWS_WITH(built("fno", R"({"modes": 200})"),
                    "builder fno:/modes: expected at most the resolution 128, got 200");
  CHECK_THROWS_WITH(
      built("fno", R"({"resolution": 96, "precision": "mixed"})"),
      "builder fno:/resolution: expected a power of two (half-precision transforms have no others), got 96");
  CHECK(verify(built("fno", R"({"resolution": 96})")).empty());
}

TEST_CASE("rl_step: steps, outputs and traffic", "[unit]") {
  const Bindings envs{{"batch", 1000}};
  const OpGraph one = built("rl_step"), four = built("rl_step", R"({"steps": 4})");
  CHECK(verify(one).empty());
  CHECK(verify(four).empty());
  // A step more adds its kernels and a sum of rewards.
  const std::size_t kernels = lower(one, envs).kernels.size();
  CHECK(lower(four, envs).kernels.size() == 4 * kernels + 3);
  CHECK(four.outputs().size() == 2);
  CHECK(built("rl_step", R"({"steps": 4, "collect": true})").outputs().size() == 2 + 4 * 3);
  // A further state of 256 bytes is read and written once a step.
  const OpGraph wide = built("rl_step", R"({"steps": 4, "state_bytes": 256})");
  CHECK(total_work(wide, envs).bytes().constant().value() - total_work(four, envs).bytes().constant().value() ==
        4 * 2 * 256 * 1000);
  CHECK_THROWS_WITH(built("rl_step", R"({"state_bytes": 6})"),
                    "builder rl_step:/state_bytes: expected a multiple of 4, got 6");
}

TEST_CASE("rl_step: a fused step reads the state and the action and writes state and reward", "[unit]") {
  const OpGraph graph = built("rl_step");
  const OpGraph fused = fuse_groups(graph, Grouping(graph.op_count(), 0));
  REQUIRE(lower(fused, {{"batch", 1000}}).kernels.size() == 1);
  // 16 bytes of state, 4 of action; 16 of state, 4 of reward an environment; and the simulator's three constants.
  const OpWork work = total_work(fused, {{"batch", 1000}});
  CHECK(work.read_bytes.constant().value() == 1000 * (16 + 4) + 12);
  CHECK(work.write_bytes.constant().value() == 1000 * (16 + 4));
}

TEST_CASE("gnn: layers by hand", "[unit]") {
  // 100 nodes, 900 entries, 16 -> 32 -> 8.
  const std::string sizes =
      R"("nodes": 100, "nonzeros": 900, "features": 16, "hidden": 32, "classes": 8, "layers": 2})";
  const OpGraph gcn = built("gnn", R"({"model": "gcn", )" + sizes);
  CHECK(verify(gcn).empty());
  CHECK(models::test::parameters(gcn) == 16 * 32 + 32 + 32 * 8 + 8);
  // With self loops 1,000 entries; aggregated at width 16 (before 16 -> 32) and at 8 (after 32 -> 8).
  CHECK(matrix_flops(gcn, {}) == 2 * 1000 * (16 + 8) + 2 * 100 * (16 * 32 + 32 * 8));
  const OpGraph gin = built("gnn", R"({"model": "gin", )" + sizes);
  CHECK(verify(gin).empty());
  CHECK(models::test::parameters(gin) == (1 + 16 * 32 + 32 + 64 + 32 * 32 + 32) + (1 + 32 * 32 + 32 + 64 + 32 * 8 + 8));
  CHECK(matrix_flops(gin, {}) == 2 * 900 * (16 + 32) + 2 * 100 * (16 * 32 + 32 * 32 + 32 * 32 + 32 * 8));
  const OpGraph sage = built("gnn", R"({"model": "sage", "loss": true, )" + sizes);
  CHECK(verify(sage).empty());
  CHECK(models::test::parameters(sage) == 2 * 16 * 32 + 32 + 2 * 32 * 8 + 8);
  CHECK(matrix_flops(sage, {}) == 2 * 900 * (16 + 32) + 2 * 100 * (2 * 16 * 32 + 2 * 32 * 8));
  CHECK(count(sage, OpKind::spmm) == 2);
}

TEST_CASE("gnn: a real graph", "[golden]") {
  // CiteSeer: 3,264 nodes with an edge, 4,536 edges (../shared/data/systems/peregrine_citeseer_edges.csv).
  const std::string path = std::string(ORRERY_SHARED_DIR) + "/data/systems/peregrine_citeseer_edges.csv";
  if (!std::ifstream(path)) return;
  const OpGraph graph = built("gnn", R"({"model": "gin", "edges": ")" + path + "\"}");
  for (const OpId id : graph.ops()) {
    if (graph.op(id).kind != OpKind::spmm) continue;
    CHECK(graph.op(id).integer("nonzeros", 0) == 2 * 4536);
    CHECK(graph.op(id).integer("rows", 0) == 3264);
    CHECK(graph.op(id).integer("longest_row", 0) == 99);
  }
}

TEST_CASE("gnn: edge lists", "[unit]") {
  const std::string file = write_file("edges.csv", "# three nodes\nu,v\n1,2\n2,3\n2,1\n");
  const auto nonzeros = [&](const std::string& more) {
    const OpGraph graph = built("gnn", R"({"model": "gin", "layers": 1, "edges": ")" + file + "\"" + more + "}");
    for (const OpId id : graph.ops())
      if (graph.op(id).kind == OpKind::spmm) return graph.op(id).integer("nonzeros", 0);
    return std::int64_t{0};
  };
  CHECK(nonzeros("") == 4);  // 1-2 twice is one edge
  CHECK(nonzeros(R"(, "directed": true)") == 3);
  CHECK_THROWS_WITH(built("gnn", R"({"nodes": 0})"),
                    "builder gnn:/nodes: expected at least one node, or a file of 'edges'");
  CHECK_THROWS_WITH(built("gnn", R"({"nodes": 3, "longest_row": 4})"),
                    "builder gnn:/longest_row: expected at most the 3 nodes, got 4");
  CHECK_THROWS_WITH(built("gnn", R"({"edges": "/nowhere.csv"})"), "builder gnn:/edges: cannot read '/nowhere.csv'");
  std::remove(file.c_str());
  const std::string bad = write_file("bad_edges.csv", "1,2\n3;4\n");
  CHECK_THROWS_WITH(built("gnn", R"({"edges": ")" + bad + "\"}"),
                    Catch::Contains(":2: expected two node ids with a comma between, got '3;4'"));
  std::remove(bad.c_str());
}

}  // namespace test_builders_science
