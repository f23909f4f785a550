// Which of host and devices held a run up: member `host` of summary.json.
//
// By regime, for they differ: iterations with prompt tokens, and those of decodes alone. TKLQT as hw/coupling has it
// (SKIP, ISPASS 2025, Eq. 1), within each iteration: from a call to the begin of what it launches, summed over calls,
// where both host and devices go at an even pace. Left out: calls that wait for the iteration before (engines that
// launch ahead), and that a full launch queue holds the host up.
#pragma once

#include <cstdint>
#include <optional>

#include "experiments/base/figure_table.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {

/// Of the iterations of one regime.
struct HostRegime {
  std::int64_t iterations = 0;
  std::int64_t host_paced = 0;  ///< those in which the host was busier than the devices
  std::int64_t calls = 0;
  __int128 exposed_ps = 0, beside_ps = 0, device_ps = 0, queued2_ps = 0;

  /// Iterations `from` to `from` + `count` of a price within its horizon.
  void book(const HostShare& share, std::int64_t from, std::int64_t count);
  void add(const HostRegime& other);
};

struct HostOutcome {
  HostRegime prompt, decode;
  void add(const HostOutcome& other) {
    prompt.add(other.prompt);
    decode.add(other.decode);
  }
  /// Whether a host did anything.
  bool any() const { return prompt.iterations > 0 || decode.iterations > 0; }
};

/// Who was busier.
enum class Pace : std::uint8_t { host, device };
constexpr auto enum_names(Pace) {
  return sim::names<Pace>({{"host", Pace::host}, {"device", Pace::device}});
}

/// Member `host`.
sim::Node summarise(const HostOutcome& outcome);
/// What it has.
std::vector<FigureInfo> host_figures();

}  // namespace orrery::experiments
