#include "experiments/systems/serving/replica/replica.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/systems/serving/replica/contract.hpp"
#include "experiments/systems/serving/replica/lane_scheduler.hpp"
#include "experiments/systems/serving/replica/lock_step.hpp"
#include "experiments/systems/serving/replica/rebalancer.hpp"

namespace orrery::experiments {

using policies::Admission;
using policies::Item;
using policies::Leave;
using policies::Phase;
using policies::Preempt;
using policies::Preemption;
using policies::SeqId;
using policies::Sequence;

namespace {

/// Beside who gets tokens: the queue, the batch or the mode.
bool changes_anything(const policies::BatchDecision& decision) {
  return !decision.preempt.empty() || !decision.resume.empty() || !decision.admit.empty() || decision.mode;
}

/// Where sequences were preempted, the policy could not see exactly what the cache has then: who still waits gets no
/// chunk, and nobody more than is left of its prompt.
void trim_items(policies::BatchDecision& decision, const SequenceTable& sequences) {
  std::erase_if(decision.items, [&](const Item& item) { return sequences[item.seq].phase == Phase::waiting; });
  for (Item& item : decision.items) {
    const Sequence& seq = sequences[item.seq];
    if (seq.phase == Phase::prefill) item.new_tokens = std::min(item.new_tokens, seq.prefill_left());
  }
}

}  // namespace

Replica::Replica(ReplicaParts parts)
    : parts_(std::move(parts)),
      sequences_(parts_.pool),
      time_{.ps_per_tick = parts_.engine->scale().ps_per_tick(), .at = {}},
      books_(parts_),
      steady_(sequences_, parts_),
      copies_(sequences_, books_, time_, parts_),
      batch_(sequences_, steady_, parts_),
      pricer_(batch_.shape(), parts_),
      number_(parts_.instants->add(*this)),
      flight_(number_, {sequences_, steady_, copies_, batch_, books_, time_}, parts_),
      lane_(*this, {sequences_, steady_, copies_, batch_, books_, time_}, flight_, parts_),
      completion_(sequences_, steady_, copies_, batch_, books_, parts_) {
  if (parts_.experts.replay != nullptr) foresight_.emplace(*parts_.experts.replay, sequences_);
}

void Replica::submit(Request& request, bool first) {
  const sim::Time now = parts_.engine->now();
  sequences_.expect(now);
  interrupt();
  const SeqId id = sequences_.add(request);
  const Sequence& seq = sequences_[id];
  request.replica = parts_.index;
  if (seq.prompt_tokens + seq.output_tokens > parts_.limits.max_context) {
    completion_.end(id, "rejected:context_exceeded", std::nullopt);
    return;
  }
  if (const auto reason = parts_.batching->reject(seq, *parts_.kv, parts_.limits)) {
    completion_.end(id, fmt::format("rejected:{}", *reason), std::nullopt);
    return;
  }
  copies_.claim_turn(id);
  if (parts_.host != nullptr && parts_.host->decides_ahead()) {
    sequences_.arrive(id, now);
  } else {
    sequences_.wait(id, first);
  }
}

void Replica::ask_turn() {
  if (parts_.scheduler != nullptr) return parts_.scheduler->ready();
  if (flight_.under_way() || unsettled_) return;
  if (parts_.lock_step != nullptr) return parts_.lock_step->ready();
  parts_.instants->ask_turn(number_);
}

void Replica::land() {
  boundary(flight_.land());
}

/// No leap goes on past the iteration under way.
void Replica::interrupt() {
  if (const std::optional<sim::Time> last = flight_.interrupt()) boundary(*last);
}

void Replica::take_turn() {
  if (flight_.under_way()) return;
  // The devices went on to the picosecond; if they idled, they start now.
  if (const ExactTime now = parts_.instants->now(); time_.at < now) copies_.move_on(now);
  if (settle_on_iteration()) begin();
}

bool Replica::plan(ExactTime start) {
  if (time_.at < start) copies_.move_on(start);
  return settle_on_iteration();
}

void Replica::go(const LaneStep& step) {
  planned_.time_ps = step.time_ps;
  planned_.sent = step.sent;
  planned_.step_ps = 0;
  planned_.horizon = 1;
  time_.stall_ps = 0;
  begin();
}

/// The iteration decided upon begins.
void Replica::begin() {
  if (parts_.scheduler != nullptr) sequences_.begun(parts_.engine->now());
  flight_.begin(iterations_ahead(planned_), planned_, time_.stall_ps, decision_.decode_rest);
  time_.stall_ps = 0;
}

/// Asks the policy until there is an iteration, or nothing left to make one of.
bool Replica::settle_on_iteration() {
  bool decided = false;
  unsettled_ = true;
  LaneScheduler* const lanes = parts_.scheduler;
  const auto take_arrivals = [&] { sequences_.take_arrivals(lanes == nullptr || lanes->alone(lane_)); };
  for (take_arrivals(); !sequences_.running().empty() || !sequences_.waiting().empty(); take_arrivals()) {
    while (const std::optional<SeqId> id = copies_.loaded()) resume(*id);
    if ((decided = decide())) break;
    if (lanes != nullptr && lanes->dropped()) break;
    if (!decision_.preempt.empty()) continue;  // it made room: what it does with that comes next
    if (copies_.loading()) {                   // nothing to run but what is on its way back
      if (lanes != nullptr) {
        lanes->ready_at(copies_.first_loaded());
        break;
      }
      copies_.await_load();
      continue;
    }
    if (lanes != nullptr && !lanes->alone(lane_)) break;  // what others hold may be what it lacks
    // Nothing to run although something waits: the head of the queue can never be scheduled.
    if (!sequences_.running().empty()) broken_policy("sequences run, but none was given work");
    if (sequences_.leaving() > 0) break;  // their blocks may be what it lacks
    completion_.end(sequences_.take_head(), "rejected:unschedulable", std::nullopt);
  }
  unsettled_ = false;
  return decided;
}

/// The planned iterations are over; the last one began then.
void Replica::boundary(sim::Time last) {
  if (parts_.scheduler == nullptr) sequences_.begun(last);
  unsettled_ = true;
  completion_.finish(decision_, time_.at);
  unsettled_ = false;
  if (boundary_asked_) {
    boundary_asked_ = false;
    parts_.sink->boundary(parts_.index);
  }
  ask_turn();
}

policies::BatchView Replica::view() const {
  const Elsewhere others = parts_.scheduler != nullptr ? parts_.scheduler->elsewhere(lane_) : Elsewhere{};
  return {.now = parts_.engine->now(),
          .running = sequences_.running(),
          .prefilling = sequences_.prefilling(),
          .waiting = sequences_.waiting(),
          .sequences = sequences_.all(),
          .kv = *parts_.kv,
          .clock = steady_.clock(),
          .decoding = sequences_.decoding(),
          .decode_tokens = steady_.branches(),
          .growth_blocks = steady_.blocks_of_a_step(),
          .decode_context = steady_.context(),
          .elsewhere = others.sequences,
          .elsewhere_tokens = others.kv_tokens,
          .mode = batch_.shape().mode,
          .limits = parts_.limits,
          .pricer = &pricer_,
          .experts = foresight_ ? &*foresight_ : nullptr,
          .ps_per_tick = time_.ps_per_tick};
}

// ---- decisions

/// Asks the policy for an iteration, makes it work and prices it; false: there is none.
bool Replica::decide() {
  steady_.start_growing();
  decision_.clear();
  copies_.tell_time(time_.at);
  parts_.batching->decide(view(), decision_);
  if (const std::int32_t modes = parts_.limits.modes;
      modes > 0 && (decision_.mode.value_or(0) < 0 || decision_.mode.value_or(0) >= modes))
    broken_policy(fmt::format("it switched to mode {}, there are {}", *decision_.mode, modes));
  const auto decide_again = [&] {
    decision_.clear();
    parts_.batching->decide(view(), decision_);
  };
  if (parts_.scheduler != nullptr && !parts_.scheduler->agrees(lane_, decision_, decide_again)) return false;
  if (changes_anything(decision_)) apply();
  // Prompts had the iteration for themselves, but are on their way from a tier: decodes need not wait.
  if (copies_.loading() && decision_.items.empty() && !decision_.decode_rest)
    decision_.decode_rest = steady_.blocks_of_a_step() <= parts_.kv->available_blocks();
  if (!batch_.build(decision_)) return false;
  if (books_.watched()) books_.tell_chunks(decision_, sequences_);
  batch_.reserve(decision_);
  // What this iteration writes to must have been read; blocks of sequences on their way back are written to later.
  if (!copies_.idle())
    copies_.await_room(parts_.kv->available_blocks() -
                       (decision_.decode_rest ? steady_.growth().next(steady_.clock()) : 0));
  if (parts_.experts.rebalancer != nullptr) {
    time_.stall_ps += parts_.experts.rebalancer->before_iteration(
        static_cast<std::size_t>(parts_.lane), time_.after(time_.stall_ps), time_.ps_per_tick, books_.counts().routed);
    batch_.set_placement(parts_.experts.rebalancer->placement());
  }
  planned_ = pricer_.price(time_);
  if (parts_.pipe != nullptr && books_.watched()) books_.keep_stages(parts_.pipe->last_times());
  return true;
}

/// What the decision changes.
void Replica::apply() {
  for (const Preemption& preemption : decision_.preempt) preempt(preemption);
  if (const std::int32_t mode = batch_.shape().mode; decision_.mode && *decision_.mode != mode) {
    time_.stall_ps += pricer_.switch_ps(mode, *decision_.mode);
    if (parts_.scheduler != nullptr) parts_.scheduler->set_mode(*decision_.mode);
    batch_.set_mode(*decision_.mode);
    ++switches_;
  }
  for (const SeqId id : decision_.resume) resume(id);
  if (decision_.admit.size() > 1 && parts_.kv->keeps_prefixes())
    for (const Admission& admission : decision_.admit) parts_.kv->pin(admission.seq, sequences_[admission.seq]);
  for (const Admission& admission : decision_.admit) admit(admission);
  if (!decision_.preempt.empty()) trim_items(decision_, sequences_);
}

std::int64_t Replica::iterations_ahead(const IterationPrice& price) const {
  if (!parts_.leap || (parts_.wire != nullptr && price.sent.any()) || sequences_.arriving() || time_.stall_ps > 0 ||
      !copies_.idle() || !decision_.items.empty() || !decision_.preempt.empty() || steady_.count() == 0 ||
      steady_.self_growing())
    return 1;
  // What decodes push out of a prefix cache comes to be found in a tier some time later: who waits may want it then.
  if (copies_.hands_on() && !sequences_.waiting().empty()) return 1;
  return std::max<std::int64_t>(1, std::min(price.horizon, decision_.stable_iterations));
}

void Replica::preempt(const Preemption& preemption) {
  const SeqId id = preemption.seq;
  Sequence& seq = sequences_[id];
  if (seq.phase == Phase::waiting) broken_policy("it preempted a sequence that does not run");
  if (seq.steady) steady_.leave(id);
  Request& request = sequences_.request(id);
  ++seq.preemptions;
  ++request.preemptions;
  ++books_.counts().preemptions;
  if (books_.watched()) books_.tell(request, RequestPhase::preempted, parts_.engine->now());
  if (preemption.how == Preempt::pause) return sequences_.pause(id);
  sequences_.remove(id);
  seq.phase = Phase::waiting;
  const std::int64_t kept = seq.kv_then;
  seq.prefill_tokens = seq.prompt_tokens + seq.generated_then;
  seq.ready_tokens = 0;
  if (preemption.how == Preempt::swap) copies_.swap_out(id, kept);
  parts_.kv->release(id, seq, kept, parts_.kv->left_by_preempted());
  seq.prefilled = seq.kv_then = seq.chunk_tokens = 0;
  seq.layers_done = 0;
  sequences_.wait(id, true);
}

void Replica::resume(SeqId id) {
  const Sequence& seq = sequences_[id];
  if (seq.phase != Phase::paused) broken_policy("it resumed a sequence that is not paused");
  const bool prefills = seq.prefill_left() > 0;
  if (books_.watched())
    books_.tell(sequences_.request(id), prefills ? RequestPhase::prefill : RequestPhase::decode, parts_.engine->now());
  if (prefills) return sequences_.prefill(id);
  sequences_.decode(id);
  steady_.enter(id, true);
}

void Replica::admit(const Admission& admission) {
  const SeqId id = admission.seq;
  Sequence& seq = sequences_[id];
  if (seq.phase != Phase::waiting) broken_policy("it admitted a sequence that does not wait");
  const std::optional<std::int64_t> found =
      parts_.kv->admit(id, seq, std::max(admission.reserve_tokens, seq.ready_tokens));
  if (!found) {
    if (decision_.preempt.empty()) broken_policy("it admitted a sequence whose blocks are not free");
    return;
  }
  // At least the last prompt token is computed, or there would be nothing to sample the first token from.
  const std::int64_t cached = std::min(*found, seq.prefill_tokens - 1);
  Request& request = sequences_.request(id);
  seq.prefilled = seq.kv_then = std::max(cached, seq.ready_tokens);
  seq.since = steady_.clock();
  const sim::Time now = parts_.engine->now();
  const bool first = !request.admitted;
  if (first) {
    request.admitted = now;
    const std::int64_t there = sequences_.account(id).stored ? seq.prefilled : cached;
    request.cached_tokens = seq.cached_tokens = std::min(there, seq.prompt_tokens);
    books_.counts().prompt_tokens += seq.prompt_tokens;
    books_.counts().device_tokens += cached;
  }
  sequences_.start(id);
  request.lane = parts_.lane;
  if (books_.watched()) books_.tell(request, RequestPhase::prefill, now);
  if (!copies_.load(id, cached, first)) return;
  sequences_.pause(id);
  if (books_.watched()) books_.tell(request, RequestPhase::loading, now);
  std::erase_if(decision_.items, [&](const Item& item) { return item.seq == id; });
}

void Replica::give_up(SeqId id, Preempt how) {
  preempt({.seq = id, .how = how});
  parts_.batching->returned(id);
}

// ---- taking requests away, and room for those to come

void Replica::ask_boundary() {
  interrupt();
  if (!flight_.under_way()) return parts_.sink->boundary(parts_.index);
  boundary_asked_ = true;
}

Request& Replica::take_out(SeqId id) {
  if (flight_.under_way()) throw std::logic_error("a sequence is taken out in the middle of an iteration");
  if (sequences_[id].steady) steady_.leave(id);
  sequences_.take_out(id);
  Request& request = sequences_.request(id);
  request.generated = sequences_[id].generated_then;
  request.ready_tokens = sequences_[id].kv_then;
  return request;
}

void Replica::let_go(SeqId id) {
  interrupt();  // blocks come free: who waits for them is to be decided upon
  parts_.kv->release(id, sequences_[id], sequences_[id].kv_then, Leave::keep);
  sequences_.let_go(id);
}

std::optional<SeqId> Replica::hold(std::int64_t tokens) {
  interrupt();
  // The iteration under way may not have taken its own blocks yet.
  flight_.take_blocks_ahead();
  const SeqId id = sequences_.add_nobody();
  copies_.tell_time(parts_.instants->now());
  if (parts_.kv->reserve(id, sequences_[id], tokens)) return id;
  sequences_.let_go(id);
  return std::nullopt;
}

void Replica::drop_hold(SeqId id) {
  interrupt();
  parts_.kv->release(id, sequences_[id], 0, Leave::drop);
  sequences_.let_go(id);
}

std::vector<Request*> Replica::evacuate() {
  const std::int64_t ahead = flight_.cut();
  std::vector<Request*> requests;
  for (const SeqId id : sequences_.by_order()) {
    const Sequence& seq = sequences_[id];
    if (seq.steady) steady_.leave(id, ahead);
    if (seq.phase != Phase::waiting) parts_.kv->release(id, seq, seq.kv_then, Leave::drop);
    Request& request = sequences_.request(id);
    copies_.drop(request);
    request.generated = seq.generated_then;
    request.ready_tokens = 0;
    sequences_.free(id);
    requests.push_back(&request);
  }
  sequences_.clear();
  copies_.clear();
  return requests;
}

void Replica::flush_unfinished() {
  for (Request* request : evacuate()) parts_.sink->request_ended(*request, "unfinished", std::nullopt);
}

}  // namespace orrery::experiments
