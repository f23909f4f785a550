// Processes: N of them, each looping over a random delay. One iteration is one resume; compare with hold/N.
#include <benchmark/benchmark.h>

#include "sim/resources.hpp"
#include "sim/when.hpp"
#include "tests/bench/star.hpp"

namespace {

using namespace orrery::sim;

Process looper(Engine& engine, std::uint64_t& draws) {
  while (true) co_await engine.delay(Duration{static_cast<std::int64_t>(orrery::bench::mix64(draws++) >> 44)});
}

void coroutine(benchmark::State& state) {
  Engine engine;
  std::uint64_t draws = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) engine.processes().spawn("looper", looper(engine, draws));
  for (std::int64_t i = 0; i < state.range(0); ++i) engine.step();  // they start
  const Time start = engine.now();
  for (auto _ : state) engine.step();
  state.SetItemsProcessed(state.iterations());
  state.counters["simulated_s"] = engine.scale().seconds(engine.now() - start);
}
BENCHMARK(coroutine)->Arg(100)->Arg(10'000)->Arg(1'000'000);

/// Runs a process that does `body` once an iteration, in one engine.
template <class Body>
void in_process(benchmark::State& state, Engine& engine, Body body) {
  const auto loop = [](Engine& e, benchmark::State& s, Body& b) -> Process {
    for (auto _ : s) co_await b(e);
  };
  engine.processes().spawn("loop", loop(engine, state, body));
  engine.run();
  state.SetItemsProcessed(state.iterations());
}

Task<int> child(Engine&) {
  co_return 1;
}

void coroutine_child(benchmark::State& state) {
  Engine engine;
  in_process(state, engine, [](Engine& e) { return child(e); });
}
BENCHMARK(coroutine_child);

void coroutine_spawn_join(benchmark::State& state) {
  Engine engine;
  const auto once = [](Engine&) -> Process { co_return; };
  in_process(state, engine, [&](Engine& e) { return e.processes().spawn("once", once(e)).join(); });
}
BENCHMARK(coroutine_spawn_join);

void coroutine_use(benchmark::State& state) {
  Engine engine;
  Server server(engine, "server");
  in_process(state, engine, [&](Engine&) { return server.use(Duration{1}); });
}
BENCHMARK(coroutine_use);

void coroutine_acquire(benchmark::State& state) {
  Engine engine;
  TokenPool pool(engine, "pool", 4);
  in_process(state, engine, [&](Engine&) { return pool.acquire(3); });
}
BENCHMARK(coroutine_acquire);

void coroutine_shared(benchmark::State& state) {
  Engine engine;
  ProcessorSharing shared(engine, "shared");
  in_process(state, engine, [&](Engine&) { return shared.use(Duration{1}); });
}
BENCHMARK(coroutine_shared);

/// Two processes that hand a value to and fro: two sends and two receives an iteration.
void coroutine_channel(benchmark::State& state) {
  Engine engine;
  Channel<int> there(engine, "there", 1), back(engine, "back", 1);
  const auto echo = [](Engine&, Channel<int>& in, Channel<int>& out) -> Process {
    while (const std::optional<int> x = co_await in.receive()) co_await out.send(*x);
  };
  const auto drive = [](Engine&, benchmark::State& s, Channel<int>& out, Channel<int>& in) -> Process {
    for (auto _ : s) {
      co_await out.send(1);
      (void)co_await in.receive();
    }
    out.close();
  };
  engine.processes().spawn("echo", echo(engine, there, back));
  engine.processes().spawn("drive", drive(engine, state, there, back));
  engine.run();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(coroutine_channel);

/// A receive with a timeout that never comes: when_any over two plain awaitables.
void coroutine_timeout(benchmark::State& state) {
  Engine engine;
  Channel<int> channel(engine, "channel");
  const auto drive = [](Engine& e, benchmark::State& s, Channel<int>& c) -> Process {
    for (auto _ : s) {
      c.try_send(1);
      (void)co_await when_any(c.receive(), e.delay(Duration{1}));
    }
  };
  engine.processes().spawn("drive", drive(engine, state, channel));
  engine.run();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(coroutine_timeout);

}  // namespace
