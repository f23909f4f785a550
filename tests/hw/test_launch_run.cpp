// The event model of launches against hand-worked programs, and against its closed form on random ones.
#include <catch2/catch.hpp>
#include <random>

#include "hw/coupling/launch_figures.hpp"
#include "hw/coupling/launch_run.hpp"

namespace test_launch_run {

using namespace orrery::hw;
using Catch::Contains;
using orrery::sim::Duration;
using orrery::sim::TickScale;
using orrery::sim::Time;

namespace {

constexpr std::int64_t kNs = 1000;  // ticks of 1 ps

Command kernel(std::int64_t host_ns, std::int64_t call_ns, std::int64_t device_ns, std::int32_t stream = 0) {
  return {.stream = stream,
          .host = Duration{host_ns * kNs},
          .call = Duration{call_ns * kNs},
          .device = Duration{device_ns * kNs}};
}
Command chained(std::int64_t device_ns) {
  Command command = kernel(0, 0, device_ns);
  command.chained = true;
  return command;
}
Command other(CommandKind kind, std::int32_t stream, std::int32_t event = 0, std::int64_t device_ns = 0) {
  Command command = kernel(0, 0, device_ns, stream);
  command.kind = kind;
  command.event = event;
  return command;
}
std::int64_t ns(Time time) {
  REQUIRE(time.ticks % kNs == 0);
  return time.ticks / kNs;
}
LaunchLimits limits(std::int64_t latency_ns, std::int64_t entries = 1024) {
  return {.latency = Duration{latency_ns * kNs}, .queue_entries = entries};
}

}  // namespace

TEST_CASE("launches: the CPU bounds a stream of short kernels", "[unit]") {
  // Host 10, call 2, latency 3, kernels of 4: calls at 10, 22, 34; each starts 3 after its call and ends 4 later.
  const std::vector<Command> program(3, kernel(10, 2, 4));
  const LaunchRun run = run_launches(limits(3), program);
  for (std::int64_t i = 0; i < 3; ++i) {
    const CommandTiming& timing = run.timings[static_cast<std::size_t>(i)];
    CHECK(ns(timing.host_begin) == 12 * i);
    CHECK(ns(timing.call) == 12 * i + 10);
    CHECK(ns(timing.returned) == 12 * i + 12);
    CHECK(ns(timing.begin) == 12 * i + 13);
    CHECK(ns(timing.end) == 12 * i + 17);
  }
  // TKLQT 3 x 3 ns, IL 41 ns, busy 12, idle 29; the thread was busy for 36.
  const LaunchFigures figures = analyse(program, run.timings, TickScale{1});
  CHECK(figures.tklqt_s == Approx(9e-9));
  CHECK(figures.il_s == Approx(41e-9));
  CHECK(figures.akd_s == Approx(4e-9));
  CHECK(figures.gpu_idle_s == Approx(29e-9));
  CHECK(figures.cpu_busy_s == Approx(36e-9));
  CHECK(figures.queued == Approx(9.0 / 41));
  CHECK(figures.bound == LaunchBound::cpu);
}

TEST_CASE("launches: long kernels queue up in their stream", "[unit]") {
  // Calls at 1, 3, 5; the first starts at 4; kernels of 100 follow each other: starts 4, 104, 204.
  const std::vector<Command> program(3, kernel(1, 1, 100));
  const LaunchRun run = run_launches(limits(3), program);
  CHECK(ns(run.timings[1].begin) == 104);
  CHECK(ns(run.timings[2].begin) == 204);
  // Waits 3, 101, 199.
  const LaunchFigures figures = analyse(program, run.timings, TickScale{1});
  CHECK(figures.tklqt_s == Approx(303e-9));
  CHECK(figures.bound == LaunchBound::gpu);
}

TEST_CASE("launches: a full queue blocks the dispatching thread", "[unit]") {
  // One entry, no host time, calls of 1, latency 0, kernels of 10. Launch 0 enters at 0 and starts at once; launch 1
  // enters at 1 and starts at 10; launch 2 calls at 2, enters when launch 1 starts (10), returns at 11, starts at 20.
  const std::vector<Command> program(4, kernel(0, 1, 10));
  const LaunchRun run = run_launches(limits(0, 1), program);
  CHECK(ns(run.timings[1].returned) == 2);
  CHECK(ns(run.timings[2].call) == 2);
  CHECK(ns(run.timings[2].returned) == 11);
  CHECK(ns(run.timings[3].call) == 11);
  CHECK(ns(run.timings[3].returned) == 21);
  CHECK(ns(run.timings[3].begin) == 30);
}

TEST_CASE("launches: chained kernels follow without calls", "[unit]") {
  // A graph of three nodes: call at 5, first node at 8, then 12 and 13.
  const std::vector<Command> program{kernel(5, 2, 4), chained(1), chained(6), kernel(0, 2, 1)};
  const LaunchRun run = run_launches(limits(3), program);
  CHECK(ns(run.timings[1].begin) == 12);
  CHECK(ns(run.timings[2].begin) == 13);
  CHECK(ns(run.timings[2].call) == 5);
  CHECK(ns(run.timings[3].call) == 7);
  CHECK(ns(run.timings[3].begin) == 19);
  const LaunchFigures figures = analyse(program, run.timings, TickScale{1});
  CHECK(figures.launches == 2);
  CHECK(figures.kernels == 4);
  CHECK(figures.tklqt_s == Approx(3e-9 + 12e-9));
}

TEST_CASE("launches: streams wait for each other's events, copies overlap kernels", "[unit]") {
  // Stream 1 copies from 0 to 50 and records; stream 0 runs a kernel 0-20, waits for the event, runs another 50-60.
  std::vector<Command> program{kernel(0, 0, 20),
                               other(CommandKind::copy, 1, 0, 50),
                               other(CommandKind::record, 1, 7),
                               other(CommandKind::wait, 0, 7),
                               kernel(0, 0, 10),
                               other(CommandKind::synchronise, 0)};
  const LaunchRun run = run_launches(limits(0), program);
  CHECK(ns(run.timings[1].begin) == 0);
  CHECK(ns(run.timings[2].end) == 50);
  CHECK(ns(run.timings[4].begin) == 50);
  CHECK(ns(run.timings[5].returned) == 60);
  // An event that nobody has recorded yet holds nothing back.
  program = {other(CommandKind::wait, 0, 3), kernel(0, 0, 5)};
  CHECK(ns(run_launches(limits(0), program).timings[1].begin) == 0);
}

TEST_CASE("launches: one copy engine carries one copy at a time, kernels share the device's places", "[unit]") {
  const std::vector<Command> copies{other(CommandKind::copy, 0, 0, 30), other(CommandKind::copy, 1, 0, 30)};
  LaunchLimits front = limits(0);
  CHECK(ns(run_launches(front, copies).timings[1].begin) == 0);
  front.copy_engines = 1;
  CHECK(ns(run_launches(front, copies).timings[1].begin) == 30);
  const std::vector<Command> kernels{kernel(0, 0, 30, 0), kernel(0, 0, 30, 1)};
  CHECK(ns(run_launches(front, kernels).timings[1].begin) == 30);
  front.concurrent_kernels = 2;
  CHECK(ns(run_launches(front, kernels).timings[1].begin) == 0);
}

TEST_CASE("launches: a blocking command keeps the thread until it is done", "[unit]") {
  std::vector<Command> program{other(CommandKind::copy, 0, 0, 40), kernel(1, 1, 1)};
  program[0].blocking = true;
  CHECK(ns(run_launches(limits(2), program).timings[1].call) == 43);
}

TEST_CASE("launches: the closed form equals the event model to the last tick", "[prop]") {
  std::mt19937_64 random(11);
  const auto draw = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t longest = trial % 3 == 0 ? 5 : trial % 3 == 1 ? 40 : 400;  // bound by either, with ties
    std::vector<Command> program;
    for (std::int64_t i = 0, n = 1 + draw(120); i < n; ++i) {
      program.push_back(kernel(draw(20), draw(4), draw(longest)));
      if (i > 0 && draw(3) == 0) program.back() = chained(draw(longest));
    }
    const LaunchLimits front = limits(draw(10), 1 + draw(trial % 2 == 0 ? 6 : 1023));
    const LaunchRun run = run_launches(front, program);
    const std::vector<CommandTiming> closed = single_stream(front, program);
    for (std::size_t i = 0; i < program.size(); ++i) {
      CAPTURE(trial, i);
      REQUIRE(run.timings[i].host_begin == closed[i].host_begin);
      REQUIRE(run.timings[i].call == closed[i].call);
      REQUIRE(run.timings[i].returned == closed[i].returned);
      REQUIRE(run.timings[i].begin == closed[i].begin);
      REQUIRE(run.timings[i].end == closed[i].end);
    }
  }
}

