// The parts of a replica by themselves: sequences in any state over a cache that only counts, a tier that writes down
// what it is asked.
#pragma once

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/systems/serving/replica/books.hpp"
#include "experiments/systems/serving/replica/instants.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "experiments/systems/serving/replica/steady_decodes.hpp"
#include "tests/experiments/bench_replica.hpp"

namespace orrery::experiments::test {

/// Blocks of `block` tokens of one byte, which nobody shares.
class PlainKv final : public policies::KvCache {
 public:
  PlainKv(std::int64_t total_blocks, std::int64_t block_tokens) : total(total_blocks), block(block_tokens) {}

  std::int64_t total_blocks() const override { return total; }
  std::int64_t block_bytes() const override { return block; }
  std::int64_t free_blocks() const override { return total - used; }
  std::int64_t blocks_for(std::int64_t tokens) const override { return (tokens + block - 1) / block; }
  std::int64_t held_blocks(policies::SeqId id) const override {
    const auto at = held.find(id.index);
    return at == held.end() ? 0 : at->second;
  }
  /// Two blocks of a sequence lie side by side.
  std::int64_t pieces(policies::SeqId id) const override { return (held_blocks(id) + 1) / 2; }
  bool reserve(policies::SeqId id, const policies::Sequence& seq, std::int64_t tokens) override {
    const std::int64_t more = blocks_to_grow(id, seq, tokens);
    if (more > free_blocks()) return false;
    held[id.index] += more;
    used += more;
    return true;
  }
  void release(policies::SeqId id, const policies::Sequence&, std::int64_t tokens, policies::Leave leave) override {
    used -= held_blocks(id);
    held.erase(id.index);
    released.emplace_back(tokens, leave == policies::Leave::keep);
  }
  std::int64_t capacity(policies::SeqId id, const policies::Sequence& seq) const override {
    return held_blocks(id) / seq.branches * block;
  }
  std::int64_t used_bytes() const override { return used * block; }
  std::int64_t growth_tokens() const override { return together ? block : 0; }
  void take(std::int64_t blocks) override {
    taken.push_back(blocks);
    used += blocks;
  }
  void settle(policies::SeqId id, const policies::Sequence& seq, std::int64_t tokens) override {
    settled.push_back(tokens);
    held[id.index] = std::max(held_blocks(id), blocks_of(seq, tokens));
  }
  bool hand_on_to(policies::KvTier&) override { return hands_on; }
  std::span<const std::uint64_t> to_load(policies::SeqId) const override { return hashes; }
  void computed(policies::SeqId, const policies::Sequence&, std::int64_t tokens) override {
    computed_to.push_back(tokens);
  }
  bool reports_split() const override { return splits; }
  std::int64_t total_tokens() const override { return total * block; }
  std::int64_t allocated_tokens() const override { return used * block; }

  std::int64_t total, block, used = 0;
  bool together = true;  ///< decodes grow block by block out of one pool
  bool hands_on = false, splits = false;
  std::map<std::uint32_t, std::int64_t> held;
  std::vector<std::uint64_t> hashes;  ///< to be loaded, of whoever asks
  std::vector<std::int64_t> taken, settled, computed_to;
  std::vector<std::pair<std::int64_t, bool>> released;  ///< tokens, and whether they are kept
};

/// Copies take as many ps as they have blocks, times `ps_a_block`.
class ToldTier final : public policies::KvTier {
 public:
  std::optional<std::int64_t> swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                       std::int64_t pieces) override {
    tell("out", {key, tokens, blocks, pieces});
    return room ? std::optional(blocks * ps_a_block) : std::nullopt;
  }
  std::int64_t swap_in(std::int64_t key, std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) override {
    tell("in", {key, tokens, blocks, pieces});
    return blocks * ps_a_block;
  }
  void drop(std::int64_t key) override { tell("drop", {key}); }
  bool overlaps() const override { return beside; }
  bool keeps_turns() const override { return turns; }
  std::optional<std::int64_t> keep_turn(std::int64_t key, std::int64_t session, const policies::Text&,
                                        std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) override {
    tell("keep", {key, session, tokens, blocks, pieces});
    return room ? std::optional(blocks * ps_a_block) : std::nullopt;
  }
  std::int64_t claim_turn(std::int64_t key, std::int64_t session, const policies::Text&, std::int64_t most) override {
    tell("claim", {key, session, most});
    return std::min(kept, most);
  }
  bool takes_prefixes() const override { return prefixes; }
  void at(policies::Picoseconds time) override { tell("at", {static_cast<std::int64_t>(time)}); }
  std::int64_t load_blocks(std::span<const std::uint64_t> hashes, std::int64_t block_tokens, bool first) override {
    tell(first ? "first load" : "load", {std::ssize(hashes), block_tokens});
    return std::ssize(hashes) * ps_a_block;
  }
  /// What it was asked since the last time.
  std::vector<std::string> told() { return std::exchange(told_, {}); }

