#include "models/iteration_program.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "models/graph/graph_rewrite.hpp"
#include "tests/models/builder_support.hpp"
#include "tests/models/random_graph.hpp"

namespace orrery::models::test_iteration_program {
namespace {

constexpr const char* kSmallDecoder =
    R"({"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 2, "head_dim": 32, "intermediate": 512, "vocab": 1000,
        "cache": true})";

/// Most bytes of activations alive at once, op by op with numbers.
std::int64_t live_by_hand(const OpGraph& graph, const Bindings& at) {
  const auto root_of = [&](TensorId id) {
    for (;;) {
      id = storage_of(graph, id);
      const auto maker = graph.producer(id);
      if (!maker || graph.op(*maker).kind != OpKind::kv_write) return id;
      id = graph.op(*maker).inputs[0];
    }
  };
  std::map<TensorId, std::size_t> last;
  for (const TensorId id : graph.tensors()) {
    std::size_t& end = last[root_of(id)];
    for (const OpId reader : graph.consumers(id)) end = std::max(end, index(reader));
    if (graph.is_output(id)) end = graph.op_count();
  }
  std::int64_t most = 0;
  for (const OpId step : graph.ops()) {
    std::int64_t alive = 0;
    for (const auto& [root, end] : last) {
      const auto maker = graph.producer(root);
      if (maker && index(*maker) <= index(step) && index(step) <= std::max(end, index(*maker)))
        alive += bytes_of(graph, root, at);
    }
    most = std::max(most, alive);
  }
  return most;
}

void check(const OpGraph& graph, const Bindings& at) {
  const IterationProgram program(graph);
  const IterationWork got = program.evaluate(at);
  const OpWork want = total_work(graph, at);
  INFO(graph.name);
  CHECK(got.matrix_flops == *want.matrix_flops.constant());
  CHECK(got.vector_flops == *want.vector_flops.constant());
  CHECK(got.read_bytes == *want.read_bytes.constant());
  CHECK(got.write_bytes == *want.write_bytes.constant());
  std::int64_t parameter_bytes = 0, input_bytes = 0;
  for (const TensorId id : graph.tensors()) {
    const TensorRole role = graph.tensor(id).role;
    if (role == TensorRole::parameter || role == TensorRole::constant) parameter_bytes += bytes_of(graph, id, at);
    if (role == TensorRole::input || role == TensorRole::state) input_bytes += bytes_of(graph, id, at);
  }
  CHECK(got.parameter_bytes == parameter_bytes);
  CHECK(got.input_bytes == input_bytes);
  CHECK(got.live_bytes == live_by_hand(graph, at));
}

TEST_CASE("layers that repeat are one group of each op", "[unit]") {
  const OpGraph graph = test::built("decoder", kSmallDecoder);
  const std::vector<OpGroup> groups = group_ops(graph);
  std::int64_t ops = 0, launches = 0;
  for (const OpGroup& group : groups) {
    ops += group.count;
    // Two norms and two residuals a layer, one norm after the last; products and passes once or twice a layer.
    CHECK((group.count == 1 || group.count % 4 == 0));
  }
  for (const OpId id : graph.ops()) launches += launches_nothing(graph.op(id)) ? 0 : 1;
  CHECK(ops == launches);
  CHECK(groups.size() < 20);
}

TEST_CASE("the program of a graph gives what its ops add up to", "[unit]") {
  for (const std::int64_t batch : {1, 7})
    for (const std::int64_t tokens : {1, 33})
      for (const std::int64_t past : {0, 100})
        check(test::built("decoder", kSmallDecoder), {{"batch", batch}, {"tokens", tokens}, {"past", past}});
  check(test::built("bert", R"({"layers": 2})"), {{"batch", 3}, {"tokens", 17}});
}

TEST_CASE("programs of random graphs give what their ops add up to", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    sim::RandomStream random(seed, "graphs");
    const OpGraph graph = test::random_graph(random);
    check(graph, {{"batch", 1 + static_cast<std::int64_t>(seed % 9) * 13}});
  }
}

TEST_CASE("a program without a value for a dimension says which", "[unit]") {
  const IterationProgram program(test::built("decoder", kSmallDecoder));
  CHECK_THROWS_WITH(program.evaluate(Bindings{{"batch", 1}, {"past", 0}}), "no value for dimension 'tokens'");
}

}  // namespace
}  // namespace orrery::models::test_iteration_program
