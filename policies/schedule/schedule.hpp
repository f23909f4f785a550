// Pipeline schedules of training: in which order a stage runs the passes of its micro-batches.
//
// A pipeline of S devices holds C chunks of the model a device. A micro-batch follows a route: the chunks in the order
// of the model's layers, each on a device. A pass is the forward pass of a micro-batch through a chunk, its backward
// pass, or the two halves of that: the gradient of the chunk's input, which the device before waits for, and the
// gradients of its weights, which nobody waits for. A schedule gives routes, and for every device the order of its
// passes. When they start follows: a device runs its passes strictly in that order, each as soon as what it reads is
// there.
//
// Contract: each micro-batch passes every chunk of its route once forward and once backward (whole, or as both halves,
// inputs first), in an order that does not wait for itself; check_order() tells. Pure: equal views, equal orders.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

enum class PassKind : std::uint8_t { forward, backward, backward_input, backward_weight };
constexpr auto enum_names(PassKind) {
  using enum PassKind;
  return sim::names<PassKind>({{"forward", forward},
                               {"backward", backward},
                               {"backward_input", backward_input},
                               {"backward_weight", backward_weight}});
}

/// One entry of a device's order.
struct StagePass {
  PassKind kind = PassKind::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  ///< of the device, from 0
  friend bool operator==(const StagePass&, const StagePass&) = default;
};

/// A chunk of a device.
struct StageChunk {
  std::int32_t device = 0, chunk = 0;
  friend bool operator==(const StageChunk&, const StageChunk&) = default;
};

/// Where the layers lie: hop i has the i-th part of the model.
using PipelineRoute = std::vector<StageChunk>;

/// Two chunks a device: down the devices and back up, so that the first device has the first and the last part.
PipelineRoute folded_route(std::int64_t devices);

/// What a schedule may know: sizes, and the times of a pass through a chunk, the same for all where nothing else is
/// known, in any unit.
struct ScheduleView {
  std::int64_t devices = 1;
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;  ///< of a device: plan.interleave
  double forward = 1, backward_input = 1, backward_weight = 1, transfer = 0;
  /// Share of a micro-batch's activations that the gradients of weights still need once those of inputs are made.
  double kept_for_weights = 1;
};

/// Orders by device.
using ScheduleOrder = std::vector<std::vector<StagePass>>;

class PipelineSchedule {
 public:
  virtual ~PipelineSchedule() = default;
  /// Why it cannot run such a pipeline; nothing if it can.
  virtual std::optional<std::string> obstacle(const ScheduleView& view) const = 0;
  /// Chunks of a device that it wants whatever the plan says; nothing: as the plan says.
  virtual std::optional<std::int64_t> own_chunks() const { return std::nullopt; }
  /// Routes that micro-batches take; micro-batch m takes routes()[route_of(m)].
  virtual std::vector<PipelineRoute> routes(const ScheduleView& view) const;
  virtual std::int64_t route_of(const ScheduleView& view, std::int64_t micro_batch) const;
  /// The passes of each device, in order. O(passes) as a rule.
  virtual ScheduleOrder order(const ScheduleView& view) const = 0;
};

using ScheduleRegistry = sim::Registry<PipelineSchedule>;

/// What is wrong with an order: a pass that is missing or twice, devices that wait for each other. Nothing: it is
/// sound.
std::optional<std::string> check_order(const PipelineSchedule& schedule, const ScheduleView& view,
                                       const ScheduleOrder& order);

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_schedules(ScheduleRegistry& registry);

}  // namespace orrery::policies
