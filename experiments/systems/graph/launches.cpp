#include "experiments/systems/graph/launches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hw/base/arithmetic.hpp"
#include "models/graph/op_work.hpp"
#include "policies/fusion/marks.hpp"

namespace orrery::experiments::graph {
namespace {

using models::OpGraph;
using models::OpId;
using models::OpNode;

/// Instructions of a tile: a load an operand, a store a result, one for every op inside that is no view.
std::int64_t instructions_of(const OpNode& op) {
  std::int64_t inside = 1;
  if (op.kind == models::OpKind::fused) {
    inside = 0;
    for (const OpId id : op.regions.front()->ops())
      inside += models::launches_nothing(op.regions.front()->op(id)) ? 0 : 1;
  }
  return static_cast<std::int64_t>(op.inputs.size() + op.outputs.size()) + inside;
}

std::int64_t largest_operand(const OpGraph& graph, const OpNode& op, const models::Bindings& sizes) {
  std::int64_t largest = 0;
  for (const models::TensorId output : op.outputs) largest = std::max(largest, models::bytes_of(graph, output, sizes));
  if (models::info(op.kind).pattern == models::Pattern::reduction || op.kind == models::OpKind::fused)
    for (const models::TensorId input : op.inputs)
      if (graph.tensor(input).role == models::TensorRole::activation)
        largest = std::max(largest, models::bytes_of(graph, input, sizes));
  return largest;
}

/// What passes marked; a capture holds the stacks in it.
SharedLaunch shared_launch(const OpNode& op) {
  if (op.find(policies::kCaptureMark) != nullptr)
    return {SharedLaunch::Form::capture, op.integer(policies::kCaptureMark, 0)};
  if (op.find(policies::kStackMark) != nullptr) return {SharedLaunch::Form::stack, op.integer(policies::kStackMark, 0)};
  return {};
}

/// Time that decoding adds to a kernel: past the first access, its work lasts no less than its tiles take to decode.
double decode_of(const PricedKernel& kernel, const GraphDevice& device, const policies::ExecutionDecision& decision) {
  if (decision.decode_s == 0) return 0;
  const std::int64_t tiles =
      std::max<std::int64_t>(1, hw::ceil_div(kernel.tile_bytes_total, std::max<std::int64_t>(1, decision.tile_bytes)));
  const std::int64_t waves = hw::ceil_div(tiles, device.device.cores * decision.lanes);
  const double decode_s = static_cast<double>(waves * kernel.instructions) * decision.decode_s;
  return std::max(0.0, decode_s - std::max(0.0, kernel.cost.time_s - device.device.launch.in_cost_s -
                                                    device.device.launch.access_s));
}

double peak_of(const hw::Device& device, const hw::Kernel& kernel) {
  return hw::uses_matrix_units(kernel) ? device.peak(kernel.dtype) : device.vector_peak();
}

hw::Command transfer_command(const models::GraphTransfer& transfer, const GraphDevice& device, sim::TickScale scale) {
  hw::Command command;
  command.host = scale.duration(device.operator_s);
  command.call = scale.duration(device.call_s);
  command.device = scale.duration(device.transfer_s(transfer));
  return command;
}

}  // namespace

PricedGraph price(const OpGraph& graph, const models::Bindings& sizes, const GraphDevice& device) {
  PricedGraph priced;
  priced.sizes = sizes;
  const models::GraphLaunches launches = models::lower(graph, sizes);
  priced.transfers = launches.transfers;
  priced.kernels.reserve(launches.kernels.size());
  for (const models::GraphKernel& launch : launches.kernels) {
    PricedKernel kernel;
    kernel.op = launch.op;
    kernel.views = launch.views;
    kernel.target = device.target_of(graph.op(launch.op));
    kernel.op_class = launch.kernel.op;
    kernel.peak_flops =
        peak_of(kernel.target < 0 ? device.device : device.targets[static_cast<std::size_t>(kernel.target)].device,
                launch.kernel);
    if (kernel.target >= 0) {
      const GraphTarget& target = device.targets[static_cast<std::size_t>(kernel.target)];
      const policies::PassTarget part = target.for_passes();
      if (!part.runs(graph, launch.op, sizes)) {
        if (!priced.obstacle)
          priced.obstacle = fmt::format("{} does not run all of {}", target.name, graph.op(launch.op).name);
        continue;
      }
      kernel.cost = part.work(graph, launch.op, sizes);
      priced.placed = true;
      priced.kernels.push_back(kernel);
      continue;
    }
    if (const auto why = device.device.obstacle(launch.kernel)) {
      if (!priced.obstacle) priced.obstacle = fmt::format("{}: {}", device.name, *why);
      continue;
    }
    kernel.cost = device.device.cost(launch.kernel);
    const OpNode& op = graph.op(launch.op);
    if (const double measured_s = op.number("runtime_s", 0); op.kind == models::OpKind::custom && measured_s > 0)
      kernel.cost.time_s = device.device.launch.in_cost_s + measured_s;  // an imported trace says how long it took
    kernel.shared = shared_launch(op);
    kernel.instructions = instructions_of(op);
    kernel.tile_bytes_total = largest_operand(graph, op, sizes);
    priced.instructions += kernel.instructions;
    priced.most_instructions = std::max(priced.most_instructions, kernel.instructions);
    priced.dispatch_s += device.operator_s + static_cast<double>(kernel.views) * device.view_s;
    priced.capture_s += device.call_s + device.graph_capture_s;
    priced.kernels.push_back(kernel);
  }
  priced.capture_s += priced.dispatch_s;
  const models::OpWork work = models::total_work(graph, sizes);
  priced.read_bytes = static_cast<double>(*work.read_bytes.constant());
  priced.write_bytes = static_cast<double>(*work.write_bytes.constant());
  priced.flops = static_cast<double>(*work.flops().constant());
  return priced;
}

std::vector<hw::Command> program_of(const OpGraph& graph, const PricedGraph& priced, const GraphDevice& device,
                                    const policies::ExecutionDecision& decision, sim::TickScale scale,
                                    std::vector<CommandDetail>& details) {
  std::vector<hw::Command> program;
  program.reserve(priced.kernels.size() + priced.transfers.size());
  std::size_t next_transfer = 0;
  const bool all_in_one = decision.style != hw::LaunchStyle::stream;
  const PricedKernel* before = nullptr;  // the kernel before, if nothing came between
  const auto send = [&](std::size_t kernels) {
    for (; next_transfer < priced.transfers.size() && priced.transfers[next_transfer].after <= kernels;
         ++next_transfer) {
      program.push_back(transfer_command(priced.transfers[next_transfer], device, scale));
      details.push_back({.op = graph.op(priced.transfers[next_transfer].op).name});
      before = nullptr;
    }
  };
  for (std::size_t i = 0; i < priced.kernels.size(); ++i) {
    send(i);
    const PricedKernel& kernel = priced.kernels[i];
    const bool node = all_in_one || kernel.shared.form == SharedLaunch::Form::capture;
    const hw::LaunchStyle style = node && !all_in_one ? hw::LaunchStyle::graph : decision.style;
    hw::Command command;
    command.device = scale.duration(device.kernel_s(kernel.cost.time_s, style) + decode_of(kernel, device, decision));
    const bool shares = kernel.shared.form != SharedLaunch::Form::none;
    command.chained = before != nullptr && (all_in_one || (shares && kernel.shared == before->shared));
    before = &kernel;
    if (!command.chained) {
      double host_s = 0;
      if (decision.host_kernel_s)
        host_s = *decision.host_kernel_s + decision.host_instruction_s * static_cast<double>(kernel.instructions);
      else if (!node)
        host_s = device.operator_s + static_cast<double>(kernel.views) * device.view_s;
      command.host = scale.duration(host_s);
      command.call = scale.duration(node ? device.graph_call_s : device.call_s);
      command.blocking = decision.wait_each;
    }
    program.push_back(command);
    details.push_back({graph.op(kernel.op).name, static_cast<std::int32_t>(i), kernel.target});
  }
  send(priced.kernels.size());
  return program;
}

namespace {

/// Builds a program of several streams. Ops that launch nothing pass on what they wait for.
class Placement {
 public:
  Placement(const OpGraph& graph, std::vector<hw::Command>& program, std::vector<CommandDetail>& details)
      : graph_(graph),
        program_(program),
        details_(details),
        made_by_(graph.tensor_count()),
        launched_(graph.op_count()) {}

