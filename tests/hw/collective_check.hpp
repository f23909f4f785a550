// Carries a collective's messages in random order and proves what they carry: every byte of every member is the set of
// ranks whose contribution it holds, and a message takes along a copy of these sets.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hw/network/collective.hpp"
#include "hw/network/collective_parts.hpp"
#include "hw/network/routing.hpp"
#include "sim/base/random.hpp"

namespace orrery::hw::test {

/// A schedule by name with parameters as JSON text ("" for the defaults).
inline std::unique_ptr<CollectiveSchedule> make_collective(const std::string& algorithm, const std::string& params,
                                                           const CollectiveSpec& spec) {
  CollectiveRegistry registry("collective");
  register_collectives(registry);
  sim::Faults faults;
  sim::Node node;
  if (!params.empty()) node = sim::parse_json(params, "params.json");
  auto choice = registry.prepare(algorithm, params.empty() ? nullptr : &node, {}, faults);
  faults.throw_if_any();
  return choice.make(spec);
}

/// Hosts under a tree of switches, `up[i]` being the switch above switch i and `at[h]` the one of host h.
struct SwitchTree {
  std::vector<NodeIndex> at;
  std::vector<NodeIndex> up;

  Topology topology() const {
    Topology t;
    t.kind = "tree";
    t.hosts = static_cast<std::int64_t>(at.size());
    for (std::size_t i = 0; i < at.size() + up.size(); ++i) t.nodes.push_back("node" + std::to_string(i));
    for (std::size_t i = 0; i + 1 < at.size() + up.size() + (up.empty() ? 1 : 0); ++i) {
      const auto below = static_cast<NodeIndex>(i < at.size() ? i : i + 1);
      t.links.push_back({below, above(below), 1e9, 1e-6});
      t.links.push_back({above(below), below, 1e9, 1e-6});
    }
    return t;
  }
  NodeIndex root() const { return static_cast<NodeIndex>(at.size()); }  // switch 0
  NodeIndex above(NodeIndex node) const {
    const auto hosts = static_cast<NodeIndex>(at.size());
    return hosts + (node < hosts ? at[node] : up[node - hosts]);
  }
};

/// Routes of a SwitchTree.
class TreeRouting final : public Routing {
 public:
  explicit TreeRouting(const SwitchTree& tree) : tree_(tree) {}
  bool route(NodeIndex from, NodeIndex to, std::uint64_t, std::vector<LinkIndex>& path) override {
    std::vector<NodeIndex> over = chain(to);
    std::vector<LinkIndex> down;
    while (std::find(over.begin(), over.end(), from) == over.end()) {
      path.push_back(2 * cable(from));
      from = tree_.above(from);
    }
    for (const NodeIndex node : over) {
      if (node == from) break;
      down.push_back(2 * cable(node) + 1);
    }
    path.insert(path.end(), down.rbegin(), down.rend());
    return true;
  }
  void links_changed(const std::vector<bool>&) override {}

 private:
  LinkIndex cable(NodeIndex below) const { return below < tree_.root() ? below : below - 1; }
  std::vector<NodeIndex> chain(NodeIndex node) const {
    std::vector<NodeIndex> nodes{node};
    while (nodes.back() != tree_.root()) nodes.push_back(tree_.above(nodes.back()));
    return nodes;
  }
  SwitchTree tree_;
};

/// The check itself. `run` delivers everything; REQUIREs fail where a promise is broken.
class SymbolicRun final : public MessageSink {
 public:
  SymbolicRun(CollectiveSchedule& schedule, const CollectiveSpec& spec, sim::RandomStream& random)
      : schedule_(schedule), spec_(spec), random_(random), held_(static_cast<std::size_t>(spec.ranks)) {
    const auto n = static_cast<std::size_t>(spec.ranks);
    const Shards shards = Shards::of(spec);
    std::int64_t space = 0;
    for (std::size_t r = 0; r <= n; ++r) shard_first.push_back(shards.first(r));
    for (std::size_t i = 0; i < n * n && spec.kind == CollectiveKind::all_to_all; ++i) {
      pair_first.push_back(space);
      space += spec.pair_bytes.empty() ? shards.bytes(i % n) : spec.pair_bytes[i];
    }
    pair_first.push_back(space);
    space_ = static_cast<std::size_t>(spec.kind == CollectiveKind::all_to_all ? space : spec.bytes);
    state_.assign(n + spec.tree.switches.size(), std::vector<std::uint64_t>(space_, 0));
    sent.assign(state_.size(), 0);
    entered_.assign(n, false);
    finished_.assign(n, false);
  }

  void run() {
    std::vector<Member> outside;
    for (Member r = 0; r < entered_.size(); ++r) outside.push_back(r);
    while (!outside.empty() || !pending_.empty()) {
      const std::uint64_t pick = random_.below(pending_.size() + outside.size());
      if (pick < pending_.size()) {
        std::swap(pending_[pick], pending_.back());
        Carried carried = std::move(pending_.back());
        pending_.pop_back();
        const Member to = carried.message.to;
        if (to < entered_.size() && !entered_[to]) {
          held_[to].push_back(std::move(carried));
        } else {
          deliver(carried);
        }
        continue;
      }
      const std::size_t i = pick - pending_.size();
      const Member rank = outside[i];
      outside.erase(outside.begin() + static_cast<std::ptrdiff_t>(i));
      enter(rank);
    }
    REQUIRE(kept_.empty());
    for (Member r = 0; r < entered_.size(); ++r) {
      REQUIRE(finished_[r]);
      REQUIRE(keeps_promise(r));
    }
  }

