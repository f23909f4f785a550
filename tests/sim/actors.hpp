// Small processes that tests of resources share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/resources.hpp"

namespace orrery::test {

using namespace orrery::sim;
/// What happened: at which tick, and what.
using Log = std::vector<std::pair<std::int64_t, std::string>>;

/// Comes at `at`, is served for `service`, and notes when it ends.
inline Process customer(Engine& engine, Server& server, Log& log, std::string name, std::int64_t at,
                        std::int64_t service, std::int64_t priority = 0) {
  co_await engine.delay(Duration{at});
  co_await server.use(Duration{service}, priority);
  log.emplace_back(engine.now().ticks, name);
}

inline Process holder(Engine& engine, Server& server, Log& log, std::string name, std::int64_t hold_for) {
  const Hold hold = co_await server.acquire();
  log.emplace_back(engine.now().ticks, name);
  co_await engine.delay(Duration{hold_for});
}

inline Process taker(Engine& engine, TokenPool& pool, Log& log, std::string name, std::int64_t at, std::int64_t count,
                     std::int64_t hold_for) {
  co_await engine.delay(Duration{at});
  const Tokens tokens = co_await pool.acquire(count);
  log.emplace_back(engine.now().ticks, name);
  co_await engine.delay(Duration{hold_for});
}

inline Process sharer(Engine& engine, ProcessorSharing& shared, Log& log, std::string name, std::int64_t at,
                      std::int64_t work, std::int64_t weight = 1) {
  co_await engine.delay(Duration{at});
  co_await shared.use(Duration{work}, weight);
  log.emplace_back(engine.now().ticks, name);
}

inline Process receiver(Engine& engine, Channel<int>& channel, Log& log, std::string name) {
  while (const std::optional<int> x = co_await channel.receive())
    log.emplace_back(engine.now().ticks, name + std::to_string(*x));
  log.emplace_back(engine.now().ticks, name + " ends");
}

inline Process waits_for(Engine&, Signal& signal) {
  co_await signal.wait();
}

/// An event that does nothing: while it is pending nobody is deadlocked.
struct Later : EventHandler {
  explicit Later(Engine& engine) { engine.schedule_at(Time{1000}, *this); }
  void on_event(std::uint64_t) override {}
};

inline Log::value_type at(std::int64_t ticks, const char* name) {
  return {ticks, name};
}

}  // namespace orrery::test
