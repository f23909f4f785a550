#include "experiments/systems/serving/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::experiments {

Cluster::Cluster(sim::Engine& engine, ServingMetrics& metrics, RunObserver* observer, Load& load,
                 ClusterPolicies policies)
    : engine_(engine),
      metrics_(metrics),
      observer_(observer),
      load_(load),
      policies_(std::move(policies)),
      fleet_(engine, metrics, policies_.router.get(), policies_.decode_router.get()),
      scaling_(engine, *this, fleet_),
      watched_(observer != nullptr && observer->wants_steps()) {}

void Cluster::add(ReplicaParts parts) {
  MemberParts member;
  member.lanes.push_back(std::move(parts));
  add(std::move(member));
}

void Cluster::add(MemberParts parts) {
  fleet_.add(std::move(parts), *this, observer_);
  open(fleet_.size() - 1);
}

void Cluster::start(const ClusterParams& params, KvWires wires, RequestPort* door) {
  if (migrator_ && wires.network != nullptr) migrator_->use(wires);
  if (std::any_of(fleet_.begin(), fleet_.end(), [](const Member& m) { return m.role == Role::prefill; }))
    hand_overs_ =
        std::make_unique<HandOvers>(engine_, *this, fleet_, params.transfer, totals_.transfers, std::move(wires));
  if (params.failures.mtbf_s || !params.failures.at.empty())
    failures_ = std::make_unique<Failures>(
        engine_, *this, fleet_, Outages(params.failures, engine_.scale(), engine_.stream("failures"), fleet_.size()));
  scaling_.begin(fleet_.prompts(), policies_.scaling.get(), params.scaling);
  scaling_.begin(fleet_.decodes(), policies_.decode_scaling.get(), params.decode_scaling);
  retries_ = params.failures.retries;
  load_.start(engine_, door != nullptr ? *door : *this);
}

// ---- the way of a request

Request& Cluster::make_request() {
  Request& request = pool_.make();
  request.id = next_id_++;
  request.arrived = engine_.now();
  return request;
}

void Cluster::send(Request& request) {
  if (finishing_) return pool_.recycle(request);  // too late to matter
  ++metrics_.arrived;
  tell(request, RequestPhase::queued);
  if (in_system_++ == 0 && failures_) failures_->watch();
  if (migrator_) migrator_->poke();
  if (const auto reason = turned_away(request)) {
    end(request, fmt::format("rejected:{}", *reason), std::nullopt);
    return;
  }
  dispatch(request);
  scaling_.wake();
}

/// Why admission control turns a request away.
std::optional<std::string_view> Cluster::turned_away(const Request& request) {
  if (policies_.admission == nullptr) return std::nullopt;
  return policies_.admission->reject({.now = engine_.now(),
                                      .ps_per_tick = metrics_.ps_per_tick,
                                      .replicas = fleet_.prompts().facts,
                                      .request = Fleet::describe(request),
                                      .parked = parked(),
                                      .ttft_ps = metrics_.ttft_ps()});
}

/// To the replica that the router names, or to wait for one.
void Cluster::dispatch(Request& request) {
  if (fleet_.prompts().facts.empty()) {
    ++totals_.parked;
    parked_.push_back(&request);
    return;
  }
  const std::size_t to = fleet_.route(request, fleet_.prompts());
  if (fleet_.size() > 1) tell({.replica = static_cast<std::int32_t>(to), .request = request.id});
  deliver(request, to);
}

void Cluster::deliver(Request& request, std::size_t i, bool first) {
  fleet_.place(request, i);
  submit(request, first);
}

void Cluster::submit(Request& request, bool first) {
  Replica& lane = fleet_.choose_lane(request);
  if (touched_.empty() || touched_.back() != &lane) touched_.push_back(&lane);
  lane.submit(request, first);
}

void Cluster::withdraw(Request& request) {
  const Member& member = fleet_.withdraw(request);
  if (member.power == Power::draining && !member.busy_since)
    scaling_.drained(static_cast<std::size_t>(request.replica));
}

void Cluster::flush(bool goes_on) {
  for (Replica* lane : touched_) lane->ask_turn();
  touched_.clear();
  fleet_.instants().settle(goes_on);
}

bool Cluster::prefill_done(Request& request, policies::SeqId seq) {
  fleet_.prefilled(request);
  if (fleet_.of(request).role != Role::prefill) return false;
  if (fleet_.decodes().facts.empty()) {
    scaling_.missed_decode();
    return false;
  }
  hand_overs_->send(request, seq);
  return true;
}

