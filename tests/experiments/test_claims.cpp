// Claim studies: reading with every fault, the grid, figures by path, runs on any number of threads, verdicts, the
// command.
#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "experiments/claims/figure.hpp"
#include "experiments/claims/report.hpp"
#include "experiments/claims/sensitivity.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_claims {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::claims;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

// A ring all-reduce on a star of 16 hosts, 50 GiB/s and 250 ns a link: 2 (n - 1) steps of S/n bytes over two links,
//   T(n, S) = 2 (n - 1) (S / (n B) + 500 ns).
constexpr const char* kBase = R"j({"system": "network",
  "machine": {"network": {"topology": {"policy": "star",
    "star": {"hosts": 16, "bandwidth": "50 GiB/s", "latency": "250 ns"}}}},
  "workload": {"jobs": [{"name": "dp", "collective": "all_reduce", "algorithm": {"policy": "ring"},
    "bytes": "64 MiB", "ranks": "0-7", "mode": "chunks"}]}})j";

struct Parts {
  std::string base = kBase;
  std::string variants = R"j({"few": {}, "all": {"workload.jobs.0.ranks": "0-15"}})j";
  std::string x = R"j([{"path": "workload.jobs.0.bytes", "values": ["1 MiB", "64 MiB"]}])j";
  std::string measures = R"j({"time": "jobs.time_s.mean"})j";
  std::string claims = R"j([{"claim": "c", "source": "s", "value": "max(all.time / few.time)", "expected": [1, 3]}])j";
  std::string extra;
};

std::string study_text_of(const Parts& parts) {
  return R"j({"kind": "claim", "version": 1, "system": "Ring", "base": )j" + parts.base + R"j(, "variants": )j" +
         parts.variants + R"j(, "x": )j" + parts.x + R"j(, "measures": )j" + parts.measures + R"j(, "claims": )j" +
         parts.claims + parts.extra + "}";
}

ClaimStudy study_of(const Scratch& scratch, const Parts& parts) {
  return read_study(scratch.write("ring.json", study_text_of(parts)));
}

/// The faults of reading (and, if that passes, running) a study, a line each.
std::string faults_of(const Parts& parts) {
  const Scratch scratch;
  try {
    std::vector<ClaimStudy> studies;
    studies.push_back(study_of(scratch, parts));
    judge_studies(run_studies(test_systems(), std::move(studies), {}));
  } catch (const sim::ConfigError& error) {
    std::string text;
    for (const sim::Fault& fault : error.faults())
      text += fault.where.pointer + ": " + fault.message + (fault.hint.empty() ? "" : " (" + fault.hint + ")") + "\n";
    return text;
  }
  return "none";
}

JudgedStudy judged(const Scratch& scratch, const Parts& parts, std::size_t jobs = 1) {
  std::vector<ClaimStudy> studies;
  studies.push_back(study_of(scratch, parts));
  return judge_studies(run_studies(test_systems(), std::move(studies), {.jobs = jobs})).front();
}

double ring_s(double n, double bytes) {
  return 2 * (n - 1) * (bytes / (n * 50 * 1073741824.0) + 500e-9);
}

}  // namespace

TEST_CASE("claims: variants and axes make configs", "[unit]") {
  const Scratch scratch;
  Parts parts;
  parts.x = R"j([{"path": ["workload.jobs.0.bytes"], "name": "bytes", "values": ["1 MiB", "64 MiB"]},
    {"name": "case", "values": [{"is": "few", "set": {"workload.jobs.0.ranks": "0-3"}}, {"is": 3}, "16"]}])j";
  parts.variants = R"j({"a": {"run": {"seed": 3}}, "b": {"workload.jobs.0.ranks": "0-1"}})j";
  parts.claims = R"j([{"claim": "c", "source": "s", "value": "max(a.time + bytes + case)", "expected": [0, null]
}])j";
  const ClaimStudy study = study_of(scratch, parts);
  CHECK(study.points() == 6);
  CHECK(study.point_text(4) == "bytes=64 MiB, case=3");  // the last axis varies fastest
  CHECK(study.axes[0].values[0].number == 1048576);      // a quantity is its number in SI
  CHECK(study.axes[1].values[0].number == 0);            // a text is its position
  CHECK(study.axes[1].values[0].text);
  CHECK(study.axes[1].values[1].number == 3);
  const sim::Node of_variant = study.config(study.variants[1], 4);
  CHECK(of_variant.at("workload")->find("jobs")->items()[0].find("ranks")->as_string() == "0-1");
  CHECK(of_variant.at("workload")->find("jobs")->items()[0].find("bytes")->as_string() == "64 MiB");
  const sim::Node of_axis = study.config(study.variants[1], 0);  // axes lie over variants
  CHECK(of_axis.at("workload")->find("jobs")->items()[0].find("ranks")->as_string() == "0-3");
  CHECK(study.config(study.variants[0], 0).at("run.seed")->as_integer() == 3);
}

