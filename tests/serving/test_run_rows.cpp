// What a run writes and measures, row by row: requests, iterations, series, energy.
#include <fmt/format.h>

#include "experiments/systems/serving/observe/files.hpp"
#include "experiments/systems/serving/observe/gap_history.hpp"
#include "experiments/systems/serving/observe/kv_outcome.hpp"
#include "experiments/systems/serving/observe/metrics.hpp"
#include "experiments/systems/serving/observe/token_times.hpp"
#include "tests/experiments/support.hpp"

#include <catch2/catch.hpp>

namespace test_run_rows {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;  // ticks of 1 ps

RequestRecord completed(std::int64_t arrived, std::int64_t admitted, std::int64_t first, std::int64_t finished,
                        std::int64_t tokens) {
  RequestRecord record;
  record.arrived = sim::Time{arrived};
  record.admitted = sim::Time{admitted};
  record.first_token = sim::Time{first};
  record.finished = sim::Time{finished};
  record.prompt_tokens = 10;
  record.output_tokens = tokens;
  record.status = "completed";
  return record;
}

/// The verdict on such gaps, judged as one run of them at the end of a history.
bool history_attains(std::int64_t target, std::initializer_list<std::array<std::int64_t, 3>> runs) {
  GapHistory history(target);
  history.add_run(10 * target, 0, 5);  // before the mark: of somebody else
  const GapHistory::Mark mark = history.mark();
  TbtVerdict verdict;
  for (const auto& [first, step, count] : runs) history.add_run(first, step, count);
  history.judge(mark, verdict);
  return verdict.attained(target);
}

/// The same, gap by gap.
bool gaps_attain(std::int64_t target, std::initializer_list<std::array<std::int64_t, 3>> runs) {
  TbtVerdict verdict;
  for (const auto& [first, step, count] : runs)
    for (std::int64_t i = 0; i < count; ++i) verdict.add(first + i * step, target);
  return verdict.attained(target);
}

}  // namespace

TEST_CASE("whole ticks in picoseconds, up to the most there is", "[unit]") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(to_ps(7, 1000) == 7000);
  CHECK(to_ps(kMost, 1) == kMost);
  CHECK(to_ps(kMost / 1000, 1000) == kMost / 1000 * 1000);
  CHECK(to_ps(kMost / 1000 + 1, 1000) == kMost);
  CHECK(seconds_of(2 * kSecond) == Approx(2));
  CHECK(joules_of(kSecond / 2) == Approx(0.5));
}

TEST_CASE("a history of gaps judges as the gaps themselves do, whatever runs they came in", "[unit]") {
  // Of 300 gaps the P99 is rank 296.01: between the third and the fourth from the top.
  const std::initializer_list<std::array<std::int64_t, 3>> cases[] = {
      {{50, 0, 300}},
      {{101, 0, 300}},
      {{50, 0, 296}, {101, 0, 4}},
      {{50, 0, 297}, {101, 0, 3}},
      {{100, 0, 297}, {150, 0, 3}},
      {{99, 0, 297}, {120, 0, 3}},
      {{99, 0, 297}, {250, 0, 3}},
      {{101, 0, 3}, {99, 0, 297}},
      {{1, 1, 103}, {90, 0, 197}},
      {{103, -1, 103}, {90, 0, 197}},
      {{2, 7, 15}, {60, 0, 200}},
      {{98, 1, 3}, {102, 0, 1}, {97, 0, 96}},
      {{300, 0, 1}, {101, 0, 1}, {5, 0, 98}},
      {{101, 0, 1}, {300, 0, 1}, {5, 0, 98}},
      {{5, 0, 98}, {99, 0, 1}, {5, 0, 50}, {102, 0, 1}, {180, 0, 1}},
  };
  for (const auto& runs : cases) {
    CAPTURE(&runs - cases);
    CHECK(history_attains(100, runs) == gaps_attain(100, runs));
  }
  CHECK(history_attains(100, {}));  // no gap since the mark
}

