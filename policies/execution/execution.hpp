// Execution: how a graph gets from sizes that just became known to kernels on a device.
//
// Asked once a request, in order; it sees the request's sizes and what the graph amounts to, and says at which sizes
// the kernels run (padding), how long the host works before the first launch (compiling, capturing), how kernels are
// launched, and what a launch costs the host. It may keep a cache of what it compiled. Contract: `sizes` are no smaller
// than the request's; equal histories give equal answers.
#pragma once

#include <cstdint>
#include <optional>

#include "hw/coupling/launch_program.hpp"
#include "models/sym/expr.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

struct ExecutionView {
  const models::Bindings& request;
  std::int64_t kernels = 0;            ///< launches of the graph
  std::int64_t instructions = 0;       ///< of a tile, summed over kernels: what an encoder of bytecode writes
  std::int64_t most_instructions = 0;  ///< of the kernel that has most
  double dispatch_s = 0;               ///< CPU time of dispatching every op from the framework
  double capture_s = 0;                ///< CPU time of capturing and instantiating the graph's launches
};

struct ExecutionDecision {
  models::Bindings sizes;       ///< at which kernels run
  double stall_s = 0;           ///< host time before the first launch
  std::int64_t compiled = 0;    ///< kernels compiled, encoded or captured for this request
  double compile_s = 0;         ///< host time of that, whether it stalls or is spread over the launches
  double kernel_compile_s = 0;  ///< of it, the most that one kernel takes
  hw::LaunchStyle style = hw::LaunchStyle::stream;
  std::optional<double> host_kernel_s;  ///< host time of a launch; nothing: the framework dispatches op by op
  double host_instruction_s = 0;        ///< and of each of its instructions
  double decode_s = 0;                  ///< device time of an instruction of a tile on one core; 0: nothing to decode
  std::int64_t tile_bytes = 16384;      ///< largest tile that is decoded at a time
  std::int64_t lanes = 1;               ///< units of a core that decode side by side
  bool wait_each = false;               ///< the host waits for a kernel before it turns to the next
};

class Execution {
 public:
  virtual ~Execution() = default;
  virtual ExecutionDecision decide(const ExecutionView& view) = 0;
  /// Host time before the first request: what is compiled ahead, s.
  virtual double startup_s(const ExecutionView& view) const {
    static_cast<void>(view);
    return 0;
  }
};

using ExecutionRegistry = sim::Registry<Execution>;

/// The dimension that parameter `symbol` of a policy names. Throws sim::ConfigError where no dimension can be called
/// so.
models::Symbol named_dimension(const std::string& policy, const std::string& symbol);

/// Adds every policy of this folder: aot, eager, graph, jit, vm.
void register_execution_policies(ExecutionRegistry& registry);

}  // namespace orrery::policies