TEST_CASE("claims: a base may be a file, or lie on top of one", "[unit]") {
  const Scratch scratch;
  scratch.write("base.json", kBase);
  Parts parts;
  parts.base = "\"base.json\"";
  CHECK(study_of(scratch, parts).base.at("system")->as_string() == "network");
  parts.base = R"j({"base": "base.json", "run": {"seed": 4}})j";
  const ClaimStudy study = study_of(scratch, parts);
  CHECK(study.base.at("run.seed")->as_integer() == 4);
  CHECK(study.base.at("system")->as_string() == "network");
  CHECK(study.base.find("base") == nullptr);
  const ClaimStudy set = read_study(scratch / "ring.json", {"base.workload.jobs.0.bytes=1 KiB", "system=Other"});
  CHECK(set.base.find("workload")->find("jobs")->items()[0].find("bytes")->as_string() == "1 KiB");
  CHECK(set.base.at("run.seed")->as_integer() == 4);
  CHECK(set.system == "Other");
}

TEST_CASE("claims: faults of a study, a line each", "[unit]") {
  const auto one = [](auto change) {
    Parts parts;
    change(parts);
    return faults_of(parts);
  };
  CHECK(one([](Parts&) {}) == "none");
  CHECK_THAT(one([](Parts& p) { p.extra = R"j(, "measure": {})j"; }),
             Contains("/measure: unknown key 'measure' (did you mean 'measures'?)"));
  CHECK_THAT(one([](Parts& p) { p.base = "3"; }), Contains("/base: expected the config of an experiment, or its file"));
  CHECK_THAT(one([](Parts& p) { p.base = "\"none.json\""; }), Contains("/base: expected a file, found none at"));
  CHECK_THAT(one([](Parts& p) { p.variants = "{}"; }), Contains("/variants: expected at least one variant"));
  CHECK_THAT(one([](Parts& p) { p.variants = R"j({"best-aot": {}})j"; }),
             Contains("/variants/best-aot: expected a name of letters, digits and _ for a variant, got 'best-aot'"));
  CHECK_THAT(one([](Parts& p) { p.variants = R"j({"few": 3, "all": {}})j"; }),
             Contains("/variants/few: expected an object of \"path\": value, got 3"));
  CHECK_THAT(one([](Parts& p) { p.x = "{}"; }), Contains("/x: expected a list of axes, got an object"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"path": "a", "values": []}])j"; }),
             Contains("/x/0/values: expected at least one value"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"path": "a.b"}])j"; }),
             Contains("/x/0/values: expected a list of values, found nothing"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"path": "a", "valeus": [1]}])j"; }),
             Contains("/x/0/valeus: unknown key 'valeus' (did you mean 'values'?)"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"values": [1]}])j"; }),
             Contains("/x/0/name: expected a text, found nothing"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"name": "n", "values": [1, 1]}])j"; }),
             Contains("/x/0/values/1: '1' is on this axis already"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"name": "n", "values": [{"set": {}}]}])j"; }),
             Contains("/x/0/values/0/is: expected a number or a text that names this value"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"path": "a.n", "values": [1]}, {"path": "b.n", "values": [1]}])j"; }),
             Contains("/x/1: another axis is named 'n' (give it a 'name')"));
  CHECK_THAT(one([](Parts& p) { p.x = R"j([{"name": "few", "values": [1]}])j"; }),
             Contains("/x: 'few' is an axis and a variant"));
  CHECK_THAT(one([](Parts& p) { p.measures = "{}"; }), Contains("/measures: expected at least one measure"));
  CHECK_THAT(one([](Parts& p) { p.measures = R"j({"feasible": "status"})j"; }),
             Contains("/measures/feasible: 'feasible' is 1 where a run is feasible, in every study"));
  CHECK_THAT(one([](Parts& p) { p.measures = R"j({"time": 3})j"; }),
             Contains("/measures/time: expected the path of a figure of summary.json, got 3"));
  CHECK_THAT(one([](Parts& p) { p.measures = R"j({"time": "a.{byte}.b"})j"; }),
             Contains("/measures/time: expected the name of an axis in braces, got 'byte' (did you mean 'bytes'?)"));
  CHECK_THAT(one([](Parts& p) { p.claims = "[]"; }), Contains("/claims: expected at least one claim"));
}

