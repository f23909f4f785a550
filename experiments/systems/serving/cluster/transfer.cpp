#include "experiments/systems/serving/cluster/transfer.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace orrery::experiments {
namespace {
constexpr auto kNoPath = static_cast<sim::FlowNetwork::Path>(-1);
}  // namespace

KvTransfers::KvTransfers(sim::Engine& engine, const TransferParams& params, std::size_t replicas, KvWires wires)
    : wires_(std::move(wires)),
      network_(engine),
      latency_(engine.scale().duration(params.latency_s)),
      fixed_(engine.scale().duration(params.fixed_s)),
      replicas_(replicas),
      paths_(replicas * replicas, kNoPath) {
  for (std::size_t i = 0; i < replicas; ++i) {
    out_.push_back(network_.add_link(params.bandwidth));
    in_.push_back(network_.add_link(params.bandwidth));
  }
}

sim::FlowId KvTransfers::start(std::size_t from, std::size_t to, std::int64_t bytes, sim::EventHandler& done,
                               std::uint64_t payload) {
  if (wires_.network != nullptr) return send(from, to, bytes, {&done, payload});
  sim::FlowNetwork::Path& path = paths_[from * replicas_ + to];
  if (path == kNoPath) path = network_.add_path(std::array{out_[from], in_[to]}, latency_);
  return network_.start(path, bytes, done, payload, fixed_);
}

sim::FlowId KvTransfers::send(std::size_t from, std::size_t to, std::int64_t bytes, Sent sent) {
  const std::vector<hw::NodeIndex>&senders = wires_.hosts[from], &receivers = wires_.hosts[to];
  const std::size_t messages = std::max(senders.size(), receivers.size());
  sent.left = messages;
  std::size_t slot = 0;
  while (slot < sent_.size() && sent_[slot].left > 0) ++slot;
  if (slot == sent_.size()) sent_.emplace_back();
  sent_[slot] = sent;
  const auto count = static_cast<std::int64_t>(messages);
  for (std::size_t i = 0; i < messages; ++i) {
    const std::int64_t part = bytes / count + (static_cast<std::int64_t>(i) < bytes % count ? 1 : 0);
    wires_.network->send(senders[i * senders.size() / messages], receivers[i * receivers.size() / messages], part, slot,
                         *this, slot);
  }
  return {slot};
}

void KvTransfers::on_event(std::uint64_t slot) {
  Sent& sent = sent_[slot];
  if (--sent.left == 0 && sent.done != nullptr) sent.done->on_event(sent.payload);
}

void KvTransfers::cancel(sim::FlowId flow) {
  if (wires_.network == nullptr) {
    network_.cancel(flow);
  } else {
    sent_[flow.value].done = nullptr;
  }
}

}  // namespace orrery::experiments
