#include "experiments/systems/serving/observe/kv_outcome.hpp"

#include "experiments/base/figures.hpp"

namespace orrery::experiments {

void KvOutcome::add(const policies::KvCounters& other) {
  counters.evicted_blocks += other.evicted_blocks;
  counters.moved_tokens += other.moved_tokens;
  counters.shared_steps += other.shared_steps;
  counters.unshared_steps += other.unshared_steps;
}

namespace {

struct KvSource {
  const KvOutcome& outcome;
  std::int64_t prompt_tokens;
};

/// Of all places; nothing where the policy does not report them.
FigureValue share_of_places(const KvSplit& split, __int128 part) {
  if (split.total == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(split.total);
}

const FigureTable<KvSource>& kv_table() {
  static const FigureTable<KvSource> table{
      {"hit_rate", "ratio", "Share of prompt tokens of completed requests that the cache held at first admission.",
       [](const KvSource& kv) {
         return ratio(static_cast<double>(kv.outcome.cached_tokens), static_cast<double>(kv.prompt_tokens));
       }},
      {"cached_tokens", "tokens", "Prompt tokens of completed requests that the cache held at first admission.",
       [](const KvSource& kv) { return kv.outcome.cached_tokens; }},
      {"evicted_blocks", "blocks", "Blocks of cached prefixes that were evicted.",
       [](const KvSource& kv) { return kv.outcome.counters.evicted_blocks; }},
      {"moved_tokens", "tokens", "Tokens copied inside the device to make contiguous room (contiguous, buddy).",
       [](const KvSource& kv) { return kv.outcome.counters.moved_tokens; }},
      {"block_saving", "ratio", "Share of blocks that branches save by sharing, mean over decode steps.",
       [](const KvSource& kv) {
         const policies::KvCounters& counters = kv.outcome.counters;
         return ratio(static_cast<double>(counters.unshared_steps - counters.shared_steps),
                      static_cast<double>(counters.unshared_steps));
       }},
      {"split.{token,reserved,internal,external}", "ratio",
       "Shares of the cache, mean over iterations: holds a token; reserved and used later; reserved but never used; "
       "holes, rounding and free memory.",
       [](const KvSource& kv) { return share_of_places(kv.outcome.split, kv.outcome.split.token); },
       [](const KvSource& kv) { return share_of_places(kv.outcome.split, kv.outcome.split.reserved); },
       [](const KvSource& kv) { return share_of_places(kv.outcome.split, kv.outcome.split.internal); },
       [](const KvSource& kv) {
         const KvSplit& split = kv.outcome.split;
         return share_of_places(split, split.total - split.token - split.reserved - split.internal);
       }}};
  return table;
}

}  // namespace

sim::Node summarise(const KvOutcome& outcome, std::int64_t prompt_tokens) {
  return kv_table().written({outcome, prompt_tokens});
}

std::vector<FigureInfo> kv_figures() {
  return kv_table().infos();
}

}  // namespace orrery::experiments
