#include "hw/coupling/launch_run.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "sim/channel.hpp"
#include "sim/engine.hpp"
#include "sim/process.hpp"
#include "sim/server.hpp"
#include "sim/signal.hpp"
#include "sim/token_pool.hpp"

namespace orrery::hw {
namespace {

using sim::Duration;
using sim::Time;

[[noreturn]] void reject(std::size_t index, const char* what) {
  throw std::invalid_argument("command " + std::to_string(index) + ": " + what);
}

/// A launch on its way: a command and those chained to it.
struct Launch {
  std::size_t first = 0, count = 1;
  Time ready;
  bool waits = false;  ///< a `wait` whose event had been recorded when it was called
  sim::Tokens entry;
};

/// One stream: its queue and what became of it.
struct Stream {
  Stream(sim::Engine& engine, const std::string& name, std::int64_t capacity)
      : entries(engine, name + " queue", capacity), launches(engine, name) {}
  sim::TokenPool entries;
  sim::Channel<Launch> launches;
};

class Run {
 public:
  Run(const LaunchLimits& limits, std::span<const Command> program)
      : limits_(limits),
        program_(program),
        device_(engine_, "device", limits.concurrent_kernels),
        copies_(engine_, "copy engines", limits.copy_engines),
        idle_(engine_, "all streams are empty"),
        timings_(program.size()) {
    std::int32_t streams = 0;
    for (const Command& command : program) {
      streams = std::max(streams, command.stream + 1);
      if (command.kind == CommandKind::record || command.kind == CommandKind::wait)
        while (std::ssize(recorded_) <= command.event) {
          const std::string name = "event " + std::to_string(recorded_.size());
          reached_.emplace_back(engine_, name);
          recorded_.push_back(false);
        }
    }
    for (std::int32_t s = 0; s < streams; ++s)
      streams_.emplace_back(engine_, "stream " + std::to_string(s), limits.queue_entries);
    for (std::size_t i = 0; i < program.size(); ++i) done_.emplace_back(nullptr);
    idle_.set();
  }

  LaunchRun run() {
    for (Stream& stream : streams_) engine_.processes().spawn("stream", execute(engine_, stream));
    engine_.processes().spawn("dispatching thread", dispatch(engine_));
    engine_.run();
    return {std::move(timings_), engine_.events()};
  }

 private:
  /// The CPU thread.
  sim::Process dispatch(sim::Engine& engine) {
    for (std::size_t i = 0; i < program_.size();) {
      const Command& command = program_[i];
      CommandTiming& timing = timings_[i];
      timing.host_begin = engine.now();
      if (command.host.ticks > 0) co_await engine.delay(command.host);
      timing.call = engine.now();
      std::size_t count = 1;
      if (command.kind == CommandKind::synchronise) {
        if (command.call.ticks > 0) co_await engine.delay(command.call);
        co_await idle_.wait();
        timing.begin = timing.end = engine.now();
      } else {
        while (i + count < program_.size() && program_[i + count].chained) ++count;
        Stream& stream = streams_[static_cast<std::size_t>(command.stream)];
        sim::Tokens entry = co_await stream.entries.acquire(1);
        if (command.blocking) done_[i] = std::make_unique<sim::Signal>(engine, "a blocking command");
        send(stream, i, count, std::move(entry));
        if (command.call.ticks > 0) co_await engine.delay(command.call);
        if (command.blocking) co_await done_[i]->wait();
      }
      timing.returned = engine.now();
      for (std::size_t k = 1; k < count; ++k) {
        timings_[i + k].host_begin = timing.host_begin;
        timings_[i + k].call = timing.call;
        timings_[i + k].returned = timing.returned;
      }
      i += count;
    }
    for (Stream& stream : streams_) stream.launches.close();
  }

