// Replicas that come and go with the load, and requests that do not come in at all.
#include <algorithm>

#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {

/// Why admission control turns a request away.
std::optional<std::string_view> Cluster::turned_away(const Request& request) {
  if (policies_.admission == nullptr) return std::nullopt;
  return policies_.admission->reject(
      {.now = engine_.now(),
       .ps_per_tick = metrics_.ps_per_tick,
       .replicas = prompts_.facts,
       .request = describe(request),
       .parked = std::ssize(parked_),
       .ttft_ps =
           metrics_.slo.ttft ? std::optional(to_ps(metrics_.slo.ttft->ticks, metrics_.ps_per_tick)) : std::nullopt});
}

/// All replicas of a pool past the first few are off until they are wanted.
void Cluster::begin_scaling(Pool& pool, const ScalingParams& params) {
  if (pool.scaling == nullptr) return;
  Scaler& scaler = pool.scaler.emplace();
  scaler.params = params;
  scaler.interval = std::max(engine_.scale().duration(params.interval_s), sim::Duration{1});
  scaler.cold_starts = std::make_unique<ColdStarts>(params.start, engine_.scale());
  std::int64_t left = std::max(params.least, params.initial.value_or(params.least));
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (&pool_of(members_[i]) == &pool && --left < 0) switch_off(i);
}

/// A request finds nobody up, or somebody is here again: decisions are due at every interval from now on.
void Cluster::wake_scaling(Pool& pool) {
  if (!pool.scaler) return;
  Scaler& scaler = *pool.scaler;
  if (!scaler.tick_pending) {
    const std::int64_t interval = scaler.interval.ticks;
    const sim::Duration wait{interval - engine_.now().ticks % interval};
    engine_.schedule_in(wait, *this, kScale | std::uint64_t{&pool == &decodes_} << 8);
    scaler.tick_pending = true;
    scaler.busy_from = engine_.now();
    scaler.busy_before = busy_ticks(pool);
  }
  const bool needed = &pool == &prompts_ || scaler.missed > 0;
  if (pool.facts.empty() && scaler.starting == 0 && needed) scale(pool);
}

/// Ticks with requests, over the replicas of a pool, so far.
__int128 Cluster::busy_ticks(const Pool& pool) const {
  __int128 sum = 0;
  for (const Member& member : members_) {
    if (&pool_of(member) != &pool) continue;
    sum += member.busy_ticks;
    if (member.busy_since) sum += (engine_.now() - *member.busy_since).ticks;
  }
  return sum;
}

void Cluster::scaling_tick(Pool& pool) {
  Scaler& scaler = *pool.scaler;
  scaler.tick_pending = false;
  scale(pool);
  // With nobody here, nothing to take back and nothing else to come the run is to end; the other pool's next look is
  // nothing to wait for.
  std::size_t looks = 0;
  for (const Pool* other : {&prompts_, &decodes_})
    if (other->scaler && other->scaler->tick_pending) ++looks;
  const bool at_rest = in_system_ == 0 && (engine_.pending() <= looks ||
                                           (scaler.starting == 0 && std::ssize(pool.facts) <= scaler.params.least));
  if (!at_rest) {
    engine_.schedule_in(scaler.interval, *this, kScale | std::uint64_t{&pool == &decodes_} << 8);
    scaler.tick_pending = true;
  }
  scaler.busy_from = engine_.now();
  scaler.busy_before = busy_ticks(pool);
}

policies::ScalingView Cluster::scaling_view(Pool& pool) {
  const Scaler& scaler = *pool.scaler;
  idle_since_.clear();
  for (policies::ReplicaFacts& facts : pool.facts) {
    const auto i = static_cast<std::size_t>(facts.replica);
    idle_since_.push_back(members_[i].busy_since ? sim::kNever : members_[i].idle_since);
    if (pool.scaling->reads_reports()) facts.load = report_load(*this, i);
  }
  const std::int64_t most =
      std::count_if(members_.begin(), members_.end(), [&](const Member& member) { return &pool_of(member) == &pool; });
  const std::int64_t elapsed = (engine_.now() - scaler.busy_from).ticks;
  const auto replicas = std::ssize(pool.facts);
  policies::ScalingView view{.now = engine_.now(),
                             .ps_per_tick = metrics_.ps_per_tick,
                             .replicas = pool.facts,
                             .idle_since = idle_since_,
                             .starting = scaler.starting,
                             .parked = &pool == &prompts_ ? std::ssize(parked_) : scaler.missed,
                             .busy = 0,
                             .least = std::min(scaler.params.least, most),
                             .most = most};
  if (elapsed > 0 && replicas > 0)
    view.busy = static_cast<double>(busy_ticks(pool) - scaler.busy_before) / static_cast<double>(elapsed) /
                static_cast<double>(replicas);
  return view;
}