TEST_CASE("launches: bounds and monotony of a stream", "[prop]") {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<Command> program;
    for (int i = 0; i < 60; ++i)
      program.push_back(kernel(static_cast<std::int64_t>(random() % 20), 2, static_cast<std::int64_t>(random() % 40)));
    const LaunchLimits front = limits(3);
    const LaunchFigures figures = analyse(program, single_stream(front, program), TickScale{1});
    // At least what either of the two does alone, at most one after the other.
    const double most = figures.cpu_busy_s + figures.gpu_busy_s + 3e-9;
    CHECK(figures.il_s >= figures.gpu_busy_s);
    CHECK(figures.il_s >= figures.cpu_busy_s - 2e-9);
    CHECK(figures.il_s <= most * (1 + 1e-12));
    CHECK(figures.tklqt_s >= 60 * 3e-9 * (1 - 1e-12));
    // A longer kernel, a slower thread, a smaller queue: nothing comes earlier.
    for (int change = 0; change < 3; ++change) {
      std::vector<Command> slower = program;
      LaunchLimits tighter = front;
      if (change == 0) slower[random() % 60].device += Duration{7 * kNs};
      if (change == 1) slower[random() % 60].host += Duration{7 * kNs};
      if (change == 2) tighter.queue_entries = 2;
      CHECK(analyse(slower, single_stream(tighter, slower), TickScale{1}).il_s >= figures.il_s);
    }
  }
}

