// The layered task graph that peers publish figures of: layers of 100 tasks, each behind two of the layer before.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/mix.hpp"
#include "sim/task/graph.hpp"

namespace orrery::test {

using sim::mix64;

/// `tasks` tasks of 1e6 (1 + (mix64(8 id) % 1000) / 1000) flops on `hosts` hosts of 1e9 flop/s, in ticks of a
/// picosecond.
inline sim::TaskGraph layered_dag(std::uint64_t tasks, std::uint64_t hosts, const sim::ResourceSpec& spec = {}) {
  constexpr std::uint64_t kWidth = 100;
  sim::TaskGraph graph;
  graph.reserve(tasks, 2 * tasks);
  std::vector<sim::ResourceId> host;
  for (std::uint64_t h = 0; h < hosts; ++h) host.push_back(graph.add_resource(spec));
  for (std::uint64_t id = 0; id < tasks; ++id) {
    // 1e6 flops at 1e9 flop/s are 1e9 ps.
    const sim::Duration duration{1'000'000 * static_cast<std::int64_t>(1000 + mix64(8 * id) % 1000)};
    const sim::ResourceId on = host[mix64(8 * id + 1) % hosts];
    if (id < kWidth) {
      graph.add({.duration = duration, .on = {on}});
    } else {
      const std::uint64_t layer = id / kWidth * kWidth;
      const auto straight = static_cast<std::uint32_t>(id - kWidth);
      const auto other = static_cast<std::uint32_t>(layer - kWidth + mix64(8 * id + 2) % kWidth);
      graph.add({.duration = duration, .on = {on}, .after = {{straight}, {other}}});
    }
  }
  return graph;
}

}  // namespace orrery::test