TEST_CASE("claims: faults of a claim", "[unit]") {
  const auto claim = [](const std::string& members) {
    Parts parts;
    parts.claims = "[{" + members + "}]";
    return faults_of(parts);
  };
  const std::string known = R"j("claim": "c", "source": "s", "expected": [1, 2], )j";
  const auto expecting = [&](const std::string& band) {
    return claim(R"j("claim": "c", "source": "s", "value": "max(few.time)", "expected": )j" + band);
  };
  CHECK_THAT(claim(R"j("claim": "c", "value": "max(few.time)", "expected": [1, 2])j"), Contains("/claims/0/source: "));
  CHECK_THAT(claim(R"j("claim": "c", "source": "", "value": "max(few.time)", "expected": [1, 2])j"),
             Contains("/claims/0/source: expected a text, got an empty one"));
  CHECK_THAT(expecting("[2, 1]"), Contains("/claims/0/expected: expected low <= high, got 2 > 1"));
  CHECK_THAT(expecting("[null, null]"), Contains("/claims/0/expected: expected a band with at least one end"));
  CHECK_THAT(expecting("[1]"), Contains("/claims/0/expected: expected a band [low, high], got 1 values"));
  CHECK_THAT(expecting("[1, \"2\"]"), Contains("/claims/0/expected/1: expected a number, got \"2\""));
  CHECK_THAT(claim(known + R"j("value": "max(fwe.time)")j"),
             Contains("/claims/0/value: formula \"max(fwe.time)\", column 5: unknown name 'fwe.time' (did you mean"));
  CHECK_THAT(claim(known + R"j("value": "few.time")j"),
             Contains("/claims/0/value: expected one number, got a series of 2 points"));
  CHECK_THAT(claim(known + R"j("value": "max(few.time)", "not": "")j"),
             Contains("/claims/0/not: unknown key 'not' (did you mean 'note'?)"));
}

TEST_CASE("claims: faults of the runs are reported where they stand in the study", "[unit]") {
  Parts parts;
  parts.base = R"j({"system": "netwrk"})j";
  CHECK_THAT(faults_of(parts), Contains("/base/system: unknown system 'netwrk' (did you mean 'network'?)"));
  parts = {};
  parts.variants = R"j({"few": {"workload.jobs.0.rnks": 3}, "all": {}})j";
  CHECK(faults_of(parts) ==
        "/variants/few/workload.jobs.0.rnks: unknown key 'rnks' (did you mean 'ranks'?)\n");  // once
  parts = {};
  parts.x = R"j([{"path": "workload.jobs.3.bytes", "values": ["1 MiB"]}])j";
  CHECK_THAT(faults_of(parts), Contains("/x/0/values/0: expected an index below 1, got '3'"));
  parts = {};
  parts.measures = R"j({"time": "jobs.times_s.mean"})j";
  CHECK(faults_of(parts) ==
        "/measures/time: no run has this figure: 'jobs' of summary.json has no 'times_s' (did you mean 'time_s'?)\n");
  parts.measures = R"j({"time": "jobs.time_s"})j";
  CHECK_THAT(faults_of(parts),
             Contains("/measures/time: expected the path of a number, found an object (known: max, "));
  parts.measures = R"j({"time": "status"})j";
  CHECK_THAT(faults_of(parts), Contains("/measures/time: expected the path of a number, found \"ok\""));
}