TEST_CASE("launches: samples before their call are clamped, or dropped", "[unit]") {
  // -5 us counts as 0, -10 us and below are dropped, 3 us stays: TKLQT 3 us of two launches.
  const std::vector<KernelSample> samples{{5e-6, 0, 1e-6}, {20e-6, 10e-6, 12e-6}, {20e-6, 23e-6, 25e-6}};
  const LaunchFigures figures = analyse(samples, 0);
  CHECK(figures.tklqt_s == Approx(3e-6));
  CHECK(figures.launches == 2);
  CHECK(figures.dropped == 1);
  CHECK(figures.il_s == Approx(25e-6));
  CHECK(figures.gpu_idle_s == Approx(20e-6));
  CHECK(analyse(std::vector<KernelSample>{}, 0).il_s == 0);
}

TEST_CASE("launches: programs that make no sense are refused", "[unit]") {
  CHECK_THROWS_WITH(run_launches(limits(0), std::vector<Command>{chained(1)}), Contains("follows no kernel"));
  CHECK_THROWS_WITH(run_launches(limits(0), std::vector<Command>{kernel(-1, 0, 0)}), Contains("a time below zero"));
  CHECK_THROWS_WITH(run_launches(limits(0), std::vector<Command>{kernel(0, 0, 0, -1)}), Contains("stream"));
  const Command record = other(CommandKind::record, 0, 1);
  CHECK_THROWS_WITH(run_launches(limits(0), std::vector<Command>{record, record}), Contains("recorded before"));
  CHECK_THROWS_WITH(single_stream(limits(0), std::vector<Command>{record}), Contains("expected a kernel"));
}

}  // namespace test_launch_run
