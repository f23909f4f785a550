// What a trace of launches says: TKLQT and its companions.
//
//   TKLQT     sum over launches of start(kernel) - start(call): launch latency and waiting in the queue. As in the
//             authors' tool a sample in (-10 us, 0), the error of two clocks, counts as 0 and one below is dropped.
//   AKD       mean duration of a kernel
//   IL        end of the last kernel - start of the first operator
//   GPU idle  IL - sum of kernel durations (below zero where kernels overlap)
//   queued    TKLQT / IL: launches under way but not started, on average (Little's law)
// The CPU bounds a run while the dispatching thread is what it waits for: `bound` compares what the thread was busy
// with what the device was busy. Source: SKIP (ISPASS 2025, arXiv 2504.11750), Eq. 1 and its companions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "hw/coupling/launch_run.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class LaunchBound : std::uint8_t { cpu, gpu };
constexpr auto enum_names(LaunchBound) {
  using enum LaunchBound;
  return sim::names<LaunchBound>({{"cpu", cpu}, {"gpu", gpu}});
}

struct LaunchFigures {
  std::int64_t launches = 0, kernels = 0;
  std::int64_t dropped = 0;  ///< samples below -10 us
  double tklqt_s = 0, akd_s = 0, il_s = 0, gpu_busy_s = 0, gpu_idle_s = 0;
  double cpu_busy_s = 0;  ///< framework and calls; time blocked by a full queue is not busy
  double queued = 0;
  LaunchBound bound = LaunchBound::cpu;
};

/// One kernel as a profiler sees it, in s from any zero.
struct KernelSample {
  double call_s = 0, begin_s = 0, end_s = 0;
  bool launched = true;  ///< false for a further node of a launch
};

/// Figures of samples whose first operator starts at `begin_s`; cpu_busy_s and bound are left as they are.
LaunchFigures analyse(std::span<const KernelSample> samples, double begin_s);
/// Figures of a run; copies, records and waits are not kernels.
LaunchFigures analyse(std::span<const Command> program, std::span<const CommandTiming> timings, sim::TickScale scale);

}  // namespace orrery::hw
