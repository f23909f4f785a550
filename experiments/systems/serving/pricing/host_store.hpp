// The store in host memory of a replica that changes its layout: keys and values go through it from one to the other.
// Each device copies its shard over its own link. Source: Seesaw (MLSys 2025, section 4.1).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "policies/kvcache/tier.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

/// Time in ps of a copy that takes so many seconds. Throws std::overflow_error beyond what a run can count.
std::int64_t copy_picoseconds(double seconds);

/// KV in host memory. A copy runs beside the iteration that follows it; what is not over then stalls the next. Both
/// directions have a link of their own.
class HostStore final : public policies::KvTier {
 public:
  /// Bytes are those of one device, which copies its shard over its own link of `bandwidth` bytes/s.
  HostStore(const sim::Engine& engine, std::int64_t bytes_per_token, std::int64_t capacity_tokens, double bandwidth)
      : engine_(engine), bytes_per_token_(bytes_per_token), free_tokens_(capacity_tokens), bandwidth_(bandwidth) {}
  std::optional<std::int64_t> swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                       std::int64_t pieces) override;
  std::int64_t swap_in(std::int64_t key, std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) override;
  void drop(std::int64_t key) override;

 private:
  /// One direction: when its link is free again, in ps on the clock of the engine.
  struct Way {
    std::int64_t free_at = 0;
    sim::Time asked{-1};
  };
  std::int64_t copy(Way& way, std::int64_t tokens);

  const sim::Engine& engine_;
  std::int64_t bytes_per_token_, free_tokens_;
  double bandwidth_;
  Way out_, in_;
  std::map<std::int64_t, std::int64_t> held_;  // tokens by key
};

}  // namespace orrery::experiments
