// How long an order of updates takes.
//
// The host's threads, the link's two directions, the device, and a thread that casts each do one thing at a time, in
// the order of the subgroups. A subgroup of n parameters, their states s bytes:
//   device   the device, n device_s
//   host     the host, n host_s; then weights are cast (n cast_s) and sent; the host waits for both, or another thread
//   does fetched  [the host fills a buffer, s stage_s]; the link, s bytes; the device, n device_s; the link back; [the
//   host
//            empties the buffer, s stage_s, when it has nothing else to do or a later subgroup is taken up]
// Weights that stay in the host's memory are not sent up by the host, and are sent down by the device; gradients that
// are there come up to the device before it updates.
#pragma once

#include <cstdint>

#include "hw/parts/link_part.hpp"
#include "policies/offload/offload.hpp"

namespace orrery::policies {

/// What a rank has; seconds a parameter, or a byte.
struct UpdateRates {
  double device_s = 0;                 ///< of the optimizer's step on the device
  double host_s = 0;                   ///< of it on the host
  double cast_s = 0;                   ///< of casting new weights, on the host
  double widen_s = 0;                  ///< of widening a gradient, on the host
  double stage_s = 0;                  ///< of a byte between states and buffers
  double state_bytes = 12;             ///< of a parameter
  double weight_bytes = 2;             ///< of a parameter on the device, and of its gradient
  double gradient_bytes = 2;           ///< of a gradient that is kept in the host's memory
  const hw::LinkPart* link = nullptr;  ///< forward: to the device
};

struct UpdateRun {
  double update_s = 0;
  double gradients_s = 0;  ///< of bringing gradients of the host's states there
  bool gradients_wait = false;
  std::int64_t host_parameters = 0, fetched_parameters = 0;
  std::int64_t sent_gradients = 0;            ///< of these, gradients that are not in the host's memory already
  std::int64_t up_bytes = 0, down_bytes = 0;  ///< over the link, gradients too
};

/// O(subgroups).
UpdateRun update_run(const UpdateOrder& order, const OffloadView& view, const UpdateRates& rates);

}  // namespace orrery::policies
