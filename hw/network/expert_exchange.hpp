// Rows of a mixture-of-experts layer to the GPUs that have their experts, and back: kernels made for it (DeepEP), as
// closed forms. A library's all-to-all is another thing (library_collective.hpp): it knows of no experts.
//
// Two kinds of kernel, both bound by the slower of the two ways that they use beside each other:
//   normal       a token goes once to each node that it has an expert on, over the network, and from there once to each
//                GPU that it has one on, inside the node; routing may be limited to some nodes
//   low latency  a row for each of a token's experts, straight to its GPU
//   t = start + max(network bytes / nic, node bytes / node)
// Experts are taken as chosen alike; a token of k experts over n places is on n (1 - (1 - 1/n)^k) of them.
//
// Rates are what the kernels reach, not the links' peaks: ExchangeRates has those of DeepEP on H800 and later GPUs.
#pragma once

#include <cstdint>

#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class ExchangeKernel : std::uint8_t { normal, low_latency };
constexpr auto enum_names(ExchangeKernel) {
  using enum ExchangeKernel;
  return sim::names<ExchangeKernel>({{"normal", normal}, {"low_latency", low_latency}});
}

/// What one GPU sends, and as much comes to it.
struct ExchangeShape {
  std::int64_t tokens = 0;      ///< of the GPU
  std::int64_t top_k = 1;       ///< experts of a token
  std::int64_t gpus = 1;        ///< that share the experts
  std::int64_t node_gpus = 8;   ///< of a node; divides `gpus`, or is more
  std::int64_t node_limit = 0;  ///< nodes that a token may have experts on; 0: any
  std::int64_t row_bytes = 0;
};

/// Bytes/s of a GPU, s.
struct ExchangeRates {
  double nic = 0, node = 0, start_s = 0;
};

struct ExchangeTime {
  double time_s = 0;
  double nic_bytes = 0, node_bytes = 0;  ///< that leave the node, and that stay in it
  double logical_bytes = 0;              ///< as DeepEP counts: to all nodes, a token's own included
};

ExchangeTime expert_exchange(ExchangeKernel kernel, const ExchangeShape& shape, const ExchangeRates& rates);

/// DeepEP's rates (its README, `systems/deepep_bandwidth.csv`), each from one or two rows:
///   version 1, normal: 44 GB/s of a ConnectX-7 (50) from EP 32, 155 of H800's NVLink (160) from EP 8
///   version 1, low latency: 39.4 GB/s and 20 us from EP 16 and 128
///   version 2: 45.5 GB/s from EP 16; inside a node of B200 733 with 64 SMs, 660 with 24
ExchangeRates deepep_v1(ExchangeKernel kernel);
ExchangeRates deepep_v2(std::int64_t sms);

/// What half of a batch takes of a layer alone, s.
struct HalfLayer {
  double attention_s = 0;  ///< and all else before its rows leave
  double experts_s = 0;    ///< and all else behind the dispatch
  double dispatch_s = 0, combine_s = 0;
  double cores_share = 0;  ///< of the GPU, that exchanges keep from the rest
};

/// How much slower an exchange is beside kernels: dispatch and combine of deepseek_dualpipe_profile.csv, 3.85 + 6.2 ms
/// against 2.35 + 4.7 alone.
inline constexpr double kExchangeBesideKernels = 1.43;
/// Cores that DeepEP's normal kernels keep (deepep_bandwidth.csv).
inline constexpr double kExchangeCores = 24;

/// A layer of two halves, A and B, that take turns: attention of B while A dispatches, experts of A while B dispatches,
/// experts of B while A combines, attention of A's next layer while B combines.
double layer_in_turns(const HalfLayer& half);

}  // namespace orrery::hw
