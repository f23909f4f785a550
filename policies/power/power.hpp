// Power: at which clock a replica's devices run their next iteration.
//
// Asked once an iteration, after the batch is chosen. The clocks are those that the config offers, from the highest
// down; a change takes no time (hw/gpu/dvfs.hpp says what it does to time and energy). Contract: the view is valid
// during the call only; equal views and history give equal answers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "policies/batching/batching.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

struct ClockPrice {
  std::int64_t time_ps = 0;    ///< without the host's
  std::int64_t energy_pj = 0;  ///< beside the idle power
};

/// Prices at any clock.
class ClockPricer {
 public:
  virtual ~ClockPricer() = default;
  virtual ClockPrice price(const BatchSketch& sketch, std::int32_t clock) const = 0;
};

struct ClockView {
  const BatchView& batch;
  BatchSketch next;                     ///< what the iteration will do
  std::int32_t clock = 0;               ///< the present one
  std::span<const double> clocks_hz;    ///< the highest first
  std::optional<std::int64_t> tbt_ps;   ///< the target of the run
  const ClockPricer* pricer = nullptr;  ///< null: nobody knows (on paper)
};

class ClockPolicy {
 public:
  virtual ~ClockPolicy() = default;
  /// Place in view.clocks_hz.
  virtual std::int32_t choose(const ClockView& view) = 0;
  /// Whether the answer stays the same while decodes go on and nothing arrives or ends, so that a replica may leap.
  virtual bool holds() const { return true; }
};

using ClockRegistry = sim::Registry<ClockPolicy>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_clock_policies(ClockRegistry& registry);

}  // namespace orrery::policies
