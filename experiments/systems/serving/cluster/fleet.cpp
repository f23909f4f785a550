#include "experiments/systems/serving/cluster/fleet.hpp"

#include <algorithm>
#include <stdexcept>

#include "policies/migration/migration.hpp"

namespace orrery::experiments {
namespace {

/// The prefill rate of a replica is that of its last minute or so: sums are halved whenever they reach it.
constexpr std::int64_t kRateWindow_ps = 60'000'000'000'000;

}  // namespace

Fleet::Fleet(sim::Engine& engine, ServingMetrics& metrics, policies::Router* prompts, policies::Router* decodes)
    : engine_(engine), instants_(engine), metrics_(metrics) {
  prompts_.router = prompts;
  decodes_.router = decodes;
}

void Fleet::add(MemberParts parts, RequestSink& sink, RunObserver* observer) {
  const auto index = static_cast<std::int32_t>(members_.size());
  Member& member = members_.emplace_back();
  member.group = parts.group;
  member.role = parts.role;
  member.kv_bytes_per_token = parts.kv_bytes_per_token;
  member.weight_bytes = parts.weight_bytes;
  member.pipe = std::move(parts.pipe);
  if (parts.lock_step) member.lock_step = std::make_unique<LockStep>(instants_);
  if (parts.one_scheduler > 0) {
    member.scheduler = std::make_unique<LaneScheduler>(engine_, instants_, *member.pipe);
    parts.lanes.front().pool = std::make_shared<SequencePool>();
    parts.lanes.front().links = std::make_shared<TierLinks>();
    const ReplicaParts first = parts.lanes.front();
    parts.lanes.resize(static_cast<std::size_t>(parts.one_scheduler), first);
  }
  for (ReplicaParts& lane : parts.lanes) {
    lane.engine = &engine_;
    lane.instants = &instants_;
    lane.metrics = &metrics_;
    lane.sink = &sink;
    lane.observer = observer;
    lane.index = index;
    lane.pipe = member.pipe.get();
    lane.lock_step = member.lock_step.get();
    lane.scheduler = member.scheduler.get();
    lane.lane = static_cast<std::int32_t>(member.lanes.size());
    lane.stream = next_stream_++;
    member.lanes.push_back(std::make_unique<Replica>(std::move(lane)));
    if (member.lock_step != nullptr) member.lock_step->add(*member.lanes.back());
    if (member.scheduler != nullptr) member.scheduler->add(member.lanes.back()->lane());
  }
  for (std::size_t pool = 0; pool < member.pools(); ++pool) {
    member.caches.push_back(&member.lanes[pool]->kv());
    member.away.kv_total += member.lanes[pool]->kv().total_blocks();
  }
  member.away.replica = index;
  member.away.weight = parts.weight;
  member.away.caches = member.caches;
  member.away.pricer = &member.lanes.front()->pricer();
}

void Fleet::enter(std::size_t i) {
  Member& member = members_[i];
  Pool& pool = pool_of(member);
  const auto at = std::lower_bound(pool.facts.begin(), pool.facts.end(), member.away.replica,
                                   [](const policies::ReplicaFacts& a, std::int32_t b) { return a.replica < b; });
  pool.facts.insert(at, member.away);
  member.pool = &pool;
  renumber(pool);
}

void Fleet::leave(std::size_t i) {
  Member& member = members_[i];
  Pool& pool = *member.pool;
  member.away = pool.facts[member.place];
  pool.facts.erase(pool.facts.begin() + static_cast<std::ptrdiff_t>(member.place));
  member.pool = nullptr;
  renumber(pool);
}

void Fleet::renumber(const Pool& pool) {
  for (std::size_t place = 0; place < pool.facts.size(); ++place)
    members_[static_cast<std::size_t>(pool.facts[place].replica)].place = place;
}

const policies::ReplicaFacts& Fleet::facts(std::size_t i) const {
  const Member& member = members_[i];
  return member.pool ? member.pool->facts[member.place] : member.away;
}

policies::LoadReport Fleet::report(std::size_t i) {
  policies::LoadReport report;
  report.replica = static_cast<std::int32_t>(i);
  report.terminating = members_[i].pool == nullptr;
  const Member& member = members_[i];
  for (std::size_t lane = 0; lane < member.lanes.size(); ++lane) {
    member.lanes[lane]->sync();
    const policies::BatchView view = member.lanes[lane]->view();
    policies::add_running(view, report);
    if (lane < member.pools()) policies::add_queue(view, report);
  }
  return report;
}

policies::RouteRequest Fleet::describe(const Request& request) {
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

std::size_t Fleet::route(const Request& request, Pool& pool) {
  if (pool.facts.size() == 1 || pool.router == nullptr) return static_cast<std::size_t>(pool.facts.front().replica);
  if (pool.router->reads_live()) read_live(pool);
  const policies::RouteView view{.now = engine_.now(),
                                 .ps_per_tick = metrics_.ps_per_tick,
                                 .replicas = pool.facts,
                                 .request = describe(request),
                                 .ttft_ps = metrics_.ttft_ps(),
                                 .cluster = std::ssize(members_)};
  const std::size_t place = pool.router->route(view);
  if (place >= pool.facts.size()) throw std::logic_error("the router named a replica that is not there");
  return static_cast<std::size_t>(pool.facts[place].replica);
}

void Fleet::read_live(Pool& pool) {
  for (policies::ReplicaFacts& facts : pool.facts) {
    facts.waiting = facts.kv_blocks = 0;
    const auto i = static_cast<std::size_t>(facts.replica);
    for (const auto& lane : members_[i].lanes) lane->sync();
    for (std::size_t own = 0; own < members_[i].pools(); ++own) {
      const Replica& lane = *members_[i].lanes[own];
      facts.waiting += lane.sequences().queued();
      facts.kv_blocks += lane.kv().total_blocks() - lane.kv().available_blocks();
    }
    if (pool.router->reads_reports()) facts.load = report(i);
  }
}

/// `tokens` more (or fewer) to prefill at a replica; fewer: because they were prefilled, or left.
void Fleet::queue_changed(Member& member, std::int64_t tokens) {
  policies::ReplicaFacts& facts = facts_of(member);
  PrefillRate& rate = member.prefill;
  const sim::Time now = engine_.now();
  if (facts.queued_tokens > 0)
    rate.ps = to_ps(static_cast<__int128>((now - rate.counted).ticks) * metrics_.ps_per_tick + rate.ps, 1);
  rate.counted = now;
  facts.queued_tokens += tokens;
}

void Fleet::place(Request& request, std::size_t i) {
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

Member& Fleet::withdraw(Request& request) {
  Member& member = of(request);
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
  return member;
}

void Fleet::prefilled(Request& request) {
  if (request.queued_tokens == 0) return;
  Member& member = of(request);
  PrefillRate& rate = member.prefill;
  queue_changed(member, -request.queued_tokens);
  rate.tokens += request.queued_tokens;
  request.queued_tokens = 0;
  if (rate.ps > 0)
    facts_of(member).prefill_tokens_per_s = static_cast<double>(rate.tokens) / (static_cast<double>(rate.ps) * 1e-12);
  if (rate.ps > kRateWindow_ps) {
    rate.ps /= 2;
    rate.tokens /= 2;
  }
}

Replica& Fleet::choose_lane(Request& request) {
  const Member& member = of(request);
  request.lane = 0;
  if (member.pools() > 1) {
    const auto requests = [](const std::unique_ptr<Replica>& lane) {
      return lane->sequences().queued() + std::ssize(lane->sequences().running());
    };
    const auto least = std::min_element(member.lanes.begin(), member.lanes.end(),
                                        [&](const auto& a, const auto& b) { return requests(a) < requests(b); });
    request.lane = static_cast<std::int32_t>(least - member.lanes.begin());
  }
  return *member.lanes[static_cast<std::size_t>(request.lane)];
}

__int128 Fleet::busy_ticks(const Pool& pool) {
  __int128 sum = 0;
  for (const Member& member : members_) {
    if (&pool_of(member) != &pool) continue;
    sum += member.busy_ticks;
    if (member.busy_since) sum += (engine_.now() - *member.busy_since).ticks;
  }
  return sum;
}

ReplicaResult Fleet::result(std::size_t i) const {
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
    // Lanes of a pipeline share its devices, others have their own; those of one scheduler tell of the same cache.
    const bool beside = member.pipe != nullptr && member.scheduler == nullptr;
    result.kv_peak_bytes =
        beside ? result.kv_peak_bytes + counts.kv_peak_bytes : std::max(result.kv_peak_bytes, counts.kv_peak_bytes);
    result.busy_ps += counts.busy_ps;
    result.cost.add(lane->cost());
  }
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
