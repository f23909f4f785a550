// The example of docs/explain/task-graphs.md, compiled and held to what the page shows.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/task/analysis.hpp"
#include "sim/task/executor.hpp"

namespace test_task_example {

using namespace orrery::sim;

namespace {
std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
}  // namespace

TEST_CASE("the example of the page", "[unit]") {
  TaskGraph graph;
  const ResourceId gpu = graph.add_resource({.name = "gpu", .order = TaskOrder::program});
  const ResourceId nic = graph.add_resource({.name = "nic", .order = TaskOrder::priority});
  const TaskId backward1 = graph.add({.duration = Duration{40}, .on = {gpu}, .name = "backward 1"});
  const TaskId backward0 = graph.add({.duration = Duration{40}, .on = {gpu}, .name = "backward 0"});
  const TaskId reduce1 = graph.add({.duration = Duration{70}, .on = {nic}, .after = {backward1}, .priority = 1});
  const TaskId reduce0 = graph.add({.duration = Duration{30}, .on = {nic}, .after = {backward0}, .priority = 2});
  const TaskId update = graph.add({.duration = Duration{5}, .on = {gpu}, .after = {reduce0, reduce1}});

  Engine engine;
  TaskExecutor executor(engine, graph);
  executor.run();

  executor[update].start;  // 140: the gradients of layer 0 waited for the NIC from 80 to 110
  executor.makespan();     // 145
  const CriticalPath path = critical_path(graph, executor.runs(), executor.origin());
  path.steps[2].held;  // HeldBy::resource, by reduce1, at the nic
  const auto use = resource_use(graph, executor.runs(), executor.origin());
  use[nic.index].utilisation();  // 100 / 145
  makespan_bound(graph);         // 115: the chain backward 1, reduce 1, update

  CHECK(executor[update].start == Time{140});
  CHECK(executor[reduce0].ready == Time{80});
  CHECK(executor[reduce0].start == Time{110});
  CHECK(executor.makespan() == Duration{145});
  CHECK(path.steps.size() == 4);
  CHECK(path.steps[2].held == HeldBy::resource);
  CHECK(path.steps[2].by == reduce1);
  CHECK(path.steps[2].at == nic);
  CHECK(use[nic.index].utilisation() == Approx(100.0 / 145));
  CHECK(makespan_bound(graph) == Duration{115});
}

TEST_CASE("the page shows the code that is there", "[structure]") {
  const std::filesystem::path root(ORRERY_SOURCE_DIR);
  const std::string code = text_of(root / "tests/sim/test_task_example.cpp");
  std::ifstream page(root / "docs/explain/task-graphs.md");
  bool inside = false;
  int lines = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      inside = line == "```cpp";
    } else if (inside && !line.empty()) {
      INFO(line);
      CHECK(code.find("  " + line + "\n") != std::string::npos);
      ++lines;
    }
  }
  CHECK(lines > 15);
}

}  // namespace test_task_example
