// Rows of experts among the ranks that share these out, by kernels made for it (DeepEP) in place of a library's
// all-to-all: `replica.expert_exchange` (docs/explain/wide-ep.md).
#pragma once

#include <cstdint>
#include <optional>

#include "hw/network/expert_exchange.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct ExpertExchangeParams {
  hw::ExchangeKernel kernel = hw::ExchangeKernel::low_latency;
  std::optional<double> nic, node, start_s;
  std::int64_t node_devices = 8, node_limit = 0;
  bool in_turns = false;
  static sim::FieldRows<ExpertExchangeParams> fields();
};

/// Of a replica whose tokens choose `top_k` experts.
struct ExpertExchange {
  ExpertExchangeParams params;
  std::int64_t top_k = 1;
  /// Seconds of an exchange in which a rank of `ranks` has `bytes` for the experts of its tokens, a row for each
  /// choice.
  double time_s(std::int64_t bytes, std::int64_t ranks) const;
};

}  // namespace orrery::experiments