  void send(const Message& message) override {
    REQUIRE(message.bytes > 0);
    REQUIRE(message.from != message.to);
    REQUIRE(std::max(message.from, message.to) < state_.size());
    if (message.from < entered_.size()) {
      REQUIRE(entered_[message.from]);
      REQUIRE_FALSE(finished_[message.from]);
    }
    Carried carried{message, {}, {}};
    schedule_.describe(message, carried.pieces);
    std::int64_t bytes = 0;
    bool known = true;
    for (const Piece& piece : carried.pieces) {
      REQUIRE(piece.first >= 0);
      REQUIRE(piece.bytes > 0);
      REQUIRE(static_cast<std::size_t>(piece.first + piece.bytes) <= space_);
      bytes += piece.bytes;
      for (std::int64_t b = piece.first; b < piece.first + piece.bytes; ++b) {
        const std::uint64_t content = state_[message.from][static_cast<std::size_t>(b)];
        known = known && content != 0;
        carried.content.push_back(content);
      }
    }
    REQUIRE(bytes == message.bytes);
    REQUIRE(known);  // the sender has what it sends
    sent[message.from] += message.bytes;
    total += message.bytes;
    ++messages;
    pending_.push_back(std::move(carried));
  }

  void taken(const Message& message) override {
    const auto kept = std::ranges::find_if(kept_, [&](const Carried& carried) {
      return carried.message.tag == message.tag && carried.message.from == message.from &&
             carried.message.to == message.to;
    });
    REQUIRE(kept != kept_.end());
    const Carried carried = std::move(*kept);
    kept_.erase(kept);
    apply(carried);
  }

  void finished(Member rank) override {
    REQUIRE(entered_[rank]);
    REQUIRE_FALSE(finished_[rank]);
    finished_[rank] = true;
    REQUIRE(keeps_promise(rank));
  }

  std::vector<std::int64_t> sent;  ///< bytes by member
  std::int64_t total = 0;
  std::int64_t messages = 0;
  std::vector<std::int64_t> shard_first;
  std::vector<std::int64_t> pair_first;

 private:
  struct Carried {
    Message message;
    std::vector<Piece> pieces;
    std::vector<std::uint64_t> content;
  };

  void fill(Member rank, std::int64_t first, std::int64_t last, std::uint64_t ranks) {
    for (std::int64_t b = first; b < last; ++b) state_[rank][static_cast<std::size_t>(b)] |= ranks;
  }
  bool holds(Member rank, std::int64_t first, std::int64_t last, std::uint64_t ranks) const {
    bool all = true;
    for (std::int64_t b = first; b < last; ++b) all = all && state_[rank][static_cast<std::size_t>(b)] == ranks;
    return all;
  }

  void enter(Member rank) {
    entered_[rank] = true;
    const std::size_t n = entered_.size();
    const std::uint64_t own = 1ULL << rank;
    switch (spec_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce_scatter:
        fill(rank, 0, spec_.bytes, own);
        break;
      case CollectiveKind::all_gather:
        fill(rank, shard_first[rank], shard_first[rank + 1], own);
        break;
      case CollectiveKind::all_to_all:
        fill(rank, pair_first[rank * n], pair_first[(rank + 1) * n], own);
        break;
      default:
        if (rank == spec_.root) fill(rank, 0, spec_.bytes, own);
    }
    schedule_.enter(rank, *this);
    std::vector<Carried> waiting;
    waiting.swap(held_[rank]);
    for (const Carried& carried : waiting) deliver(carried);
  }

  void deliver(const Carried& carried) {
    if (schedule_.keeps(carried.message)) {
      kept_.push_back(carried);
    } else {
      apply(carried);
    }
    schedule_.arrived(carried.message, *this);
  }

  void apply(const Carried& carried) {
    std::vector<std::uint64_t>& state = state_[carried.message.to];
    std::size_t i = 0;
    bool once = true;
    for (const Piece& piece : carried.pieces) {
      for (std::int64_t b = piece.first; b < piece.first + piece.bytes; ++b, ++i) {
        std::uint64_t& here = state[static_cast<std::size_t>(b)];
        if (piece.reduce) {
          once = once && (here & carried.content[i]) == 0;
          here |= carried.content[i];
        } else {
          here = carried.content[i];
        }
      }
    }
    REQUIRE(once);  // no contribution is added twice
  }

  bool keeps_promise(Member rank) const {
    const std::size_t n = entered_.size();
    const std::uint64_t all = n == 64 ? ~0ULL : (1ULL << n) - 1;
    switch (spec_.kind) {
      case CollectiveKind::all_reduce:
        return holds(rank, 0, spec_.bytes, all);
      case CollectiveKind::reduce_scatter:
        return holds(rank, shard_first[rank], shard_first[rank + 1], all);
      case CollectiveKind::all_gather: {
        bool good = true;
        for (Member r = 0; r < n; ++r) good = good && holds(rank, shard_first[r], shard_first[r + 1], 1ULL << r);
        return good;
      }
      case CollectiveKind::all_to_all: {
        bool good = true;
        for (std::size_t r = 0; r < n; ++r)
          good = good && holds(rank, pair_first[r * n + rank], pair_first[r * n + rank + 1], 1ULL << r);
        return good;
      }
      default:
        return holds(rank, 0, spec_.bytes, 1ULL << spec_.root);
    }
  }

  CollectiveSchedule& schedule_;
  CollectiveSpec spec_;
  sim::RandomStream& random_;
  std::size_t space_ = 0;
  std::vector<std::vector<std::uint64_t>> state_;
  std::vector<bool> entered_;
  std::vector<bool> finished_;
  std::vector<Carried> pending_;
  std::vector<std::vector<Carried>> held_;  // for ranks that have not entered
  std::vector<Carried> kept_;               // by the schedule
};

}  // namespace orrery::hw::test
