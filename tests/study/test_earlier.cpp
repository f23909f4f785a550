// Searches that begin with what earlier stores have: all points of the same study, the best of another.
#include <catch2/catch.hpp>
#include <set>

#include "study_support.hpp"

namespace orrery::experiments::study::test_earlier {
namespace {

using namespace test;
using Catch::Contains;

/// A search of the function bnh over two reals: f1 = 4 x^2 + 4 y^2.
std::string searched(const std::string& search, const std::string& base = R"("y": 1)", const std::string& more = "") {
  return R"({"kind": "study", "version": 1,
  "base": {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, )" +
         base + R"(}}},
  "parameters": [{"name": "x", "path": "workload.point.x", "range": [0, 5]},
                 {"name": "y", "path": "workload.point.y", "range": [0, 3]}],
  "measures": {"f1": "f1"}, "objectives": [{"minimise": "f1"}]
  )" + more +
         R"(, "search": )" + search + "}";
}

Study study_of_text(const Scratch& scratch, const std::string& name, const std::string& text) {
  return read_study(test_systems(), scratch.write(name, text));
}

std::vector<PointRow> rows_of(const fs::path& file) {
  std::vector<PointRow> rows;
  StoreReader(file).for_each([&](const PointRow& row) { rows.push_back(row); });
  return rows;
}

TEST_CASE("another driver and more points go on from a store: nothing is run or proposed twice", "[study][earlier]") {
  Scratch scratch;
  const Study first = study_of_text(scratch, "s.json", searched(R"({"driver": {"policy": "random"}, "budget": 20})"));
  CHECK(explore(first, {.search = true, .out = scratch / "a"}).runs == 20);
  const Study second =
      study_of_text(scratch, "s.json", searched(R"({"driver": {"policy": "annealing"}, "budget": 15, "seed": 7})"));
  const auto result = explore(second, {.search = true, .out = scratch / "b", .from = {scratch / "a"}});
  CHECK(result.earlier == 20);
  CHECK(result.runs == 15);
  CHECK(result.points == 35);
  const auto before = rows_of(scratch / "a"), after = rows_of(scratch / "b");
  REQUIRE(after.size() == 35);
  std::set<std::string> keys;
  for (std::size_t i = 0; i < after.size(); ++i) {
    keys.insert(after[i].key);
    if (i < 20) CHECK(after[i].cells == before[i].cells);
  }
  CHECK(keys.size() == 35);
  // Threads, and a stop at any point, change no row.
  (void)explore(second, {.search = true, .out = scratch / "c", .from = {scratch / "a"}, .jobs = 3});
  CHECK(dump(scratch / "c") == dump(scratch / "b"));
  for (bool done = false; !done;) {
    int asked = 0;
    done =
        !explore(second,
                 {.search = true, .out = scratch / "d", .from = {scratch / "a"}, .stop = [&] { return ++asked > 12; }})
             .interrupted;
  }
  CHECK(dump(scratch / "d") == dump(scratch / "b"));
}

TEST_CASE("a search begins at a sweep", "[study][earlier]") {
  Scratch scratch;
  const std::string text = searched(R"({"driver": {"policy": "hill_climbing"}, "budget": 30, "batch": 1})", R"("y": 1)",
                                    R"(, "sweep": [{"list": [{"x": 0.25, "y": 0.25}, {"x": 4, "y": 2}]}])");
  const Study study = study_of_text(scratch, "s.json", text);
  (void)explore(study, {.out = scratch / "swept"});
  const auto result = explore(study, {.search = true, .out = scratch / "b", .from = {scratch / "swept"}});
  CHECK(result.earlier == 2);
  // The first point after what was known is a step of at most a few widths (0.2 of a range) from the better of the two,
  // not a draw: f1 = 4 x^2 + 4 y^2 has its least there.
  const PointRow third = rows_of(scratch / "b")[2];
  CHECK(number_of(third.cells[0]) < 0.25 + 4 * 0.2 * 5);
  const bool one_moved = (number_of(third.cells[0]) == 0.25) != (number_of(third.cells[1]) == 0.25);
  CHECK(one_moved);
}

TEST_CASE("a store of another measurement gives its best points as first guesses", "[study][earlier]") {
  Scratch scratch;
  const Study first = study_of_text(scratch, "s.json", searched(R"({"driver": {"policy": "random"}, "budget": 30})"));
  (void)explore(first, {.search = true, .out = scratch / "a"});
  // Another base (the same function here, so that figures can be compared).
  const Study other = study_of_text(
      scratch, "t.json", searched(R"({"driver": {"policy": "random"}, "budget": 10, "batch": 3})", R"("y": 2)"));
  const auto result = explore(other, {.search = true, .out = scratch / "b", .from = {scratch / "a"}});
  CHECK(result.earlier == 0);
  CHECK(result.points == 10);
  CHECK(result.runs == 10);  // guesses are run anew
  std::vector<double> values;
  for (const PointRow& row : rows_of(scratch / "a")) values.push_back(number_of(row.cells[2]));
  std::sort(values.begin(), values.end());
  const auto rows = rows_of(scratch / "b");
  for (std::size_t i = 0; i < 3; ++i) CHECK(number_of(rows[i].cells[2]) == values[i]);
}

TEST_CASE("first points of a study are looked at first, and told", "[study][earlier]") {
  Scratch scratch;
  const Study study = study_of_text(
      scratch, "s.json",
      searched(R"({"driver": {"policy": "random"}, "budget": 5, "first": [{"x": 2, "y": 1}, {"y": 3}]})"));
  (void)explore(study, {.search = true, .out = scratch / "a"});
  const auto rows = rows_of(scratch / "a");
  REQUIRE(rows.size() == 5);
  CHECK(number_of(rows[0].cells[0]) == 2);
  CHECK(number_of(rows[0].cells[1]) == 1);
  CHECK(number_of(rows[1].cells[0]) == 0);  // not named: the lowest
  CHECK(number_of(rows[1].cells[1]) == 3);
}

TEST_CASE("a search ends where nothing is gained", "[study][earlier]") {
  Scratch scratch;
  // The best there is comes first: ten points later the search is over.
  const Study study =
      study_of_text(scratch, "s.json", searched(R"({"driver": {"policy": "random"}, "budget": 500, "batch": 1,
                                    "patience": 10, "first": [{"x": 0, "y": 0}]})"));
  CHECK(explore(study, {.search = true, .out = scratch / "a"}).points == 11);
}

TEST_CASE("faults of what a search begins with", "[study][earlier]") {
  Scratch scratch;
  const auto faults = [&](const std::string& search, std::vector<fs::path> from) -> std::string {
    try {
      const Study study = study_of_text(scratch, "s.json", searched(search));
      (void)explore(study, {.search = true, .out = scratch / "b", .from = std::move(from)});
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return {};
  };
  CHECK_THAT(faults(R"({"first": [{"z": 1}]})", {}), Contains("unknown key 'z'"));
  CHECK_THAT(faults(R"({"first": [{"x": 9}]})", {}), Contains("/search/first/0/x: expected a value of 'x', got 9"));
  CHECK_THAT(faults(R"({"budget": 3})", {scratch / "none"}), Contains("expected a store of orrery, found none"));
  // A store with other parameters has nothing for this study.
  const Study served = read(scratch, small_study());
  (void)explore(served, {.out = scratch / "served"});
  CHECK_THAT(faults(R"({"budget": 3})", {scratch / "served"}), Contains("no point of it is one of 's'"));
  // What was begun with another store's points is not gone on with without them.
  CHECK(faults(R"({"budget": 3})", {}).empty());
  const Study first = study_of_text(scratch, "t.json", searched(R"({"budget": 4})"));
  (void)explore(first, {.search = true, .out = scratch / "a"});
  CHECK_THAT(faults(R"({"budget": 3})", {scratch / "a"}),
             Contains("the store was begun with nothing of other stores, not with 4 points known"));
}

}  // namespace
}  // namespace orrery::experiments::study::test_earlier
