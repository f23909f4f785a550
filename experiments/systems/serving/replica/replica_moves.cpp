#include "experiments/systems/serving/replica/replica_internal.hpp"

namespace orrery::experiments {

std::optional<SeqId> Replica::decoding_sequence(const Request& request) const {
  for (const SeqId id : running_)
    if (accounts_[id.index].request == &request && sequence(id).phase == Phase::decode) return id;
  return std::nullopt;
}

Request& Replica::take_out(SeqId id) {
  Sequence& seq = sequence(id);
  if (iterating_) throw std::logic_error("a sequence is taken out in the middle of an iteration");
  if (seq.phase == Phase::decode) {
    --decoding_;
    if (seq.steady) leave_steady(id);
  } else if (seq.phase == Phase::prefill) {
    erase_prefilling(id);
  }
  erase_running(id);
  ++leaving_;
  seq.phase = Phase::paused;
  Request& request = *account(id).request;
  request.generated = seq.generated_then;
  request.ready_tokens = seq.kv_then;
  return request;
}

void Replica::let_go(SeqId id) {
  interrupt();  // blocks come free: who waits for them is to be decided upon
  --leaving_;
  parts_.kv->release(id, sequence(id), sequence(id).kv_then, Leave::keep);
  sequence(id).phase = Phase::waiting;
  sequence(id).order = -1;
  account(id).request = nullptr;
  free_slots_.push_back(id);
}

void Replica::book_busy(std::int64_t elapsed_ps) {
  counts_.busy_ps += elapsed_ps;
  parts_.metrics->busy_ps += elapsed_ps;
}

/// Books the part of the iteration under way that is over, and ends it.
void Replica::book_cut() {
  if (!iterating_) return;
  sync();
  const std::int64_t begun = leap_.done;
  const ExactTime start = time_of(begun);
  const ExactTime now{parts_.engine->now().ticks, 0};
  const std::int64_t length = leap_.elapsed(begun + 1) - leap_.elapsed(begun);
  // One that begins within this very tick has not begun: stepping, it would not have been decided upon.
  const bool under_way = begun < leap_.planned && start.tick() < parts_.engine->now();
  const std::int64_t elapsed = under_way ? now.minus(start, ps_per_tick_) : 0;
  if (elapsed > 0) {
    IterationCost cost;
    parts_.model->cost(shape_, cost);
    ledger_->book_cost(share(cost, elapsed, length));
    book_busy(parts_.pipe != nullptr
                  ? static_cast<std::int64_t>(static_cast<__int128>(leap_.work_ps) * elapsed / length)
                  : elapsed);
    if (parts_.observer != nullptr) {
      const std::int64_t energy = leap_.price.energy_pj + begun * leap_.price.step_energy_pj;
      IterationRun run{.start = start.tick(),
                       .start_ps = start.ps > 0 ? ps_per_tick_ - start.ps : 0,
                       .count = 1,
                       .time_ps = elapsed,
                       .energy_pj = static_cast<std::int64_t>(static_cast<__int128>(energy) * elapsed / length),
                       .replica = parts_.index,
                       .stream = parts_.stream,
                       .prefill_tokens = record_prefill_,
                       .decodes = record_decodes_,
                       .running = std::ssize(running_),
                       .waiting = waiting_before(parts_.engine->now()),
                       .kv_used_bytes = parts_.kv->used_bytes(),
                       .chunks = record_chunks_,
                       .stages = stage_times_};
      parts_.observer->iterations_ended(run);
    }
  }
  parts_.engine->cancel(event_);
  at_ = now;
}

std::vector<Request*> Replica::evacuate() {
  book_cut();
  // Blocks of the cut iteration were taken for steady decodes already.
  const std::int64_t ahead = iterating_ && decision_.decode_rest ? leap_.grown - leap_.done : 0;
  iterating_ = false;
  std::vector<SeqId> ids(running_.begin(), running_.end());
  ids.insert(ids.end(), waiting_.begin(), waiting_.end());
  for (const auto& [id, since] : arriving_) ids.push_back(id);
  std::ranges::sort(ids, {}, [&](SeqId id) { return sequence(id).order; });
  std::vector<Request*> requests;
  for (const SeqId id : ids) {
    Sequence& seq = sequence(id);
    if (seq.steady) leave_steady(id, ahead);
    if (seq.phase != Phase::waiting) parts_.kv->release(id, seq, seq.kv_then, Leave::drop);
    Request& request = *account(id).request;
    if (parts_.tier != nullptr) parts_.tier->drop(request.id);
    request.generated = seq.generated_then;
    request.ready_tokens = 0;
    account(id).request = nullptr;
    seq.phase = Phase::waiting;
    seq.order = -1;
    free_slots_.push_back(id);
    requests.push_back(&request);
  }
  running_.clear();
  prefilling_.clear();
  waiting_.clear();
  arriving_.clear();
  fresh_.clear();
  loading_.clear();
  outbound_.clear();
  finished_.clear();
  any_finished_ = false;
  decoding_ = 0;
  return requests;
}

void Replica::flush_unfinished() {
  for (Request* request : evacuate()) parts_.sink->request_ended(*request, "unfinished", std::nullopt);
}

}  // namespace orrery::experiments
