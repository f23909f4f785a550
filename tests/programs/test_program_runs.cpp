// Programs on real replicas: files are the same with leaps and without, for every program.
#include <catch2/catch.hpp>

#include "tests/experiments/support.hpp"

namespace test_program_runs {

using namespace orrery::experiments::test;

TEST_CASE("programs leap: stepping gives the same files", "[cli]") {
  const Scratch scratch;
  for (const std::string policy : {"appl", "conversation", "opus", "plan_and_budget", "tool_agent", "tree_search"}) {
    INFO(policy);
    scratch.write("c.json", R"({"kind": "experiment", "version": 1, "system": "serving",
      "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]}, "model": {"config": "catalog:llama-2-7b"},
      "workload": {"program": {"instances": 12, "clients": 3, "does": {"policy": ")" +
                                policy + R"("}}}})");
    const CommandResult leap = command(scratch, "run c.json --out leap --force --quiet");
    const CommandResult step = command(scratch, "run c.json --out step --force --quiet --set run.leap=false");
    CHECK(leap.exit_code == 0);
    CHECK(step.exit_code == 0);
    for (const char* file : {"requests.csv", "series.csv", "energy.csv", "distributions.csv", "programs.csv"})
      CHECK(slurp(scratch / (std::string("leap/") + file)) == slurp(scratch / (std::string("step/") + file)));
    CHECK(read_csv(scratch / "leap/programs.csv").size() == 12);
  }
}

TEST_CASE("a workflow file that is not there, or has nothing in it, is a fault", "[cli]") {
  const Scratch scratch;
  scratch.write("empty.csv", "query,call_index,step,input_tokens,output_tokens\n");
  scratch.write("c.json", R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"program": {"does": {"policy": "workflow_trace", "workflow_trace": {"path": "empty.csv"}}}}})");
  const CommandResult empty = command(scratch, "run c.json --out r");
  CHECK(empty.exit_code == 2);
  CHECK_THAT(empty.err, Catch::Contains("expected at least one workflow, got none"));
  const CommandResult none =
      command(scratch, "run c.json --out r --set workload.program.does.workflow_trace.path=none.csv");
  CHECK(none.exit_code == 2);
  CHECK_FALSE(fs::exists(scratch / "r"));
  // A capacity question needs a rate, and both at once are a fault.
  const CommandResult both = command(scratch, "run c.json --out r --set workload.clients=3");
  CHECK(both.exit_code == 2);
  CHECK_THAT(both.err, Catch::Contains("/workload/clients"));
}

}  // namespace test_program_runs
