#include "experiments/systems/serving/replica/lane.hpp"

#include <stdexcept>
#include <vector>

namespace orrery::experiments {

using policies::Phase;
using policies::SeqId;

void Lane::give_up_latest(policies::Preempt how) {
  owner_.give_up(*latest_admission(on_.sequences), how);
}

/// It goes on here; its phase stays what it is.
void Lane::move_here(Lane& other, SeqId id) {
  const policies::Sequence& seq = on_.sequences[id];
  const bool steady = seq.steady;
  if (steady) other.on_.steady.leave(id);
  on_.sequences.take_over(other.on_.sequences, id);
  Request& request = on_.sequences.request(id);
  request.lane = number_;
  if (on_.books.watched() && seq.phase != Phase::paused)
    on_.books.tell(request, seq.phase == Phase::decode ? RequestPhase::decode : RequestPhase::prefill, engine_.now());
  if (steady) on_.steady.enter(id, true);
}

void Lane::take_decodes(Lane& other, std::int64_t count) {
  std::vector<SeqId> moving;
  const std::vector<SeqId>& running = other.sequences().running();
  for (auto id = running.rbegin(); id != running.rend() && std::ssize(moving) < count; ++id)
    if (on_.sequences[*id].phase == Phase::decode) moving.push_back(*id);
  for (const SeqId id : moving) move_here(other, id);
}

void Lane::take_over(Lane& other) {
  if (other.loading()) throw std::logic_error("a lane is emptied while copies to it are under way");
  const std::vector<SeqId> moving = other.sequences().running();
  for (const SeqId id : moving) move_here(other, id);
}

}  // namespace orrery::experiments
