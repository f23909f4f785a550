// Drivers of others (pagmo, Optuna): they search where they are installed, and say what to install where they are not.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "quality.hpp"
#include "sim/child_process.hpp"

namespace orrery::experiments::search::test_foreign_drivers {
namespace {

using namespace test;

bool has_optuna() {
  if (sim::run_program({"/usr/bin/python3", "-c", "import optuna"}, 60) == 0) return true;
  WARN("skipped: Optuna is not installed");
  return false;
}

bool has_pagmo() {
  try {
    Space space;
    add(space, real("x", 0, 1));
    (void)make_driver("pagmo", {.space = &space});
    return true;
  } catch (const sim::ConfigError& error) {
    CHECK(error.faults()[0].message == "expected a build with pagmo, this one has none");
    WARN("skipped: no pagmo in this build");
    return false;
  }
}

std::string trace(const std::string& name, std::uint64_t seed) {
  const Problem problem = make_problem("mixed");
  std::string text;
  for (const Trial& trial : search_problem(problem, name, "{}", {.budget = 40, .batch = 5}, seed)) {
    CHECK(problem.space.allowed(trial.proposal.point));
    text += problem.space.text(trial.proposal.point) + "\n";
  }
  return text;
}

TEST_CASE("pagmo searches, the same way for one seed", "[search][pagmo]") {
  if (!has_pagmo()) return;
  CHECK(trace("pagmo", 1) == trace("pagmo", 1));
  CHECK(trace("pagmo", 1) != trace("pagmo", 2));
  const Effort effort{.budget = 2000, .batch = 8, .seeds = 3};
  CHECK(quality("sphere", "pagmo", "{}", effort, 4).median < 0.05);
  CHECK(quality("sphere", "pagmo", R"({"algorithm": "cmaes", "population": 12})", effort, 4).median < 1e-3);
  CHECK(quality("sphere", "pagmo", R"({"algorithm": "pso"})", effort, 4).median < 0.05);
  CHECK(quality("zdt1", "pagmo", "{}", {.budget = 4000, .batch = 8, .seeds = 3}, 5).median > 0.95);
  Space space;
  add(space, real("x", 0, 1));
  CHECK_THROWS_AS(make_driver("pagmo", {.space = &space, .objectives = 2}, R"({"algorithm": "pso"})"),
                  sim::ConfigError);
}

TEST_CASE("Optuna searches, the same way for one seed", "[search][optuna][slow]") {
  if (!has_optuna()) return;
  CHECK(trace("optuna", 1) == trace("optuna", 1));
  CHECK(trace("optuna", 1) != trace("optuna", 2));
  const Effort effort{.budget = 100, .batch = 4, .seeds = 3};
  // Our estimator and theirs with as many points: both are far better than chance, whose median is above 1.
  CHECK(quality("sphere", "optuna", "{}", effort, 4).median < 1.5);
  CHECK(quality("sphere", "tpe", "{}", effort, 4).median < 1.5);
}

TEST_CASE("without Optuna the driver says what to install", "[search][optuna]") {
  Space space;
  add(space, real("x", 0, 1));
  const char* before = std::getenv("ORRERY_PYTHON");
  const std::string kept = before != nullptr ? before : "";
  const auto message = [&](const char* python) {
    setenv("ORRERY_PYTHON", python, 1);
    try {
      (void)make_driver("optuna", {.space = &space});
    } catch (const sim::ConfigError& error) {
      return error.faults()[0].text();
    }
    return std::string();
  };
  CHECK(message("/nonexistent/python") ==
        "/nonexistent/python: expected a Python interpreter, found none (set ORRERY_PYTHON, or run tools/setup)");
  CHECK(message("/bin/false") ==
        "/bin/false: expected the Python module optuna, found none (install Debian's "
        "python3-optuna (tools/setup optional))");
  if (before != nullptr)
    setenv("ORRERY_PYTHON", kept.c_str(), 1);
  else
    unsetenv("ORRERY_PYTHON");
}

}  // namespace
}  // namespace orrery::experiments::search::test_foreign_drivers
