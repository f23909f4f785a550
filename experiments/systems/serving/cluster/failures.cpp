#include "experiments/systems/serving/cluster/failures.hpp"

#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {

void Failures::watch() {
  for (std::size_t i = 0; i < of_.size(); ++i) plan(i);
}

/// Finds out whether a replica is up, and schedules when that changes.
void Failures::plan(std::size_t i) {
  Of& own = of_[i];
  own.outage = outages_.next(i, engine_.now());
  const bool down = own.outage && own.outage->begin <= engine_.now();
  if (down && !fleet_[i].down) cluster_.fail(i);
  if (!down && fleet_[i].down) cluster_.come_back(i);
  if (!own.outage || cluster_.in_system() == 0) return;
  // Late: iterations that end at that very instant have ended.
  own.change = engine_.schedule_at(down ? own.outage->end : own.outage->begin, *this, i, sim::Rank::late);
}

void Failures::unwatch() {
  for (const Of& own : of_)
    if (own.change) engine_.cancel(*own.change);
}

void Failures::on_event(std::uint64_t i) {
  if (fleet_[i].down) {
    cluster_.come_back(i);
  } else {
    cluster_.fail(i);
  }
  plan(i);
  cluster_.flush();
}

}  // namespace orrery::experiments
