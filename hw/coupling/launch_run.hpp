// Launches on a clock: a CPU thread calls, a bounded queue holds, streams execute in order.
//
// A program is the list of what the thread does. Per command: `host` of framework time, then the call at time c. Where
// the stream's queue is full, the thread blocks until its oldest launch starts; the launch enters at e, the thread goes
// on at e + call, and the command may start on the device from e + latency on, after what precedes it in its stream and
// when one of the device's places (kernels) or copy engines (copies) is free, first come first served. A launch leaves
// the queue when it starts. `record` marks where a stream is, `wait` holds a stream back until then (an event not yet
// recorded holds nothing back, as in CUDA), `synchronise` holds the thread back until all streams are empty. A chained
// command has no call: it follows the command before it as the next node of the same launch (a graph, a persistent
// kernel, a fused chain).
//
// `single_stream` is the same in closed form, a max-plus recurrence, for kernels of one stream:
//   c[i] = r[i-1] + host[i]          e[i] = max(c[i], s[i-Q])       r[i] = e[i] + call[i]
//   s[i] = max(e[i] + latency, t[i-1])       t[i] = s[i] + device[i]
// with s, t, Q: start, end, entries of the queue. The two are equal to the last tick (tests/hw/test_launch_run.cpp).
// Left out: kernels of different streams slowing each other, priorities of streams, interrupts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hw/coupling/transfer.hpp"
#include "sim/base/units.hpp"

namespace orrery::hw {

enum class CommandKind : std::uint8_t { kernel, copy, record, wait, synchronise };

/// One thing that the dispatching thread does.
struct Command {
  CommandKind kind = CommandKind::kernel;
  CopyDirection direction = CopyDirection::to_device;  ///< of a copy
  bool chained = false;                                ///< a further kernel of the launch before it
  bool blocking = false;                               ///< the thread waits until it is done
  std::int32_t stream = 0;
  std::int32_t event = 0;  ///< of record and wait
  sim::Duration host;      ///< CPU time before the call
  sim::Duration call;      ///< CPU time of the call
  sim::Duration device;    ///< time on the device or the copy engine
};

/// Front end of a device.
struct LaunchLimits {
  sim::Duration latency;
  std::int64_t queue_entries = 1024;  ///< of each stream
  std::int64_t concurrent_kernels = 1;
  std::int64_t copy_engines = 2;
};

/// When a command happened. `call` of a chained command is that of its launch.
struct CommandTiming {
  sim::Time host_begin, call, returned;
  sim::Time begin, end;  ///< on the device
};

struct LaunchRun {
  std::vector<CommandTiming> timings;  ///< one a command
  std::uint64_t events = 0;            ///< of the engine
};

/// Throws std::invalid_argument for a program that makes no sense: a negative time or stream, an event recorded twice,
/// a chained command that follows no kernel of its stream.
void check_program(std::span<const Command> program);

/// Runs a program on an engine of its own. Throws as check_program() does.
LaunchRun run_launches(const LaunchLimits& limits, std::span<const Command> program);

/// The closed form. Throws std::invalid_argument if the program is not kernels of one stream.
std::vector<CommandTiming> single_stream(const LaunchLimits& limits, std::span<const Command> program);

}  // namespace orrery::hw
