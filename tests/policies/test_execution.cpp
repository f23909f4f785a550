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

}  // namespace test_execution
