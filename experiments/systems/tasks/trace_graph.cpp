#include "experiments/systems/tasks/trace_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery::experiments::tasks {
namespace {

using models::ChakraKind;
using models::ChakraNode;
using sim::TaskId;

/// A node's place for messages: the file and the node.
[[noreturn]] void fault(const TasksConfig& config, std::int32_t rank, const ChakraNode& node, const std::string& what,
                        const std::string& hint = "") {
  sim::throw_fault({config.inputs[static_cast<std::size_t>(rank)].string(), ""},
                   fmt::format("node {} '{}': {}", node.id, node.name, what), hint);
}

std::optional<hw::CollectiveKind> collective_kind(std::int64_t type) {
  using enum hw::CollectiveKind;
  switch (type) {
    case 0:
      return all_reduce;
    case 2:
      return all_gather;
    case 5:
      return broadcast;
    case 6:
      return all_to_all;
    case 7:
    case 8:
      return reduce_scatter;
    default:
      return std::nullopt;
  }
}

std::int64_t type_of(const ChakraNode& node) {
  return node.comm_type < 0 ? models::chakra_type_by_name(node.name) : node.comm_type;
}

TaskKind kind_of(const ChakraNode& node) {
  switch (static_cast<ChakraKind>(node.type)) {
    case ChakraKind::compute:
      return node.cpu.value_or(false) ? TaskKind::cpu : TaskKind::compute;
    case ChakraKind::memory_load:
    case ChakraKind::memory_store:
      return TaskKind::memory;
    case ChakraKind::send:
      return TaskKind::send;
    case ChakraKind::receive:
      return TaskKind::receive;
    case ChakraKind::collective:  // PyTorch's call of one, on the CPU, has no type; its kernel has
      return node.comm_type < 0 && node.cpu.value_or(false) ? TaskKind::cpu : TaskKind::collective;
    case ChakraKind::metadata:
      return TaskKind::other;
  }
  return TaskKind::other;
}

class Builder {
 public:
  Builder(const TasksConfig& config, const sim::TickScale& scale) : config_(config), scale_(scale) {}

  TraceGraph build() {
    count_members();
    for (std::int32_t rank = 0; rank < std::ssize(config_.ranks); ++rank) add_rank(rank);
    match_receives();
    check_collectives();
    return std::move(out_);
  }

 private:
  void add_rank(std::int32_t rank) {
    const std::vector<ChakraNode>& nodes = config_.ranks[static_cast<std::size_t>(rank)];
    const sim::ResourceId device = out_.graph.add_resource({.name = fmt::format("device {}", rank)});
    const sim::ResourceId cpu = out_.graph.add_resource({.name = fmt::format("CPU {}", rank)});
    const auto first = static_cast<std::uint32_t>(out_.graph.tasks());
    for (const ChakraNode& node : nodes) add_node(rank, node, device, cpu);
    const models::ChakraOrder& order = config_.orders[static_cast<std::size_t>(rank)];
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
      for (const auto* waits : {&order.data[i], &order.control[i]})
        for (const std::size_t k : *waits)
          out_.graph.add_dependency(TaskId{first + static_cast<std::uint32_t>(k)}, TaskId{first + i});
  }

  void add_node(std::int32_t rank, const ChakraNode& node, sim::ResourceId device, sim::ResourceId cpu) {
    TracedTask task{.rank = rank, .kind = kind_of(node), .node = &node};
    sim::TaskSpec spec{.name = node.name};
    const sim::Demand on_device(device), on_cpu(cpu);
    switch (task.kind) {
      case TaskKind::compute:
        spec.duration = compute_time(rank, node);
        spec.on = sim::Few<sim::Demand>(std::span(&on_device, 1));
        break;
      case TaskKind::cpu:
        spec.duration = recorded(node);
        spec.on = sim::Few<sim::Demand>(std::span(&on_cpu, 1));
        break;
      case TaskKind::memory:
        spec.duration = recorded(node);
        break;
      case TaskKind::send:
        add_send(rank, node, task, spec);
        break;
      case TaskKind::receive:
        receives_.push_back(static_cast<std::uint32_t>(out_.graph.tasks()));
        task.peer = peer(rank, node, node.source, "comm_src");
        break;
      case TaskKind::collective:
        join(rank, node, task);
        if (task.collective >= 0) {
          spec.flow = sim::FlowSpec{.bytes = task.bytes};
        } else {
          spec.duration = recorded(node);
        }
        break;
      case TaskKind::other:
        break;
    }
    out_.graph.add(spec);
    out_.tasks.push_back(task);
  }

  sim::Duration recorded(const ChakraNode& node) const {
    return scale_.duration(static_cast<double>(node.runtime_us) * 1e-6);
  }

