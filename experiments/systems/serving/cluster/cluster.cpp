#include "experiments/systems/serving/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::experiments {
namespace {

/// The prefill rate of a replica is that of its last minute or so: sums are halved whenever they reach it.
constexpr std::int64_t kRateWindow_ps = 60'000'000'000'000;

}  // namespace

Cluster::Cluster(sim::Engine& engine, ServingMetrics& metrics, RunObserver* observer, Load& load,
                 ClusterPolicies policies)
    : engine_(engine), metrics_(metrics), observer_(observer), load_(load), policies_(std::move(policies)) {
  prompts_.router = policies_.router.get();
  decodes_.router = policies_.decode_router.get();
  prompts_.scaling = policies_.scaling.get();
  decodes_.scaling = policies_.decode_scaling.get();
  watched_ = observer_ != nullptr && observer_->wants_steps();
}

void Cluster::add(ReplicaParts parts) {
  MemberParts member;
  member.lanes.push_back(std::move(parts));
  add(std::move(member));
}

void Cluster::add(MemberParts parts) {
  const auto index = static_cast<std::int32_t>(members_.size());
  Member& member = members_.emplace_back();
  member.group = parts.group;
  member.role = parts.role;
  member.kv_bytes_per_token = parts.kv_bytes_per_token;
  member.weight_bytes = parts.weight_bytes;
  member.pipe = std::move(parts.pipe);
  if (parts.lock_step) member.lock_step = std::make_unique<LockStep>(engine_);
  for (ReplicaParts& lane : parts.lanes) {
    lane.engine = &engine_;
    lane.metrics = &metrics_;
    lane.sink = this;
    lane.observer = observer_;
    lane.index = index;
    lane.pipe = member.pipe.get();
    lane.lock_step = member.lock_step.get();
    lane.stream = next_stream_++;
    member.lanes.push_back(std::make_unique<Replica>(std::move(lane)));
    if (member.lock_step != nullptr) member.lock_step->add(*member.lanes.back());
    member.caches.push_back(&member.lanes.back()->kv());
    member.away.kv_total += member.lanes.back()->kv().total_blocks();
  }
  member.away.replica = index;
  member.away.weight = parts.weight;
  member.away.caches = member.caches;
  member.away.pricer = &member.lanes.front()->pricer();
  enter(members_.size() - 1, pool_of(member));
}

void Cluster::start(const ClusterParams& params) {
  if (std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.role == Role::prefill; }))
    transfers_ = std::make_unique<KvTransfers>(engine_, params.transfer, members_.size());
  if (params.failures.mtbf_s || !params.failures.at.empty())
    outages_ = std::make_unique<Outages>(params.failures, engine_.scale(), engine_.stream("failures"), members_.size());
  begin_scaling(prompts_, params.scaling);
  begin_scaling(decodes_, params.decode_scaling);
  retries_ = params.failures.retries;
  load_.start(engine_, *this);
}

/// A replica takes requests of a pool from now on.
void Cluster::enter(std::size_t i, Pool& pool) {
  Member& member = members_[i];
  const auto at = std::lower_bound(pool.facts.begin(), pool.facts.end(), member.away.replica,
                                   [](const policies::ReplicaFacts& a, std::int32_t b) { return a.replica < b; });
  pool.facts.insert(at, member.away);
  member.pool = &pool;
  for (std::size_t place = 0; place < pool.facts.size(); ++place)
    members_[static_cast<std::size_t>(pool.facts[place].replica)].place = place;
  if (&pool != &prompts_ || parked_.empty()) return;
  std::vector<Request*> parked;
  parked.swap(parked_);
  for (Request* request : parked) dispatch(*request);
}

/// It takes none any longer.
void Cluster::leave(std::size_t i) {
  Member& member = members_[i];
  Pool& pool = *member.pool;
  member.away = pool.facts[member.place];
  pool.facts.erase(pool.facts.begin() + static_cast<std::ptrdiff_t>(member.place));
  member.pool = nullptr;
  for (std::size_t place = 0; place < pool.facts.size(); ++place)
    members_[static_cast<std::size_t>(pool.facts[place].replica)].place = place;
}

const policies::ReplicaFacts& Cluster::facts(std::size_t i) const {
  const Member& member = members_[i];
  return member.pool ? member.pool->facts[member.place] : member.away;
}

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
  if (in_system_++ == 0 && outages_) watch_outages();
  if (migrator_) migrator_->poke();
  if (const auto reason = turned_away(request)) {
    end(request, fmt::format("rejected:{}", *reason), std::nullopt);
    return;
  }
  dispatch(request);
  wake_scaling(prompts_);
  wake_scaling(decodes_);
}

