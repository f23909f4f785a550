// Cost models: how a device turns a kernel into time, traffic and energy.
//
// A model is a pure function of a kernel: no state, no random draws, the same answer in whatever order it is asked. It
// uses only + - * / and square roots, so that results are equal on every processor. An empty kernel costs nothing; any
// non-negative shape that the device can run has an answer. Which models there are: hw/cost.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hw/base/kernel.hpp"
#include "hw/base/power.hpp"

namespace orrery::hw {

class CollectiveCorrection;  // hw/network/link.hpp

/// A device's answer to a kernel.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// Cost of one launch; about a microsecond of host time at most. Safe to call from several threads. Throws
  /// std::invalid_argument, with the reason, for a kernel that the device cannot run.
  virtual Cost cost(const Kernel& kernel) const = 0;
  /// Why the device cannot run the kernel; nothing if it can.
  virtual std::optional<std::string> obstacle(const Kernel& /*kernel*/) const { return std::nullopt; }
  /// What the model knows of collectives over the device's link that the closed forms do not; null: nothing.
  virtual std::shared_ptr<const CollectiveCorrection> collectives() const { return nullptr; }
};

/// The cost of a kernel on a device that books energy by `power`: a FLOP at `flop_j`, a byte of device memory, and what
/// a busy device draws for as long as the kernel takes. `dram_bytes` below the compulsory traffic counts as that.
/// `fixed_s` of `time_s`, launch included, belongs to no resource: it bounds the kernel where it is longer than both
/// others.
struct CostParts {
  double time_s = 0, compute_s = 0, memory_s = 0, fixed_s = 0;
  double dram_bytes = 0, flop_j = 0;
};
Cost booked(const PowerParams& power, const Work& work, const CostParts& parts);

/// True for a kernel that does nothing: it costs nothing, not even a launch.
inline bool is_empty(const Work& work) {
  return work.flops == 0 && work.read_bytes + work.write_bytes == 0;
}

}  // namespace orrery::hw
