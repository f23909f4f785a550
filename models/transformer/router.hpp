// How a mixture-of-experts layer spreads tokens over its experts: how many are activated, with how many rows.
//
// A token picks top_k of E experts. Popularities go as Zipf's law, w_i = i^-skew, normalised; a prompt has tastes of
// its own: it multiplies every w_i by a factor g_i drawn from a Gamma distribution of mean 1 and variance
// `correlation`, the same for all its tokens. Choices are made as by exponential clocks of rates w_i g_i that run for a
// time tau (which is drawing without replacement, in the limit of many experts). With c the correlation, what leaves
// expert i without a row is
//   one prompt with p tokens               S_i = E_g exp(-w_i g tau p) = (1 + c w_i tau p)^(-1/c)
//   n prompts of p tokens, or decodes      S_i^n          (decodes of different requests: p = 1)
//   c = 0                                  exp(-w_i tau p n)
// tau such that a token makes sum_i (1 - S_i) = top_k choices. Expected activated experts: sum_i (1 - S_i). Uniform
// routing is skew = correlation = 0.
//
// The defaults fit seven published figures of Qwen3-30B-A3B (Layered Prefill, arXiv 2510.08055: 55 and 86 % of 128
// experts at 32 and 128 decodes; 82, 88, 92, 96 and 98 % for chunks of 512 to 8192 tokens of one prompt, from bytes
// read) within 2 points (tests/models/test_router.cpp); skew 1.2 and 1.5 without correlation are the card's i.i.d.
// figures. Experts of like popularity are put in classes, which costs below 0.5 % of the experts.
//
// Expert parallelism: experts, sorted by popularity, are dealt to the ranks in turn; the first rank, which has most
// rows, is the one that counts. Left out: replicated experts, routing that differs from layer to layer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hw/base/kernel.hpp"
#include "sim/base/params.hpp"

namespace orrery::models {

struct RouterParams {
  double skew = 1.45;
  double correlation = 1.67;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("skew", &RouterParams::skew, Unit::none, sim::between(0, 5),
                   "Exponent of Zipf's law for the experts' popularity; 0: all are equally popular."),
        sim::field(
            "correlation", &RouterParams::correlation, Unit::none, sim::between(0, 100),
            "Variance of a prompt's own factor on the popularity of each expert; 0: tokens choose independently."),
    };
  }
};

/// New tokens of a batch by where they come from.
struct TokenMix {
  std::int64_t decode = 0;   ///< one each of so many requests
  std::int64_t prompt = 0;   ///< of prompt chunks, all together
  std::int64_t prompts = 0;  ///< chunks
  std::int64_t tokens() const { return decode + prompt; }
};

/// What the experts of a rank get from a batch.
struct RoutedRows {
  std::int64_t experts = 0;  ///< with at least one row: whose weights are read
  std::int64_t rows = 0;
  std::int64_t max_rows = 0;                                     ///< of the busiest expert
  std::array<std::int64_t, hw::kGroupTiles.size()> row_tiles{};  ///< as hw::GroupedGemm has them
};

class Router {
 public:
  Router() = default;
  /// `ranks` that share the experts. Throws std::invalid_argument unless 1 <= top_k <= experts and ranks divides
  /// experts.
  Router(const RouterParams& params, std::int64_t experts, std::int64_t top_k, std::int64_t ranks = 1);

  /// Expected activated experts of the rank, from 0 to experts / ranks. Some microseconds.
  double coverage(const TokenMix& mix) const;
  /// Rows of the rank's experts in expectation, rounded; none for no tokens.
  RoutedRows route(const TokenMix& mix) const;

  /// Chance that a token picks the expert of this rank of popularity (0: the most popular).
  double chance(std::int64_t expert) const;
  const RouterParams& params() const { return params_; }

 private:
  /// Experts of about the same rate w tau.
  struct Class {
    double size = 0, rate = 0;
  };
  /// Chance that an expert of this rate gets no row.
  double unused(double rate, const TokenMix& mix) const;

  RouterParams params_;
  std::int64_t experts_ = 0, top_k_ = 0, ranks_ = 1;
  double tau_ = 0, weight_sum_ = 0;
  std::vector<Class> classes_;
};

}  // namespace orrery::models