/// To the replica that the router names, or to wait for one.
void Cluster::dispatch(Request& request) {
  if (prompts_.facts.empty()) {
    ++totals_.parked;
    parked_.push_back(&request);
    return;
  }
  const std::size_t to = route(request, prompts_);
  if (members_.size() > 1) tell({.replica = static_cast<std::int32_t>(to), .request = request.id});
  deliver(request, to);
}

policies::RouteRequest Cluster::describe(const Request& request) const {
  return {.id = request.id,
          .arrived = request.arrived,
          .prefill_tokens = request.prompt_tokens + request.generated,
          .ready_tokens = request.ready_tokens,
          .predicted_tokens = request.predicted_tokens,
          .session = request.session,
          .tenant = request.tenant,
          .priority = request.priority,
          .text = request.text.empty() ? nullptr : &request.text};
}

/// Number of the replica that a request of this pool goes to.
std::size_t Cluster::route(const Request& request, Pool& pool) {
  if (pool.facts.size() == 1 || pool.router == nullptr) return static_cast<std::size_t>(pool.facts.front().replica);
  if (pool.router->reads_live()) read_live(pool);
  const policies::RouteView view{.now = engine_.now(),
                                 .ps_per_tick = metrics_.ps_per_tick,
                                 .replicas = pool.facts,
                                 .request = describe(request),
                                 .ttft_ps = metrics_.slo.ttft
                                                ? std::optional(to_ps(metrics_.slo.ttft->ticks, metrics_.ps_per_tick))
                                                : std::nullopt};
  const std::size_t place = pool.router->route(view);
  if (place >= pool.facts.size()) throw std::logic_error("the router named a replica that is not there");
  return static_cast<std::size_t>(pool.facts[place].replica);
}

void Cluster::read_live(Pool& pool) {
  for (policies::ReplicaFacts& facts : pool.facts) {
    facts.waiting = facts.kv_blocks = 0;
    for (const auto& lane : members_[static_cast<std::size_t>(facts.replica)].lanes) {
      lane->sync();
      facts.waiting += lane->sequences().queued();
      facts.kv_blocks += lane->kv().total_blocks() - lane->kv().available_blocks();
    }
    if (pool.router->reads_reports()) facts.load = report_load(*this, static_cast<std::size_t>(facts.replica));
  }
}

std::int32_t Cluster::lane_for(const Member& member) const {
  if (member.lanes.size() == 1) return 0;
  const auto requests = [](const std::unique_ptr<Replica>& lane) {
    return lane->sequences().queued() + std::ssize(lane->sequences().running());
  };
  const auto least = std::min_element(member.lanes.begin(), member.lanes.end(),
                                      [&](const auto& a, const auto& b) { return requests(a) < requests(b); });
  return static_cast<std::int32_t>(least - member.lanes.begin());
}

/// `tokens` more (or fewer) to prefill at a replica; fewer: because they were prefilled, or left.
void Cluster::queue_changed(Member& member, std::int64_t tokens) {
  policies::ReplicaFacts& facts = facts_of(member);
  const sim::Time now = engine_.now();
  if (facts.queued_tokens > 0)
    member.prefill_ps =
        to_ps(static_cast<__int128>((now - member.counted).ticks) * metrics_.ps_per_tick + member.prefill_ps, 1);
  member.counted = now;
  facts.queued_tokens += tokens;
}

void Cluster::deliver(Request& request, std::size_t i, bool first) {
  place(request, i);
  submit(request, first);
}

/// The request counts at a replica from now on.
void Cluster::place(Request& request, std::size_t i) {
  Member& member = members_[i];
  request.queued_tokens = std::max<std::int64_t>(0, request.prompt_tokens + request.generated - request.ready_tokens);
  request.load_tokens = request.prompt_tokens + request.generated;
  request.replica = static_cast<std::int32_t>(i);
  request.placed = true;
  ++member.requests;
  queue_changed(member, request.queued_tokens);
  policies::ReplicaFacts& facts = facts_of(member);
  if (++facts.requests == 1) member.busy_since = engine_.now();
  facts.tokens += request.load_tokens;
}

/// It is there.
void Cluster::submit(Request& request, bool first) {
  Member& member = members_[static_cast<std::size_t>(request.replica)];
  request.lane = lane_for(member);
  Replica& lane = *member.lanes[static_cast<std::size_t>(request.lane)];
  if (touched_.empty() || touched_.back() != &lane) touched_.push_back(&lane);
  lane.submit(request, first);
}

