// `orrery analyse`: trials back from a store, several stores side by side, faults.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/study/analysis.hpp"
#include "study_support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::study::test_analyse {
namespace {

using namespace test;
using Catch::Contains;

/// Binh and Korn: f1 = 4 x^2 + 4 y^2, f2 = (x - 5)^2 + (y - 5)^2; no point of this box breaks a limit.
std::string toy(
    const std::string& rest = R"(, "objectives": [{"minimise": "f1"}, {"name": "near", "maximise": "0 - f2"}])") {
  return R"({"kind": "study", "version": 1,
  "base": {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, "y": 1}}},
  "parameters": [{"name": "x", "path": "workload.point.x", "range": [0, 3], "steps": 4},
                 {"name": "y", "path": "workload.point.y", "values": [0, 1, 2], "when": "x < 3"},
                 {"name": "z", "path": "workload.point.y", "values": [3], "when": "x >= 3"}],
  "measures": {"f1": "f1", "f2": "f2"},
  "search": {"driver": {"policy": "nsga2", "nsga2": {"population": 4}}, "budget": 12, "batch": 4, "repeats": 3})" +
         rest + "}";
}

StoredTrials trials_of(const fs::path& file, const std::vector<std::string>& objectives = {}) {
  StoreReader store(file);
  return read_trials(store, objectives);
}

TEST_CASE("rows of a store are trials again", "[analysis][study]") {
  Scratch scratch;
  scratch.write("s.json", toy());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  const StoredTrials stored = trials_of(scratch / "s.sqlite");
  CHECK(stored.study == "s");
  CHECK(stored.driver == "sweep");
  REQUIRE(stored.trials.size() == 10);  // x = 0, 1, 2 by three y; x = 3 has z alone
  CHECK(stored.trials[5].proposal.point[0] == 1);
  CHECK(stored.trials[5].proposal.point[1] == 2);  // the place of a choice, which is its value here
  CHECK(std::isnan(stored.trials[5].proposal.point[2]));
  CHECK(std::isnan(stored.trials[9].proposal.point[1]));
  CHECK(stored.trials[9].proposal.point[2] == 0);
  // x = 1, y = 2: f1 = 4 + 16, f2 = 16 + 9. To maximise -25 is to minimise 25.
  CHECK(stored.trials[5].result.objectives == std::vector<double>{20, 25});
  CHECK(trials_of(scratch / "s.sqlite", {"near"}).trials[5].result.objectives == std::vector<double>{25});
  for (const search::Trial& trial : stored.trials) CHECK(trial.proposal.point.size() == 3);
}

TEST_CASE("analyse prints what the user's study says", "[analysis][study][cli]") {
  Scratch scratch;
  scratch.write("s.json", toy());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  fs::remove(scratch / "s.json");  // the store has all that is needed
  const CommandResult text = command(scratch, "analyse s.sqlite");
  CAPTURE(text.err);
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("10 trials: 10 feasible"));
  // Best of f1 is the first point, (0, 0); of near -(2^2 + 2^2), the last, (3, 3).
  CHECK_THAT(text.out, Contains("f1\n  best: 0 after 1\n"));
  CHECK_THAT(text.out, Contains("near (maximised)\n"));
  CHECK_THAT(text.out, Contains("-8 after 10\n"));
  const sim::Node json = sim::parse_json(command(scratch, "analyse s.sqlite --json --objective near").out, "out");
  CHECK(json.find("objectives")->items().size() == 1);
  const sim::Node& store = json.find("stores")->items()[0];
  CHECK(store.at("analysis.front")->items()[0].find("objectives")->items()[0].as_number() == -8);
  CHECK(store.find("searches")->items()[0].find("best_so_far")->items()[0].items().back().as_number() == -8);
}

TEST_CASE("several stores stand in one table", "[analysis][study][cli]") {
  Scratch scratch;
  scratch.write("s.json", toy());
  REQUIRE(command(scratch, "sweep s.json --out a.sqlite --quiet").exit_code == 0);
  REQUIRE(command(scratch, "search s.json --out b.sqlite --quiet").exit_code == 0);
  const CommandResult both = command(scratch, "analyse a.sqlite b.sqlite");
  CAPTURE(both.err);
  REQUIRE(both.exit_code == 0);
  CHECK_THAT(both.out, Contains("study  driver  searches  points  feasible  front"));
  CHECK_THAT(both.out, Contains("s      sweep   1         10"));
  CHECK_THAT(both.out, Contains("s      nsga2   3         36"));
  const std::vector<fs::path> files{scratch / "a.sqlite", scratch / "b.sqlite"};
  const StudyAnalysis analysis = analyse_stores(files, {});
  CHECK(analysis.stores[0].of_joint_front + analysis.stores[1].of_joint_front == analysis.joint_front);
  REQUIRE(analysis.stores[1].searches.size() == 3);
  for (const StoreAnalysis& store : analysis.stores)
    for (const SearchHistory& search : store.searches) {
      CHECK(std::is_sorted(search.volumes.begin(), search.volumes.end()));
      CHECK(search.volumes.back() <= analysis.joint_volume * (1 + 1e-12));
    }
}

TEST_CASE("what cannot be analysed is one line", "[analysis][study][cli]") {
  Scratch scratch;
  scratch.write("s.json", toy());
  scratch.write("none.json", toy(""));
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  REQUIRE(command(scratch, "sweep none.json --out none.sqlite --quiet").exit_code == 0);
  (void)Store(scratch / "empty.sqlite", facts_of(read_study(test_systems(), scratch / "s.json"), false));
  const auto error = [&](const std::string& arguments) {
    const CommandResult result = command(scratch, "analyse " + arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    return result.err;
  };
  CHECK_THAT(error("nowhere.sqlite"), Contains("nowhere.sqlite: expected a store of orrery, found none"));
  CHECK_THAT(error("s.json"), Contains("s.json: expected a store of orrery, found something else"));
  CHECK_THAT(error("empty.sqlite"), Contains("empty.sqlite: the store has no points yet"));
  CHECK_THAT(error("none.sqlite"), Contains("none.sqlite: the study has no objectives"));
  CHECK_THAT(error("s.sqlite --objective nere"), Contains("unknown objective 'nere' (did you mean 'near'"));
  CHECK_THAT(error("s.sqlite none.sqlite"), Contains("none.sqlite: expected the objectives of 's': minimise f1"));
}

}  // namespace
}  // namespace orrery::experiments::study::test_analyse
