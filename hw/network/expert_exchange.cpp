#include "hw/network/expert_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace orrery::hw {
namespace {

double d(std::int64_t value) {
  return static_cast<double>(value);
}

/// Places that k draws of n touch.
double touched(double n, double k) {
  return n <= 1 ? 1 : n * (1 - std::pow(1 - 1 / n, k));
}

}  // namespace

ExchangeTime expert_exchange(ExchangeKernel kernel, const ExchangeShape& s, const ExchangeRates& rates) {
  if (s.tokens < 0 || s.top_k < 1 || s.gpus < 1 || s.node_gpus < 1 || s.node_limit < 0 || s.row_bytes < 0)
    throw std::invalid_argument("expert_exchange: a size is below what there can be");
  const double nodes = std::max(1.0, d(s.gpus) / d(s.node_gpus));
  const double bytes = d(s.tokens) * d(s.row_bytes);
  ExchangeTime out;
  if (kernel == ExchangeKernel::low_latency) {
    const double rows = bytes * d(s.top_k);
    out.nic_bytes = rows * (1 - 1 / nodes);
    out.node_bytes = rows / nodes;
    out.logical_bytes = rows;
  } else {
    const double allowed = s.node_limit > 0 ? std::min(nodes, d(s.node_limit)) : nodes;
    const double reached = touched(allowed, d(s.top_k));
    out.logical_bytes = bytes * reached;
    out.nic_bytes = out.logical_bytes * (1 - 1 / nodes);
    out.node_bytes = bytes * touched(allowed * std::min(d(s.gpus), d(s.node_gpus)), d(s.top_k));
  }
  const double nic_s = out.nic_bytes > 0 ? out.nic_bytes / rates.nic : 0;
  const double node_s = out.node_bytes > 0 ? out.node_bytes / rates.node : 0;
  out.time_s = bytes > 0 ? rates.start_s + std::max(nic_s, node_s) : 0;
  return out;
}

ExchangeRates deepep_v1(ExchangeKernel kernel) {
  constexpr double kNvlink = 155e9;
  return kernel == ExchangeKernel::normal ? ExchangeRates{.nic = 44e9, .node = kNvlink}
                                          : ExchangeRates{.nic = 39.4e9, .node = kNvlink, .start_s = 20e-6};
}

ExchangeRates deepep_v2(std::int64_t sms) {
  return {.nic = 45.5e9, .node = sms >= 64 ? 733e9 : 660e9};
}

double layer_in_turns(const HalfLayer& half) {
  const double left = 1 - half.cores_share;
  const double a = half.attention_s / left, m = half.experts_s / left;
  const double d = kExchangeBesideKernels * half.dispatch_s, c = kExchangeBesideKernels * half.combine_s;
  return std::max(a, d) + std::max(m, d) + std::max(m, c) + std::max(a, c);
}

}  // namespace orrery::hw