void Cluster::withdraw(Request& request) {
  Member& member = members_[static_cast<std::size_t>(request.replica)];
  queue_changed(member, -request.queued_tokens);
  policies::ReplicaFacts& facts = facts_of(member);
  facts.tokens -= request.load_tokens;
  if (--facts.requests == 0) {
    member.busy_ticks += (engine_.now() - *member.busy_since).ticks;
    member.busy_since.reset();
    member.idle_since = engine_.now();
  }
  request.queued_tokens = request.load_tokens = 0;
  request.placed = false;
  if (prompts_.router != nullptr) prompts_.router->left(request.id);
  if (decodes_.router != nullptr) decodes_.router->left(request.id);
  if (facts.requests == 0 && member.power == Power::draining) drained(static_cast<std::size_t>(request.replica));
}

void Cluster::flush() {
  // Waking may end requests, whose load may send others.
  for (std::size_t i = 0; i < touched_.size(); ++i) touched_[i]->wake();
  touched_.clear();
}

bool Cluster::prefill_done(Request& request, policies::SeqId seq) {
  if (request.queued_tokens > 0) {
    Member& member = members_[static_cast<std::size_t>(request.replica)];
    queue_changed(member, -request.queued_tokens);
    member.prefill_tokens += request.queued_tokens;
    request.queued_tokens = 0;
    if (member.prefill_ps > 0)
      facts_of(member).prefill_tokens_per_s =
          static_cast<double>(member.prefill_tokens) / (static_cast<double>(member.prefill_ps) * 1e-12);
    if (member.prefill_ps > kRateWindow_ps) {
      member.prefill_ps /= 2;
      member.prefill_tokens /= 2;
    }
  }
  return members_[static_cast<std::size_t>(request.replica)].role == Role::prefill && hand_over(request, seq);
}

void Cluster::request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) {
  if (finished) {
    Member& member = members_[static_cast<std::size_t>(request.replica)];
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
  if (--in_system_ == 0 && outages_) unwatch_outages();
  if (migrator_) {
    migrator_->ended(request);
    if (in_system_ == 0) migrator_->rest();
  }
  load_.request_ended(request, status, finished);
  pool_.recycle(request);
}

void Cluster::finish() {
  finishing_ = true;
  for (const Moving& moving : moving_) {
    if (moving.request == nullptr) continue;
    transfers_->cancel(moving.flow);
    moving.lane->let_go(moving.seq);
    request_ended(*moving.request, "unfinished", std::nullopt);
  }
  if (migrator_) {
    for (Request* request : migrator_->finish()) end(*request, "unfinished", std::nullopt);
    totals_.migrations = migrator_->totals();
  }
  for (Request* request : parked_) end(*request, "unfinished", std::nullopt);
  for (const Member& member : members_)
    for (const auto& lane : member.lanes) lane->flush_unfinished();
  for (const Member& member : members_)
    for (const auto& lane : member.lanes) metrics_.cost.add(lane->cost());
  for (Member& member : members_) {
    if (member.power == Power::off) {
      member.off_ticks += (engine_.now() - member.off_since).ticks;
      member.off_since = engine_.now();
    }
    totals_.up_ticks += engine_.now().ticks - member.off_ticks;
    totals_.busy_ticks += member.busy_ticks;
  }
}

ReplicaResult Cluster::result(std::size_t i) const {
  const Member& member = members_[i];
  ReplicaResult result;
  result.group = member.group;
  result.requests = member.requests;
  result.completed = member.completed;
  result.output_tokens = member.output_tokens;
  result.off_ps = static_cast<__int128>(member.off_ticks) * metrics_.ps_per_tick;
  for (const auto& lane : member.lanes) {
    const ReplicaCounts& counts = lane->counts();
    result.iterations += counts.iterations;
    result.processed_tokens += counts.processed_tokens;
    result.preemptions += counts.preemptions;
    // Lanes of a pipeline share its devices, others have their own.
    result.kv_peak_bytes = member.pipe != nullptr ? result.kv_peak_bytes + counts.kv_peak_bytes
                                                  : std::max(result.kv_peak_bytes, counts.kv_peak_bytes);
    result.busy_ps += counts.busy_ps;
    result.cost.add(lane->cost());
  }
  if (const Pool& pool = pool_of(member); pool.scaler) result.off_power = pool.scaler->params.off_power;
  if (member.lock_step != nullptr) {
    result.occupied_ps = member.lock_step->occupied_ps();
    result.work_ps = member.lock_step->work_ps();
  }
  if (member.pipe == nullptr) {
    result.busy_ps /= std::ssize(member.lanes);
  } else {
    result.occupied_ps = member.pipe->occupied_ps();
    result.work_ps = member.pipe->work_ps();
  }
  return result;
}

}  // namespace orrery::experiments
