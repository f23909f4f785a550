// From the kernels of a model to what the dispatching thread does, in one of three styles.
//
//   stream      operator by operator: framework time, a launch call a kernel; kernels as a stream runs them
//   graph       one call launches all kernels, captured before as nodes of a graph
//   persistent  one call launches a kernel that fetches all pieces of work from a queue on the device
// `chain` > 1 is idealised fusion: so many consecutive kernels are one launch of one operator, which saves all but the
// first one's framework and call, and nothing else. Kernels are priced by a CostModel (whose launch is replaced by what
// the style costs).
#pragma once

#include <string_view>

#include "hw/base/cost_model.hpp"
#include "hw/coupling/launch_run.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class LaunchStyle : std::uint8_t { stream, graph, persistent };
constexpr auto enum_names(LaunchStyle) {
  using enum LaunchStyle;
  return sim::names<LaunchStyle>({{"stream", stream}, {"graph", graph}, {"persistent", persistent}});
}

/// A kernel and the framework's work before it.
struct LaunchedKernel {
  std::string_view name;  ///< of a literal or of something that outlives it
  Kernel kernel;
  bool starts_operator = true;  ///< false for the second kernel of an operator and those after it
  std::int64_t views = 0;       ///< operators before it that launch nothing
};

/// The front end of a platform's device.
LaunchLimits limits_of(const Platform& platform, sim::TickScale scale);

/// What the thread does, on stream 0. Throws std::invalid_argument for a chain below 1.
std::vector<Command> build_program(const Platform& platform, const CostModel& cost,
                                   std::span<const LaunchedKernel> kernels, LaunchStyle style, sim::TickScale scale,
                                   std::int64_t chain = 1);

/// Joins kernels of a program of style `stream`: those from each of `starts` (rising, without overlap), `length` each,
/// become one launch of one operator, which saves what `chain` saves. Throws std::invalid_argument for a program or
/// starts that do not fit.
std::vector<Command> join_launches(const Platform& platform, std::vector<Command> program,
                                   std::span<const LaunchedKernel> kernels, std::span<const std::size_t> starts,
                                   std::int64_t length, sim::TickScale scale);

/// CPU time of capturing and instantiating a graph of these kernels, s: once, before it can be launched.
double capture_time(const Platform& platform, std::span<const LaunchedKernel> kernels);

}  // namespace orrery::hw