  /// A command for an op: after what its inputs wait for. `kernel`: which it launches; -1: none. `target`: as
  /// CommandDetail has it.
  void add(OpId op, hw::Command command, std::int32_t target, std::int32_t kernel = -1) {
    pass_views(op);
    for (const std::int32_t event : needs(op, command.stream)) push(op, wait(command.stream, event));
    push(op, command, target, kernel);
    const std::int32_t event = events_++;
    stream_of_.push_back(command.stream);
    hw::Command record{.kind = hw::CommandKind::record, .stream = command.stream, .event = event};
    push(op, record);
    launched_[models::index(op)] = true;
    for (const models::TensorId output : graph_.op(op).outputs) made_by_[models::index(output)] = {event};
  }

 private:
  static hw::Command wait(std::int32_t stream, std::int32_t event) {
    return {.kind = hw::CommandKind::wait, .stream = stream, .event = event};
  }
  void push(OpId op, const hw::Command& command, std::int32_t target = -1, std::int32_t kernel = -1) {
    program_.push_back(command);
    details_.push_back({graph_.op(op).name, kernel, target});
  }
  /// Views before an op, in their order, that have not been passed.
  void pass_views(OpId upto) {
    for (; next_ < graph_.op_count() && graph_.ops()[next_] != upto; ++next_) {
      const OpId op = graph_.ops()[next_];
      if (launched_[models::index(op)]) continue;
      std::vector<std::int32_t> all;
      for (const models::TensorId input : graph_.op(op).inputs)
        all.insert(all.end(), made_by_[models::index(input)].begin(), made_by_[models::index(input)].end());
      for (const models::TensorId output : graph_.op(op).outputs) made_by_[models::index(output)] = all;
    }
  }
  /// Events of other streams that an op waits for, each once.
  std::vector<std::int32_t> needs(OpId op, std::int32_t stream) const {
    std::vector<std::int32_t> all;
    for (const models::TensorId input : graph_.op(op).inputs)
      for (const std::int32_t event : made_by_[models::index(input)])
        if (stream_of_[static_cast<std::size_t>(event)] != stream && std::ranges::find(all, event) == all.end())
          all.push_back(event);
    return all;
  }

