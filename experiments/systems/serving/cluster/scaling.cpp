#include "experiments/systems/serving/cluster/scaling.hpp"

#include <algorithm>

#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {

void Scaling::begin(Pool& pool, policies::Scaling* policy, const ScalingParams& params) {
  if (policy == nullptr) return;
  Scaler& scaler = scalers_[&pool == &fleet_.decodes() ? 1 : 0].emplace(Scaler{});
  scaler.pool = &pool;
  scaler.policy = policy;
  scaler.params = params;
  scaler.interval = std::max(engine_.scale().duration(params.interval_s), sim::Duration{1});
  scaler.cold_starts = std::make_unique<ColdStarts>(params.start, engine_.scale());
  std::int64_t left = std::max(params.least, params.initial.value_or(params.least));
  for (std::size_t i = 0; i < fleet_.size(); ++i)
    if (is_of(fleet_[i], scaler) && --left < 0) switch_off(i);
}

void Scaling::on_event(std::uint64_t payload) {
  const auto number = static_cast<std::size_t>(payload >> 8);
  if (static_cast<Event>(payload & 0xff) == kLook) {
    look(number);
  } else {
    started(number);
  }
  cluster_.flush();
}

void Scaling::wake() {
  wake(0);
  wake(1);
}

void Scaling::missed_decode() {
  if (!scalers_[1]) return;
  ++scalers_[1]->missed;
  wake(1);
}

void Scaling::wake(std::size_t number) {
  if (!scalers_[number]) return;
  Scaler& scaler = *scalers_[number];
  if (!scaler.tick_pending) {
    const std::int64_t interval = scaler.interval.ticks;
    const sim::Duration wait{interval - engine_.now().ticks % interval};
    engine_.schedule_in(wait, *this, kLook | number << 8);
    scaler.tick_pending = true;
    begin_interval(scaler);
  }
  const bool needed = number == 0 || scaler.missed > 0;
  if (scaler.pool->facts.empty() && scaler.starting == 0 && needed) scale(scaler);
}

void Scaling::begin_interval(Scaler& scaler) {
  scaler.busy_from = engine_.now();
  scaler.busy_before = fleet_.busy_ticks(*scaler.pool);
}

void Scaling::look(std::size_t number) {
  Scaler& scaler = *scalers_[number];
  scaler.tick_pending = false;
  scale(scaler);
  // With nobody here, nothing to take back and nothing else to come the run is to end; the other pool's next look is
  // nothing to wait for.
  std::size_t looks = 0;
  for (const std::optional<Scaler>& other : scalers_)
    if (other && other->tick_pending) ++looks;
  const bool least = scaler.starting == 0 && std::ssize(scaler.pool->facts) <= scaler.params.least;
  if (cluster_.in_system() > 0 || (engine_.pending() > looks && !least)) {
    engine_.schedule_in(scaler.interval, *this, kLook | number << 8);
    scaler.tick_pending = true;
  }
  begin_interval(scaler);
}

policies::ScalingView Scaling::view(Scaler& scaler) {
  Pool& pool = *scaler.pool;
  idle_since_.clear();
  for (policies::ReplicaFacts& facts : pool.facts) {
    const auto i = static_cast<std::size_t>(facts.replica);
    idle_since_.push_back(fleet_[i].busy_since ? sim::kNever : fleet_[i].idle_since);
    if (scaler.policy->reads_reports()) facts.load = fleet_.report(i);
  }
  const std::int64_t most =
      std::count_if(fleet_.begin(), fleet_.end(), [&](const Member& member) { return is_of(member, scaler); });
  const std::int64_t elapsed = (engine_.now() - scaler.busy_from).ticks;
  const auto replicas = std::ssize(pool.facts);
  policies::ScalingView view{.now = engine_.now(),
                             .ps_per_tick = engine_.scale().ps_per_tick(),
                             .replicas = pool.facts,
                             .idle_since = idle_since_,
                             .starting = scaler.starting,
                             .parked = &pool == &fleet_.prompts() ? cluster_.parked() : scaler.missed,
                             .busy = 0,
                             .least = std::min(scaler.params.least, most),
                             .most = most};
  if (elapsed > 0 && replicas > 0)
    view.busy = static_cast<double>(fleet_.busy_ticks(pool) - scaler.busy_before) / static_cast<double>(elapsed) /
                static_cast<double>(replicas);
  return view;
}

