// The files of a run against each other and against the summary.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/observe/files.hpp"
#include "tests/experiments/support.hpp"
#include "tests/sim/decode_timeline.hpp"
#include "tests/systems.hpp"
#include "timeline.pb.h"

namespace test_run_files {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
namespace timeline = orrery::timeline;

namespace {

double number(const sim::Node& root, const std::string& path) {
  const sim::Node* node = &root;
  std::stringstream parts(path);
  for (std::string part; std::getline(parts, part, '.');) node = node->find(part);
  return node->as_number();
}

/// Runs the small config into a folder and gives its summary.
sim::Node run_into(const Scratch& scratch, const std::vector<std::string>& assignments = {}) {
  scratch.write("trace.csv", small_trace());
  const fs::path config = scratch.write("c.json", small_config(R"(, "slo": {"ttft": "1 s", "tbt": "100 ms"})"));
  fs::create_directory(scratch / "run");
  return read_experiment(test_systems(), config, assignments)->run({.folder = scratch / "run", .progress = {}}).summary;
}

}  // namespace

TEST_CASE("times print exactly", "[unit]") {
  const auto text = [](std::int64_t ticks, std::int64_t ps) {
    std::string out;
    append_seconds(out, sim::Time{ticks}, sim::TickScale(ps));
    return out;
  };
  CHECK(text(0, 1) == "0");
  CHECK(text(1, 1) == "0.000000000001");
  CHECK(text(1'500'000'000'000, 1) == "1.5");
  CHECK(text(18'400'000'000'000'001, 1000) == "18400000.000000001");
}

TEST_CASE("requests.csv tells what the summary tells", "[unit]") {
  const Scratch scratch;
  const sim::Node summary = run_into(scratch);
  const std::vector<Row> rows = read_csv(scratch / "run/requests.csv");
  REQUIRE(rows.size() == 10);
  double ttft = 0, e2e = 0, tokens = 0, last = 0;
  for (const Row& row : rows) {
    CHECK(row.at("status") == "completed");
    CHECK(row.at("cached_tokens") == "0");
    const double arrived = std::stod(row.at("arrived_s"));
    CHECK(arrived == 0.5 * std::stod(row.at("id")));
    CHECK(std::stod(row.at("admitted_s")) >= arrived);
    CHECK(std::stod(row.at("first_token_s")) > std::stod(row.at("admitted_s")));
    ttft += std::stod(row.at("first_token_s")) - arrived;
    e2e += std::stod(row.at("finished_s")) - arrived;
    tokens += std::stod(row.at("output_tokens"));
    last = std::max(last, std::stod(row.at("finished_s")));
  }
  CHECK(number(summary, "ttft_s.mean") == Approx(ttft / 10));
  CHECK(number(summary, "e2e_s.mean") == Approx(e2e / 10));
  CHECK(number(summary, "simulated_s") == Approx(last));
  CHECK(number(summary, "tokens.output") == tokens);
  CHECK(number(summary, "throughput.output_tokens_per_s") == Approx(tokens / last));
  CHECK(number(summary, "slo.attainment") == 1);
}

TEST_CASE("energy balances: classes, idle, series and summary", "[unit]") {
  const Scratch scratch;
  const auto [count, tp] = GENERATE(table<int, int>({{1, 1}, {4, 2}}));
  const sim::Node summary =
      run_into(scratch, {"machine.devices.0.count=" + std::to_string(count),
                         "replica.tensor_parallel=" + std::to_string(tp), "run.series_interval=\"0.25 s\""});
  double total = 0, idle = 0, busy = 0;
  std::map<std::string, int> devices;
  for (const Row& row : read_csv(scratch / "run/energy.csv")) {
    total += std::stod(row.at("energy_j"));
    if (row.at("class") == "idle") idle += std::stod(row.at("energy_j"));
    if (row.at("device").ends_with("[0]")) busy += std::stod(row.at("busy_s"));
    ++devices[row.at("device")];
  }
  CHECK(devices.size() == static_cast<std::size_t>(count));
  CHECK(total == Approx(number(summary, "energy_j.total")).epsilon(1e-7));
  CHECK(idle == Approx(number(summary, "energy_j.idle")).epsilon(1e-7));
  CHECK(number(summary, "energy_j.idle") + number(summary, "energy_j.compute") + number(summary, "energy_j.memory") +
            number(summary, "energy_j.network") ==
        Approx(number(summary, "energy_j.total")));
  CHECK((tp > 1) == (number(summary, "energy_j.network") > 0));
  CHECK(busy == Approx(number(summary, "utilisation.busy") * number(summary, "simulated_s")).epsilon(1e-6));
  // The power of series.csv, each row for the time since the row before it, adds up to the energy of the run.
  double from_series = 0, last = 0;
  for (const Row& row : read_csv(scratch / "run/series.csv")) {
    const double at = std::stod(row.at("time_s"));
    from_series += std::stod(row.at("power_w")) * (at - last);
    last = at;
  }
  CHECK(last == Approx(number(summary, "simulated_s")));
  CHECK(from_series == Approx(total).epsilon(1e-6));
}

TEST_CASE("idle stretches of a series are two rows, not thousands", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", "arrived_s,prompt_tokens,output_tokens\n0,10,2\n100000,10,2\n");
  const fs::path config = scratch.write("c.json", small_config());
  fs::create_directory(scratch / "run");
  (void)read_experiment(test_systems(), config)->run({.folder = scratch / "run", .progress = {}});
  const std::vector<Row> rows = read_csv(scratch / "run/series.csv");
  CHECK(rows.size() < 10);
  CHECK(std::stod(rows.back().at("time_s")) > 99'990);
}

TEST_CASE("the timeline shows iterations and requests", "[unit]") {
  const Scratch scratch;
  const sim::Node summary = run_into(scratch);
  const timeline::Trace trace = orrery::test::decode_timeline(scratch / "run/timeline.pftrace");
  std::map<std::string, int> begins;
  int ends = 0;
  for (const timeline::TracePacket& packet : trace.packet()) {
    if (!packet.has_track_event()) continue;
    if (packet.track_event().type() == timeline::TrackEvent::SLICE_BEGIN) ++begins[packet.track_event().name()];
    if (packet.track_event().type() == timeline::TrackEvent::SLICE_END) ++ends;
  }
  const int iterations = static_cast<int>(number(summary, "iterations"));
  // Slices named prefill or decode are iterations and phases of the ten requests; mixed ones are iterations. More of
  // them: tests/timeline.
  CHECK(begins["mixed"] + begins["prefill"] + begins["decode"] == iterations + 20);
  CHECK(begins["request 0"] == 1);
  CHECK(ends > iterations + 20 + 10);
}

TEST_CASE("a timeline is cut where the config says, and the user told", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const fs::path config = scratch.write("c.json", small_config());
  fs::create_directory(scratch / "run");
  const Outcome outcome = read_experiment(test_systems(), config, {"run.timeline.iterations=5"})
                              ->run({.folder = scratch / "run", .progress = {}});
  REQUIRE(outcome.notes.size() == 1);
  CHECK_THAT(outcome.notes[0], Catch::Contains("first 5 of"));
}

TEST_CASE("a timeline shows the window that the config names", "[unit]") {
  const Scratch scratch;
  const sim::Node summary = run_into(scratch);
  const double middle = number(summary, "simulated_s") / 2;
  const auto run = [&](const std::string& name, const std::vector<std::string>& assignments) {
    fs::create_directory(scratch / name);
    return read_experiment(test_systems(), scratch / "c.json", assignments)
        ->run({.folder = scratch / name, .progress = {}});
  };
  (void)run("late", {fmt::format("run.timeline.begin={} s", middle), "run.timeline.operators=0"});
  int slices = 0;
  bool said = false;
  const timeline::Trace trace = orrery::test::decode_timeline(scratch / "late/timeline.pftrace");
  for (const timeline::TracePacket& packet : trace.packet()) {
    if (!packet.has_track_event()) continue;
    CHECK(static_cast<double>(packet.timestamp()) >= middle * 1e9 - 1);
    slices += packet.track_event().type() == timeline::TrackEvent::SLICE_BEGIN ? 1 : 0;
    said |= packet.track_event().name().starts_with("window");
  }
  CHECK(slices > 0);
  // Of each request a slice, and in it at most three phases.
  CHECK(slices < static_cast<int>(number(summary, "iterations")) + 10 * 4);
  CHECK(said);
  const Outcome none = run("none", {"run.timeline.enabled=false"});
  CHECK_FALSE(fs::exists(scratch / "none/timeline.pftrace"));
  CHECK(none.notes.empty());
  CHECK(none.summary.dump() == summary.dump());
  CHECK_THROWS_WITH(run("bad", {"run.timeline.begin=2 s", "run.timeline.end=1 s"}),
                    Catch::Contains("/run/timeline/end") || Catch::Contains("run.timeline.end"));
}

TEST_CASE("distributions ascend and end at the maximum", "[unit]") {
  const Scratch scratch;
  const sim::Node summary = run_into(scratch);
  std::map<std::string, double> last;
  for (const Row& row : read_csv(scratch / "run/distributions.csv")) {
    const double value = std::stod(row.at("value_s"));
    CHECK(value >= last[row.at("metric")]);
    last[row.at("metric")] = value;
  }
  CHECK(last.size() == 6);
  CHECK(last.at("ttft") == Approx(number(summary, "ttft_s.max")));
  CHECK(last.at("tbt") == Approx(number(summary, "tbt_s.max")));
}

TEST_CASE("a run without a folder has the same summary", "[prop]") {
  const Scratch scratch;
  const sim::Node with_files = run_into(scratch);
  const auto experiment = read_experiment(test_systems(), scratch / "c.json");
  CHECK(experiment->run({}).summary.dump() == with_files.dump());
  CHECK(experiment->run({}).summary.dump() == with_files.dump());  // and again: nothing is left over from a run
}

}  // namespace test_run_files
