// Paged KV cache: fixed blocks allocated on demand, so that a sequence wastes less than one block.
//
// Source: vLLM / PagedAttention (SOSP 2023), sections 4.1-4.4; nothing is shared between requests. Which block a token
// lands in does not change any cost, so the cache counts blocks and keeps no table of them. What branches of a request
// share (`sharing`):
//  - none: every branch has all its blocks;
//  - prompt: parallel sampling, copy on write (branches.hpp);
//  - beam: at every step a branch is replaced with probability `fork_rate` by a copy of another one, drawn evenly; the
//    mean number A of distinct ancestors a step further back falls by fork_rate A (A - 1) / (width - 1), and a block
//    has as many copies as its youngest token has ancestors, to the nearest whole number (a process stated here, not
//    measured: real beams follow their scores). Decodes of beams then reserve at every step, so nothing leaps.
#include <map>
#include <stdexcept>
#include <vector>

#include "policies/kvcache/branches.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class Sharing : std::uint8_t { none, prompt, beam };
constexpr auto enum_names(Sharing) {
  using enum Sharing;
  return sim::names<Sharing>({{"none", none}, {"prompt", prompt}, {"beam", beam}});
}

struct PagedParams {
  std::int64_t block_tokens = 16;
  Sharing sharing = Sharing::prompt;
  double fork_rate = 0.5;
  bool split = false;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("block_tokens", &PagedParams::block_tokens, sim::Unit::tokens, sim::between(1, 65536),
                   "Number of tokens of one sequence in a KV block."),
        sim::field(
            "sharing", &PagedParams::sharing,
            "What the branches of a request share: nothing, full blocks of the prompt, or (beam search) also history."),
        sim::field("fork_rate", &PagedParams::fork_rate, sim::Unit::ratio, sim::between(0, 1),
                   "With beam: share of the branches that are replaced by copies of others at each step."),
        sim::field("split", &PagedParams::split,
                   "Whether summary.json reports how the memory is divided into tokens, reservations and holes.")};
  }
};

class PagedCache final : public KvCache {
 public:
  PagedCache(const PagedParams& params, const KvGeometry& geometry)
      : params_(params),
        block_tokens_(params.block_tokens),
        block_bytes_(params.block_tokens * geometry.bytes_per_token) {
    total_ = block_bytes_ > 0 ? std::max<std::int64_t>(0, geometry.bytes_available / block_bytes_) : 0;
    free_ = total_;
  }

  std::int64_t total_blocks() const override { return total_; }
  std::int64_t block_bytes() const override { return block_bytes_; }
  std::int64_t free_blocks() const override { return free_; }
  std::int64_t blocks_for(std::int64_t tokens) const override { return blocks_up(tokens, block_tokens_); }
  std::int64_t held_blocks(SeqId seq) const override { return seq.index < held_.size() ? held_[seq.index] : 0; }
  std::int64_t blocks_of(const Sequence& seq, std::int64_t tokens) const override {
    if (seq.branches == 1) return blocks_for(tokens);
    if (params_.sharing == Sharing::none) return seq.branches * blocks_for(tokens);
    if (params_.sharing == Sharing::prompt) return shared_blocks_of(seq, tokens, block_tokens_);
    return beam_blocks(seq, tokens);
  }
  std::int64_t capacity(SeqId id, const Sequence& seq) const override {
    if (seq.branches > 1 && params_.sharing == Sharing::prompt)
      return shared_capacity(seq, held_blocks(id), block_tokens_);
    if (seq.branches > 1 && params_.sharing == Sharing::beam) return 0;  // asks at every step
    return held_blocks(id) / seq.branches * block_tokens_;
  }
  std::int64_t used_bytes() const override { return (total_ - free_) * block_bytes_; }
  std::int64_t growth_tokens() const override { return params_.sharing == Sharing::beam ? 0 : block_tokens_; }
  std::int64_t total_tokens() const override { return total_ * block_tokens_; }
  std::int64_t allocated_tokens() const override { return (total_ - free_) * block_tokens_; }
  bool reports_split() const override { return params_.split; }
  KvCounters counters() const override { return counters_; }

