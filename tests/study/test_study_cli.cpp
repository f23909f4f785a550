// sweep, search, best and export as a user meets them.
#include <catch2/catch.hpp>

#include "study_support.hpp"

namespace orrery::experiments::study::test_study_cli {
namespace {

using namespace test;
using Catch::Contains;

Scratch& with_study(Scratch& scratch, const std::string& text) {
  scratch.write("trace.csv", small_trace());
  scratch.write("s.json", text);
  return scratch;
}

std::string one_objective(const std::string& more = "") {
  return study_json(kParameters + R"(, "measures": {"ttft": "ttft_s.p99"}, "objectives": [{"minimise": "ttft"}])" +
                    more);
}

TEST_CASE("a sweep prints the best points and goes on where it was", "[cli][study]") {
  Scratch scratch;
  with_study(scratch, small_study());
  const CommandResult result = command(scratch, "sweep s.json --out a/b/s.sqlite");
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("s: 9 points, 9 ok, 0 infeasible, 0 failed"));
  CHECK_THAT(result.out, Contains("Pareto front"));
  CHECK_THAT(result.err, Contains("9 points, 0 of them known, 9 runs; in a/b/s.sqlite"));
  const CommandResult again = command(scratch, "sweep s.json --out a/b/s.sqlite --resume --json");
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, Contains("holds this very study already; reused"));
  CHECK_THAT(again.err, Contains("9 points, 9 of them known, 0 runs"));
  CHECK(sim::parse_json(again.out, "stdout").find("stores")->items()[0].find("ok")->as_integer() == 9);
  CHECK(command(scratch, "sweep s.json --quiet").exit_code == 0);
  CHECK(std::distance(fs::directory_iterator(scratch / "runs"), {}) == 1);
}

TEST_CASE("a store of another study is refused, --force replaces it", "[cli][study]") {
  Scratch scratch;
  with_study(scratch, small_study());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  const std::string before = slurp(scratch / "s.sqlite");
  const CommandResult changed = command(scratch, "sweep s.json --out s.sqlite --set base.slo.ttft='\"1 s\"'");
  CHECK(changed.exit_code == 2);
  CHECK_THAT(changed.err, Contains("s.sqlite: the store is of another version of 's': the study has changed since "
                                   "(give another --out, or --force to replace it)"));
  const CommandResult search = command(scratch, "search s.json --out s.sqlite");
  CHECK(search.exit_code == 2);
  CHECK_THAT(search.err, Contains("the store is of the sweep 's', not of the search 's'"));
  CHECK(slurp(scratch / "s.sqlite") == before);
  CHECK(command(scratch, "sweep s.json --out s.sqlite --set base.slo.ttft='\"1 s\"' --force").exit_code == 0);
  CHECK(command(scratch, "sweep s.json --out s.json --force").exit_code == 2);  // no store: not ours to replace
  CHECK(slurp(scratch / "s.json") == small_study());
  const CommandResult none = command(scratch, "sweep s.json --out none.sqlite --resume");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("none.sqlite: expected a store to go on with, found none"));
}

TEST_CASE("a dry run and validate read the points and write nothing", "[cli][study]") {
  Scratch scratch;
  with_study(scratch, small_study());
  const CommandResult dry = command(scratch, "sweep s.json --dry-run");
  CHECK(dry.exit_code == 0);
  CHECK(std::count(dry.out.begin(), dry.out.end(), '\n') == 9);
  CHECK_THAT(dry.out, Contains("policy=sarathi, budget=512, rate=2"));
  CHECK_FALSE(fs::exists(scratch / "runs"));
  CHECK_THAT(command(scratch, "validate s.json").out, Contains("s.json: valid"));
  const CommandResult slip = command(scratch, "validate s.json --set 'parameters.1.values=[256,0]'");
  CHECK(slip.exit_code == 2);
  CHECK_THAT(slip.err, Contains("--set:/parameters/1/values/1: expected >= 1, got 0 (at policy=sarathi, budget=0"));
  CHECK_THAT(command(scratch, "run s.json").err, Contains("expected an experiment, got a study"));
  const CommandResult base = command(scratch, "sweep s.json --set base.model.config=catalog:llama-2-8b");
  CHECK(base.exit_code == 2);
  CHECK_THAT(base.err, Contains("did you mean 'llama-2-7b'"));
}

