#include "experiments/systems/serving/cluster/front_door.hpp"

namespace orrery::experiments {

void FrontDoor::send(Request& request) {
  const sim::Time due = engine_.now() + takes_;
  if (guests_.empty()) engine_.schedule_at(due, *this);
  guests_.push_back({&request, due});
}

void FrontDoor::let_in() {
  Request& request = *guests_.front().request;
  guests_.pop_front();
  cluster_.send(request);
}

void FrontDoor::on_event(std::uint64_t /*payload*/) {
  while (!guests_.empty() && guests_.front().due == engine_.now()) let_in();
  if (!guests_.empty()) engine_.schedule_at(guests_.front().due, *this);
  cluster_.flush();
}

void FrontDoor::finish() {
  while (!guests_.empty()) let_in();
}

}  // namespace orrery::experiments
