#include "experiments/systems/serving/cluster/transfer.hpp"

#include <array>

namespace orrery::experiments {
namespace {
constexpr auto kNoPath = static_cast<sim::FlowNetwork::Path>(-1);
}  // namespace

KvTransfers::KvTransfers(sim::Engine& engine, const TransferParams& params, std::size_t replicas)
    : network_(engine),
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
  sim::FlowNetwork::Path& path = paths_[from * replicas_ + to];
  if (path == kNoPath) path = network_.add_path(std::array{out_[from], in_[to]}, latency_);
  return network_.start(path, bytes, done, payload, fixed_);
}

}  // namespace orrery::experiments
