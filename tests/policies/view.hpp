// A replica on paper: sequences in any state, over a real paged cache, for tests of batching policies.
#pragma once

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "policies/batching/batching.hpp"

namespace orrery::policies::test {

/// A cache of `blocks` blocks of 16 tokens of one byte.
inline std::unique_ptr<KvCache> paged_cache(std::int64_t blocks) {
  KvCacheRegistry registry("kvcache");
  register_kv_caches(registry);
  sim::Faults faults;
  const KvGeometry geometry{.bytes_per_token = 1, .bytes_available = blocks * 16};
  return registry.prepare("paged", nullptr, {}, faults).make(geometry);
}

inline std::unique_ptr<Batching> make_batching(const std::string& name, const std::string& params = "{}") {
  BatchingRegistry registry("batching");
  register_batching_policies(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

class PaperReplica {
 public:
  explicit PaperReplica(std::int64_t blocks) : kv(paged_cache(blocks)) {}

  SeqId wait(std::int64_t prompt, std::int64_t output = 10) {
    const SeqId id = add(prompt, output);
    waiting.push_back(id);
    return id;
  }
  /// A sequence whose prompt is done and that has `generated` tokens.
  SeqId decode(std::int64_t prompt, std::int64_t generated = 1, std::int64_t output = 100) {
    const SeqId id = add(prompt, output);
    Sequence& seq = sequences[id.index];
    seq.phase = Phase::decode;
    seq.prefilled = prompt;
    seq.generated_then = generated;
    seq.kv_then = prompt + generated - 1;
    REQUIRE(kv->reserve(id, seq, seq.kv_then));
    running.push_back(id);
    ++decoding;
    return id;
  }
  /// A sequence that has done `prefilled` tokens of its prompt.
  SeqId prefill(std::int64_t prompt, std::int64_t prefilled) {
    const SeqId id = add(prompt, 10);
    Sequence& seq = sequences[id.index];
    seq.phase = Phase::prefill;
    seq.prefilled = seq.kv_then = prefilled;
    REQUIRE(kv->reserve(id, seq, prompt));
    running.push_back(id);
    prefilling.push_back(id);
    return id;
  }
  /// What a policy sees now.
  BatchView view() const {
    BatchView view{.now = now,
                   .running = running,
                   .prefilling = prefilling,
                   .waiting = waiting,
                   .sequences = sequences,
                   .kv = *kv,
                   .clock = clock,
                   .decoding = decoding,
                   .elsewhere = elsewhere,
                   .elsewhere_tokens = elsewhere_tokens,
                   .mode = mode,
                   .limits = limits,
                   .pricer = pricer,
                   .experts = experts};
    for (const SeqId id : running) {
      view.growth_blocks += blocks_grown(view, id);
      if (view[id].phase != Phase::decode) continue;
      view.decode_tokens += view[id].branches;
      view.decode_context += view[id].branches * (view[id].kv_then + 1);
    }
    return view;
  }
  BatchDecision decide(Batching& policy) const {
    BatchDecision out;
    policy.decide(view(), out);
    return out;
  }

  sim::Time now;
  std::unique_ptr<KvCache> kv;
  std::vector<Sequence> sequences;
  std::vector<SeqId> running;
  std::vector<SeqId> prefilling;
  std::deque<SeqId> waiting;
  std::int64_t clock = 0;
  std::int64_t decoding = 0;
  std::int64_t elsewhere = 0;
  std::int64_t elsewhere_tokens = 0;
  std::int32_t mode = 0;
  const BatchPricer* pricer = nullptr;
  const ExpertForesight* experts = nullptr;
  ReplicaLimits limits{.max_context = 4096, .layers = 32};

  /// `id` was admitted after all that run.
  void admit_last(SeqId id) {
    std::erase(running, id);
    running.push_back(id);
    sequences[id.index].turn = std::ssize(sequences);
  }
  /// `id`, which decodes, takes no part until it is resumed.
  void pause(SeqId id) {
    sequences[id.index].phase = Phase::paused;
    --decoding;
  }
  /// `id` samples so many outputs side by side, each with the tokens it has.
  void branch(SeqId id, std::int32_t branches) {
    Sequence& seq = sequences[id.index];
    seq.branches = branches;
    REQUIRE(kv->reserve(id, seq, seq.kv_then));
  }
  /// `id` ran and has gone back to the queue, its front, without its cache.
  void stop(SeqId id) {
    Sequence& seq = sequences[id.index];
    kv->release(id, seq, seq.kv_then, Leave::drop);
    if (seq.phase == Phase::decode) --decoding;
    std::erase(running, id);
    std::erase(prefilling, id);
    seq.phase = Phase::waiting;
    seq.prefill_tokens = seq.prompt_tokens + seq.generated_then;
    seq.prefilled = seq.kv_then = 0;
    ++seq.preemptions;
    waiting.push_front(id);
  }
  /// `id` ran and has left.
  void end(SeqId id) {
    Sequence& seq = sequences[id.index];
    kv->release(id, seq, seq.kv_then, Leave::drop);
    if (seq.phase == Phase::decode) --decoding;
    std::erase(running, id);
    std::erase(prefilling, id);
    seq.order = -1;
  }

 private:
  SeqId add(std::int64_t prompt, std::int64_t output) {
    const SeqId id{static_cast<std::uint32_t>(sequences.size())};
    Sequence seq;
    seq.order = seq.turn = id.index;
    seq.prompt_tokens = seq.prefill_tokens = prompt;
    seq.output_tokens = output;
    sequences.push_back(seq);
    return id;
  }
};

inline std::vector<SeqId> admitted(const BatchDecision& decision) {
  std::vector<SeqId> ids;
  for (const Admission& admission : decision.admit) ids.push_back(admission.seq);
  return ids;
}

inline std::vector<SeqId> preempted(const BatchDecision& decision) {
  std::vector<SeqId> ids;
  for (const Preemption& preemption : decision.preempt) ids.push_back(preemption.seq);
  return ids;
}

/// (sequence, new tokens) of every item.
inline std::vector<std::pair<std::uint32_t, std::int64_t>> items(const BatchDecision& decision) {
  std::vector<std::pair<std::uint32_t, std::int64_t>> all;
  for (const Item& item : decision.items) all.emplace_back(item.seq.index, item.new_tokens);
  return all;
}
using Items = std::vector<std::pair<std::uint32_t, std::int64_t>>;

}  // namespace orrery::policies::test
