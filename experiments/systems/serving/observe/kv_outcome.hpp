// What became of the memory of KV caches over a run: member `kv` of summary.json.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/base/figure_table.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments {

/// Places of a cache, summed over iterations.
struct KvSplit {
  __int128 total = 0, token = 0, reserved = 0, internal = 0;

  /// Books an iteration: places in all, held, and with a token in them; tokens that those who hold them will have in
  /// the end.
  void add(std::int64_t all, std::int64_t held, std::int64_t tokens, std::int64_t in_the_end) {
    const std::int64_t spare = held > tokens ? held - tokens : 0;
    const std::int64_t future = in_the_end > tokens ? in_the_end - tokens : 0;
    total += all;
    token += held < tokens ? held : tokens;
    reserved += spare < future ? spare : future;
    internal += spare < future ? 0 : spare - future;
  }
  void add(const KvSplit& other) {
    total += other.total;
    token += other.token;
    reserved += other.reserved;
    internal += other.internal;
  }
};

struct KvOutcome {
  std::int64_t cached_tokens = 0;  ///< of prompts of completed requests
  policies::KvCounters counters;
  KvSplit split;  ///< only where the policy reports it

  void add(const policies::KvCounters& other);
};

/// Member `kv`; `prompt_tokens`: of completed requests.
sim::Node summarise(const KvOutcome& outcome, std::int64_t prompt_tokens);
/// What it has.
std::vector<FigureInfo> kv_figures();

}  // namespace orrery::experiments
