#include "experiments/systems/serving/replica/sequence_table.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/contract.hpp"

namespace orrery::experiments {

using policies::Phase;
using policies::SeqId;
using policies::Sequence;

namespace {

// Copied from, which takes a third of the time of making them where they go.
constexpr Sequence kFreshSequence{};
constexpr Account kFreshAccount{};

}  // namespace

SeqId SequenceTable::new_slot() {
  if (!pool_->free.empty()) {
    const SeqId id = pool_->free.back();
    pool_->free.pop_back();
    (*this)[id] = kFreshSequence;
    account(id) = kFreshAccount;
    return id;
  }
  const SeqId id{static_cast<std::uint32_t>(pool_->sequences.size())};
  pool_->sequences.emplace_back();
  pool_->accounts.emplace_back();
  return id;
}

SeqId SequenceTable::add(Request& request) {
  const SeqId id = new_slot();
  Sequence& seq = (*this)[id];
  seq.order = pool_->next_order++;
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
  ++pool_->leaving;
  return id;
}

void SequenceTable::free(SeqId id) {
  pool_->free.push_back(id);
  (*this)[id].phase = Phase::waiting;
  (*this)[id].order = -1;
  account(id).request = nullptr;
}

void SequenceTable::let_go(SeqId id) {
  --pool_->leaving;
  free(id);
}

void SequenceTable::expect(sim::Time now) {
  if (now == pool_->last_arrival) return;
  pool_->last_arrival = now;
  pool_->waiting_then = queued();
}

void SequenceTable::wait(SeqId id, bool first) {
  if (first) {
    pool_->waiting.push_front(id);
  } else {
    pool_->waiting.push_back(id);
  }
}

void SequenceTable::let_in(bool idle) {
  const bool nothing_decided = idle && running_.empty() && pool_->waiting.empty();
  while (!pool_->arriving.empty() && (nothing_decided || pool_->arriving.front().second <= pool_->begun)) {
    pool_->waiting.push_back(pool_->arriving.front().first);
    pool_->arriving.pop_front();
  }
}

SeqId SequenceTable::take_head() {
  const SeqId id = pool_->waiting.front();
  pool_->waiting.pop_front();
  return id;
}

std::int64_t SequenceTable::waiting_before(sim::Time end) const {
  return pool_->last_arrival >= end ? std::min(pool_->waiting_then, queued()) : queued();
}

void SequenceTable::start(SeqId id) {
  if (pool_->waiting.front() == id) {
    pool_->waiting.pop_front();
  } else {
    pool_->waiting.erase(std::find(pool_->waiting.begin(), pool_->waiting.end(), id));
  }
  Sequence& seq = (*this)[id];
  seq.phase = Phase::prefill;
  seq.turn = pool_->next_turn++;
  running_.push_back(id);
  prefilling_.push_back(id);
}

void SequenceTable::prefill(SeqId id) {
  (*this)[id].phase = Phase::prefill;
  insert(prefilling_, id);
}

/// Into a line by turn.
void SequenceTable::insert(std::vector<SeqId>& line, SeqId id) {
  const auto at = std::lower_bound(line.begin(), line.end(), (*this)[id].turn,
                                   [&](SeqId a, std::int64_t turn) { return (*this)[a].turn < turn; });
  line.insert(at, id);
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
  // A few hundred numbers in a row are looked through sooner than the turns of a few sequences here and there.
  constexpr std::size_t kFew = 512;
  const auto at = running_.size() <= kFew
                      ? std::find(running_.begin(), running_.end(), id)
                      : std::lower_bound(running_.begin(), running_.end(), (*this)[id].turn,
                                         [&](SeqId a, std::int64_t turn) { return (*this)[a].turn < turn; });
  if (at == running_.end() || *at != id) broken_policy("it preempted a sequence that does not run");
  running_.erase(at);
}

void SequenceTable::take_out(SeqId id) {
  remove(id);
  (*this)[id].phase = Phase::paused;
  ++pool_->leaving;
}

void SequenceTable::take_over(SequenceTable& other, SeqId id) {
  other.remove(id);
  insert(running_, id);
  const Phase phase = (*this)[id].phase;
  if (phase == Phase::prefill) insert(prefilling_, id);
  if (phase == Phase::decode) ++decoding_;
}

std::vector<SeqId> SequenceTable::by_order() const {
  std::vector<SeqId> ids(running_.begin(), running_.end());
  ids.insert(ids.end(), pool_->waiting.begin(), pool_->waiting.end());
  for (const auto& [id, since] : pool_->arriving) ids.push_back(id);
  std::ranges::sort(ids, {}, [&](SeqId id) { return (*this)[id].order; });
  return ids;
}

void SequenceTable::clear() {
  running_.clear();
  prefilling_.clear();
  pool_->waiting.clear();
  pool_->arriving.clear();
  decoding_ = 0;
}

std::optional<SeqId> decoding_sequence(const SequenceTable& table, const Request& request) {
  for (const SeqId id : table.running())
    if (table.account(id).request == &request && table[id].phase == Phase::decode) return id;
  return std::nullopt;
}

bool runs(const SequenceTable& table, const Request& request, std::int64_t id) {
  for (const SeqId seq : table.running())
    if (table.account(seq).request == &request) return request.id == id;
  return false;
}

std::optional<SeqId> latest_admission(const SequenceTable& table) {
  const std::vector<SeqId>& running = table.running();
  for (auto id = running.rbegin(); id != running.rend(); ++id)
    if (table[*id].phase != Phase::paused) return *id;
  return std::nullopt;
}

TokenSums token_sums(const SequenceTable& table, std::int64_t clock) {
  TokenSums sums;
  for (const SeqId id : table.running()) {
    const Sequence& seq = table[id];
    const std::int64_t cached = seq.kv_tokens(clock);
    sums.cached += seq.branches * cached;
    sums.claimed += seq.branches * std::max(seq.prefill_tokens, cached);
    sums.in_the_end += seq.branches * (seq.prompt_tokens + seq.output_tokens - 1);
  }
  return sums;
}

}  // namespace orrery::experiments
