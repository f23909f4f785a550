#include "experiments/systems/serving/cluster/front_door.hpp"

#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {

void FrontDoor::enter(Request& request) {
  const sim::Time due = engine_.now() + takes_;
  if (guests_.empty()) engine_.schedule_at(due, *this);
  guests_.push_back({&request, due});
}

void FrontDoor::on_event(std::uint64_t /*payload*/) {
  while (!guests_.empty() && guests_.front().due == engine_.now()) {
    Request& request = *guests_.front().request;
    guests_.pop_front();
    cluster_.admit(request);
  }
  if (!guests_.empty()) engine_.schedule_at(guests_.front().due, *this);
  cluster_.flush();
}

std::deque<Request*> FrontDoor::finish() {
  std::deque<Request*> left;
  for (const Guest& guest : guests_) left.push_back(guest.request);
  guests_.clear();
  return left;
}

}  // namespace orrery::experiments
