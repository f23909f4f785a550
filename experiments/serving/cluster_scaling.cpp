// Replicas that come and go with the load, and requests that do not come in at all.
#include <algorithm>

#include "experiments/serving/cluster.hpp"

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

/// All replicas past the first few are off until they are wanted.
void Cluster::begin_scaling(const ScalingParams& params) {
  scaling_ = params;
  scaling_interval_ = engine_.scale().duration(params.interval_s);
  if (scaling_interval_.ticks < 1) scaling_interval_.ticks = 1;
  cold_starts_ = std::make_unique<ColdStarts>(params.start, engine_.scale());
  const auto initial = static_cast<std::size_t>(std::max(params.least, params.initial.value_or(params.least)));
  for (std::size_t i = initial; i < members_.size(); ++i) switch_off(i);
}

/// A request finds nobody up, or somebody is here again: decisions are due at every interval from now on.
void Cluster::wake_scaling() {
  if (!scaling_tick_pending_) {
    const std::int64_t interval = scaling_interval_.ticks;
    const sim::Duration wait{interval - engine_.now().ticks % interval};
    engine_.schedule_in(wait, *this, kScale);
    scaling_tick_pending_ = true;
    busy_from_ = engine_.now();
    busy_before_ = busy_ticks();
  }
  if (prompts_.facts.empty() && starting_ == 0) scale();
}

/// Ticks with requests, over replicas, so far.
__int128 Cluster::busy_ticks() const {
  __int128 sum = 0;
  for (const Member& member : members_) {
    sum += member.busy_ticks;
    if (member.busy_since) sum += (engine_.now() - *member.busy_since).ticks;
  }
  return sum;
}

void Cluster::scaling_tick() {
  scaling_tick_pending_ = false;
  scale();
  // With nobody here, nothing to take back and nothing else to come the run is to end.
  const bool at_rest =
      in_system_ == 0 && (engine_.pending() == 0 || (starting_ == 0 && std::ssize(prompts_.facts) <= scaling_->least));
  if (!at_rest) {
    engine_.schedule_in(scaling_interval_, *this, kScale);
    scaling_tick_pending_ = true;
  }
  busy_from_ = engine_.now();
  busy_before_ = busy_ticks();
}

void Cluster::scale() {
  idle_since_.clear();
  for (const policies::ReplicaFacts& facts : prompts_.facts) {
    const Member& member = members_[static_cast<std::size_t>(facts.replica)];
    idle_since_.push_back(member.busy_since ? sim::kNever : member.idle_since);
  }
  const auto most = std::ssize(members_);
  const std::int64_t elapsed = (engine_.now() - busy_from_).ticks;
  const auto replicas = std::ssize(prompts_.facts);
  policies::ScalingView view{.now = engine_.now(),
                             .ps_per_tick = metrics_.ps_per_tick,
                             .replicas = prompts_.facts,
                             .idle_since = idle_since_,
                             .starting = starting_,
                             .parked = std::ssize(parked_),
                             .busy = 0,
                             .least = std::min(scaling_->least, most),
                             .most = most};
  if (elapsed > 0 && replicas > 0)
    view.busy =
        static_cast<double>(busy_ticks() - busy_before_) / static_cast<double>(elapsed) / static_cast<double>(replicas);
  std::int64_t wanted = std::clamp(policies_.scaling->wanted(view), view.least, view.most);
  if (!parked_.empty()) wanted = std::max<std::int64_t>(wanted, 1);  // whatever a policy says, nobody waits for ever
  std::int64_t up = replicas + starting_;
  for (std::size_t i = 0; i < members_.size() && up < wanted; ++i) {
    // One that was about to go stays.
    Member& member = members_[i];
    if (member.power != Power::draining || member.down) continue;
    member.power = Power::on;
    --draining_;
    enter(i, prompts_);
    ++up;
  }
  for (std::size_t i = 0; i < members_.size() && up < wanted; ++i) {
    if (members_[i].power != Power::off || members_[i].down) continue;
    switch_on(i);
    ++up;
  }
  for (; up > wanted && !prompts_.facts.empty(); --up) {
    std::size_t place = 0;
    for (std::size_t p = 0; p < prompts_.facts.size(); ++p)
      if (prompts_.facts[p].requests <= prompts_.facts[place].requests) place = p;
    drain(static_cast<std::size_t>(prompts_.facts[place].replica));
  }
}

void Cluster::switch_on(std::size_t i) {
  Member& member = members_[i];
  member.power = Power::starting;
  ++starting_;
  const ColdStart start = cold_starts_->start(engine_.now(), member.weight_bytes);
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
  member.idle_since = engine_.now();
  --starting_;
  if (!member.down) enter(i, prompts_);
}

/// It finishes what it has and goes.
void Cluster::drain(std::size_t i) {
  leave(i);
  members_[i].power = Power::draining;
  ++draining_;
  if (!members_[i].busy_since) drained(i);
}

void Cluster::drained(std::size_t i) {
  --draining_;
  switch_off(i);
}

void Cluster::switch_off(std::size_t i) {
  Member& member = members_[i];
  if (member.pool != nullptr) leave(i);
  member.power = Power::off;
  member.off_since = engine_.now();
  if (observer_ != nullptr) observer_->power_changed(static_cast<std::int32_t>(i), engine_.now(), scaling_->off_power);
}

}  // namespace orrery::experiments
