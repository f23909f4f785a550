// A graph at given sizes, priced: kernels with their durations and what a bytecode runtime would make of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/graph/device.hpp"
#include "models/graph/graph_lowering.hpp"
#include "policies/execution/execution.hpp"

namespace orrery::experiments::graph {

/// The launch that a pass made kernels share: leaves of a stack, or nodes of a captured graph, by number.
struct SharedLaunch {
  enum class Form : std::uint8_t { none, stack, capture };
  Form form = Form::none;
  std::int64_t number = 0;
  bool operator==(const SharedLaunch&) const = default;
};

/// One kernel.
struct PricedKernel {
  models::OpId op{};
  hw::OpClass op_class{};
  hw::Cost cost;
  double peak_flops = 0;  ///< FLOP/s of the units that it runs on, at most
  std::int64_t views = 0;
  std::int32_t target = -1;           ///< of the machine's, that runs it; -1: the device
  SharedLaunch shared;                ///< with kernels next to it of the same one: a launch for the first only
  std::int64_t instructions = 0;      ///< of a tile in bytecode: loads, stores, one for every op inside
  std::int64_t tile_bytes_total = 0;  ///< of its largest operand: what tiles cut
};

struct PricedGraph {
  models::Bindings sizes;
  std::vector<PricedKernel> kernels;
  std::vector<models::GraphTransfer> transfers;
  std::int64_t instructions = 0, most_instructions = 0;  ///< of all kernels, of the longest
  double read_bytes = 0, write_bytes = 0, flops = 0;
  bool placed = false;                   ///< some kernels run on a target
  double dispatch_s = 0, capture_s = 0;  ///< host time of dispatching all ops, and of capturing them as a graph
  std::optional<std::string> obstacle;   ///< why the device cannot run one of them; kernels are then not complete
};

PricedGraph price(const models::OpGraph& graph, const models::Bindings& sizes, const GraphDevice& device);

/// What a command of a program does: the op, which of the priced kernels it launches (-1: a transfer), and the target
/// of the machine that runs it or whose link copies (-1: the device).
struct CommandDetail {
  std::string op;
  std::int32_t kernel = -1, target = -1;
};

/// What the dispatching thread does for one request. `details` receives one a command.
std::vector<hw::Command> program_of(const models::OpGraph& graph, const PricedGraph& priced, const GraphDevice& device,
                                    const policies::ExecutionDecision& decision, sim::TickScale scale,
                                    std::vector<CommandDetail>& details);

/// The same where ops go to the machine's targets: the device's kernels on stream 0, each target's calls on a stream of
/// its own, and its copies, to it and back, on two more; whoever reads what another stream makes waits for it.
std::vector<hw::Command> placed_program(const models::OpGraph& graph, const PricedGraph& priced,
                                        const GraphDevice& device, sim::TickScale scale,
                                        std::vector<CommandDetail>& details);

/// Device time that decoding adds to a request, s.
double decode_time(const PricedGraph& priced, const GraphDevice& device, const policies::ExecutionDecision& decision);

}  // namespace orrery::experiments::graph
