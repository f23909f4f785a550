// Replicas that come and go with the load.
//
// A policy says at every interval how many of a pool's replicas are to be up. Others are switched off when they have
// finished what they have (they drain), and take a cold start to come up. With nobody in the system, nothing to take
// back and nothing else to come the looks stop, so that a run can end.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/cluster/cold_start.hpp"
#include "experiments/systems/serving/cluster/fleet.hpp"
#include "policies/scaling/scaling.hpp"

namespace orrery::experiments {

class Cluster;

class Scaling final : public sim::EventHandler {
 public:
  Scaling(sim::Engine& engine, Cluster& cluster, Fleet& fleet) : engine_(engine), cluster_(cluster), fleet_(fleet) {}

  /// All replicas of a pool past the first few are off until they are wanted; without a policy all stay up.
  void begin(Pool& pool, policies::Scaling* policy, const ScalingParams& params);
  /// Somebody is here again: decisions are due at every interval from now on.
  void wake();
  /// A request found no replica up that decodes.
  void missed_decode();
  /// A replica that drains has no request left.
  void drained(std::size_t i) { switch_off(i); }
  void on_event(std::uint64_t payload) override;
  /// Decisions that are due at the end of an interval.
  std::size_t looks() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(scalers_, [](const auto& scaler) { return scaler && scaler->tick_pending; }));
  }
  /// Share of its idle power that a replica takes while it is off.
  std::optional<double> off_power(const Member& member) const;

 private:
  /// How many of a pool's replicas are up.
  struct Scaler {
    Pool* pool = nullptr;
    policies::Scaling* policy = nullptr;
    ScalingParams params;
    std::unique_ptr<ColdStarts> cold_starts;
    sim::Duration interval{};
    bool tick_pending = false;
    std::int64_t starting = 0;
    std::int64_t missed = 0;   // that found none up since the last decision (prompts wait instead)
    sim::Time busy_from;       // of the interval under way …
    __int128 busy_before = 0;  // … and busy ticks then
  };
  // payload: kind, and the number of replica or pool (0: prompts, 1: decodes) above it
  enum Event : std::uint64_t { kLook, kStarted };

  bool is_of(const Member& member, const Scaler& scaler) const { return &fleet_.pool_of(member) == scaler.pool; }
  Scaler& scaler_of(const Member& member) { return *scalers_[member.role == Role::decode ? 1 : 0]; }
  void wake(std::size_t number);
  void begin_interval(Scaler& scaler);
  void look(std::size_t number);
  policies::ScalingView view(Scaler& scaler);
  void scale(Scaler& scaler);
  void scale_to(Scaler& scaler, std::int64_t wanted);
  void switch_on(std::size_t i);
  void started(std::size_t i);
  void drain(std::size_t i);
  void switch_off(std::size_t i);

  sim::Engine& engine_;
  Cluster& cluster_;
  Fleet& fleet_;
  std::array<std::optional<Scaler>, 2> scalers_;  // of prompts, and of decodes
  std::vector<sim::Time> idle_since_;
};

}  // namespace orrery::experiments
