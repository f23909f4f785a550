#include "experiments/systems/serving/replica/instants.hpp"

#include <algorithm>
#include <functional>

namespace orrery::experiments {

std::size_t Instants::add(TurnTaker& taker) {
  of_.push_back({.taker = &taker});
  return of_.size() - 1;
}

void Instants::ends_at(std::size_t who, const ExactTime& end) {
  Of& of = of_[who];
  of.end = end;
  of.flies = true;
  if (ending_ && end.tick() == engine_.now()) {
    due(who);  // within the tick that is being gone through
  } else {
    of.event = engine_.schedule_at(end.tick(), *this, who, sim::Rank::first);
  }
}

void Instants::cancel(std::size_t who) {
  of_[who].flies = false;
  engine_.cancel(of_[who].event);
}

void Instants::ask_turn(std::size_t who) {
  if (of_[who].asks) return;
  of_[who].asks = true;
  asking_.push_back(who);
}

void Instants::settle(bool goes_on) {
  while (!ending_ && !deciding_ && !decide_due_ && !asking_.empty()) {
    if (goes_on || engine_.more_now()) {
      decide_due_ = true;
      engine_.schedule_in({}, *this, kDecide, sim::Rank::last);
    } else {
      decide();
    }
  }
}

void Instants::close() {
  if (!decide_due_ && !engine_.more_now()) decided_ = now();
}

void Instants::on_event(std::uint64_t payload) {
  if (payload == kDecide) {
    decide_due_ = false;
    decide();
  } else {
    due(payload);
    if (engine_.more_now(sim::Rank::first)) return;
    land_all();
  }
  settle();
}

void Instants::due(std::size_t who) {
  due_.push_back({of_[who].end, who});
  std::ranges::push_heap(due_, std::greater<>{});
}

/// Goes through the ends of this tick.
void Instants::land_all() {
  const ExactTime instant{engine_.now().ticks, 0};
  ending_ = true;
  while (!due_.empty()) {
    at_ = due_.front().at;
    while (!due_.empty() && due_.front().at == at_) land_next();
    while (at_ < instant && !asking_.empty()) decide();
  }
  ending_ = false;
}

void Instants::land_next() {
  const End end = due_.front();
  std::ranges::pop_heap(due_, std::greater<>{});
  due_.pop_back();
  Of& of = of_[end.who];
  if (!of.flies || of.end != end.at) return;  // it was put off, or moved
  of.flies = false;
  of.taker->land();
}

/// A round of turns.
void Instants::decide() {
  decided_ = now();
  deciding_ = true;
  turns_.swap(asking_);
  std::ranges::sort(turns_);
  for (const std::size_t who : turns_) {
    of_[who].asks = false;
    of_[who].taker->take_turn();
  }
  turns_.clear();
  deciding_ = false;
}

}  // namespace orrery::experiments