TEST_CASE("claims: figures by path", "[unit]") {
  const sim::Node summary = sim::parse_json(
      R"j({"a": {"x.y": {"z": 1}, "x": {"y": {"w": 2}}}, "only": {"one": {"v": 3}}, "list": [{"v": 4}]})j", "s.json");
  const auto number = [&](const char* path) { return find_figure(summary, path).found->as_number(); };
  CHECK(number("a.x.y.z") == 1);  // names with dots, the longest first
  CHECK(number("a.x.y.w") == 2);
  CHECK(number("only.*.v") == 3);
  CHECK(number("list.0.v") == 4);
  const FigureSearch search = find_figure(summary, "a.x.q");
  CHECK(search.found == nullptr);
  CHECK(search.reached == "a.x");
  CHECK(search.missing == "q");
  CHECK(search.members == std::vector<std::string>{"y"});
  CHECK(find_figure(summary, "a.*").found == nullptr);  // two members
  CHECK(find_figure(summary, "list.1.v").found == nullptr);
}

TEST_CASE("claims: values over the grid", "[unit]") {
  const Scratch scratch;
  Parts parts;
  parts.claims = R"j([
    {"claim": "ratio", "source": "s", "value": "max(all.time / few.time)", "expected": [1, 2]},
    {"claim": "time", "source": "s", "value": "at(few.time, bytes == 1048576)", "expected": [1, 2], "note": "ms"},
    {"claim": "axis", "source": "s", "value": "at(all.time, 64 * 2^20)", "expected": [null, 1]},
    {"claim": "both run", "source": "s", "value": "all(few.feasible && all.feasible)", "expected": [1, 1]}])j";
  const JudgedStudy study = judged(scratch, parts);
  const double small = ring_s(16, 1 << 20) / ring_s(8, 1 << 20), large = ring_s(16, 1 << 26) / ring_s(8, 1 << 26);
  CHECK(*study.verdicts[0].simulated == Approx(std::max(small, large)).epsilon(1e-5));
  CHECK(study.verdicts[0].holds);
  CHECK(study.verdicts[0].series[0] == Approx(small).epsilon(1e-5));
  CHECK(study.verdicts[0].series[1] == Approx(large).epsilon(1e-5));
  CHECK(*study.verdicts[1].simulated == Approx(ring_s(8, 1 << 20)).epsilon(1e-5));
  CHECK_FALSE(study.verdicts[1].holds);
  CHECK(study.verdicts[1].note == "ms");
  CHECK(*study.verdicts[2].simulated == Approx(ring_s(16, 1 << 26)).epsilon(1e-5));
  CHECK(*study.verdicts[3].simulated == 1);
}

TEST_CASE("claims: without axes a figure is one number", "[unit]") {
  const Scratch scratch;
  Parts parts;
  parts.x = "[]";
  parts.claims = R"j([{"claim": "c", "source": "s", "value": "all.time / few.time", "expected": [1, 3]}])j";
  const JudgedStudy study = judged(scratch, parts);
  CHECK(*study.verdicts[0].simulated == Approx(ring_s(16, 1 << 26) / ring_s(8, 1 << 26)).epsilon(1e-5));
}