void Cluster::request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) {
  if (finished) {
    Member& member = fleet_.of(request);
    ++member.completed;
    member.output_tokens += request.output_tokens;
  }
  withdraw(request);
  end(request, status, finished);
}

/// It is over, and in no replica any longer.
void Cluster::end(Request& request, std::string_view status, std::optional<sim::Time> finished) {
  const RequestRecord record = record_of(request, status, finished);
  metrics_.request_ended(record, request.tbts);
  if (observer_ != nullptr) observer_->request_ended(record);
  if (--in_system_ == 0 && failures_) failures_->unwatch();
  if (migrator_) {
    migrator_->ended(request);
    if (in_system_ == 0) migrator_->rest();
  }
  load_.request_ended(request, status, finished);
  pool_.recycle(request);
}

// ---- replicas that come and go

void Cluster::open(std::size_t i) {
  fleet_.enter(i);
  if (fleet_[i].pool != &fleet_.prompts() || parked_.empty()) return;
  std::vector<Request*> parked;
  parked.swap(parked_);
  for (Request* request : parked) dispatch(*request);
}

/// Everybody in its lanes, by order of arrival there (of all lanes, where they share a queue).
static std::vector<Request*> evacuate(const Member& member) {
  for (const auto& lane : member.lanes) lane->lane().halt();
  std::vector<Request*> all;
  for (const auto& lane : member.lanes) {
    const std::vector<Request*> here = lane->evacuate();
    all.insert(all.end(), here.begin(), here.end());
  }
  if (member.scheduler != nullptr)
    std::ranges::stable_sort(all, {}, [](const Request* request) { return std::pair(request->arrived, request->id); });
  return all;
}

void Cluster::fail(std::size_t i) {
  Member& member = fleet_[i];
  member.down = true;
  tell({.kind = ClusterEvent::Kind::failed, .replica = static_cast<std::int32_t>(i)});
  if (member.power == Power::off) return;
  ++totals_.failures;
  if (member.pool != nullptr) fleet_.leave(i);
  if (hand_overs_) hand_overs_->cancel(i);
  for (Request* request : evacuate(member)) restart(*request);
  if (member.scheduler != nullptr) member.scheduler->clear();
  if (member.pipe != nullptr) member.pipe->clear({engine_.now().ticks, 0});
}

void Cluster::come_back(std::size_t i) {
  Member& member = fleet_[i];
  member.down = false;
  tell({.kind = ClusterEvent::Kind::returned, .replica = static_cast<std::int32_t>(i)});
  if (member.power == Power::on) open(i);
}

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

void Cluster::powered(std::size_t i, double share, const ColdStart* start) {
  if (start != nullptr) {
    ColdStart& cold = totals_.cold;
    cold.scheduling = cold.scheduling + start->scheduling;
    cold.allocation = cold.allocation + start->allocation;
    cold.code = cold.code + start->code;
    cold.load = cold.load + start->load;
    ++totals_.cold_starts;
  }
  if (observer_ != nullptr) observer_->power_changed(static_cast<std::int32_t>(i), engine_.now(), share);
}

// ---- the end of a run

void Cluster::finish() {
  finishing_ = true;
  fleet_.instants().close();
  if (hand_overs_) hand_overs_->finish();
  if (migrator_) {
    for (Request* request : migrator_->finish()) end(*request, "unfinished", std::nullopt);
    totals_.migrations = migrator_->totals();
  }
  for (Request* request : parked_) end(*request, "unfinished", std::nullopt);
  for (const Member& member : fleet_) {
    for (const auto& lane : member.lanes) lane->lane().halt();
    for (const auto& lane : member.lanes) lane->flush_unfinished();
  }
  for (Member& member : fleet_) {
    if (member.power == Power::off) {
      member.off_ticks += (engine_.now() - member.off_since).ticks;
      member.off_since = engine_.now();
    }
    totals_.up_ticks += engine_.now().ticks - member.off_ticks;
    totals_.busy_ticks += member.busy_ticks;
  }
}

ReplicaResult Cluster::result(std::size_t i) const {
  ReplicaResult result = fleet_.result(i);
  result.off_power = scaling_.off_power(fleet_[i]).value_or(result.off_power);
  return result;
}

}  // namespace orrery::experiments
