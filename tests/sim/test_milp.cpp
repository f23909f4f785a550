// Mixed-integer programs: the text, the solver's answers, its absence.
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>

#include "sim/base/fault.hpp"
#include "sim/child_process.hpp"
#include "sim/milp.hpp"
#include "tests/sim/input_support.hpp"

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

/// A folder for temporary files that no other process uses, while it lives.
class OwnTemporaryFolder {
 public:
  OwnTemporaryFolder() : before_(std::filesystem::temp_directory_path()) {
    folder_ = before_ / ("orrery_test_milp_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ::setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~OwnTemporaryFolder() {
    ::setenv("TMPDIR", before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  OwnTemporaryFolder(const OwnTemporaryFolder&) = delete;
  OwnTemporaryFolder& operator=(const OwnTemporaryFolder&) = delete;
  bool empty() const { return std::filesystem::is_empty(folder_); }

 private:
  std::filesystem::path before_, folder_;
};

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
  const OwnTemporaryFolder temporary;
  const auto solution = milp.solve(20);
  CHECK(solution.status == Status::optimal);
  CHECK(solution.objective == 10);
  CHECK(solution.values == std::vector<double>{0, 0, 0, 1});
  CHECK(temporary.empty());
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

// The example of docs/explain/drivers.md: floor(5000 / 700) = 7.
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

TEST_CASE("the text of every kind of bound, sense and number", "[milp][golden]") {
  Milp milp;
  milp.add_variable("two\nlines\r", Kind::real, -2.5, Milp::kFree);
  milp.add_variable("low", Kind::integer, -Milp::kFree, 7);
  milp.add_variable("binary beyond", Kind::binary, -3, 3);
  milp.add_variable("one value", Kind::real, 4, 4);
  CHECK(milp.variables() == 4);
  CHECK(milp.name(1) == "low");
  milp.minimise({{1, -1}, {0, 2}, {3, 0}});
  milp.add_constraint("at\nleast", {{1, -2.5}, {1, 2.5}, {2, 1}}, Sense::at_least, -1.5);
  CHECK(milp.lp_text() ==
        "\\ x0: two lines \n\\ x1: low\n\\ x2: binary beyond\n\\ x3: one value\n"
        "Minimize\n obj: 2 x0 - 1 x1\nSubject To\n"
        "\\ at least\n c0: 1 x2 >= -1.5\n"
        "Bounds\n -2.5 <= x0 <= inf\n -inf <= x1 <= 7\n 0 <= x2 <= 1\n 4 <= x3 <= 4\n"
        "General\n x1\n x2\nEnd\n");
  Milp plain;
  plain.add_variable("v");
  plain.maximise({{0, -3}});
  CHECK(plain.lp_text() ==
        "\\ x0: v\nMaximize\n obj: - 3 x0\nSubject To\n none: 0 x0 >= -1\nBounds\n 0 <= x0 <= inf\nEnd\n");
  // Eight terms a line.
  Milp wide;
  Milp::Terms terms;
  for (int i = 0; i < 9; ++i) terms.emplace_back(wide.add_variable("v"), i + 1);
  wide.minimise(terms);
  CHECK_THAT(wide.lp_text(), Catch::Contains(" + 7 x6 + 8 x7\n   + 9 x8\n"));
}

TEST_CASE("what makes no sense in a program is refused by name", "[milp]") {
  Milp milp;
  const auto x = milp.add_variable("x");
  CHECK_THROWS_WITH(milp.add_variable("y", Kind::real, 2, 1), "variable 'y': low 2 above high 1");
  CHECK_THROWS_WITH(milp.add_variable("z", Kind::binary, 2, 3), "variable 'z': low 2 above high 1");
  CHECK_THROWS_WITH(milp.add_constraint("c", {{1, 1}}, Sense::equal, 0), "variable 1 of 1");
  CHECK_THROWS_WITH(milp.add_constraint("c", {{x, Milp::kFree}}, Sense::equal, 0), "coefficient of 'x' is not finite");
  CHECK_THROWS_WITH(milp.add_constraint("c", {{x, 1}}, Sense::equal, Milp::kFree), "bound of 'c' is not finite");
  CHECK_THROWS_WITH(milp.minimise({{1, 1}}), "variable 1 of 1");
  CHECK(milp.variables() == 1);
  CHECK(Milp().solve().status == Status::optimal);  // of nothing
}

namespace {

/// What is read from such a solution file of a solver that writes nothing else: x0 is whole, x1 real; 2 x0 - x1.
Milp::Solution read(const std::string& solution) {
  const orrery::test::Scratch scratch;
  scratch.write("solution", solution);
  const auto solver =
      scratch.write("solver", "#!/bin/sh\ncp '" + (scratch.path() / "solution").string() + "' \"$8\"\n");
  std::filesystem::permissions(solver, std::filesystem::perms::owner_all);
  Milp milp;
  milp.minimise({{milp.add_variable("a", Kind::integer), 2}, {milp.add_variable("b"), -1}});
  return milp.solve(1, solver);
}

}  // namespace

TEST_CASE("answers of a solver, by what their first line says", "[milp]") {
  const std::string values = "      0 x0   2.9999999  2\n**    1 x1   0.25  -1\n   7 c0 4 0\n";
  const Milp::Solution optimal = read("Optimal - objective value 5.75\n" + values);
  CHECK(optimal.status == Status::optimal);
  CHECK(optimal.values == std::vector<double>{3, 0.25});
  CHECK(optimal.objective == 5.75);
  CHECK(read("Stopped on time - objective value 5\n" + values).status == Status::feasible);
  CHECK(read("Stopped on time - objective value 5\n" + values).values.size() == 2);
  CHECK(read("Stopped on time (no integer solution - continuous used)\n" + values).status == Status::unknown);
  CHECK(read("Stopped on time (no integer solution - continuous used)\n" + values).values.empty());
  CHECK(read("Infeasible - objective value 0\n" + values).status == Status::infeasible);
  CHECK(read("Integer infeasible - objective value 0\n").status == Status::infeasible);
  CHECK(read("Unbounded - objective value 0\n").status == Status::unbounded);
  CHECK(read("").status == Status::unknown);
  CHECK_FALSE(read("").solved());
  // A variable that is not told is 0, one that there is not is left out.
  const Milp::Solution some = read("Optimal\n 1 x1 4 0\n 2 x2 9 0\n");
  CHECK(some.values == std::vector<double>{0, 4});
  CHECK(some.objective == -4);
}

}  // namespace
}  // namespace orrery::sim::test_milp
