// Lanes whose iterations begin and end together: ranks that attend for different requests and meet in the experts.
//
// When no lane is in an iteration and one of them has work, all lanes decide at that instant, in order, and begin at
// once. The step lasts as long as that of its fullest lane,
//     step = max over lanes of (stalls + iteration as the lane's model prices it)
// where a lane's model prices its batch as if all lanes had it: ranks pad to the fullest, as vLLM's do. A lane without
// work waits (its dummy pass costs no energy here); whoever arrives meanwhile joins the next step. What lanes wait for
// the fullest is told as 1 - work / (lanes x steps). Steps do not leap: the lanes would have to agree on how far.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/replica/instants.hpp"

namespace orrery::experiments {

class Replica;

class LockStep final : private TurnTaker {
 public:
  explicit LockStep(Instants& instants) : instants_(instants), number_(instants.add(*this)) {}
  /// All lanes, before any has work.
  void add(Replica& lane) { lanes_.push_back(&lane); }
  /// A lane is between two iterations and may have work: the step begins once all lanes are and all else of this
  /// instant is through (Instants::settle() follows).
  void ready();
  /// Time in steps, and that of the lanes' own iterations in them, summed over lanes.
  __int128 occupied_ps() const { return occupied_ps_; }
  __int128 work_ps() const { return work_ps_; }

 private:
  void take_turn() override;
  bool iterating() const;

  Instants& instants_;
  std::size_t number_;  // of its turns
  std::vector<Replica*> lanes_, planned_;
  __int128 occupied_ps_ = 0, work_ps_ = 0;
};

}  // namespace orrery::experiments
