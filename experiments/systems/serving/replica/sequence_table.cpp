#include "experiments/systems/serving/replica/sequence_table.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/contract.hpp"

namespace orrery::experiments {

using policies::Phase;
using policies::SeqId;
using policies::Sequence;

SeqId SequenceTable::new_slot() {
  if (!free_.empty()) {
    const SeqId id = free_.back();
    free_.pop_back();
    (*this)[id] = {};
    account(id) = {};
    return id;
  }
  const SeqId id{static_cast<std::uint32_t>(sequences_.size())};
  sequences_.emplace_back();
  accounts_.emplace_back();
  return id;
}

SeqId SequenceTable::add(Request& request) {
  const SeqId id = new_slot();
  Sequence& seq = (*this)[id];
  seq.order = next_order_++;
  seq.arrived = request.arrived;
  seq.asked() = request.asked();
  seq.generated_then = request.generated;
  seq.prefill_tokens = request.prompt_tokens + request.generated;
  seq.ready_tokens = std::min(request.ready_tokens, seq.prefill_tokens - 1);
  if (!request.text.empty()) seq.text = &request.text;
  account(id).request = &request;
  return id;
}

SeqId SequenceTable::add_nobody() {
  const SeqId id = new_slot();
  (*this)[id].phase = Phase::paused;
  (*this)[id].order = -1;
  ++leaving_;
  return id;
}

void SequenceTable::free(SeqId id) {
  free_.push_back(id);
  (*this)[id].phase = Phase::waiting;
  (*this)[id].order = -1;
  account(id).request = nullptr;
}

void SequenceTable::let_go(SeqId id) {
  --leaving_;
  free(id);
}

void SequenceTable::expect(sim::Time now) {
  if (now == last_arrival_) return;
  last_arrival_ = now;
  waiting_then_ = queued();
}

void SequenceTable::wait(SeqId id, bool first) {
  if (first) {
    waiting_.push_front(id);
  } else {
    waiting_.push_back(id);
  }
}

void SequenceTable::let_in(sim::Time begun) {
  const bool nothing_decided = running_.empty() && waiting_.empty();
  while (!arriving_.empty() && (nothing_decided || arriving_.front().second <= begun)) {
    waiting_.push_back(arriving_.front().first);
    arriving_.pop_front();
  }
}

SeqId SequenceTable::take_head() {
  const SeqId id = waiting_.front();
  waiting_.pop_front();
  return id;
}

std::int64_t SequenceTable::waiting_before(sim::Time end) const {
  return last_arrival_ >= end ? std::min(waiting_then_, queued()) : queued();
}

std::int64_t SequenceTable::queued_prefill_tokens() const {
  std::int64_t tokens = 0;
  for (const SeqId id : waiting_) tokens += (*this)[id].prefill_tokens - (*this)[id].ready_tokens;
  for (const auto& [id, since] : arriving_) tokens += (*this)[id].prefill_tokens - (*this)[id].ready_tokens;
  for (const SeqId id : prefilling_) tokens += (*this)[id].prefill_left();
  return tokens;
}

void SequenceTable::start(SeqId id) {
  if (waiting_.front() == id) {
    waiting_.pop_front();
  } else {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), id));
  }
  Sequence& seq = (*this)[id];
  seq.phase = Phase::prefill;
  seq.turn = next_turn_++;
  running_.push_back(id);
  prefilling_.push_back(id);
}

void SequenceTable::prefill(SeqId id) {
  Sequence& seq = (*this)[id];
  seq.phase = Phase::prefill;
  const auto at = std::lower_bound(prefilling_.begin(), prefilling_.end(), seq.turn,
                                   [&](SeqId a, std::int64_t turn) { return (*this)[a].turn < turn; });
  prefilling_.insert(at, id);
}

void SequenceTable::decode(SeqId id) {
  stop(id);
  (*this)[id].phase = Phase::decode;
  ++decoding_;
}

void SequenceTable::pause(SeqId id) {
  stop(id);
  (*this)[id].phase = Phase::paused;
}

/// It prefills or decodes no longer.
void SequenceTable::stop(SeqId id) {
  const Phase phase = (*this)[id].phase;
  if (phase == Phase::decode) {
    --decoding_;
  } else if (phase == Phase::prefill) {
    erase_prefilling(id);
  }
}

void SequenceTable::erase_prefilling(SeqId id) {
  prefilling_.erase(std::find(prefilling_.begin(), prefilling_.end(), id));
}

void SequenceTable::remove(SeqId id) {
  stop(id);
  const auto at = std::lower_bound(running_.begin(), running_.end(), (*this)[id].turn,
                                   [&](SeqId a, std::int64_t turn) { return (*this)[a].turn < turn; });
  if (at == running_.end() || *at != id) broken_policy("it preempted a sequence that does not run");
  running_.erase(at);
}

void SequenceTable::take_out(SeqId id) {
  remove(id);
  (*this)[id].phase = Phase::paused;
  ++leaving_;
}

std::optional<SeqId> SequenceTable::decoding_sequence(const Request& request) const {
  for (const SeqId id : running_)
    if (account(id).request == &request && (*this)[id].phase == Phase::decode) return id;
  return std::nullopt;
}

bool SequenceTable::runs(const Request& request, std::int64_t id) const {
  for (const SeqId seq : running_)
    if (account(seq).request == &request) return request.id == id;
  return false;
}

std::vector<SeqId> SequenceTable::by_order() const {
  std::vector<SeqId> ids(running_.begin(), running_.end());
  ids.insert(ids.end(), waiting_.begin(), waiting_.end());
  for (const auto& [id, since] : arriving_) ids.push_back(id);
  std::ranges::sort(ids, {}, [&](SeqId id) { return (*this)[id].order; });
  return ids;
}

void SequenceTable::clear() {
  running_.clear();
  prefilling_.clear();
  waiting_.clear();
  arriving_.clear();
  decoding_ = 0;
}

}  // namespace orrery::experiments