  /// By the device, if there is one and the node says what it computes; else as recorded.
  sim::Duration compute_time(std::int32_t rank, const ChakraNode& node) const {
    if (!config_.device || (node.flops <= 0 && node.tensor_bytes <= 0)) {
      if (node.runtime_us <= 0 && node.flops > 0)
        fault(config_, rank, node, "has FLOPs and no runtime", "machine.device prices it");
      return recorded(node);
    }
    const hw::Device& device = *config_.device;
    const double by_flops = static_cast<double>(node.flops) / device.peak(config_.params.machine.device->dtype);
    const double by_bytes = static_cast<double>(node.tensor_bytes) / device.memory_bandwidth;
    return scale_.duration(std::max(by_flops, by_bytes));
  }

  std::int32_t peer(std::int32_t rank, const ChakraNode& node, std::int64_t named, const char* attribute) const {
    if (named < 0 || named >= std::ssize(config_.ranks))
      fault(config_, rank, node,
            fmt::format("expected a rank from 0 to {} in {}, got {}", config_.ranks.size() - 1, attribute, named));
    return static_cast<std::int32_t>(named);
  }

  void add_send(std::int32_t rank, const ChakraNode& node, TracedTask& task, sim::TaskSpec& spec) {
    task.peer = peer(rank, node, node.destination, "comm_dst");
    task.bytes = std::max<std::int64_t>(node.comm_bytes, 0);
    spec.flow = sim::FlowSpec{.bytes = task.bytes};
    sends_[{rank, task.peer, node.tag}].push_back(static_cast<std::uint32_t>(out_.graph.tasks()));
  }

  /// Receives wait for their sends, in the order in which both stand in their files.
  void match_receives() {
    std::map<std::tuple<std::int32_t, std::int32_t, std::int64_t>, std::size_t> taken;
    for (const std::uint32_t receive : receives_) {
      TracedTask& task = out_.tasks[receive];
      const auto key = std::tuple{task.peer, task.rank, task.node->tag};
      const auto sends = sends_.find(key);
      std::size_t& next = taken[key];
      if (sends == sends_.end() || next == sends->second.size())
        fault(config_, task.rank, *task.node,
              fmt::format("waits for a send of rank {} with tag {} that its trace does not have", task.peer,
                          task.node->tag));
      const std::uint32_t send = sends->second[next++];
      task.bytes = out_.tasks[send].bytes;
      out_.graph.add_dependency(TaskId{send}, TaskId{receive});
    }
  }

  /// How many ranks come to each collective.
  void count_members() {
    for (std::int32_t rank = 0; rank < std::ssize(config_.ranks); ++rank) {
      std::map<std::pair<std::string, std::int64_t>, std::size_t> seen;
      for (const ChakraNode& node : config_.ranks[static_cast<std::size_t>(rank)]) {
        if (kind_of(node) != TaskKind::collective) continue;
        ++members_[{node.group, type_of(node), seen[{node.group, type_of(node)}]++}];
      }
    }
  }

  /// One that no other rank's trace has takes the time that was recorded.
  void join(std::int32_t rank, const ChakraNode& node, TracedTask& task) {
    const std::int64_t type = type_of(node);
    if (type == 9) return;  // a barrier moves nothing
    const auto kind = collective_kind(type);
    if (!kind)
      fault(config_, rank, node, fmt::format("a collective of type {} is not one of those that are simulated", type),
            "all-reduce, all-gather, reduce-scatter, all-to-all, broadcast");
    const std::size_t nth = seen_[{rank, node.group, type}]++;
    if (members_[{node.group, type, nth}] < 2) return;
    const std::int64_t bytes = node.comm_bytes > 0 ? node.comm_bytes : node.tensor_bytes;
    const auto [found, fresh] = meets_.try_emplace({node.group, type, nth}, std::ssize(out_.collectives));
    if (fresh) out_.collectives.push_back({.kind = *kind, .bytes = bytes, .name = node.name});
    TracedCollective& collective = out_.collectives[static_cast<std::size_t>(found->second)];
    if (collective.bytes != bytes)
      fault(config_, rank, node,
            fmt::format("has {} bytes, and that of rank {} has {}: do they meet?", bytes, collective.ranks.front(),
                        collective.bytes));
    task.bytes = bytes;
    task.collective = static_cast<std::int32_t>(found->second);
    task.member = static_cast<std::int32_t>(collective.ranks.size());
    collective.ranks.push_back(rank);
  }

  /// A gathered buffer is counted whole: a trace tells the part of one rank.
  void check_collectives() {
    for (TracedCollective& collective : out_.collectives)
      if (collective.kind == hw::CollectiveKind::all_gather) collective.bytes *= std::ssize(collective.ranks);
  }

  const TasksConfig& config_;
  const sim::TickScale& scale_;
  TraceGraph out_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int64_t>, std::vector<std::uint32_t>> sends_;
  std::vector<std::uint32_t> receives_;
  std::map<std::tuple<std::int32_t, std::string, std::int64_t>, std::size_t> seen_;
  std::map<std::tuple<std::string, std::int64_t, std::size_t>, std::ptrdiff_t> meets_;
  std::map<std::tuple<std::string, std::int64_t, std::size_t>, std::int64_t> members_;
};

}  // namespace

TraceGraph make_trace_graph(const TasksConfig& config, const sim::TickScale& scale) {
  return Builder(config, scale).build();
}

}  // namespace orrery::experiments::tasks