  std::int64_t ps_a_block = 100, kept = 0;
  bool room = true, beside = false, turns = false, prefixes = false;

 private:
  void tell(std::string what, std::initializer_list<std::int64_t> numbers) {
    for (const std::int64_t number : numbers) what += " " + std::to_string(number);
    told_.push_back(std::move(what));
  }
  std::vector<std::string> told_;
};

/// Who ended, and how.
struct Ends final : RequestSink {
  std::vector<std::pair<std::int64_t, std::string>> ended;
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time>) override {
    ended.emplace_back(request.id, status);
  }
};

/// Sequences in any state.
class Workbench {
 public:
  explicit Workbench(std::int64_t blocks = 100, std::int64_t block_tokens = 16, std::int64_t ps_per_tick = 1)
      : engine(1, sim::TickScale{ps_per_tick}), kv(std::make_shared<PlainKv>(blocks, block_tokens)) {
    parts.engine = &engine;
    parts.instants = &instants;
    parts.model = &model;
    parts.metrics = &metrics;
    parts.sink = &ends;
    parts.kv = kv;
    parts.limits = {.max_context = 4096, .layers = 32};
  }
  /// A request that is in no queue yet.
  Request& ask(std::int64_t prompt, std::int64_t output) {
    Request& request = requests.emplace_back();
    request.id = std::ssize(requests) - 1;
    request.prompt_tokens = prompt;
    request.output_tokens = output;
    return request;
  }
  policies::SeqId wait(std::int64_t prompt, std::int64_t output) {
    const policies::SeqId id = table.add(ask(prompt, output));
    table.wait(id, false);
    return id;
  }
  /// It runs and has done `prefilled` tokens of its prompt.
  policies::SeqId prefill(std::int64_t prompt, std::int64_t output, std::int64_t prefilled = 0) {
    const policies::SeqId id = wait(prompt, output);
    table.start(id);
    table[id].prefilled = table[id].kv_then = prefilled;
    REQUIRE(kv->reserve(id, table[id], prefilled));
    return id;
  }
  /// It runs with its first token out, and room for `reserved` tokens (or what it has).
  policies::SeqId decode(std::int64_t prompt, std::int64_t output, std::int64_t reserved = 0,
                         std::int32_t branches = 1) {
    const policies::SeqId id = prefill(prompt, output);
    policies::Sequence& seq = table[id];
    seq.branches = branches;
    seq.prefilled = seq.kv_then = prompt;
    seq.generated_then = 1;
    REQUIRE(kv->reserve(id, seq, std::max(prompt, reserved)));
    table.decode(id);
    return id;
  }

  sim::Engine engine;
  Instants instants{engine};
  FakeModel model;
  ServingMetrics metrics;
  Ends ends;
  std::shared_ptr<PlainKv> kv;
  ReplicaParts parts;
  std::deque<Request> requests;
  SequenceTable table;
};

}  // namespace orrery::experiments::test