  const OpGraph& graph_;
  std::vector<hw::Command>& program_;
  std::vector<CommandDetail>& details_;
  std::vector<std::vector<std::int32_t>> made_by_;  // by tensor: events
  std::vector<bool> launched_;
  std::vector<std::int32_t> stream_of_;  // by event
  std::int32_t events_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<hw::Command> placed_program(const OpGraph& graph, const PricedGraph& priced, const GraphDevice& device,
                                        sim::TickScale scale, std::vector<CommandDetail>& details) {
  std::vector<hw::Command> program;
  Placement placement(graph, program, details);
  const auto copy = [&](const models::GraphTransfer& transfer) {
    const std::int32_t target = device.target_of(graph.op(transfer.op));
    hw::Command command = transfer_command(transfer, device, scale);
    using models::OpKind;
    if (target < 0) {
      // The machine's own device is where the links of its targets end: the other side of the pair copies.
      if (transfer.kind == OpKind::send || transfer.kind == OpKind::recv) command.device = {};
    } else {
      const GraphTarget& to = device.targets[static_cast<std::size_t>(target)];
      const bool back = transfer.kind == OpKind::to_host || transfer.kind == OpKind::send;
      command.kind = hw::CommandKind::copy;
      command.direction = back ? hw::CopyDirection::to_host : hw::CopyDirection::to_device;
      command.stream = 3 * target + (back ? 3 : 2);
      command.device = scale.duration(to.for_passes().copy_s(transfer.bytes));
    }
    placement.add(transfer.op, command, target);
  };
  std::size_t next_transfer = 0;
  for (std::size_t i = 0; i <= priced.kernels.size(); ++i) {
    for (; next_transfer < priced.transfers.size() && priced.transfers[next_transfer].after <= i; ++next_transfer)
      copy(priced.transfers[next_transfer]);
    if (i == priced.kernels.size()) break;
    const PricedKernel& kernel = priced.kernels[i];
    hw::Command command;
    command.host = scale.duration(device.operator_s + static_cast<double>(kernel.views) * device.view_s);
    command.call = scale.duration(device.call_s);
    if (kernel.target >= 0) {
      command.stream = 3 * kernel.target + 1;
      command.device =
          scale.duration(device.targets[static_cast<std::size_t>(kernel.target)].call_s + kernel.cost.time_s);
    } else {
      command.device = scale.duration(device.kernel_s(kernel.cost.time_s, hw::LaunchStyle::stream));
    }
    placement.add(kernel.op, command, kernel.target, static_cast<std::int32_t>(i));
  }
  return program;
}

double decode_time(const PricedGraph& priced, const GraphDevice& device, const policies::ExecutionDecision& decision) {
  double total = 0;
  for (const PricedKernel& kernel : priced.kernels) total += decode_of(kernel, device, decision);
  return total;
}

}  // namespace orrery::experiments::graph
