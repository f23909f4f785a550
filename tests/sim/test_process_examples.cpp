// The examples of docs/explain/processes.md, compiled and run; a check holds the page to this file.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/resources.hpp"
#include "sim/when.hpp"

namespace test_process_examples {

using namespace orrery::sim;

namespace {

Process client(Engine& engine, Server& gpu, int jobs) {
  for (int i = 0; i < jobs; ++i) {
    co_await engine.delay(Duration{5});
    co_await gpu.use(Duration{10});
  }
}

Task<int> measure(Engine& engine, int value) {
  co_await engine.delay(Duration{1});
  co_return value;
}

Process parent(Engine& engine, int& sum) {
  const int a = co_await measure(engine, 1);
  const int b = co_await measure(engine, 2);
  sum = a + b;
}

Process supervisor(Engine& engine, Server& gpu) {
  const ProcessHandle worker = engine.processes().spawn("worker", client(engine, gpu, 1000));
  co_await engine.delay(Duration{40});
  worker.cancel();
  co_await worker.join();  // over at once: it is done
}

Process interactive(Engine&, Server& cpu) {
  co_await cpu.use(Duration{2}, 0);  // more urgent than
}
Process batch(Engine&, Server& cpu) {
  co_await cpu.use(Duration{100}, 9);  // this, which goes on where it was preempted
}

Process exclusive(Engine& engine, Server& room) {
  const Hold hold = co_await room.acquire();
  co_await engine.delay(Duration{3});
}

Process load(Engine& engine, TokenPool& memory) {
  Tokens tokens = co_await memory.acquire(3);
  co_await engine.delay(Duration{10});
  tokens.release();  // before the end of the scope
}

Process job(Engine&, ProcessorSharing& cores) {
  co_await cores.use(Duration{100});
  co_await cores.use(Duration{100}, 2);  // twice the share
}

Process producer(Engine& engine, Channel<int>& requests) {
  for (int i = 0; i < 3; ++i) {
    co_await engine.delay(Duration{1});
    co_await requests.send(i);
  }
  requests.close();
}
Process consumer(Engine& engine, Channel<int>& requests, int& sum) {
  while (const std::optional<int> x = co_await requests.receive()) {
    co_await engine.delay(Duration{4});
    sum += *x;
  }
}

Process starts_late(Engine&, Signal& warm, int& started) {
  co_await warm.wait();
  ++started;
}

Process client_with_timeout(Engine& engine, Channel<int>& answers, int& timeouts) {
  const auto first = co_await when_any(answers.receive(), engine.delay(Duration{50}));
  if (first.index == 1) ++timeouts;
}
Process fork_and_join(Engine& engine, int& sum) {
  const auto [a, b] = co_await when_all(measure(engine, 1), measure(engine, 2));
  sum = a + b;
}

}  // namespace

TEST_CASE("examples: a client at a station", "[unit][process]") {
  Engine engine;
  Server gpu(engine, "gpu");
  engine.processes().spawn("client", client(engine, gpu, 3));
  engine.run();
  CHECK(engine.now() == Time{3 * (5 + 10)});
}

TEST_CASE("examples: tasks and handles", "[unit][process]") {
  Engine engine;
  Server gpu(engine, "gpu");
  int sum = 0;
  engine.processes().spawn("parent", parent(engine, sum));
  engine.run();
  CHECK(sum == 3);
  CHECK(engine.now() == Time{2});
  engine.processes().spawn("supervisor", supervisor(engine, gpu));
  engine.run();
  CHECK(engine.now() == Time{42});
  CHECK(gpu.statistics().served == 2);  // ends at 15 and 30 of the 40; the third is in service from 35
  CHECK(gpu.statistics().cancelled == 1);
}

TEST_CASE("examples: stations and pools", "[unit][process]") {
  Engine engine;
  Server cpu(engine, "cpu", 1, Discipline::preempt_resume), room(engine, "room");
  TokenPool memory(engine, "memory", 8);
  engine.processes().spawn("batch", batch(engine, cpu));
  engine.run(Time{0});
  engine.processes().spawn("interactive", interactive(engine, cpu));
  for (int i = 0; i < 2; ++i) engine.processes().spawn("exclusive", exclusive(engine, room));
  for (int i = 0; i < 3; ++i) engine.processes().spawn("load", load(engine, memory));
  engine.run(Time{6});
  CHECK(room.statistics().served == 2);  // 3 ticks each
  CHECK(memory.free() == 2);             // two of them fit
  engine.run();
  CHECK(memory.free() == 8);
  CHECK(cpu.statistics().preempted == 1);
  CHECK(engine.now() == Time{102});
}

TEST_CASE("examples: sharing", "[unit][process]") {
  Engine engine;
  ProcessorSharing cores(engine, "cores", 2, 1);
  for (int i = 0; i < 2; ++i) engine.processes().spawn("job", job(engine, cores));
  engine.run();
  CHECK(engine.now() == Time{200});  // one core each to 100; then weight 4 on 2 cores: each runs at 2 * 2/4 = 1
}

TEST_CASE("examples: channels, signals and groups", "[unit][process]") {
  Engine engine;
  Channel<int> requests(engine, "requests", 1), answers(engine, "answers");
  Signal warm(engine, "warm");
  int sum = 0, started = 0, timeouts = 0, forked = 0;
  engine.processes().spawn("producer", producer(engine, requests));
  engine.processes().spawn("consumer", consumer(engine, requests, sum));
  engine.processes().spawn("starts_late", starts_late(engine, warm, started));
  engine.processes().spawn("client_with_timeout", client_with_timeout(engine, answers, timeouts));
  engine.processes().spawn("fork_and_join", fork_and_join(engine, forked));
  engine.run(Time{20});
  CHECK(sum == 0 + 1 + 2);
  CHECK(forked == 3);
  CHECK(started == 0);
  warm.set();
  engine.run();
  CHECK(started == 1);
  CHECK(timeouts == 1);
  CHECK(engine.now() == Time{50});
}

TEST_CASE("docs/explain/processes.md shows the code that is there", "[structure]") {
  const std::filesystem::path root(ORRERY_SOURCE_DIR);
  std::ifstream own(root / "tests/sim/test_process_examples.cpp");
  const std::string code{std::istreambuf_iterator<char>(own), {}};
  std::ifstream page(root / "docs/explain/processes.md");
  bool inside = false;
  int lines = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.find("```") != std::string::npos) {
      inside = line == "```cpp";
      continue;
    }
    if (!inside || line.empty()) continue;
    ++lines;
    INFO(line);
    CHECK(code.find(line) != std::string::npos);
  }
  CHECK(lines > 60);
}

}  // namespace test_process_examples
