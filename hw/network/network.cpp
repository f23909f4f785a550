#include "hw/network/network.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/base/mix.hpp"

namespace orrery::hw {
namespace {

std::uint64_t ends_of(NodeIndex from, NodeIndex to) {
  return std::uint64_t{from} << 32 | to;
}

}  // namespace

Network::Network(sim::Engine& engine, const Topology& topology, std::unique_ptr<Routing> routing, NetworkParams params)
    : engine_(engine),
      topology_(topology),
      routing_(std::move(routing)),
      flows_(engine),
      overhead_(engine.scale().duration(params.message_overhead_s)),
      up_(topology.links.size(), true),
      known_(64),
      interned_(64) {
  for (const NetworkLink& link : topology.links) {
    flows_.add_link(link.bandwidth);
    latency_.push_back(engine.scale().duration(link.latency_s));
  }
  local_ = flows_.add_path({}, sim::Duration{0});
  path_hash_.push_back(0);
}

// --- Paths -----------------------------------------------------------------------------------------------------------

bool Network::path(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& links,
                   sim::Duration& latency) {
  links.clear();
  latency = {};
  if (!routing_->route(from, to, label, links)) return false;
  for (const LinkIndex link : links) latency += latency_[link];
  return true;
}

sim::FlowNetwork::Path Network::intern(const std::vector<LinkIndex>& links) {
  if (links.empty()) return local_;
  if (2 * ++interned_count_ > interned_.size()) {
    std::vector<Interned> old(2 * interned_.size());
    old.swap(interned_);
    for (const Interned& entry : old) {
      if (entry.path == kNone) continue;
      std::size_t i = entry.hash;
      while (interned_[i & (interned_.size() - 1)].path != kNone) ++i;
      interned_[i & (interned_.size() - 1)] = entry;
    }
  }
  std::uint64_t hash = links.size();
  for (const LinkIndex link : links) hash = sim::mix64(hash + link);
  for (std::size_t i = hash;; ++i) {
    Interned& entry = interned_[i & (interned_.size() - 1)];
    if (entry.path == kNone) {
      sim::Duration latency;
      for (const LinkIndex link : links) latency += latency_[link];
      entry = {hash, static_cast<std::uint32_t>(interned_links_.size()), static_cast<std::uint32_t>(links.size()),
               flows_.add_path(links, latency)};
      interned_links_.insert(interned_links_.end(), links.begin(), links.end());
      path_hash_.push_back(hash);
      return entry.path;
    }
    if (entry.hash == hash && std::equal(links.begin(), links.end(), interned_links_.begin() + entry.begin,
                                         interned_links_.begin() + entry.begin + entry.length)) {
      --interned_count_;
      return entry.path;
    }
  }
}

void Network::grow_known() {
  std::vector<Known> old(2 * known_.size());
  old.swap(known_);
  for (const Known& entry : old) {
    if (entry.path == kNone) continue;
    std::size_t i = sim::mix64(entry.ends ^ sim::mix64(entry.label));
    while (known_[i & (known_.size() - 1)].path != kNone) ++i;
    known_[i & (known_.size() - 1)] = entry;
  }
}

// kNone if there is no path now.
sim::FlowNetwork::Path Network::find_path(NodeIndex from, NodeIndex to, std::uint64_t label) {
  const std::uint64_t ends = ends_of(from, to);
  std::size_t i = sim::mix64(ends ^ sim::mix64(label));
  for (;; ++i) {
    const Known& entry = known_[i & (known_.size() - 1)];
    if (entry.path == kNone) break;
    if (entry.ends == ends && entry.label == label) return entry.path;
  }
  scratch_.clear();
  if (!routing_->route(from, to, label, scratch_)) return kNone;
  const sim::FlowNetwork::Path path = intern(scratch_);
  known_[i & (known_.size() - 1)] = {ends, label, path};
  if (2 * ++known_count_ > known_.size()) grow_known();
  return path;
}

// --- Messages and links ----------------------------------------------------------------------------------------------

void Network::send(NodeIndex from, NodeIndex to, std::int64_t bytes, std::uint64_t label, sim::EventHandler& on_arrival,
                   std::uint64_t payload) {
  if (from >= topology_.nodes.size() || to >= topology_.nodes.size() || bytes < 0)
    throw std::invalid_argument("network: a message between nodes that are not there, or of negative size");
  const sim::FlowNetwork::Path path = from == to ? local_ : find_path(from, to, label);
  if (path == kNone) {
    waiting_.push_back({from, to, bytes, label, &on_arrival, payload});
  } else {
    flows_.start(path, bytes, on_arrival, payload, overhead_);
  }
}

void Network::set_link(LinkIndex link, double share) {
  if (link >= topology_.links.size() || !(share >= 0))
    throw std::invalid_argument("network: a link that is not there, or a negative share of its bandwidth");
  flows_.set_bandwidth(link, topology_.links[link].bandwidth * share);
  const bool up = share > 0;
  if (up_[link] == up) return;
  up_[link] = up;
  routing_->links_changed(up_);
  std::fill(known_.begin(), known_.end(), Known{});
  known_count_ = 0;
  if (!up) {
    reroute_flows(link);
    return;
  }
  for (LinkIndex other = 0; other < up_.size(); ++other)
    if (!up_[other]) reroute_flows(other);
  retry_waiting();
}

// Flows over a failed link take another path; those that find none stay on it and wait.
void Network::reroute_flows(LinkIndex failed) {
  for (const sim::FlowId flow : flows_.flows_on(failed)) {
    const auto [first, last] = flows_.ends_of(flows_.path_of(flow));
    // The label of the message is not kept; the links it chose spread those that meet on the failed one, whatever the
    // order in which they started.
    const std::uint64_t label = path_hash_[flows_.path_of(flow)];
    const sim::FlowNetwork::Path path = find_path(topology_.links[first].from, topology_.links[last].to, label);
    if (path == kNone) continue;
    flows_.move(flow, path);
    ++rerouted_;
  }
}

void Network::retry_waiting() {
  std::vector<Waiting> waiting;
  waiting.swap(waiting_);
  for (const Waiting& w : waiting) send(w.from, w.to, w.bytes, w.label, *w.on_arrival, w.payload);
}

}  // namespace orrery::hw
