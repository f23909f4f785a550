// Offload: how optimizer states in the host's memory are updated.
//
// Asked once for each stage that keeps a share of its states there, when the stage is priced. Contract: a pure function
// of the view. A policy says where each subgroup of parameters is updated and what waits for what; update_run()
// (update_run.hpp) says how long that takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// Where a subgroup's states are updated: by the device that holds them; by the host that holds them; by the device,
/// over the link there and back.
enum class UpdatePlace : std::uint8_t { device, host, fetched };

struct OffloadView {
  std::int64_t parameters = 0;  ///< of a rank
  double share = 0;             ///< of them with states in the host's memory, from 0 to 1
  /// Of them with weights and gradients there: first those whose states the host updates, then those fetched, then the
  /// device's own.
  double weights = 0, gradients = 0;
};

/// Subgroups in the order in which the host takes them up.
struct UpdateOrder {
  std::int64_t subgroup = 1;           ///< parameters; the last one has what is left
  std::vector<UpdatePlace> subgroups;  ///< together all parameters
  bool casts_wait = true;      ///< the host waits until a subgroup's new weights are cast and sent; else others do it
  bool staged = false;         ///< fetched states pass through buffers that the host fills and empties
  bool gradients_wait = true;  ///< the backward pass waits until the host has gradients; else they go beside it
};

class Offload {
 public:
  virtual ~Offload() = default;
  virtual UpdateOrder order(const OffloadView& view) const = 0;
  /// Whether it needs the rates of a host that updates.
  virtual bool host_updates() const = 0;
};

using OffloadRegistry = sim::Registry<Offload>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_offloads(OffloadRegistry& registry);

/// What policy `streamed` answers by default.
UpdateOrder streamed_order(const OffloadView& view);

/// Subgroups of so many parameters each: how many there are.
std::int64_t subgroup_count(std::int64_t parameters, std::int64_t subgroup);

}  // namespace orrery::policies
