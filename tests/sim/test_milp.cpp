// Mixed-integer programs: the text, the solver's answers, its absence.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "sim/base/fault.hpp"
#include "sim/child_process.hpp"
#include "sim/milp.hpp"

namespace orrery::sim::test_milp {
namespace {

using Kind = Milp::Kind;
using Sense = Milp::Sense;
using Status = Milp::Solution::Status;

bool has_cbc() {
  if (find_program("cbc")) return true;
  WARN("skipped: CBC is not installed");
  return false;
}

std::size_t temporary_folders() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path()))
    count += entry.path().filename().string().starts_with("orrery-") ? 1 : 0;
  return count;
}

TEST_CASE("the text of a program", "[milp][golden]") {
  Milp milp;
  const auto a = milp.add_variable("items of kind a", Kind::integer, 0, 3);
  const auto b = milp.add_variable("slack", Kind::real, -Milp::kFree, Milp::kFree);
  const auto c = milp.add_variable("open", Kind::binary);
  milp.maximise({{a, 3}, {b, -2}, {a, 0.5}});
  milp.add_constraint("room", {{a, 1}, {b, 1}, {c, -1e-3}}, Sense::at_most, 4);
  milp.add_constraint("twice the same", {{b, 1}, {b, -1}}, Sense::equal, 0);
  CHECK(milp.lp_text() ==
        "\\ x0: items of kind a\n\\ x1: slack\n\\ x2: open\n"
        "Maximize\n obj: 3.5 x0 - 2 x1\nSubject To\n"
        "\\ room\n c0: 1 x0 + 1 x1 - 0.001 x2 <= 4\n"
        "\\ twice the same\n c1: 0 x0 = 0\n"
        "Bounds\n 0 <= x0 <= 3\n x1 free\n 0 <= x2 <= 1\n"
        "General\n x0\n x2\nEnd\n");
  CHECK_THROWS_AS(milp.add_constraint("", {{7, 1}}, Sense::equal, 0), std::invalid_argument);
  CHECK_THROWS_AS(milp.add_variable("", Kind::real, 2, 1), std::invalid_argument);
}

TEST_CASE("a knapsack", "[milp]") {
  if (!has_cbc()) return;
  // Weights 3 4 5 9, values 3 4 4 10, room for 11. {9}: 10; {3, 4}: 7; {4, 5}: 8; {3, 5}: 7; nothing goes with 9 in 11
  // (9 + 3 = 12). Best: 10.
  const std::vector<double> weights{3, 4, 5, 9}, values{3, 4, 4, 10};
  Milp milp;
  Milp::Terms weight, value;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto take = milp.add_variable("take", Kind::binary);
    weight.emplace_back(take, weights[i]);
    value.emplace_back(take, values[i]);
  }
  milp.add_constraint("room", weight, Sense::at_most, 11);
  milp.maximise(value);
  const std::size_t folders = temporary_folders();
  const auto solution = milp.solve(20);
  CHECK(solution.status == Status::optimal);
  CHECK(solution.objective == 10);
  CHECK(solution.values == std::vector<double>{0, 0, 0, 1});
  CHECK(temporary_folders() == folders);
}

TEST_CASE("an assignment", "[milp]") {
  if (!has_cbc()) return;
  // Costs by worker and job; of the 6 ways 0-1, 1-0, 2-2 is cheapest: 1 + 2 + 3 = 6 (0-0, 1-1, 2-2: 4 + 4 + 3 = 11; …).
  const double costs[3][3] = {{4, 1, 3}, {2, 4, 5}, {3, 2, 3}};
  Milp milp;
  Milp::Variable pick[3][3];
  Milp::Terms cost;
  for (int w = 0; w < 3; ++w)
    for (int j = 0; j < 3; ++j) cost.emplace_back(pick[w][j] = milp.add_variable("pick", Kind::binary), costs[w][j]);
  for (int i = 0; i < 3; ++i) {
    milp.add_constraint("one job", {{pick[i][0], 1}, {pick[i][1], 1}, {pick[i][2], 1}}, Sense::equal, 1);
    milp.add_constraint("one worker", {{pick[0][i], 1}, {pick[1][i], 1}, {pick[2][i], 1}}, Sense::equal, 1);
  }
  milp.minimise(cost);
  const auto solution = milp.solve(20);
  CHECK(solution.status == Status::optimal);
  CHECK(solution.objective == 6);
}

TEST_CASE("programs without an optimum are results", "[milp]") {
  if (!has_cbc()) return;
  Milp none;
  const auto x = none.add_variable("x", Kind::integer, 0, 3);
  none.add_constraint("half", {{x, 2}}, Sense::equal, 3);  // x = 1.5
  none.minimise({{x, 1}});
  CHECK(none.solve(20).status == Status::infeasible);
  Milp endless;
  const auto y = endless.add_variable("y");
  const auto z = endless.add_variable("z");
  endless.add_constraint("apart", {{y, 1}, {z, -1}}, Sense::at_most, 4);
  endless.maximise({{y, 1}, {z, 1}});
  CHECK(endless.solve(20).status == Status::unbounded);
  CHECK(endless.solve(20).values.empty());
  Milp bounds;  // no constraint at all
  bounds.minimise({{bounds.add_variable("v", Kind::real, -2.5, 9), 2}});
  CHECK(bounds.solve(20).objective == Approx(-5));
}

// The example of docs/drivers.md: floor(5000 / 700) = 7.
TEST_CASE("the example of the docs", "[milp]") {
  if (!has_cbc()) return;
  Milp milp;
  const auto x = milp.add_variable("replicas of a", Kind::integer, 0, 8);
  milp.add_constraint("power", {{x, 700}}, Sense::at_most, 5000);
  milp.maximise({{x, 1}});
  const auto solution = milp.solve(10);  // seconds
  CHECK(solution.objective == Approx(7));
}

TEST_CASE("a solver that is not there, or is none", "[milp]") {
  Milp milp;
  milp.minimise({{milp.add_variable("x"), 1}});
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  setenv("PATH", "/nonexistent", 1);
  try {
    (void)milp.solve(1);
    FAIL("expected a fault");
  } catch (const sim::ConfigError& error) {
    CHECK(error.faults()[0].message == "expected the solver CBC on PATH, found none");
    CHECK(error.faults()[0].hint == "install Debian's coinor-cbc (tools/setup optional)");
  }
  setenv("PATH", path.c_str(), 1);
  CHECK_THROWS_AS(milp.solve(1, "/bin/true"), sim::ConfigError);
}

TEST_CASE("lines to a program and back", "[process]") {
  LineProcess cat({"/bin/cat"});
  CHECK(cat.write("one"));
  CHECK(cat.write("two"));
  CHECK(cat.read(10) == "one");
  CHECK(cat.read(10) == "two");
  CHECK_FALSE(cat.read(0.01));
  LineProcess gone({"/bin/true"});
  CHECK_FALSE(gone.read(10));
  CHECK_FALSE(find_program("a-program-that-nobody-has"));
  CHECK_FALSE(run_program({"/bin/sleep", "60"}, 0.05));
  CHECK(run_program({"/bin/false"}, 10) == 1);
}

}  // namespace
}  // namespace orrery::sim::test_milp
