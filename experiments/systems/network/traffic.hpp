// Generated traffic: who sends how much to whom, message by message.
//
//   uniform       source and destination are any two hosts that differ
//   permutation   every host sends to one other, drawn once (Sattolo's cycle, so that no host meets itself)
//   incast        all hosts but the target send to it in turn
//   all_to_all    host h sends to h+1, h+2 … around, one round of all hosts after the other
//   neighbour     every host sends to the next
//
// Where it is not random the sources take turns. All draws come from the stream "traffic", sizes from "traffic/bytes".
#pragma once

#include "experiments/systems/network/config.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments::network {

class TrafficMatrix {
 public:
  TrafficMatrix(const Traffic& traffic, const sim::Engine& engine);

  struct Pair {
    hw::NodeIndex from = 0, to = 0;
    std::int64_t bytes = 0;
  };
  /// The next message.
  Pair next();

 private:
  std::pair<std::size_t, std::size_t> next_ends();

  const Traffic& traffic_;
  sim::RandomStream ends_, sizes_;
  std::vector<std::size_t> partner_;  // permutation
  std::uint64_t count_ = 0;
};

}  // namespace orrery::experiments::network