  void send(Stream& stream, std::size_t first, std::size_t count, sim::Tokens entry) {
    const Command& command = program_[first];
    const auto event = static_cast<std::size_t>(command.event);
    Launch launch{.first = first, .count = count, .ready = engine_.now() + limits_.latency, .entry = std::move(entry)};
    if (command.kind == CommandKind::record) recorded_[event] = true;
    launch.waits = command.kind == CommandKind::wait && recorded_[event];
    if (outstanding_++ == 0) idle_.reset();
    stream.launches.try_send(std::move(launch));
  }

  /// A stream of the device.
  sim::Process execute(sim::Engine& engine, Stream& stream) {
    while (std::optional<Launch> launch = co_await stream.launches.receive()) {
      if (launch->ready > engine.now()) co_await engine.delay(launch->ready - engine.now());
      for (std::size_t k = 0; k < launch->count; ++k) {
        const Command& command = program_[launch->first + k];
        CommandTiming& timing = timings_[launch->first + k];
        const auto event = static_cast<std::size_t>(command.event);
        if (launch->waits) co_await reached_[event].wait();
        sim::Hold place;
        if (command.kind == CommandKind::kernel) place = co_await device_.acquire();
        if (command.kind == CommandKind::copy) place = co_await copies_.acquire();
        launch->entry.release();
        timing.begin = engine.now();
        if (command.device.ticks > 0) co_await engine.delay(command.device);
        timing.end = engine.now();
        if (command.kind == CommandKind::record) reached_[event].set();
      }
      if (done_[launch->first]) done_[launch->first]->set();
      if (--outstanding_ == 0) idle_.set();
    }
  }

  LaunchLimits limits_;
  std::span<const Command> program_;
  sim::Engine engine_;
  sim::Server device_, copies_;
  std::deque<Stream> streams_;
  std::deque<sim::Signal> reached_;  // a signal an event
  std::vector<bool> recorded_;
  std::vector<std::unique_ptr<sim::Signal>> done_;
  sim::Signal idle_;
  std::int64_t outstanding_ = 0;
  std::vector<CommandTiming> timings_;
};

}  // namespace

void check_program(std::span<const Command> program) {
  std::set<std::int32_t> recorded;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Command& command = program[i];
    if (command.host.ticks < 0 || command.call.ticks < 0 || command.device.ticks < 0) reject(i, "a time below zero");
    if (command.stream < 0 || command.event < 0) reject(i, "a stream or event below zero");
    if (command.kind == CommandKind::record && !recorded.insert(command.event).second)
      reject(i, "an event that was recorded before");
    if (command.chained && (i == 0 || command.kind != CommandKind::kernel ||
                            program[i - 1].kind != CommandKind::kernel || program[i - 1].stream != command.stream))
      reject(i, "chained, but it follows no kernel of its stream");
  }
}

LaunchRun run_launches(const LaunchLimits& limits, std::span<const Command> program) {
  check_program(program);
  return Run(limits, program).run();
}

std::vector<CommandTiming> single_stream(const LaunchLimits& limits, std::span<const Command> program) {
  check_program(program);
  std::vector<CommandTiming> timings(program.size());
  std::vector<Time> starts;  // of launches
  Time returned, ended;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Command& command = program[i];
    if (command.kind != CommandKind::kernel || command.stream != 0 || command.blocking)
      reject(i, "expected a kernel of stream 0");
    CommandTiming& timing = timings[i];
    if (command.chained) {
      timing = timings[i - 1];
      timing.begin = ended;
    } else {
      timing.host_begin = returned;
      timing.call = returned + command.host;
      Time entered = timing.call;
      if (std::ssize(starts) >= limits.queue_entries)
        entered = std::max(entered, starts[starts.size() - static_cast<std::size_t>(limits.queue_entries)]);
      returned = timing.returned = entered + command.call;
      timing.begin = std::max(entered + limits.latency, ended);
      starts.push_back(timing.begin);
    }
    ended = timing.end = timing.begin + command.device;
  }
  return timings;
}

}  // namespace orrery::hw