TEST_CASE("several studies side by side", "[cli][study]") {
  Scratch scratch;
  with_study(scratch, one_objective());
  scratch.write("t.json", one_objective());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  REQUIRE(
      command(scratch, "sweep t.json --out t.sqlite --quiet --set base.model.config=catalog:llama-3-8b").exit_code ==
      0);
  const CommandResult best = command(scratch, "best s.sqlite t.sqlite --top 3");
  CHECK(best.exit_code == 0);
  CHECK_THAT(best.out, Contains("best by ttft (minimised)"));
  CHECK_THAT(best.out, Contains("\ns  "));
  const CommandResult csv = command(scratch, "export s.sqlite t.sqlite --out all.csv");
  CHECK(csv.exit_code == 0);
  const std::vector<Row> rows = read_csv(scratch / "all.csv");
  REQUIRE(rows.size() == 18);
  CHECK(rows[0].at("study") == "s");
  CHECK(rows[17].at("study") == "t");
  CHECK(rows[8].at("budget").empty());  // does not count under vllm_v0
  CHECK(rows[8].at("policy") == "vllm_v0");
  const CommandResult lines = command(scratch, "export t.sqlite --format jsonl");
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 9);
  CHECK(sim::parse_json(lines.out.substr(0, lines.out.find('\n')), "line").find("rate")->as_number() == 0.5);
  // Other objectives cannot be ranked together.
  scratch.write("u.json", small_study());
  REQUIRE(command(scratch, "sweep u.json --out u.sqlite --quiet").exit_code == 0);
  const CommandResult mixed = command(scratch, "best s.sqlite u.sqlite");
  CHECK(mixed.exit_code == 2);
  CHECK_THAT(mixed.err, Contains("u.sqlite: expected the objectives of 's': minimise ttft"));
  CHECK(command(scratch, "best s.json").exit_code == 2);
  CHECK(command(scratch, "export none.sqlite").exit_code == 2);
}

TEST_CASE("a full disk: a clear message, exit code 1, nothing lost", "[cli][study]") {
  Scratch scratch;
  with_study(scratch, small_study());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  const CommandResult full = command(scratch, "export s.sqlite > /dev/full");
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Contains("stdout: could not be written in full"));
  const CommandResult device = command(scratch, "sweep s.json --out /dev/full");
  CHECK(device.exit_code == 2);
  CHECK_THAT(device.err, Contains("/dev/full: expected a place for a store"));
  // Files of at most 20 blocks of 1024 bytes: too small for the tables.
  const std::string limited =
      "--version > /dev/null; ulimit -f 20; '" ORRERY_COMMAND "' sweep s.json --out small.sqlite --jobs 1";
  const CommandResult small = command(scratch, limited);
  CAPTURE(small.err, small.out);
  CHECK(small.exit_code == 1);
  CHECK_THAT(small.err, Contains("small.sqlite: "));
  CHECK_THAT(small.err, Contains("is the disk full?"));
  CHECK(command(scratch, "sweep s.json --out small.sqlite --quiet").exit_code == 0);
  CHECK(dump(scratch / "small.sqlite") == dump(scratch / "s.sqlite"));
}

TEST_CASE("points evaluated by another process get the figures of the sweep", "[cli][study]") {
  Scratch scratch;
  with_study(scratch, small_study());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  REQUIRE(command(scratch, "sweep s.json --dry-run --json > lines").exit_code == 0);
  const CommandResult result = command(scratch, "evaluate-points < lines");
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<PointRow> rows;
  StoreReader(scratch / "s.sqlite").for_each([&](const PointRow& row) { rows.push_back(row); });
  std::istringstream lines(result.out);
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(sim::parse_json(line, "hello").find("protocol")->as_integer() == 1);
  for (const PointRow& row : rows) {
    REQUIRE(std::getline(lines, line));
    const sim::Node answer = sim::parse_json(line, "answer");
    CHECK(answer.find("status")->as_string() == "ok");
    CHECK(answer.find("key")->as_string() == row.key);
    CHECK(answer.at("figures.ttft")->as_number() == number_of(row.cells[3]));
  }
  // Another trace than the head's: refused, not answered with other figures.
  scratch.write("trace.csv", small_trace() + "9,10,10\n");
  CHECK_THAT(command(scratch, "evaluate-points < lines").out, Contains("an input file differs from the head's"));
  CHECK(command(scratch, "evaluate-points < trace.csv").exit_code == 2);
}

}  // namespace
}  // namespace orrery::experiments::study::test_study_cli