void Scaling::scale(Scaler& scaler) {
  const policies::ScalingView now = view(scaler);
  std::int64_t wanted = std::clamp(scaler.policy->wanted(now), now.least, now.most);
  if (now.parked > 0) wanted = std::max<std::int64_t>(wanted, 1);  // whatever a policy says, nobody waits for ever
  scaler.missed = 0;
  scale_to(scaler, wanted);
}

void Scaling::scale_to(Scaler& scaler, std::int64_t wanted) {
  Pool& pool = *scaler.pool;
  std::int64_t up = std::ssize(pool.facts) + scaler.starting;
  for (std::size_t i = 0; i < fleet_.size() && up < wanted; ++i) {
    // One that was about to go stays.
    Member& member = fleet_[i];
    if (!is_of(member, scaler) || member.power != Power::draining || member.down) continue;
    member.power = Power::on;
    cluster_.tell({.kind = ClusterEvent::Kind::on, .replica = static_cast<std::int32_t>(i)});
    cluster_.open(i);
    ++up;
  }
  for (std::size_t i = 0; i < fleet_.size() && up < wanted; ++i) {
    if (!is_of(fleet_[i], scaler) || fleet_[i].power != Power::off || fleet_[i].down) continue;
    switch_on(i);
    ++up;
  }
  for (; up > wanted && !pool.facts.empty(); --up) {
    std::size_t place = 0;
    for (std::size_t p = 0; p < pool.facts.size(); ++p)
      if (pool.facts[p].requests <= pool.facts[place].requests) place = p;
    drain(static_cast<std::size_t>(pool.facts[place].replica));
  }
}

void Scaling::switch_on(std::size_t i) {
  Member& member = fleet_[i];
  Scaler& scaler = scaler_of(member);
  member.power = Power::starting;
  cluster_.tell({.kind = ClusterEvent::Kind::starting, .replica = static_cast<std::int32_t>(i)});
  ++scaler.starting;
  const ColdStart start = scaler.cold_starts->start(engine_.now(), member.weight_bytes);
  member.off_ticks += (engine_.now() - member.off_since).ticks;
  cluster_.powered(i, 1, &start);
  engine_.schedule_in(start.total(), *this, kStarted | std::uint64_t{i} << 8);
}

void Scaling::started(std::size_t i) {
  Member& member = fleet_[i];
  member.power = Power::on;
  cluster_.tell({.kind = ClusterEvent::Kind::on, .replica = static_cast<std::int32_t>(i)});
  member.idle_since = engine_.now();
  --scaler_of(member).starting;
  if (!member.down) cluster_.open(i);
}

/// It finishes what it has and goes.
void Scaling::drain(std::size_t i) {
  fleet_.leave(i);
  fleet_[i].power = Power::draining;
  cluster_.tell({.kind = ClusterEvent::Kind::draining, .replica = static_cast<std::int32_t>(i)});
  if (!fleet_[i].busy_since) drained(i);
}

void Scaling::switch_off(std::size_t i) {
  Member& member = fleet_[i];
  if (member.pool != nullptr) fleet_.leave(i);
  member.power = Power::off;
  cluster_.tell({.kind = ClusterEvent::Kind::off, .replica = static_cast<std::int32_t>(i)});
  member.off_since = engine_.now();
  cluster_.powered(i, scaler_of(member).params.off_power, nullptr);
}

std::optional<double> Scaling::off_power(const Member& member) const {
  const std::optional<Scaler>& scaler = scalers_[member.role == Role::decode ? 1 : 0];
  return scaler ? std::optional(scaler->params.off_power) : std::nullopt;
}

}  // namespace orrery::experiments