TEST_CASE("claims: what does not fit is not judged, unless the formula copes", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  Parts parts;
  parts.base = small_config();
  parts.x = R"j([{"name": "memory", "values": [
    {"is": 80}, {"is": 8, "set": {"machine.devices.0.override": {"memory": "8 GiB"}}}]}])j";
  parts.variants = R"j({"run": {}})j";
  parts.measures = R"j({"ttft": "ttft_s.mean"})j";
  parts.claims = R"j([
    {"claim": "a", "source": "s", "value": "max(run.ttft)", "expected": [0, null], "note": "why"},
    {"claim": "b", "source": "s", "value": "max(run.ttft where run.feasible)", "expected": [0, null]},
    {"claim": "c", "source": "s", "value": "count(run.feasible)", "expected": [1, 1]},
    {"claim": "d", "source": "s", "value": "max(run.ttft where memory > 100)", "expected": [0, null]},
    {"claim": "e", "source": "s", "value": "1 / sum(memory where memory < 0)", "expected": [0, null]}])j";
  const JudgedStudy study = judged(scratch, parts);
  CHECK_FALSE(study.verdicts[0].simulated);
  CHECK_FALSE(study.verdicts[0].holds);
  CHECK_THAT(study.verdicts[0].note, Contains("not judged: variant 'run' at memory=8: infeasible: "));
  CHECK_THAT(study.verdicts[0].note, Contains("; why"));
  CHECK(study.verdicts[1].holds);
  CHECK(*study.verdicts[2].simulated == 1);
  CHECK(study.verdicts[2].holds);
  CHECK_FALSE(study.verdicts[3].simulated);
  CHECK_THAT(study.verdicts[4].note, Contains("not judged: its value is infinite"));
}

TEST_CASE("claims: equal runs are shared, and the number of threads changes nothing", "[prop]") {
  const Scratch scratch;
  Parts parts;  // an axis that sets nothing: its values are read from one run
  parts.x = R"j([{"name": "quantile", "values": ["p50", "p99", "max"]},
    {"path": "workload.jobs.0.bytes", "name": "bytes", "values": ["1 MiB", "2 MiB", "4 MiB", "8 MiB", "64 MiB"]}])j";
  parts.measures = R"j({"time": "jobs.time_s.{quantile}"})j";
  std::string before;
  for (const std::size_t jobs : {1U, 2U, 7U}) {
    std::vector<ClaimStudy> studies;
    studies.push_back(study_of(scratch, parts));
    studies.push_back(study_of(scratch, parts));
    std::int64_t runs = 0;
    const auto all = judge_studies(
        run_studies(test_systems(), std::move(studies), {jobs, [&](std::int64_t, std::int64_t n) { runs = n; }}));
    CHECK(runs == 10);  // two variants of five sizes, for both studies
    std::ostringstream text;
    write_points(all, text);
    text << claims_text(all) << claims_json(all).dump(2);
    if (!before.empty()) CHECK(text.str() == before);
    before = text.str();
  }
  CHECK_THAT(before, Contains("ring,few,0,quantile=p50;bytes=1 MiB,time,"));
}

TEST_CASE("claims: what a published figure ties from both sides is counted apart", "[unit]") {
  const Scratch scratch;
  Parts parts;
  parts.claims = R"j([
    {"claim": "a", "source": "s", "value": "max(all.time / few.time)", "expected": [1, 3]},
    {"claim": "b", "source": "s", "value": "max(all.time / few.time)", "expected": [5, 6]},
    {"claim": "c", "source": "s", "value": "max(all.time / few.time)", "expected": [1, null]},
    {"claim": "d", "source": "s", "value": "all(all.feasible)", "expected": [1, 1]},
    {"claim": "e", "source": "s", "value": "max(all.time / few.time)", "expected": [1, 3], "basis": "reading"},
    {"claim": "f", "source": "s", "value": "max(all.time / few.time)", "expected": [1, 3], "basis": "control"},
    {"claim": "g", "source": "s", "value": "max(all.time / few.time)", "expected": [1, 3], "basis": "construction"}])j";
  const JudgedStudy study = judged(scratch, parts);
  std::vector<bool> tied;
  for (const Claim& claim : study.result.study.claims) tied.push_back(claim.tied());
  CHECK(tied == std::vector<bool>{true, true, false, false, false, false, false});
  std::vector<JudgedStudy> one;
  one.push_back(judged(scratch, parts));
  const std::string text = claims_text(one);
  CHECK_THAT(text, Contains("1 of 2 hold that a published figure ties from both sides, 5 of 5 others\n"
                            "6 of 7 claims hold, 1 missed, 0 not judged\n"));
  CHECK_THAT(text, Contains("expected 1 to 3, by construction\n      g\n"));
  CHECK_THAT(text, !Contains("by construction\n      f"));
  parts.claims = R"j([{"claim": "a", "source": "s", "value": "max(all.time)", "expected": [0, 1], "basis": "guess"}])j";
  CHECK_THAT(faults_of(parts), Contains("/claims/0/basis: "));
}

