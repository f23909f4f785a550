// Requests that change replicas, and replicas that come and go.
#include <algorithm>

#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {

void Cluster::on_event(std::uint64_t payload) {
  const auto number = static_cast<std::size_t>(payload >> 8);
  switch (static_cast<Event>(payload & 0xff)) {
    case kArrived:
      arrived(number);
      break;
    case kScale:
      scaling_tick(number == 0 ? prompts_ : decodes_);
      break;
    case kStarted:
      started(number);
      break;
    case kChange: {
      Member& member = members_[number];
      // Iterations that end at this very instant have ended.
      if (!member.deferred && engine_.more_now()) {
        member.deferred = true;
        member.change = engine_.schedule_in({}, *this, payload);
        break;
      }
      member.deferred = false;
      if (member.down) {
        come_back(number);
      } else {
        fail(number);
      }
      plan_outage(number);
      break;
    }
  }
  flush();
}

// ---- prefill here, decode there

/// Sends the KV cache of a request to a replica that decodes it; false if none is up.
bool Cluster::hand_over(Request& request, policies::SeqId seq) {
  if (decodes_.facts.empty()) {
    if (decodes_.scaler) {
      ++decodes_.scaler->missed;
      wake_scaling(decodes_);
    }
    return false;
  }
  std::size_t slot = moving_.size();
  if (free_moving_.empty()) {
    moving_.emplace_back();
  } else {
    slot = free_moving_.back();
    free_moving_.pop_back();
  }
  Moving& moving = moving_[slot];
  const auto from = static_cast<std::size_t>(request.replica);
  moving = {&request,
            from,
            members_[from].lanes[static_cast<std::size_t>(request.lane)].get(),
            seq,
            {},
            engine_.now(),
            request.ready_tokens * members_[from].kv_bytes_per_token};
  const std::size_t to = route(request, decodes_);
  withdraw(request);
  place(request, to);
  tell(request, RequestPhase::moving);
  moving.flow = transfers_->start(from, to, moving.bytes, *this, kArrived | slot << 8);
  return true;
}

void Cluster::arrived(std::size_t slot) {
  const Moving moving = moving_[slot];
  moving_[slot].request = nullptr;
  free_moving_.push_back(slot);
  ++totals_.transfers.count;
  totals_.transfers.bytes += moving.bytes;
  totals_.transfers.ps += static_cast<__int128>((engine_.now() - moving.since).ticks) * metrics_.ps_per_tick;
  moving.lane->let_go(moving.seq);
  touched_.push_back(moving.lane);
  tell({.kind = ClusterEvent::Kind::transferred,
        .replica = moving.request->replica,
        .from = static_cast<std::int32_t>(moving.from),
        .request = moving.request->id,
        .bytes = moving.bytes,
        .since = moving.since});
  tell(*moving.request, RequestPhase::queued);
  submit(*moving.request);
}

/// Those from or to a replica are lost.
void Cluster::cancel_transfers(std::size_t i) {
  for (std::size_t slot = 0; slot < moving_.size(); ++slot) {
    Moving& moving = moving_[slot];
    if (moving.request == nullptr) continue;
    Request& request = *moving.request;
    if (moving.from != i && static_cast<std::size_t>(request.replica) != i) continue;
    transfers_->cancel(moving.flow);
    moving.lane->let_go(moving.seq);
    touched_.push_back(moving.lane);
    moving.request = nullptr;
    free_moving_.push_back(slot);
    restart(request);
  }
}

// ---- failures

/// Somebody is here again: failures matter. Those of the time in between changed nothing but who is up now.
void Cluster::watch_outages() {
  for (std::size_t i = 0; i < members_.size(); ++i) plan_outage(i);
}

/// Finds out whether a replica is up, and schedules when that changes.
void Cluster::plan_outage(std::size_t i) {
  Member& member = members_[i];
  member.outage = outages_->next(i, engine_.now());
  const bool down = member.outage && member.outage->begin <= engine_.now();
  if (down && !member.down) fail(i);
  if (!down && member.down) come_back(i);
  if (!member.outage || in_system_ == 0) return;
  member.change =
      engine_.schedule_at(down ? member.outage->end : member.outage->begin, *this, kChange | std::uint64_t{i} << 8);
}

/// Nobody is here: a run is to end, not to go from failure to failure.
void Cluster::unwatch_outages() {
  for (Member& member : members_)
    if (member.change) engine_.cancel(*member.change);
}

void Cluster::come_back(std::size_t i) {
  Member& member = members_[i];
  member.down = false;
  tell({.kind = ClusterEvent::Kind::returned, .replica = static_cast<std::int32_t>(i)});
  if (member.power == Power::on) enter(i, pool_of(member));
}

void Cluster::fail(std::size_t i) {
  Member& member = members_[i];
  member.down = true;
  tell({.kind = ClusterEvent::Kind::failed, .replica = static_cast<std::int32_t>(i)});
  if (member.power == Power::off) return;
  ++totals_.failures;
  if (member.pool != nullptr) leave(i);
  cancel_transfers(i);
  for (const auto& lane : member.lanes)
    for (Request* request : lane->evacuate()) restart(*request);
  if (member.pipe != nullptr) member.pipe->clear({engine_.now().ticks, 0});
}

/// A request that lost its KV cache goes through the router again, but not for ever: one that needs longer than
/// replicas stay up would never end.
void Cluster::restart(Request& request) {
  withdraw(request);
  if (++request.restarts > retries_) return end(request, "rejected:failures", std::nullopt);
  reroute(request);
}

void Cluster::reroute(Request& request) {
  request.ready_tokens = 0;
  tell(request, RequestPhase::queued);
  ++totals_.rerouted;
  dispatch(request);
}

}  // namespace orrery::experiments
