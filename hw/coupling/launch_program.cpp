#include "hw/coupling/launch_program.hpp"

#include <stdexcept>

namespace orrery::hw {

LaunchLimits limits_of(const Platform& platform, sim::TickScale scale) {
  const KernelLaunchParams& launch = platform.params.launch;
  return {.latency = scale.duration(launch.latency_s),
          .queue_entries = launch.queue_entries,
          .concurrent_kernels = launch.concurrent_kernels,
          .copy_engines = platform.params.copies.engines};
}

std::vector<Command> build_program(const Platform& platform, const CostModel& cost,
                                   std::span<const LaunchedKernel> kernels, LaunchStyle style, sim::TickScale scale,
                                   std::int64_t chain) {
  if (chain < 1) throw std::invalid_argument("expected a chain of at least one kernel");
  const KernelLaunchParams& launch = platform.params.launch;
  std::vector<Command> program;
  program.reserve(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const LaunchedKernel& kernel = kernels[i];
    const double cost_s = cost.cost(kernel.kernel).time_s;
    Command command;
    if (style == LaunchStyle::stream) {
      command.chained = i % static_cast<std::size_t>(chain) != 0;
      command.device = scale.duration(stream_duration(platform, cost_s));
      if (!command.chained) {
        if (kernel.starts_operator || chain > 1) command.host = scale.duration(dispatch_time(platform, kernel.views));
        command.call = scale.duration(launch.call_s);
      }
    } else {
      const bool graph = style == LaunchStyle::graph;
      command.chained = i != 0;
      command.device = scale.duration(graph ? graph_duration(platform, cost_s) : persistent_duration(platform, cost_s));
      if (!command.chained) command.call = scale.duration(graph ? launch.graph_call_s : launch.call_s);
    }
    program.push_back(command);
  }
  return program;
}

std::vector<Command> join_launches(const Platform& platform, std::vector<Command> program,
                                   std::span<const LaunchedKernel> kernels, std::span<const std::size_t> starts,
                                   std::int64_t length, sim::TickScale scale) {
  if (program.size() != kernels.size() || length < 1) throw std::invalid_argument("expected a command a kernel");
  const auto count = static_cast<std::size_t>(length);
  std::size_t free = 0;
  for (const std::size_t start : starts) {
    if (start < free || start + count > program.size())
      throw std::invalid_argument("expected runs of kernels within the program that do not overlap");
    free = start + count;
    program[start].host = scale.duration(dispatch_time(platform, kernels[start].views));
    for (std::size_t i = start + 1; i < free; ++i) {
      program[i].chained = true;
      program[i].host = program[i].call = {};
    }
  }
  return program;
}

double capture_time(const Platform& platform, std::span<const LaunchedKernel> kernels) {
  const KernelLaunchParams& launch = platform.params.launch;
  double time_s = 0;
  for (const LaunchedKernel& kernel : kernels) {
    if (kernel.starts_operator) time_s += dispatch_time(platform, kernel.views);
    time_s += launch.call_s + launch.graph_capture_s;
  }
  return time_s;
}

}  // namespace orrery::hw
