#include "hw/network/collective_run.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/base/mix.hpp"

namespace orrery::hw {
namespace {

/// Payloads with this bit are entries of ranks, the others arrivals.
constexpr std::uint64_t kEntry = 1ULL << 63;

std::uint64_t hash_of(std::uint64_t ends, std::uint32_t channel) {
  return sim::mix64(ends ^ std::uint64_t{channel} << 50);
}

}  // namespace

CollectiveRun::CollectiveRun(sim::Engine& engine, MessageCarrier& carrier, std::unique_ptr<CollectiveSchedule> schedule,
                             std::int64_t ranks, std::vector<NodeIndex> nodes, CollectiveRunOptions options,
                             CollectiveListener* listener)
    : engine_(engine),
      carrier_(carrier),
      schedule_(std::move(schedule)),
      nodes_(std::move(nodes)),
      window_(static_cast<std::uint32_t>(options.window)),
      label_(options.label),
      listener_(listener),
      ranks_(static_cast<std::size_t>(ranks)),
      left_(ranks_.size()),
      held_(ranks_.size()),
      table_(64, kNone) {
  if (options.window < 1 || options.window > std::numeric_limits<std::int32_t>::max())
    throw std::invalid_argument("a connection carries at least one message at a time");
  if (nodes_.size() < ranks_.size()) throw std::invalid_argument("a collective needs the node of every rank");
}

CollectiveRun::~CollectiveRun() = default;

void CollectiveRun::enter(Member rank) {
  Rank& r = ranks_.at(rank);
  if (std::exchange(r.entered, true)) throw std::logic_error("a rank enters a collective once");
  schedule_->enter(rank, *this);
  held_.release(rank, [this](const Message& message) { schedule_->arrived(message, *this); });
}

void CollectiveRun::enter_at(Member rank, sim::Time time) {
  engine_.schedule_at(time, *this, kEntry | rank);
}

void CollectiveRun::enter_all() {
  for (Member rank = 0; rank < ranks_.size(); ++rank) enter(rank);
}

void CollectiveRun::on_event(std::uint64_t payload) {
  if ((payload & kEntry) != 0) {
    enter(static_cast<Member>(payload & ~kEntry));
    return;
  }
  const auto index = static_cast<std::uint32_t>(payload);
  const Message message = records_[index].message;
  Connection& connection = connections_[records_[index].connection];
  records_[index].next = std::exchange(free_, index);
  const std::uint32_t next = connection.first;
  if (next != kNone) {
    connection.first = records_[next].next;
    start(next);
  } else {
    --connection.under_way;
  }
  if (message.to < ranks_.size() && !ranks_[message.to].entered) {
    held_.hold(message);
  } else {
    schedule_->arrived(message, *this);
  }
  if (message.from < ranks_.size()) {
    --ranks_[message.from].unsent;
    settle(message.from);
  }
}

void CollectiveRun::send(const Message& message) {
  std::uint32_t index = free_;
  if (index == kNone) {
    index = static_cast<std::uint32_t>(records_.size());
    records_.emplace_back();
  } else {
    free_ = records_[index].next;
  }
  const std::uint32_t id = connection(message);
  records_[index] = {message, id, kNone};
  ++messages_;
  bytes_ += message.bytes;
  if (message.from < ranks_.size()) ++ranks_[message.from].unsent;
  Connection& connection = connections_[id];
  if (connection.under_way < window_) {
    ++connection.under_way;
    start(index);
    return;
  }
  if (connection.first == kNone) {
    connection.first = index;
  } else {
    records_[connection.last].next = index;
  }
  connection.last = index;
}

void CollectiveRun::start(std::uint32_t record) {
  const Message& message = records_[record].message;
  if (std::max(message.from, message.to) >= nodes_.size())
    throw std::invalid_argument("a collective needs the node of every switch of its tree: see member_nodes()");
  carrier_.send(nodes_[message.from], nodes_[message.to], message.bytes, label_ + message.channel, *this, record);
}

void CollectiveRun::finished(Member rank) {
  ranks_[rank].finished = true;
  settle(rank);
}

void CollectiveRun::settle(Member rank) {
  Rank& r = ranks_[rank];
  if (!r.finished || r.unsent != 0 || r.done != sim::kNever) return;
  r.done = engine_.now();
  const bool last = --left_ == 0;
  if (last) done_at_ = r.done;
  if (listener_ == nullptr) return;
  listener_->rank_done(rank);
  if (last) listener_->all_done();
}

std::uint32_t CollectiveRun::connection(const Message& message) {
  const std::uint64_t ends = std::uint64_t{message.from} << 32 | message.to;
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash_of(ends, message.channel) & mask;
  for (; table_[at] != kNone; at = (at + 1) & mask) {
    const Connection& known = connections_[table_[at]];
    if (known.ends == ends && known.channel == message.channel) return table_[at];
  }
  const auto id = static_cast<std::uint32_t>(connections_.size());
  connections_.push_back({ends, message.channel});
  table_[at] = id;
  if (connections_.size() * 2 > table_.size()) grow_table();
  return id;
}

void CollectiveRun::grow_table() {
  table_.assign(table_.size() * 2, kNone);
  const std::size_t mask = table_.size() - 1;
  for (std::uint32_t id = 0; id < connections_.size(); ++id) {
    std::size_t at = hash_of(connections_[id].ends, connections_[id].channel) & mask;
    while (table_[at] != kNone) at = (at + 1) & mask;
    table_[at] = id;
  }
}

std::vector<NodeIndex> member_nodes(std::span<const NodeIndex> ranks, const AggregationTree& tree) {
  std::vector<NodeIndex> nodes(ranks.begin(), ranks.end());
  nodes.insert(nodes.end(), tree.switches.begin(), tree.switches.end());
  return nodes;
}

}  // namespace orrery::hw