void Cluster::scale(Pool& pool) {
  const policies::ScalingView view = scaling_view(pool);
  std::int64_t wanted = std::clamp(pool.scaling->wanted(view), view.least, view.most);
  if (view.parked > 0) wanted = std::max<std::int64_t>(wanted, 1);  // whatever a policy says, nobody waits for ever
  pool.scaler->missed = 0;
  scale_to(pool, wanted);
}

void Cluster::scale_to(Pool& pool, std::int64_t wanted) {
  std::int64_t up = std::ssize(pool.facts) + pool.scaler->starting;
  for (std::size_t i = 0; i < members_.size() && up < wanted; ++i) {
    // One that was about to go stays.
    Member& member = members_[i];
    if (&pool_of(member) != &pool || member.power != Power::draining || member.down) continue;
    member.power = Power::on;
    tell({.kind = ClusterEvent::Kind::on, .replica = static_cast<std::int32_t>(i)});
    enter(i, pool);
    ++up;
  }
  for (std::size_t i = 0; i < members_.size() && up < wanted; ++i) {
    if (&pool_of(members_[i]) != &pool || members_[i].power != Power::off || members_[i].down) continue;
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

void Cluster::switch_on(std::size_t i) {
  Member& member = members_[i];
  Scaler& scaler = *pool_of(member).scaler;
  member.power = Power::starting;
  tell({.kind = ClusterEvent::Kind::starting, .replica = static_cast<std::int32_t>(i)});
  ++scaler.starting;
  const ColdStart start = scaler.cold_starts->start(engine_.now(), member.weight_bytes);
  totals_.cold.scheduling = totals_.cold.scheduling + start.scheduling;
  totals_.cold.allocation = totals_.cold.allocation + start.allocation;
  totals_.cold.code = totals_.cold.code + start.code;
  totals_.cold.load = totals_.cold.load + start.load;
  ++totals_.cold_starts;
  member.off_ticks += (engine_.now() - member.off_since).ticks;
  if (observer_ != nullptr) observer_->power_changed(static_cast<std::int32_t>(i), engine_.now(), 1);
  engine_.schedule_in(start.total(), *this, kStarted | std::uint64_t{i} << 8);
}

void Cluster::started(std::size_t i) {
  Member& member = members_[i];
  member.power = Power::on;
  tell({.kind = ClusterEvent::Kind::on, .replica = static_cast<std::int32_t>(i)});
  member.idle_since = engine_.now();
  Pool& pool = pool_of(member);
  --pool.scaler->starting;
  if (!member.down) enter(i, pool);
}

/// It finishes what it has and goes.
void Cluster::drain(std::size_t i) {
  leave(i);
  members_[i].power = Power::draining;
  tell({.kind = ClusterEvent::Kind::draining, .replica = static_cast<std::int32_t>(i)});
  if (!members_[i].busy_since) drained(i);
}

void Cluster::drained(std::size_t i) {
  switch_off(i);
}

void Cluster::switch_off(std::size_t i) {
  Member& member = members_[i];
  if (member.pool != nullptr) leave(i);
  member.power = Power::off;
  tell({.kind = ClusterEvent::Kind::off, .replica = static_cast<std::int32_t>(i)});
  member.off_since = engine_.now();
  const double share = pool_of(member).scaler->params.off_power;
  if (observer_ != nullptr) observer_->power_changed(static_cast<std::int32_t>(i), engine_.now(), share);
}

}  // namespace orrery::experiments
