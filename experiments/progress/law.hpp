// Loss of a language model by its parameters and the tokens that it saw.
//
// L(N, D) = E + A / N^alpha + B / D^beta (Hoffmann et al., 2022, approach 3; the defaults are the fit of Besiroglu et
// al., 2024, arXiv 2404.10102, to the same runs). It holds for dense models whose rate falls to nothing at the end, and
// for small batches. A batch of b tokens needs 1 + b / b_crit times as many for the same loss (McCandlish et al.,
// 2018), with b_crit = b_1 / L^(1 / gamma) (Kaplan et al., 2020, equation 1.4), so D counts as D / (1 + b / b_crit(L)).
#pragma once

#include <cstdint>
#include <optional>

#include "sim/base/params.hpp"

namespace orrery::experiments::progress {

struct LossLaw {
  double floor = 1.8172, size = 482.01, size_exponent = 0.3478, data = 2085.43, data_exponent = 0.3658;
  double batch = 2.1e8, batch_exponent = 0.21;
  std::optional<double> parameters;
  static constexpr auto fields() {
    using sim::Unit;
    using L = LossLaw;
    constexpr sim::Range kPositive = sim::between(1e-9, 1e18), kExponent = sim::between(0.01, 2);
    return sim::FieldTable{
        sim::field("floor", &L::floor, Unit::none, sim::between(0, 100),
                   "E: loss that no model gets below, in nats per token."),
        sim::field("size", &L::size, Unit::none, kPositive, "A: coefficient of the term A / parameters^size_exponent."),
        sim::field("size_exponent", &L::size_exponent, Unit::none, kExponent, "Alpha."),
        sim::field("data", &L::data, Unit::none, kPositive, "B: coefficient of the term B / tokens^data_exponent."),
        sim::field("data_exponent", &L::data_exponent, Unit::none, kExponent, "Beta."),
        sim::field("batch", &L::batch, Unit::tokens, sim::between(1, 1e18), "Critical batch size at a loss of 1."),
        sim::field("batch_exponent", &L::batch_exponent, Unit::none, kExponent,
                   "Gamma: the critical batch size is `batch` / loss^(1 / gamma)."),
        sim::field("parameters", &L::parameters, Unit::count, sim::between(1, 1e18),
                   "Parameters of the model; null: those of section `model`.")};
  }
};

/// A loss, and what it is made of: floor, size, data (as if every batch were small) and batch add up to it.
struct LawLoss {
  double loss = 0, of_size = 0, of_data = 0, of_batch = 0;
  double critical_batch = 0;  ///< at this loss, tokens
  double counted_tokens = 0;  ///< that a small batch would have needed
};

/// After `tokens` in batches of `batch_tokens`; all above 0. The loss is the least that agrees with its own critical
/// batch, infinite where none does: batches too large for so few steps.
LawLoss law_loss(const LossLaw& law, double parameters, double tokens, double batch_tokens);

}  // namespace orrery::experiments::progress