  bool reserve(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    if (id.index >= held_.size()) held_.resize(id.index + 1, 0);
    std::int64_t missing = blocks_to_grow(id, seq, tokens);
    if (seq.branches > 1 && params_.sharing == Sharing::beam)  // branches that die give blocks back
      missing = blocks_of(seq, tokens) - held_[id.index];
    if (missing > free_) return false;
    held_[id.index] += missing;
    free_ -= missing;
    return true;
  }

  void take(std::int64_t blocks) override {
    if (blocks > free_) throw std::logic_error("paged cache: more blocks taken than are free");
    free_ -= blocks;
    taken_ += blocks;
  }

  void settle(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    const std::int64_t own = blocks_to_grow(id, seq, tokens);
    held_[id.index] += own;
    taken_ -= own;
    if (taken_ < 0) throw std::logic_error("paged cache: a sequence settles blocks nobody took");
  }

  void release(SeqId id, const Sequence& seq, std::int64_t tokens, Leave leave) override {
    if (id.index >= held_.size()) return;
    free_ += held_[id.index];
    held_[id.index] = 0;
    if (free_ > total_) throw std::logic_error("paged cache: more blocks free than there are");
    if (leave == Leave::keep && seq.branches > 1) count_sharing(seq, tokens);
  }

 private:
  /// Blocks over all decode steps of a sequence with branches that ended with `tokens` tokens.
  void count_sharing(const Sequence& seq, std::int64_t tokens) {
    for (std::int64_t t = seq.prompt_tokens + 1; t <= tokens; ++t) {
      counters_.shared_steps += blocks_of(seq, t);
      counters_.unshared_steps += seq.branches * blocks_for(t);
    }
  }

  std::int64_t beam_blocks(const Sequence& seq, std::int64_t tokens) const {
    const std::int64_t blocks = blocks_for(tokens);
    const std::int64_t once = std::min(blocks, seq.prompt_tokens / block_tokens_);
    const std::vector<std::int64_t>& copies = ancestors(seq.branches);
    std::int64_t sum = blocks;
    for (std::int64_t block = blocks - 1; block >= once; --block) {
      const std::int64_t age = tokens - std::min(tokens, (block + 1) * block_tokens_);
      if (age >= std::ssize(copies)) break;  // all branches stem from one
      sum += copies[static_cast<std::size_t>(age)] - 1;
    }
    return sum;
  }

  /// Distinct ancestors of `width` branches by steps back, down to the last value above one.
  const std::vector<std::int64_t>& ancestors(std::int64_t width) const {
    std::vector<std::int64_t>& by_age = ancestors_[width];
    if (!by_age.empty()) return by_age;
    constexpr std::size_t kLongest = 1'000'000;
    double mean = static_cast<double>(width);
    for (std::int64_t whole = width; whole > 1 && by_age.size() < kLongest;
         whole = static_cast<std::int64_t>(mean + 0.5)) {
      by_age.push_back(whole);
      mean -= params_.fork_rate * mean * (mean - 1) / static_cast<double>(width - 1);
      mean = std::max(mean, 1.0);
    }
    return by_age;
  }

  PagedParams params_;
  std::int64_t block_tokens_;
  std::int64_t block_bytes_;
  std::int64_t total_ = 0;
  std::int64_t free_ = 0;
  std::int64_t taken_ = 0;  // by steady decodes, not yet attributed
  std::vector<std::int64_t> held_;
  KvCounters counters_;
  mutable std::map<std::int64_t, std::vector<std::int64_t>> ancestors_;
};

}  // namespace

void add_paged(KvCacheRegistry& registry) {
  registry.add<PagedParams>(
      "paged", "Fixed-size blocks on demand, shared only between the branches of a request (vLLM, SOSP 2023).",
      [](const PagedParams& params, const KvGeometry& geometry) -> std::unique_ptr<KvCache> {
        return std::make_unique<PagedCache>(params, geometry);
      });
}

}  // namespace orrery::policies
