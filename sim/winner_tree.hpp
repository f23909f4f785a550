// The least of many changing keys: a tournament, replayed along one branch when a key changes.
//
// Every change costs log2(n) comparisons, always, and no branch to guess: for keys that move about in no pattern this
// beats a heap. Equal keys come up in no particular order. Places are given out in order and all given back at once.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/base/branchless.hpp"

namespace orrery::sim {

class WinnerTree {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  WinnerTree() { rebuild(64); }

  /// Gives all places back. Linear in the places given.
  void clear() {
    for (std::uint32_t first = leaves_, last = leaves_ + used_; first > 0 && used_ > 0;
         first >>= 1, last = last / 2 + 1)
      for (std::uint32_t i = first; i < last; ++i) nodes_[i].key = kNever;
    used_ = 0;
  }
  /// A new place, with key kNever.
  std::uint32_t add() {
    if (used_ == leaves_) rebuild(2 * leaves_);
    return used_++;
  }
  std::int64_t key(std::uint32_t place) const { return nodes_[leaves_ + place].key; }
  void set(std::uint32_t place, std::int64_t key) {
    Node* const nodes = nodes_.data();
    std::uint32_t winner = place;
    nodes[leaves_ + place].key = key;
    // The rivals on the way up are known from the start; only the comparisons wait for each other.
    for (std::uint32_t i = leaves_ + place; i > 1; i >>= 1) {
      const Node rival = nodes[i ^ 1];
      const bool loses = rival.key < key;
      winner ^= (winner ^ rival.place) & static_cast<std::uint32_t>(0 - opaque(loses ? 1 : 0));
      key = loses ? rival.key : key;
      nodes[i >> 1] = {key, winner};
    }
  }
  /// The same for a key that is below the present one: ends where the place wins nothing more.
  void lower(std::uint32_t place, std::int64_t key) {
    Node* const nodes = nodes_.data();
    std::uint32_t i = leaves_ + place;
    nodes[i].key = key;
    for (i >>= 1; i > 0 && key < nodes[i].key; i >>= 1) nodes[i] = {key, place};
  }
  /// kNever if there is none.
  std::int64_t top_key() const { return nodes_[1].key; }
  std::uint32_t top() const { return nodes_[1].place; }

 private:
  struct Node {
    std::int64_t key = kNever;
    std::uint32_t place = 0;
  };
  void rebuild(std::uint32_t leaves) {
    std::vector<Node> old(nodes_.begin() + leaves_, nodes_.end());
    leaves_ = leaves;
    nodes_.assign(2 * std::size_t{leaves}, {});
    for (std::uint32_t i = 0; i < leaves; ++i) nodes_[leaves + i].place = i;
    for (std::uint32_t i = 0; i < used_; ++i) set(i, old[i].key);
  }

  std::vector<Node> nodes_;
  std::uint32_t leaves_ = 0;
  std::uint32_t used_ = 0;
};

}  // namespace orrery::sim
