// Base of what processes share, and the guard that holds a part of it.
//
// Resources, engine and processes may end in any order: a resource that ends lets go of those who wait for it (they
// then wait for ever) and of the guards on it (which then give back nothing); an engine that ends leaves its resources
// readable, their clocks standing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sim/base/list.hpp"
#include "sim/processes.hpp"

namespace orrery::sim {

/// Integral over time of an integer quantity (queue length, busy units), exact.
class TimeIntegral {
 public:
  /// The quantity changes by `by` at `now`.
  void add(Time now, std::int64_t by) {
    area_ = area(now);
    value_ += by;
    last_ = now;
  }
  std::int64_t value() const { return value_; }
  /// Quantity times ticks, since the start or the last restart().
  __int128 area(Time now) const { return area_ + static_cast<__int128>(value_) * (now - last_).ticks; }
  /// Time average; 0 before any time has passed.
  double mean(Time now) const {
    const std::int64_t ticks = (now - start_).ticks;
    return ticks == 0 ? 0 : static_cast<double>(area(now)) / static_cast<double>(ticks);
  }
  /// Forgets what was before `now`; the quantity stays.
  void restart(Time now) {
    area_ = 0;
    last_ = start_ = now;
  }

 private:
  __int128 area_ = 0;
  Time last_, start_;
  std::int64_t value_ = 0;
};

class Resource : public ListNode {
 public:
  Resource(Engine& engine, std::string name);
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;
  const std::string& name() const { return name_; }
  /// Throws std::logic_error once the engine is gone.
  Engine& engine() const;
  /// The engine's clock; where it stood, once the engine is gone.
  Time now() const { return engine_ != nullptr ? engine_->now() : stopped_; }
  /// Whether the engine is gone.
  bool stopped() const { return engine_ == nullptr; }
  void engine_gone() {
    stopped_ = engine_->now();
    engine_ = nullptr;
  }

 protected:
  ~Resource() = default;

 private:
  Engine* engine_;
  Time stopped_;
  std::string name_;
};

/// Units of a resource that are held, given back when the guard ends; move-only. R gives them back in
/// `give_back(units)` and lists its guards.
template <class R>
class [[nodiscard]] Guard : public ListNode {
 public:
  Guard() = default;
  Guard(Guard&& other) noexcept { take(other); }
  Guard& operator=(Guard&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~Guard() { release(); }
  /// Gives back now. Nothing happens if nothing is held.
  void release() {
    if (!linked()) return;  // empty, or its resource is gone
    unlink();
    resource_->give_back(std::exchange(units_, 0));
  }
  /// Units held; 0 after release(), and once the resource is gone.
  std::int64_t units() const { return linked() ? units_ : 0; }
  /// The record of the process that acquired it; null if a handler did, or once that process or the engine is gone.
  const ProcessRecord* holder() const {
    if (!linked() || holder_ == nullptr || resource_->stopped()) return nullptr;
    return holder_->generation == generation_ ? holder_ : nullptr;
  }

 private:
  friend R;
  void start(R& resource, List<Guard>& guards, std::int64_t units) {
    resource_ = &resource;
    holder_ = resource.engine().processes().running();
    generation_ = holder_ != nullptr ? holder_->generation : 0;
    units_ = units;
    guards.push_back(*this);
  }
  void take(Guard& other) {
    resource_ = other.resource_;
    holder_ = other.holder_;
    generation_ = other.generation_;
    units_ = other.units_;
    replace(other);
  }

  R* resource_ = nullptr;
  const ProcessRecord* holder_ = nullptr;
  std::uint64_t generation_ = 0;
  std::int64_t units_ = 0;
};

/// Appends "; held by trainer 7, loader 1" for messages: the first few holders, in the order in which they acquired.
/// Units are left out where `with_units` is false.
template <class R>
void describe_holders(std::string& out, const List<Guard<R>>& guards, bool with_units);

/// Appends `text` in quotes, shortened if it is very long.
void append_quoted(std::string& out, std::string_view text);

template <class R>
void describe_holders(std::string& out, const List<Guard<R>>& guards, bool with_units) {
  constexpr int kShown = 4;
  int shown = 0;
  std::int64_t others = 0;
  for (const Guard<R>* guard = guards.first(); guard != nullptr; guard = guards.after(*guard)) {
    if (shown == kShown) {
      ++others;
      continue;
    }
    out += shown++ == 0 ? "; held by " : ", ";
    out += guard->holder() != nullptr ? guard->holder()->name : "no process";
    if (with_units) out += " " + std::to_string(guard->units());
  }
  if (others > 0) out += " and " + std::to_string(others) + " more";
}

}  // namespace orrery::sim