TEST_CASE("the P99 of gaps lies between two ranks, and the verdict with it", "[unit]") {
  // Of 51 gaps, one above: rank 0.99 x 50 = 49.5, halfway between the most within and the least over.
  const auto verdict = [](std::int64_t within, std::int64_t over) {
    TbtVerdict gaps;
    gaps.add(within, 100, 50);
    gaps.add(over, 100);
    return gaps.attained(100);
  };
  CHECK(verdict(90, 110));
  CHECK_FALSE(verdict(90, 111));
  CHECK(verdict(50, 150));
  CHECK_FALSE(verdict(100, 101));
  // Of 101 gaps rank 99 is the last but one.
  TbtVerdict many;
  many.add(100, 100, 100);
  many.add(5000, 100);
  CHECK(many.attained(100));
  many.add(5000, 100);
  CHECK_FALSE(many.attained(100));
  TbtVerdict joined;
  joined.add_many(50, 1, 150, 40);
  joined.add_many(51, 0, 7, 60);  // none above: what is said of the least above is nothing
  CHECK(joined.attained(100));
  joined.add_many(1, 1, 120, 99);  // none within
  CHECK_FALSE(joined.attained(100));
}

TEST_CASE("what becomes of a request is counted once, latencies only within the measured time", "[unit]") {
  RequestMetrics m;
  m.ps_per_tick = 1000;
  m.warmup = sim::Time{100};
  m.measure_until = sim::Time{200};
  m.slo.ttft = sim::Duration{30};
  m.slo.tbt_ps = 5000;
  m.priorities = true;
  CHECK(m.ttft_ps() == 30'000);
  TbtVerdict good, bad;
  good.add(5000, 5000, 3);
  bad.add(5001, 5000, 3);
  RequestRecord r = completed(100, 110, 130, 190, 4);
  r.cached_tokens = 3;
  r.priority = 2;
  m.request_ended(r, good);
  CHECK(m.verdicts.attained == 1);
  CHECK(m.ttft.sum() == 30);
  CHECK(m.e2e.sum() == 90);
  CHECK(m.queueing.sum() == 10);
  CHECK(m.tpot.sum() == 60 * 1000 / 3);
  CHECK(m.normalised.sum() == 90 * 1000 / 4);
  CHECK(m.by_priority.at(2).completed == 1);
  CHECK(m.by_priority.at(2).tpot.sum() == 20'000);
  CHECK(m.by_priority.at(2).e2e.sum() == 90);
  // Late by a tick, slow, preempted; of one token.
  r = completed(199, 210, 230, 230, 1);
  r.preemptions = 2;
  m.request_ended(r, bad);
  CHECK(m.verdicts.attained == 1);
  CHECK(m.verdicts.missed_ttft == 1);
  CHECK(m.verdicts.missed_tbt == 1);
  CHECK(m.verdicts.missed_tbt_preempted == 1);
  CHECK(m.tpot.count() == 1);
  CHECK(m.by_priority.at(0).tpot.count() == 0);
  CHECK(m.by_priority.at(0).preemptions == 2);
  // Slow only; and early or late by a tick: in totals alone.
  m.request_ended(completed(150, 150, 160, 200, 5), bad);
  CHECK(m.verdicts.missed_tbt == 2);
  CHECK(m.verdicts.missed_tbt_preempted == 1);
  CHECK(m.verdicts.missed_ttft == 1);
  m.request_ended(completed(99, 99, 110, 300, 2), bad);
  m.request_ended(completed(200, 205, 210, 220, 2), good);
  CHECK(m.completed == 5);
  CHECK(m.measured == 3);
  CHECK(m.ttft.count() == 3);
  CHECK(m.prompt_tokens == 50);
  CHECK(m.cached_tokens == 3);
  CHECK(m.output_tokens == 14);
  CHECK(m.preemptions == 2);
  CHECK(m.preempted_requests == 1);
  CHECK(m.arrivals.first == sim::Time{99});
  CHECK(m.arrivals.last == sim::Time{200});
  CHECK(m.arrivals.e2e_s.count() == 5);
  // Those that did not complete.
  RequestRecord lost;
  lost.arrived = sim::Time{150};
  lost.preemptions = 1;
  const auto ends = [&](std::string_view status) {
    lost.status = status;
    m.request_ended(lost, bad);
  };
  ends("unfinished");
  ends("rejected:too_long");
  ends("rejected:too_long");
  ends("rejected:failures");
  CHECK(m.completed == 5);
  CHECK(m.unfinished == 1);
  CHECK(m.rejected == 3);
  CHECK(m.rejected_by_reason.at("too_long") == 2);
  CHECK(m.rejected_by_reason.at("failures") == 1);
  CHECK(m.measured == 7);
  CHECK(m.preempted_requests == 5);
  CHECK(m.verdicts.missed_tbt == 2);
}

TEST_CASE("an iteration of a run by itself: its ticks, its energy and its blocks", "[unit]") {
  // Begins 400 ps before tick 5 of 1 ns; lasts 700, 800, 900 … ps: ends 300, 1100, 2000 ps after that tick.
  const std::vector<std::int64_t> growth{0, 2, 0, 1};
  IterationRun run;
  run.start = sim::Time{5};
  run.start_ps = 400;
  run.count = 12;
  run.time_ps = 700;
  run.step_ps = 100;
  run.energy_pj = 50;
  run.step_energy_pj = 3;
  run.kv_used_bytes = 1000;
  run.kv_block_bytes = 10;
  run.kv_growth = growth.data();
  run.kv_period = 4;
  run.kv_phase = 3;
  run.replica = 6;
  run.decodes = 2;
  run.running = 3;
  run.waiting = 4;
  CHECK(elapsed_ps(run, 3) == 700 + 800 + 900);
  const auto at = [&](std::int64_t i) { return iteration(run, i, 1000); };
  CHECK(at(0).start == sim::Time{5});
  CHECK(at(0).end == sim::Time{6});
  CHECK(at(1).start == sim::Time{6});
  CHECK(at(1).end == sim::Time{7});
  CHECK(at(2).start == sim::Time{7});
  CHECK(at(2).end == sim::Time{7});  // at 2000 ps, on the tick
  CHECK(at(3).energy_pj == 59);
  CHECK(at(3).replica == 6);
  CHECK(at(3).decodes == 2);
  CHECK(at(3).running == 3);
  CHECK(at(3).waiting == 4);
  // Iterations 1, 2, 3 … take the blocks at residues 0, 1, 2, 3, 0, …: 0, 2, 0, 1 in turn.
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 0; i < 10; ++i) bytes.push_back(at(i).kv_used_bytes - 1000);
  CHECK(bytes == std::vector<std::int64_t>{0, 0, 20, 20, 30, 30, 50, 50, 60, 60});
  run.kv_period = 0;
  CHECK(at(5).kv_used_bytes == 1000);
}

TEST_CASE("distributions stand in their order, ticks and picoseconds alike in seconds", "[unit]") {
  ServingMetrics m;
  m.ps_per_tick = 1000;
  std::string text;
  for (const Distribution& d : distributions(m)) text += fmt::format("{} {:g} ", d.name, d.unit_s);
  CHECK(text == "ttft 1e-09 tbt 1e-12 tpot 1e-12 e2e 1e-09 queueing 1e-09 normalised_latency 1e-12 ");
  CHECK(distributions(m)[0].samples == &m.ttft);
  CHECK(distributions(m)[4].samples == &m.queueing);
}

TEST_CASE("facts of a machine are summed over its devices, and over those that replicas use", "[unit]") {
  MachineFacts machine;
  machine.devices = {{.part = "a", .devices = 3, .idle_watts = 10}, {.part = "b", .devices = 1, .idle_watts = 5}};
  machine.groups.resize(2);
  machine.groups[0].replicas = 2;
  machine.groups[0].devices = 4;
  machine.groups[0].peak_flops = 100;
  machine.groups[0].peak_bytes_per_s = 7;
  machine.groups[1].peak_flops = 1;
  machine.groups[1].peak_bytes_per_s = 2;
  CHECK(machine.replicas() == 3);
  CHECK(machine.idle_watts() == 35);
  CHECK(machine.peak_flops() == 801);
  CHECK(machine.peak_bytes_per_s() == 58);
}

TEST_CASE("places of a cache: held, with a token, to be used, and lost", "[unit]") {
  KvSplit split;
  split.add(100, 30, 20, 25);  // 10 spare, 5 of them are to come
  split.add(100, 30, 20, 40);  // all 10 are
  split.add(100, 30, 20, 10);  // none is
  split.add(100, 20, 30, 30);  // tokens that others hold too
  CHECK(static_cast<std::int64_t>(split.total) == 400);
  CHECK(static_cast<std::int64_t>(split.token) == 80);
  CHECK(static_cast<std::int64_t>(split.reserved) == 15);
  CHECK(static_cast<std::int64_t>(split.internal) == 15);
  KvOutcome outcome;
  outcome.cached_tokens = 30;
  outcome.add({.evicted_blocks = 1, .moved_tokens = 2, .shared_steps = 3, .unshared_steps = 12});
  outcome.add({.evicted_blocks = 10, .moved_tokens = 20, .shared_steps = 6, .unshared_steps = 6});
  CHECK(summarise(outcome, 120).find("split") == nullptr);
  outcome.split.add(split);
  outcome.split.add(split);
  const sim::Node node = summarise(outcome, 120);
  const auto number = [&](const char* path) { return node.at(path)->as_number(); };
  CHECK(number("hit_rate") == 0.25);
  CHECK(number("cached_tokens") == 30);
  CHECK(number("evicted_blocks") == 11);
  CHECK(number("moved_tokens") == 22);
  CHECK(number("block_saving") == 0.5);  // 18 unshared, 9 shared
  CHECK(number("split.token") == 0.2);
  CHECK(number("split.reserved") == Approx(15.0 / 400));
  CHECK(number("split.internal") == Approx(15.0 / 400));
  CHECK(number("split.external") == Approx(1 - 0.2 - 30.0 / 400));
}

TEST_CASE("the device time of tokens goes to prompts and decodes in equal parts", "[unit]") {
  TokenTimes times(nullptr);
  CHECK(times.prompt_share() == 0);
  IterationRun run;
  run.count = 3;
  run.time_ps = 100;
  run.step_ps = 100;
  run.prefill_tokens = 3;
  run.decodes = 1;
  times.iterations_ended(run);  // 600 ps, three quarters of them
  CHECK(times.prompt_share() == Approx(0.75));
  run.prefill_tokens = 0;
  times.iterations_ended(run);
  CHECK(times.prompt_share() == Approx(0.375));
  run.decodes = 0;
  times.iterations_ended(run);
  CHECK(times.prompt_share() == Approx(0.375));
}

TEST_CASE("series.csv: the iteration under way at each point, and the power since the point before", "[unit]") {
  // Idle at 10 W. Iterations of 1 s from 0.5 s on take 8, 10 and 12 J. Up to 1 s half of the first, up to 2 s the rest
  // of it and half of the second; the third ends at 3.5 s.
  const Scratch scratch;
  FileFacts facts;
  facts.series_interval = sim::Duration{kSecond};
  facts.streams = {{.replica = 0, .name = "a", .idle_watts = 10}, {.replica = 1, .name = "b", .idle_watts = 2}};
  {
    ServingFiles files(scratch / "", facts);
    IterationRun run;
    run.stream = 1;
    run.replica = 1;
    run.start = sim::Time{5 * kSecond / 2};
    run.time_ps = kSecond / 4;
    run.energy_pj = 3 * kSecond;
    run.decodes = 1;
    files.iterations_ended(run);  // within an interval
    run = {};
    run.start = sim::Time{kSecond / 2};
    run.count = 3;
    run.time_ps = kSecond;
    run.energy_pj = 8 * kSecond;
    run.step_energy_pj = 2 * kSecond;
    run.prefill_tokens = 4;
    run.decodes = 3;
    run.running = 5;
    run.waiting = 6;
    run.kv_used_bytes = 70;
    files.iterations_ended(run);
    files.finish(sim::Time{17 * kSecond / 4});
  }
  CHECK(slurp(scratch / "series.csv") ==
        "time_s,replica,running,waiting,kv_used_bytes,batch_tokens,power_w\n"
        "0,0,0,0,0,0,10\n"
        "1,0,5,6,70,7,14\n"
        "2,0,5,6,70,7,19\n"
        "3,0,5,6,70,7,21\n"
        "4,0,0,0,0,0,16\n"
        "4.25,0,0,0,0,0,10\n"
        "0,1,0,0,0,0,2\n"
        "2,1,0,0,0,0,2\n"
        "3,1,0,0,0,0,5\n"
        "4,1,0,0,0,0,2\n"
        "4.25,1,0,0,0,0,2\n");
}

TEST_CASE("series.csv: devices that are switched off draw their share from then on", "[unit]") {
  // 10 W and 3 W of others; off to a quarter at 1.5 s, on at 3 s: 13 W, then 5.5, of half an interval each.
  const Scratch scratch;
  FileFacts facts;
  facts.series_interval = sim::Duration{kSecond};
  facts.streams = {{.replica = 0, .name = "a", .idle_watts = 10, .other_watts = 3},
                   {.replica = 1, .name = "b", .idle_watts = 1}};
  {
    ServingFiles files(scratch / "", facts);
    files.power_changed(0, sim::Time{3 * kSecond / 2}, 0.25);
    files.power_changed(0, sim::Time{3 * kSecond}, 1);
    files.finish(sim::Time{5 * kSecond});
  }
  CHECK(slurp(scratch / "series.csv") ==
        "time_s,replica,running,waiting,kv_used_bytes,batch_tokens,power_w\n"
        "0,0,0,0,0,0,13\n"
        "1,0,0,0,0,0,13\n"
        "2,0,0,0,0,0,9.25\n"
        "3,0,0,0,0,0,5.5\n"
        "4,0,0,0,0,0,13\n"
        "5,0,0,0,0,0,13\n"
        "0,1,0,0,0,0,1\n"
        "4,1,0,0,0,0,1\n"
        "5,1,0,0,0,0,1\n");
}

TEST_CASE("series.csv: iterations shorter than a tick have their energy at once; the last rows end the run", "[unit]") {
  const Scratch scratch;
  FileFacts facts;
  facts.scale = sim::TickScale{kSecond / 10};  // of 0.1 s
  facts.series_interval = sim::Duration{10};
  facts.streams = {{.replica = 0, .name = "a", .idle_watts = 1}};
  {
    ServingFiles files(scratch / "", facts);
    IterationRun run;
    run.start = sim::Time{9};
    run.count = 8;
    run.time_ps = kSecond / 40;  // four in a tick: 0.9 to 1.1 s
    run.energy_pj = kSecond;
    files.iterations_ended(run);
    files.finish(sim::Time{10});
  }
  const std::vector<Row> rows = read_csv(scratch / "series.csv");
  double joules = 0, last = 0;
  for (const Row& row : rows) {
    joules += (std::stod(row.at("power_w")) - 1) * (std::stod(row.at("time_s")) - last);
    last = std::stod(row.at("time_s"));
  }
  CHECK(rows.size() == 2);
  CHECK(joules == Approx(4).margin(1));  // what ends by 1 s
}

TEST_CASE("rows of all replicas but the first wait in a file of their own where they are many", "[unit]") {
  const Scratch scratch;
  FileFacts facts;
  facts.series_interval = sim::Duration{1};
  facts.streams = {{.replica = 0, .name = "a"}, {.replica = 1, .name = "b"}, {.replica = 2, .name = "c"}};
  constexpr std::int64_t kRows = 130'000;  // of some 34 bytes: above 4 MiB once
  {
    ServingFiles files(scratch / "", facts);
    IterationRun run;
    run.stream = run.replica = 1;
    run.time_ps = kRows;
    run.running = 123'456'789;
    files.iterations_ended(run);
    CHECK(fs::exists(scratch / "series.1.part"));
    CHECK_FALSE(fs::exists(scratch / "series.2.part"));
    files.finish(sim::Time{kRows});
  }
  CHECK_FALSE(fs::exists(scratch / "series.1.part"));
  std::int64_t of_first = 0, of_second = 0, of_third = 0;
  std::ifstream file(scratch / "series.csv");
  std::string line, last;
  bool ordered = true;
  while (std::getline(file, line)) {
    of_first += line.find(",0,0,0,0,0,") != std::string::npos ? 1 : 0;
    of_third += line.find(",2,0,0,0,0,") != std::string::npos ? 1 : 0;
    if (line.find(",1,123456789,") == std::string::npos) continue;
    ++of_second;
    ordered = ordered && (line.size() > last.size() || line > last);
    last = line;
  }
  CHECK(of_second == kRows);
  CHECK(ordered);
  CHECK(of_first >= 3);
  CHECK(of_third >= 3);
}

TEST_CASE("requests.csv: a row as a request ends, what did not happen left empty", "[unit]") {
  const Scratch scratch;
  FileFacts facts;
  facts.series_interval = sim::Duration{kSecond};
  facts.streams.resize(1);
  {
    ServingFiles files(scratch / "", facts);
    CHECK_FALSE(files.wants_steps());
    RequestRecord record = completed(kSecond, 2 * kSecond, 3 * kSecond, 9 * kSecond / 2, 7);
    record.id = 5;
    record.cached_tokens = 4;
    record.preemptions = 1;
    record.replica = 2;
    files.request_ended(record);
    RequestRecord lost;
    lost.id = 6;
    lost.status = "rejected:queue";
    files.request_ended(lost);
    files.finish(sim::Time{0});
    CHECK(files.notes(9).empty());
  }
  CHECK(slurp(scratch / "requests.csv") ==
        "id,arrived_s,admitted_s,first_token_s,finished_s,prompt_tokens,output_tokens,cached_tokens,preemptions,"
        "replica,status\n"
        "5,1,2,3,4.5,10,7,4,1,2,completed\n"
        "6,0,,,,0,0,0,0,0,rejected:queue\n");
}

TEST_CASE("energy.csv: devices of each group in order, those that nobody uses idle", "[unit]") {
  // A replica of two devices and two stages: each stage has half of the time. Then one that is off for 6 of 10 s.
  const Scratch scratch;
  MachineFacts machine;
  machine.devices = {{.part = "x", .devices = 4, .idle_watts = 3},
                     {.part = "y", .devices = 1, .idle_watts = 2},
                     {.part = "x", .devices = 1, .idle_watts = 7}};
  machine.groups.resize(2);
  machine.groups[0].devices = 2;
  machine.groups[0].stages = 2;
  machine.groups[1].device_group = 1;
  machine.groups[1].lanes = 4;
  std::vector<ReplicaResult> replicas(2);
  replicas[0].cost.class_ps[0] = 4 * kSecond;
  replicas[0].cost.class_pj[0] = 10 * kSecond;
  replicas[1].group = 1;
  replicas[1].cost.class_ps[1] = 2 * kSecond;
  replicas[1].cost.class_pj[1] = 3 * kSecond;
  replicas[1].off_ps = 6 * kSecond;
  replicas[1].off_power = 0.5;
  write_energy(scratch / "energy.csv", replicas, machine, 10);
  const auto name = [](std::size_t op) { return std::string(hw::to_string(static_cast<hw::OpClass>(op))); };
  CHECK(slurp(scratch / "energy.csv") ==
        "device,class,energy_j,busy_s\n"
        "x[0]," +
            name(0) +
            ",5,2\nx[0],idle,30,0\n"
            "x[1]," +
            name(0) +
            ",5,2\nx[1],idle,30,0\n"
            "x[2],idle,30,0\nx[3],idle,30,0\n"
            "y[0]," +
            name(1) +
            ",3,0.5\ny[0],idle,14,0\n"
            "x[4],idle,70,0\n");
  // Of layouts, the time of all classes over that of the devices: 4 s of 2.
  machine.groups[0].layouts = 2;
  replicas[0].busy_ps = 2 * kSecond;
  write_energy(scratch / "energy.csv", {replicas[0]}, machine, 10);
  CHECK_THAT(slurp(scratch / "energy.csv"), Catch::Contains("x[1]," + name(0) + ",5,2\n"));
  replicas[0].busy_ps = kSecond;
  replicas[0].off_ps = 10 * kSecond + 5;  // off all the time, and a rounding more
  write_energy(scratch / "energy.csv", {replicas[0]}, machine, 10);
  CHECK_THAT(slurp(scratch / "energy.csv"), Catch::Contains("x[1]," + name(0) + ",5,1\nx[1],idle,0,0\n"));
}

TEST_CASE("distributions.csv: even quantiles and the tail, of what has samples", "[unit]") {
  const Scratch scratch;
  ServingMetrics m;
  m.ps_per_tick = 1000;
  for (std::int64_t i = 0; i <= 1000; ++i) m.e2e.add(i * 1'000'000'000);
  m.tbt.add(kSecond);
  write_distributions(scratch / "d.csv", m);
  const std::vector<Row> rows = read_csv(scratch / "d.csv");
  REQUIRE(rows.size() == 2 * (199 + 7));
  CHECK(rows[0].at("metric") == "tbt");
  CHECK(rows[0].at("value_s") == "1");
  const auto of = [&](std::size_t i) { return rows[206 + i].at("quantile") + " " + rows[206 + i].at("value_s"); };
  CHECK(rows[206].at("metric") == "e2e");
  CHECK(of(0) == "0 0");
  CHECK(of(1) == "0.005 5");
  CHECK(of(198) == "0.99 990");
  CHECK(of(199) == "0.992 992");
  CHECK(of(204) == "0.9999 999.9");
  CHECK(of(205) == "1 1000");
}

}  // namespace test_run_rows
