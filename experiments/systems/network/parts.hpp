// Links and adapters of the catalog in a network's blocks: `"part": "catalog:ib-ndr-4x"` in place of figures.
//
// Wherever a topology takes `bandwidth` and `latency` of a cable, an object may name a part of kind `link` or `nic`. It
// stands for the bandwidth that large messages reach behind headers, flow control and copies, and for the part's
// latency; of an adapter also the host's work for a message. A figure given beside it wins. `latency` is of the whole
// way between two devices, so over a switch each of the two cables gets half: `"hops": 2` divides it (default 1).
#pragma once

#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"

namespace orrery::experiments::network {

/// The block with every part replaced by its figures. Faults (an unknown part, one of another kind) go to `faults`.
sim::Node with_parts(const sim::Node& block, sim::Faults& faults);

}  // namespace orrery::experiments::network
