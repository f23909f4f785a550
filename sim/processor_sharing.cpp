#include "sim/processor_sharing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace orrery::sim {

namespace {

constexpr int kVirtualBits = 32;
constexpr int kRateBits = 16;
constexpr int kTimeBits = 24;  // spans between two ends are in 2^-24 ticks
constexpr int kShift = kTimeBits + kRateBits - kVirtualBits;
// Rounding delays the ends by less than 2^-24 of a tick at every end, and at every arrival or cancellation by less than
// 2^-31 of the time in which a job of weight 1 is served for a tick. A job that is
// behind a tick by no more than 2^-16 of it, whatever the weights and the rate, ends at that tick and not at the next.
constexpr __int128 kSlack = __int128{1} << (kTimeBits - 16);
constexpr double kLowestRate = 0x1.0p-17, kHighestRate = 0x1.0p16;
constexpr std::int64_t kLargestWeight = std::int64_t{1} << 16;
constexpr std::int64_t kLargestTotal = std::int64_t{1} << 24;  // keeps the products within 128 bits

std::int64_t to_rate(double servers, const std::string& name) {
  if (!(servers >= kLowestRate && servers <= kHighestRate))
    throw std::logic_error("'" + name + "': servers and cap must be 2^-17 to 2^16");
  return static_cast<std::int64_t>(std::round(servers * 0x1.0p16));
}

__int128 divide_up(__int128 a, __int128 b) {
  return (a + b - 1) / b;
}

Duration to_duration(__int128 ticks) {
  constexpr __int128 kLongest = std::numeric_limits<std::int64_t>::max();
  return Duration{static_cast<std::int64_t>(std::min(ticks, kLongest))};
}

}  // namespace

SharedUse::SharedUse(ProcessorSharing& resource, Duration work, std::int64_t weight)
    : resource_(&resource), work_(work), weight_(weight) {
  if (work < Duration{0}) throw std::logic_error("'" + resource.name() + "': a job has negative work");
  if (weight < 1 || weight > kLargestWeight)
    throw std::logic_error("'" + resource.name() + "': a weight is outside 1 to 2^16");
}

SharedUse::~SharedUse() {
  if (resource_ != nullptr && (served_ || linked())) resource_->cancel(*this);
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
  if (jobs_.value() == 0) return;
  engine().cancel(next_);
  while (SharedUse* const use = ended_.first()) {
    use->unlink();
    use->resource_ = nullptr;
  }
  for (SharedUse* const use : heap_.elements()) use->resource_ = nullptr;
}

/// From reached_ until the first job of the heap ends, in 2^-24 ticks, rounded up.
__int128 ProcessorSharing::time_to_next() const {
  const __int128 left = std::max<__int128>(heap_.top().end_ - virtual_now_, 0) << kShift;
  return shared() ? divide_up(left * total_weight_, rate_) : divide_up(left, cap_);
}

__int128 ProcessorSharing::clock() const {
  return static_cast<__int128>(now().ticks) << kTimeBits;
}

// Serves those in the heap for `span`, in 2^-24 ticks.
void ProcessorSharing::serve(__int128 span) {
  reached_ += span;
  virtual_now_ += shared() ? span * rate_ / (static_cast<__int128>(total_weight_) << kShift) : span * cap_ >> kShift;
}

// Brings virtual time up to the clock, through all the ends that lie between. It stays ahead of the clock, by the slack
// at most, where a job ended that much behind this tick: the others get no service for nothing.
void ProcessorSharing::advance() {
  while (!heap_.empty()) {
    const __int128 next = time_to_next();
    if (next > clock() - reached_ + kSlack) {
      if (reached_ < clock()) serve(clock() - reached_);
      return;
    }
    serve(next);
    SharedUse& use = heap_.top();
    leave_heap(use);
    ended_.push_back(use);
  }
  virtual_now_ = 0;  // keeps the numbers small
  reached_ = clock();
}

// Never throws for want of time: a cancellation may call it, and may yet bring the ends forward. An end after the end
// of time is reported when time ends.
void ProcessorSharing::schedule_next() {
  engine().cancel(next_);
  if (jobs_.value() == 0) return;
  __int128 next = 0;
  if (ended_.empty())  // else at once
    next = divide_up(std::max<__int128>(time_to_next() + (reached_ - clock()) - kSlack, 0), __int128{1} << kTimeBits);
  const __int128 longest = (kNever - now()).ticks;
  next_ = engine().schedule_in(to_duration(std::min(next, longest)), *this);
}

void ProcessorSharing::arrive(SharedUse& use) {
  // Alone it would run at this rate.
  const __int128 fastest = std::min<__int128>(rate_, static_cast<__int128>(cap_) * use.weight_);
  const __int128 shortest = divide_up(static_cast<__int128>(use.work_.ticks) << kRateBits, fastest);
  engine().expect_time_for(to_duration(shortest));
  advance();  // those that are over at this instant count no more
  if (total_weight_ + use.weight_ > kLargestTotal)
    throw std::logic_error("'" + name() + "': the weights in service sum to more than 2^24");
  use.end_ = virtual_now_ + divide_up(static_cast<__int128>(use.work_.ticks) << kVirtualBits, use.weight_);
  use.sequence_ = next_sequence_++;
  use.served_ = true;
  heap_.push(use);
  total_weight_ += use.weight_;
  ++arrived_;
  count(1);
  schedule_next();
}

void ProcessorSharing::leave_heap(SharedUse& use) {
  use.served_ = false;
  heap_.remove(use);
  total_weight_ -= use.weight_;
}

void ProcessorSharing::count(std::int64_t jobs) {
  jobs_.add(now(), jobs);
  busy_.add(now(), (jobs_.value() > 0 ? 1 : 0) - busy_.value());
}

void ProcessorSharing::cancel(SharedUse& use) {
  ++cancelled_;
  advance();
  if (use.served_)
    leave_heap(use);
  else
    use.unlink();
  count(-1);
  schedule_next();
}

// The first to end goes on inside this event, those that end at the same tick by events of their own behind it.
void ProcessorSharing::on_event(std::uint64_t) {
  advance();
  if (ended_.empty()) engine().expect_time_for(Duration{1});  // time ends here
  PromiseBase* first = nullptr;
  while (SharedUse* const use = ended_.first()) {
    use->unlink();
    count(-1);
    ++served_;
    if (first == nullptr)
      first = use->promise();
    else
      use->wake();
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
