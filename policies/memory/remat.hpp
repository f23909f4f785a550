// Rematerialisation: a walk over a graph's ops that keeps live bytes below a limit by dropping tensors and making them
// again when they are read.
//
// The walk takes the ops in their order. Where the bytes live now plus those that the next op makes exceed the limit,
// tensors are dropped, one by one, as a policy scores them, until they fit or nothing may be dropped. A dropped tensor
// that is read comes back by running the op that made it again, and before that, recursively, whatever it reads that is
// gone; such an ingredient goes again at once if nobody else reads it later. The result is a sequence of ops, some of
// them named again: `reordered` (schedule.hpp) makes it a graph.
// May be dropped: what an op of the graph made and can make again (no update, communication, branch, loop or sampling),
// is read later, is no output, is no operand of the op at hand; and nothing that is needed to make it again is
// overwritten before it is read. Dropout is taken to repeat its mask from its seed.
// Live bytes are counted per storage as in models/graph/liveness.hpp, without reuse in place.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/graph/liveness.hpp"
#include "policies/base/graph_pass.hpp"

namespace orrery::policies {

/// A tensor that may be dropped now.
struct Droppable {
  std::size_t storage = 0;
  std::int64_t bytes = 0;
  double regenerate_s = 0;  ///< time of all ops that bring it back, gone ingredients included
  std::int64_t depth = 0;   ///< how many of them stand on each other
  std::int64_t uses_left = 0;
  std::int64_t steps_away = 0;  ///< ops until it is read
};

/// Higher is dropped first; not above 0: never.
using DropScore = std::function<double(const Droppable&)>;

struct RematResult {
  std::vector<models::OpId> ops;  ///< in order of execution
  std::int64_t dropped = 0;       ///< tensors
  std::int64_t again = 0;         ///< ops run again
  double again_s = 0;             ///< their time
  bool within_limit = true;       ///< the walk never counted more than the limit
  bool gave_up = false;           ///< it ran ten times the ops of the graph, which is no use to anybody
};

/// Whether running an op a second time gives what it gave the first time, and nothing else.
bool repeatable(const models::OpNode& op);

/// What ops cost for given sizes: the device's time, or where no device is known their bytes and FLOPs, on a scale of
/// 1e12 a second, which ranks them alike on all devices.
std::vector<double> op_times(const models::OpGraph& graph, const PassContext& context,
                             const models::Bindings& bindings);

/// The run-time half: for given sizes. `may_drop` (by storage; empty: all) is what the compile-time half allows.
RematResult run_schedule(const models::Storages& storages, const models::Bindings& bindings, std::int64_t limit,
                         const std::vector<double>& op_s, const std::vector<bool>& may_drop, const DropScore& score);

}  // namespace orrery::policies
