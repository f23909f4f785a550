#include "sim/processor_sharing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace orrery::sim {

namespace {

constexpr int kVirtualBits = 32;
constexpr int kRateBits = 20;
// Virtual time falls behind by less than 2^-32 of a tick at every change of the jobs; a job is done when no more than
// this is left, so that 2^24 changes during its service do not cost it a tick.
constexpr __int128 kSlack = __int128{1} << (kVirtualBits - 8);
constexpr std::int64_t kLargestWeight = std::int64_t{1} << 20;

std::int64_t to_rate(double servers, const std::string& name) {
  const double scaled = std::round(servers * 0x1.0p20);
  if (!(scaled >= 1 && scaled <= 0x1.0p40))
    throw std::logic_error("'" + name + "': servers and cap must be above 0 and at most 2^20");
  return static_cast<std::int64_t>(scaled);
}

__int128 divide_up(__int128 a, __int128 b) {
  return (a + b - 1) / b;
}

}  // namespace

SharedUse::SharedUse(ProcessorSharing& resource, Duration work, std::int64_t weight)
    : resource_(&resource), work_(work), weight_(weight) {
  if (work < Duration{0}) throw std::logic_error("'" + resource.name() + "': a job has negative work");
  if (weight < 1 || weight > kLargestWeight)
    throw std::logic_error("'" + resource.name() + "': a weight is outside 1 to 2^20");
}

SharedUse::~SharedUse() {
  if (served_) resource_->cancel(*this);
}

Engine& SharedUse::engine() const {
  return resource_->engine();
}

void SharedUse::begin_wait(PromiseBase& promise) {
  suspend(promise);
  resource_->arrive(*this);
}

void SharedUse::describe(std::string& out) const {
  if (resource_ == nullptr) {
    out += "a resource that is gone";
    return;
  }
  out += "service by ";
  append_quoted(out, resource_->name());
}

ProcessorSharing::ProcessorSharing(Engine& engine, std::string name, double servers, double cap)
    : Resource(engine, std::move(name)), rate_(to_rate(servers, this->name())), cap_(to_rate(cap, this->name())) {
  restart_statistics();
}

ProcessorSharing::~ProcessorSharing() {
  if (heap_.empty()) return;
  engine().cancel(next_);
  for (SharedUse* const use : heap_.elements()) {
    use->resource_ = nullptr;
    use->served_ = false;
  }
}

void ProcessorSharing::advance() {
  const Time time = now();
  if (total_weight_ > 0) {
    const __int128 ticks = (time - advanced_).ticks;
    constexpr int kShift = kVirtualBits - kRateBits;
    virtual_now_ += shared() ? ((ticks * rate_) << kShift) / total_weight_ : (ticks * cap_) << kShift;
  }
  advanced_ = time;
}

void ProcessorSharing::schedule_next() {
  engine().cancel(next_);
  if (heap_.empty()) {
    virtual_now_ = 0;  // keeps the numbers small
    return;
  }
  const __int128 left = std::max<__int128>(heap_.top().end_ - virtual_now_ - kSlack, 0);
  constexpr __int128 kUnit = __int128{1} << (kVirtualBits - kRateBits);
  const __int128 ticks = shared() ? divide_up(left * total_weight_, kUnit * rate_) : divide_up(left, kUnit * cap_);
  constexpr __int128 kLongest = std::numeric_limits<std::int64_t>::max();
  next_ = engine().schedule_in(Duration{static_cast<std::int64_t>(std::min(ticks, kLongest))}, *this);
}

void ProcessorSharing::arrive(SharedUse& use) {
  advance();
  use.end_ = virtual_now_ + divide_up(static_cast<__int128>(use.work_.ticks) << kVirtualBits, use.weight_);
  use.sequence_ = next_sequence_++;
  ++arrived_;
  if (heap_.empty()) busy_.add(now(), 1);
  jobs_.add(now(), 1);
  total_weight_ += use.weight_;
  heap_.push(use);
  use.served_ = true;
  schedule_next();
}

void ProcessorSharing::leave(SharedUse& use) {
  use.served_ = false;
  heap_.remove(use);
  total_weight_ -= use.weight_;
  jobs_.add(now(), -1);
  if (heap_.empty()) busy_.add(now(), -1);
}

void ProcessorSharing::cancel(SharedUse& use) {
  ++cancelled_;
  advance();
  leave(use);
  schedule_next();
}

// The first to end goes on inside this event, those that end at the same tick by events of their own behind it.
void ProcessorSharing::on_event(std::uint64_t) {
  advance();
  PromiseBase* first = nullptr;
  while (!heap_.empty() && heap_.top().end_ <= virtual_now_ + kSlack) {
    SharedUse& use = heap_.top();
    leave(use);
    ++served_;
    if (first == nullptr)
      first = use.promise();
    else
      use.wake();
  }
  schedule_next();
  if (first != nullptr) first->processes->resume(*first);
}

SharingStatistics ProcessorSharing::statistics() const {
  return {.arrived = arrived_,
          .served = served_,
          .cancelled = cancelled_,
          .job_ticks = jobs_.area(now()),
          .busy_ticks = busy_.area(now()),
          .mean_jobs = jobs_.mean(now())};
}

void ProcessorSharing::restart_statistics() {
  jobs_.restart(now());
  busy_.restart(now());
  arrived_ = jobs_.value();
  served_ = cancelled_ = 0;
}

}  // namespace orrery::sim
