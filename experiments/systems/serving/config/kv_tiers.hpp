// The config section `kv_tiers`: memories behind a device that KV goes to, and what was copied there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/base/figure_table.hpp"
#include "policies/kvcache/tiered_store.hpp"
#include "sim/base/document.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct KvTierParams {
  std::string name = "host";
  double capacity = 0;
  double bandwidth = 25e9;
  double copy_s = 5e-6;

  static sim::FieldRows<KvTierParams> fields();
};

struct KvTiersParams {
  std::vector<KvTierParams> tiers;
  bool overlap = false;
  bool reuse = false;
  bool turns = false;
  bool prefixes = false;
  bool empty() const { return tiers.empty(); }

  static sim::FieldRows<KvTiersParams> fields();
};

struct ServingConfig;

/// Faults of the section that only the rest of the config shows: tiers beside layouts, prefixes of a cache that hands
/// none on.
void check_tiers(const sim::Node& section, const ServingConfig& config, sim::Faults& faults);
/// vLLM V1 has no swapping; whoever asks for it is told who has. True if that is a fault.
bool swaps_without_swapping(const sim::Node& policies, sim::Faults& faults);

/// The tiers of one replica. `block_bytes`: of a block of KV on one device; `block_tokens` in it, 0 where blocks are
/// not a whole number of them; `layers` on that device.
std::unique_ptr<policies::TieredStore> make_tiers(const KvTiersParams& params, std::int64_t block_bytes,
                                                  std::int64_t block_tokens, std::int64_t layers);

/// Member `kv_tiers` of summary.json; bytes are those of one device of each replica, summed over replicas.
struct TierOutcome {
  policies::TierCounters counters;
  __int128 stall_ps = 0;                  ///< that iterations waited for copies
  bool turns = false;                     ///< whether copies between turns were asked for
  std::vector<std::string> prefix_tiers;  ///< names of the tiers that prefixes went to; empty: not asked for
  std::int64_t prompt_tokens = 0;         ///< of first admissions, …
  std::int64_t device_tokens = 0;         ///< … and what the cache on the device had of them

  void add(const policies::TierCounters& other);
};

sim::Node summarise(const TierOutcome& outcome);
/// What it has.
std::vector<FigureInfo> tier_figures();

}  // namespace orrery::experiments
