#include "experiments/systems/tasks/trace_transport.hpp"

#include <algorithm>

namespace orrery::experiments::tasks {

TraceTransport::TraceTransport(sim::Engine& engine, hw::Network& network, const TraceGraph& trace,
                               const TasksConfig& config)
    : engine_(engine),
      network_(network),
      trace_(trace),
      params_(config.params.workload),
      direct_(config.direct),
      messages_(network) {
  meetings_.reserve(trace.collectives.size());
  for (std::size_t i = 0; i < trace.collectives.size(); ++i) meetings_.emplace_back(*this, i);
}

void TraceTransport::start(sim::TaskId id, const sim::FlowSpec& flow, sim::EventHandler& done, std::uint64_t payload) {
  const TracedTask& task = trace_.tasks[id.index];
  if (task.kind == TaskKind::collective) {
    meetings_[static_cast<std::size_t>(task.collective)].enter(static_cast<std::size_t>(task.member), done, payload);
    return;
  }
  messages_.start(
      id, hw::flow_between(static_cast<hw::NodeIndex>(task.rank), static_cast<hw::NodeIndex>(task.peer), flow.bytes),
      done, payload);
}

std::unique_ptr<hw::CollectiveRun> TraceTransport::make_piece(std::size_t index, std::int64_t piece,
                                                              hw::CollectiveListener& listener) {
  const TracedCollective& collective = trace_.collectives[index];
  hw::CollectiveSpec spec;
  spec.kind = collective.kind;
  spec.ranks = std::ssize(collective.ranks);
  const std::int64_t before = collective.bytes * piece / params_.splits;
  spec.bytes = collective.bytes * (piece + 1) / params_.splits - before;
  std::vector<hw::NodeIndex> nodes(collective.ranks.begin(), collective.ranks.end());
  const hw::CollectiveRunOptions options{params_.window, sim::hash_text(collective.name)};
  const bool does = hw::supports(params_.algorithm.name, collective.kind);
  return std::make_unique<hw::CollectiveRun>(engine_, network_, (does ? params_.algorithm : direct_).make(spec),
                                             spec.ranks, std::move(nodes), options, &listener);
}

void TraceTransport::Meeting::enter(std::size_t member, sim::EventHandler& done, std::uint64_t payload) {
  waiters_.resize(of_.trace_.collectives[index_].ranks.size());
  waiters_[member] = {&done, payload, 0};
  piece(0).enter(static_cast<hw::Member>(member));
}

hw::CollectiveRun& TraceTransport::Meeting::piece(std::int64_t number) {
  while (std::ssize(pieces_) <= number) pieces_.push_back(of_.make_piece(index_, std::ssize(pieces_), *this));
  return *pieces_[static_cast<std::size_t>(number)];
}

void TraceTransport::Meeting::rank_done(hw::Member rank) {
  Waiter& waiter = waiters_[rank];
  if (++waiter.piece < of_.params_.splits) {
    piece(waiter.piece).enter(rank);
  } else {
    waiter.done->on_event(waiter.payload);
  }
}

}  // namespace orrery::experiments::tasks