TEST_CASE("claims: over a parameter, in the base or in the variants that it names", "[unit]") {
  const Scratch scratch;
  Parts parts;
  parts.x = "[]";
  // T = 2 (n - 1) (S / (n B) + 500 ns): of 64 MiB among 8, 2.18 ms at 50 GiB/s, half at 100, twice at 25; `all` keeps
  // the bandwidth it sets itself.
  const std::string bandwidth = "machine.network.topology.star.bandwidth";
  parts.variants = R"j({"few": {}, "all": {"workload.jobs.0.ranks": "0-15", ")j" + bandwidth + R"j(": "50 GiB/s"}})j";
  parts.claims = R"j([
    {"claim": "few", "source": "s", "value": "1000 * few.time", "expected": [2, 3]},
    {"claim": "all", "source": "s", "value": "1000 * all.time", "expected": [2, 3]}])j";
  parts.extra = R"j(, "sensitivity": [
    {"name": "link", "path": ")j" +
                bandwidth + R"j(", "values": ["25 GiB/s", "50 GiB/s", "100 GiB/s"]},
    {"name": "of_all", "path": ")j" +
                bandwidth + R"j(", "values": ["50 GiB/s", "100 GiB/s"], "variants": ["all"]}])j";
  std::vector<ClaimStudy> studies;
  studies.push_back(study_of(scratch, parts));
  const std::vector<Sensitivity> out = sensitivities(test_systems(), studies, {});
  REQUIRE(out.size() == 2);
  CHECK(out[0].parameter == "link");
  CHECK(out[0].values == std::vector<std::string>{"25 GiB/s", "50 GiB/s", "100 GiB/s"});
  const auto ms = [&](std::size_t parameter, std::size_t claim, std::size_t value) {
    return *out[parameter].claims[claim].verdicts[value].simulated;
  };
  const auto expected_ms = [](double n, double gib) {
    return 1e3 * 2 * (n - 1) * ((1 << 26) / (n * gib * 1073741824.0) + 500e-9);
  };
  CHECK(ms(0, 0, 0) == Approx(expected_ms(8, 25)).epsilon(1e-5));
  CHECK(ms(0, 0, 2) == Approx(expected_ms(8, 100)).epsilon(1e-5));
  CHECK(ms(0, 1, 0) == Approx(expected_ms(16, 50)).epsilon(1e-5));
  CHECK(out[0].claims[0].decided());
  CHECK_FALSE(out[0].claims[1].decided());
  CHECK(ms(1, 0, 1) == Approx(expected_ms(8, 50)).epsilon(1e-5));
  CHECK(ms(1, 1, 1) == Approx(expected_ms(16, 100)).epsilon(1e-5));
  CHECK_FALSE(out[1].claims[0].decided());
  CHECK(out[1].claims[1].decided());
  const std::string text = sensitivity_text(out);
  CHECK_THAT(text, Contains("ring: link at 25 GiB/s, 50 GiB/s, 100 GiB/s\n  decides 1 of 2 claims\n"
                            "  holds at 50 GiB/s: few\n      comes out as 4.382, 2.19"));
  CHECK(sensitivity_json(out).find("sensitivity")->items()[1].find("claims")->items()[1].find("holds")->dump() ==
        "[true,false]");
  CHECK_THAT(sensitivity_text({}), Contains("no study among these"));
  parts.extra = R"j(, "sensitivity": [{"path": "run.seed", "values": [1], "variants": ["alll"]}])j";
  CHECK_THAT(faults_of(parts),
             Contains("/sensitivity/0/variants/0: expected the name of a variant, got \"alll\" (did you mean 'all'?)"));
  parts.extra = R"j(, "sensitivity": [{"path": "run.seed", "values": []}])j";
  CHECK_THAT(faults_of(parts), Contains("/sensitivity/0/values: expected at least one value"));
}

