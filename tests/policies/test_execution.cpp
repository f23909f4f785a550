// Executions by themselves: sizes, what is compiled when, and what a launch costs the host.
#include "policies/execution/execution.hpp"

#include <catch2/catch.hpp>

namespace test_execution {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::unique_ptr<Execution> make(const std::string& name, const std::string& params) {
  ExecutionRegistry registry("execution");
  register_execution_policies(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// What a graph of three kernels is told when a request of so many rows comes.
ExecutionDecision decide(Execution& execution, std::int64_t batch) {
  const models::Bindings request{{"batch", batch}};
  return execution.decide({.request = request,
                           .kernels = 3,
                           .instructions = 60,
                           .most_instructions = 30,
                           .dispatch_s = 0.5,
                           .capture_s = 6});
}

std::int64_t padded(Execution& execution, std::int64_t batch) {
  return *decide(execution, batch).sizes.find(models::Symbol("batch"));
}

}  // namespace

TEST_CASE("graph: captured once a size, and sizes are multiples of the step", "[unit]") {
  const auto graph = make("graph", R"({"symbol": "batch", "step": 4})");
  const ExecutionDecision first = decide(*graph, 5);
  CHECK(first.sizes.find(models::Symbol("batch")) == 8);
  CHECK(first.compiled == 3);
  CHECK(first.stall_s == 6);
  CHECK(first.kernel_compile_s == 2);  // 6 s over 3 kernels
  CHECK(decide(*graph, 8).compiled == 0);
  CHECK(decide(*graph, 8).stall_s == 0);
  CHECK(padded(*graph, 4) == 4);
  CHECK(padded(*graph, 9) == 12);
  const auto every = make("graph", "{}");
  CHECK(padded(*every, 5) == 5);
  // One graph is kept: 5, 6, 5 are three captures.
  const auto one = make("graph", R"({"entries": 1})");
  for (const std::int64_t batch : {5, 6, 5}) CHECK(decide(*one, batch).compiled == 3);
  CHECK(decide(*one, 5).compiled == 0);
}

TEST_CASE("aot: buckets are compiled ahead; above the largest a request compiles for itself", "[unit]") {
  const auto aot = make("aot", R"({"symbol": "batch", "buckets": [16, 4], "kernel": "2 s"})");
  const models::Bindings none;
  CHECK(aot->startup_s({.request = none, .kernels = 3}) == 2 * 3 * 2);  // two buckets of three kernels, 2 s each
  CHECK(padded(*aot, 4) == 4);
  CHECK(padded(*aot, 5) == 16);
  CHECK(decide(*aot, 16).compile_s == 0);
  const ExecutionDecision large = decide(*aot, 17);
  CHECK(large.sizes.find(models::Symbol("batch")) == 17);
  CHECK(large.compiled == 3);
  CHECK(large.stall_s == 6);
  CHECK(decide(*aot, 17).compiled == 0);
  const auto stepped = make("aot", R"({"symbol": "batch", "step": 8, "kernel": "2 s"})");
  CHECK(stepped->startup_s({.request = none, .kernels = 3}) == 3 * 2);
  CHECK(padded(*stepped, 8) == 8);
  CHECK(padded(*stepped, 9) == 16);
}

TEST_CASE("vm: sizes that are new are encoded, by phase or one kernel after the other", "[unit]") {
  const std::string costs =
      R"("normalize": "1 s", "encode": "2 s", "instruction": "0.5 s", "relocate": "3 s", "submit": "4 s")";
  const auto serial = make("vm", R"({"threads": "serial", )" + costs + "}");
  const ExecutionDecision fresh = decide(*serial, 5);
  CHECK(fresh.wait_each);
  CHECK(fresh.compiled == 3);
  CHECK(fresh.kernel_compile_s == 1 + 2 + 0.5 * 30);
  CHECK(fresh.compile_s == 3 * (1 + 2 + 0.5 * 60 / 3));
  CHECK(fresh.host_kernel_s == 1 + 2 + 4);
  CHECK(fresh.host_instruction_s == 0.5);
  const ExecutionDecision known = decide(*serial, 5);
  CHECK(known.compiled == 0);
  CHECK(known.host_kernel_s == 3 + 4);
  // In phases the longest paces: encoding a kernel of 20 instructions takes 2 + 10 s; of a known one submitting does.
  const auto phased = make("vm", R"({"threads": "phased", )" + costs + "}");
  const ExecutionDecision new_sizes = decide(*phased, 5);
  CHECK_FALSE(new_sizes.wait_each);
  CHECK(new_sizes.host_kernel_s == 12);
  CHECK(new_sizes.host_instruction_s == 0);
  CHECK(decide(*phased, 5).host_kernel_s == 4);
}

TEST_CASE("eager: nothing is compiled, padded or paid for", "[unit]") {
  const auto eager = make("eager", "{}");
  const ExecutionDecision decision = decide(*eager, 5);
  CHECK(decision.sizes.find(models::Symbol("batch")) == 5);
  CHECK(decision.stall_s == 0);
  CHECK(decision.compiled == 0);
  CHECK(decision.compile_s == 0);
}

TEST_CASE("jit: new sizes stall for tracing and kernels, as many at a time as there are workers", "[unit]") {
  const std::string costs = R"("graph": "1 s", "kernel": "10 s", "call": "0.5 s")";
  for (const auto& [workers, rounds] : {std::pair(1, 3), std::pair(2, 2), std::pair(3, 1), std::pair(4, 1)}) {
    const auto jit = make("jit", "{" + costs + R"(, "workers": )" + std::to_string(workers) + "}");
    const ExecutionDecision fresh = decide(*jit, 5);
    CHECK(fresh.compiled == 3);
    CHECK(fresh.kernel_compile_s == 10);
    CHECK(fresh.stall_s == 1 + 10 * rounds);
    CHECK(fresh.compile_s == 1 + 10 * 3);  // whoever does it
    CHECK(fresh.host_kernel_s == 0.5);
    const ExecutionDecision known = decide(*jit, 5);
    CHECK(known.compiled == 0);
    CHECK(known.stall_s == 0);
    CHECK(known.compile_s == 0);
    CHECK(known.host_kernel_s == 0.5);
    CHECK(decide(*jit, 6).compiled == 3);
    CHECK(padded(*jit, 7) == 7);
  }
}

TEST_CASE("jit: once for all sizes, or as many as the cache holds", "[unit]") {
  const auto once = make("jit", R"({"once": true})");
  CHECK(decide(*once, 5).compiled == 3);
  CHECK(decide(*once, 6).compiled == 0);
  // Two are kept, the last used: 5, 6, 5 again, 7 in place of 6.
  const auto two = make("jit", R"({"entries": 2})");
  for (const auto& [batch, compiled] :
       {std::pair(5, 3), std::pair(6, 3), std::pair(5, 0), std::pair(7, 3), std::pair(5, 0), std::pair(6, 3)})
    CHECK(decide(*two, batch).compiled == compiled);
}

TEST_CASE("graph: other dimensions are not padded, and a graph of no kernels is captured at no cost each", "[unit]") {
  const auto graph = make("graph", R"({"symbol": "batch", "step": 4})");
  const models::Bindings request{{"batch", 5}, {"tokens", 7}};
  const ExecutionDecision decision = graph->decide({.request = request, .kernels = 0, .capture_s = 6});
  CHECK(decision.sizes.find(models::Symbol("batch")) == 8);
  CHECK(decision.sizes.find(models::Symbol("tokens")) == 7);
  CHECK(decision.stall_s == 6);
  CHECK(decision.compile_s == 6);
  CHECK(decision.kernel_compile_s == 0);
  CHECK(decision.style == hw::LaunchStyle::graph);
  const models::Bindings other{{"tokens", 7}};
  CHECK(graph->decide({.request = other, .kernels = 2, .capture_s = 6}).sizes == other);
  CHECK(graph->decide({.request = other, .kernels = 2, .capture_s = 6}).compiled == 0);
}

TEST_CASE("aot: start-up compiles for the first sizes; other dimensions are compiled when they come", "[unit]") {
  const auto aot = make("aot", R"({"symbol": "batch", "step": 8, "kernel": "2 s", "call": "0.25 s"})");
  const auto asked = [&](const models::Bindings& request) { return aot->decide({.request = request, .kernels = 3}); };
  CHECK(asked({{"batch", 5}, {"tokens", 7}}).compiled == 0);
  CHECK(asked({{"batch", 5}, {"tokens", 7}}).host_kernel_s == 0.25);
  CHECK(asked({{"batch", 90}, {"tokens", 7}}).compiled == 0);  // another bucket, ahead too
  const ExecutionDecision fresh = asked({{"batch", 5}, {"tokens", 8}});
  CHECK(fresh.compiled == 3);
  CHECK(fresh.kernel_compile_s == 2);
  CHECK(fresh.compile_s == 6);
  CHECK(fresh.stall_s == 6);
  CHECK(fresh.host_kernel_s == 0.25);
  CHECK(asked({{"batch", 60}, {"tokens", 8}}).compiled == 0);
  CHECK(asked({{"tokens", 9}}).compiled == 3);
  CHECK(asked({{"tokens", 9}}).sizes.find(models::Symbol("batch")) == std::nullopt);
  // A size past the buckets is none that start-up compiled, though it comes first.
  const auto listed = make("aot", R"({"symbol": "batch", "buckets": [4, 16]})");
  CHECK(decide(*listed, 17).compiled == 3);
  CHECK(decide(*listed, 3).compiled == 0);
  CHECK(padded(*listed, 1) == 4);
  CHECK(padded(*listed, 16) == 16);
}

TEST_CASE("vm: one thread ahead adds up what a kernel takes, phases take the longest", "[unit]") {
  const auto fresh = [](const std::string& params) { return decide(*make("vm", params), 5); };
  const std::string ahead =
      R"({"normalize": "1 s", "encode": "2 s", "instruction": "0.5 s", "submit": "4 s", "decode": "7 s",
          "tile": "64 B", "lanes": 3, "threads": ")";
  const ExecutionDecision one = fresh(ahead + "one_ahead\"}");
  CHECK_FALSE(one.wait_each);
  CHECK(one.host_kernel_s == 7);
  CHECK(one.host_instruction_s == 0.5);
  CHECK(one.decode_s == 7);
  CHECK(one.tile_bytes == 64);
  CHECK(one.lanes == 3);
  CHECK(one.stall_s == 0);
  // Phases: normalize 20, encode 2 + 10, submit 4; and 1, 12, 30.
  CHECK(fresh(R"({"normalize": "20 s", "encode": "2 s", "instruction": "0.5 s", "submit": "4 s", "threads": "phased"})")
            .host_kernel_s == 20);
  CHECK(fresh(R"({"normalize": "1 s", "encode": "2 s", "instruction": "0.5 s", "submit": "30 s",
                  "threads": "phased"})")
            .host_kernel_s == 30);
  // Sizes that are known: the longer of relocating and submitting, or both.
  for (const auto& [threads, seconds] : {std::pair("phased", 9), std::pair("one_ahead", 13), std::pair("serial", 13)}) {
    const auto vm = make("vm", std::string(R"({"relocate": "9 s", "submit": "4 s", "threads": ")") + threads + "\"}");
    decide(*vm, 5);
    const ExecutionDecision known = decide(*vm, 5);
    CHECK(known.host_kernel_s == seconds);
    CHECK(known.host_instruction_s == 0);
    CHECK(known.compile_s == 0);
    CHECK(decide(*vm, 6).compiled == 3);
  }
  // A graph of no kernels has nothing to encode; bytecode of one shape is kept.
  const auto vm = make("vm", R"({"threads": "phased", "normalize": "1 s", "submit": "3 s", "entries": 1})");
  const models::Bindings request{{"batch", 5}};
  const ExecutionDecision empty = vm->decide({.request = request});
  CHECK(empty.compile_s == 0);
  CHECK(empty.host_kernel_s == 3);
  CHECK(decide(*vm, 6).compiled == 3);
  CHECK(decide(*vm, 5).compiled == 3);
}

TEST_CASE("a padded dimension has a dimension's name", "[unit]") {
  const std::string said = ".symbol: expected a dimension: letters, digits, '_' and '.', not starting with a digit";
  CHECK_THROWS_WITH(named_dimension("aot", std::string(1, '\0')), "aot" + said);
  CHECK_THROWS_WITH(named_dimension("graph", "2nd"), "graph" + said);
  CHECK(named_dimension("graph", "batch") == models::Symbol("batch"));
}

}  // namespace test_execution
