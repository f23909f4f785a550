#include "hw/coupling/launch_figures.hpp"

#include <algorithm>
#include <vector>

namespace orrery::hw {

LaunchFigures analyse(std::span<const KernelSample> samples, double begin_s) {
  constexpr double kClockError = 10e-6;  // of the authors' tool
  LaunchFigures figures;
  if (samples.empty()) return figures;
  double last_s = begin_s;
  for (const KernelSample& sample : samples) {
    ++figures.kernels;
    figures.gpu_busy_s += sample.end_s - sample.begin_s;
    last_s = std::max(last_s, sample.end_s);
    if (!sample.launched) continue;
    const double wait_s = sample.begin_s - sample.call_s;
    if (wait_s <= -kClockError) {
      ++figures.dropped;
      continue;
    }
    ++figures.launches;
    figures.tklqt_s += std::max(0.0, wait_s);
  }
  figures.akd_s = figures.gpu_busy_s / static_cast<double>(figures.kernels);
  figures.il_s = last_s - begin_s;
  figures.gpu_idle_s = figures.il_s - figures.gpu_busy_s;
  if (figures.il_s > 0) figures.queued = figures.tklqt_s / figures.il_s;
  return figures;
}

LaunchFigures analyse(std::span<const Command> program, std::span<const CommandTiming> timings, sim::TickScale scale) {
  std::vector<KernelSample> samples;
  samples.reserve(program.size());
  sim::Duration busy;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Command& command = program[i];
    if (!command.chained) busy += command.host + command.call;
    if (command.kind != CommandKind::kernel) continue;
    const CommandTiming& timing = timings[i];
    samples.push_back(
        {scale.seconds(timing.call), scale.seconds(timing.begin), scale.seconds(timing.end), !command.chained});
  }
  LaunchFigures figures = analyse(samples, timings.empty() ? 0 : scale.seconds(timings.front().host_begin));
  figures.cpu_busy_s = scale.seconds(busy);
  figures.bound = figures.gpu_busy_s > figures.cpu_busy_s ? LaunchBound::gpu : LaunchBound::cpu;
  return figures;
}

}  // namespace orrery::hw