TEST_CASE("orrery reproduce: text, JSON, points and exit codes", "[cli]") {
  const Scratch scratch;
  Parts parts;
  parts.claims = R"j([
    {"claim": "grows", "source": "closed form", "value": "min(all.time / few.time)", "expected": [1, null]},
    {"claim": "too much", "source": "nobody", "value": "max(few.time)", "expected": [10, 20], "note": "a reason"}])j";
  scratch.write("ring.json", study_text_of(parts));
  const CommandResult text = command(scratch, "reproduce ring.json --points points.csv --jobs 2");
  CHECK(text.exit_code == 0);  // a miss is a result
  CHECK_THAT(text.out, Contains("Ring (ring)"));
  CHECK_THAT(text.out, Contains("MISSED") && Contains("expected 10 to 20") && Contains("note: a reason"));
  CHECK_THAT(text.out, Contains("0 of 1 hold that a published figure ties from both sides, 1 of 1 others\n"
                                "1 of 2 claims hold, 1 missed, 0 not judged"));
  CHECK_THAT(text.err, Contains("4 runs in"));
  CHECK(read_csv(scratch / "points.csv").size() == 8);  // 2 variants x 2 sizes, and 2 claims over 2 sizes

  const CommandResult json = command(scratch, "reproduce ring.json --json --quiet");
  CHECK(json.err.empty());
  const sim::Node root = sim::parse_json(json.out, "out");
  REQUIRE(root.members().size() == 1);
  const sim::Node& claim = root.find("claims")->items()[0];
  std::vector<std::string> keys;
  for (const auto& member : claim.members()) keys.push_back(member.first);
  CHECK(keys == std::vector<std::string>{"study", "system", "claim", "source", "expected", "basis", "simulated",
                                         "holds", "note"});
  CHECK(claim.find("basis")->as_string() == "published");
  CHECK(claim.find("expected")->dump() == "[1,null]");
  CHECK(claim.find("study")->as_string() == "ring");

  const CommandResult set = command(scratch, "reproduce ring.json --quiet --set claims.1.expected=[0,1]");
  CHECK_THAT(set.out, Contains("2 of 2 claims hold"));
  const CommandResult unknown = command(scratch, "reproduce skip_fusoin");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("found no 'skip_fusoin' (did you mean 'skip_fusion'?)"));
  const CommandResult no_study =
      command(scratch, "reproduce '" ORRERY_SOURCE_DIR "/experiments/studies/first_light.json'");
  CHECK(no_study.exit_code == 2);
  CHECK_THAT(no_study.err, Contains("/kind: expected a study of \"kind\": \"claim\""));
}

TEST_CASE("orrery validate, list, describe and run know claim studies", "[cli]") {
  const Scratch scratch;
  scratch.write("good.json", study_text_of({}));
  Parts bad;
  bad.variants = R"j({"few": {"run.sed": 3}, "all": {}})j";
  scratch.write("bad.json", study_text_of(bad));
  CHECK(command(scratch, "validate good.json").out == "good.json: valid\n");
  const CommandResult faulty = command(scratch, "validate bad.json");
  CHECK(faulty.exit_code == 2);
  CHECK(faulty.err == "bad.json:/variants/few/run.sed: unknown key 'sed' (did you mean 'seed'?)\n");
  CHECK_THAT(command(scratch, "list claim").out, Contains("skip_fusion"));
  const CommandResult shown = command(scratch, "describe skip_fusion");
  CHECK_THAT(shown.out, Contains("measures:") && Contains("claims:") && Contains("arXiv 2504.11750"));
  const CommandResult run = command(scratch, "run good.json");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err,
             Contains("good.json:/kind: expected an experiment, got a claim study (`orrery reproduce` runs it)"));
}

}  // namespace test_claims
