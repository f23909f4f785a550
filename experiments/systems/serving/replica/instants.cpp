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
    const bool more = engine_.more_now(sim::Rank::first);
    const bool alone = !more && due_.empty();
    if (!alone) due(payload);
    if (more) return;
    go_through(alone ? End{of_[payload].end, payload} : next_due());
  }
  settle();
}

void Instants::due(std::size_t who) {
  due_.push_back({of_[who].end, who});
  std::ranges::push_heap(due_, std::greater<>{});
}

Instants::End Instants::next_due() {
  const End end = due_.front();
  std::ranges::pop_heap(due_, std::greater<>{});
  due_.pop_back();
  return end;
}

/// The ends of this tick, `end` and those that are due after it.
void Instants::go_through(End end) {
  const ExactTime instant{engine_.now().ticks, 0};
  ending_ = true;
  while (true) {
    at_ = end.at;
    Of& of = of_[end.who];
    if (of.flies && of.end == end.at) {  // else it was put off, or put forward
      of.flies = false;
      of.taker->land();
    }
    if (due_.empty() || due_.front().at != at_)
      while (at_ < instant && !asking_.empty()) decide();
    if (due_.empty()) break;
    end = next_due();
  }
  ending_ = false;
}

/// A round of turns.
void Instants::decide() {
  decided_ = now();
  deciding_ = true;
  turns_.swap(asking_);
  if (turns_.size() > 1) std::ranges::sort(turns_);
  for (const std::size_t who : turns_) {
    of_[who].asks = false;
    of_[who].taker->take_turn();
  }
  turns_.clear();
  deciding_ = false;
}

}  // namespace orrery::experiments
