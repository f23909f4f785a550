#include "experiments/rl/core/action_head.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/math.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;
// Logarithm of a normal's deviation: where it begins, and what it stays within.
constexpr double kFirstSpread = -0.7, kLeastSpread = -5, kMostSpread = 1;

double log_deviation(double out) {
  return std::clamp(kFirstSpread + out, kLeastSpread, kMostSpread);
}

/// Calls visit(part, choices, outputs, mask, probabilities, entropy) for each part of choices.
template <class Visit>
void for_each_part(const ActionSpace& space, const double* out, const std::uint8_t* mask, Visit visit) {
  std::vector<double> probabilities;
  std::size_t place = 0;
  for (std::size_t part = 0; part < space.choices.size(); ++part) {
    const auto n = static_cast<std::size_t>(space.choices[part]);
    probabilities.resize(n);
    const std::uint8_t* allowed = mask == nullptr ? nullptr : mask + place;
    const double entropy = masked_softmax(out + place, allowed, n, probabilities.data());
    visit(part, place, probabilities, entropy);
    place += n;
  }
}

}  // namespace

double masked_softmax(const double* out, const std::uint8_t* mask, std::size_t n, double* probabilities) {
  const double most = out[masked_argmax(out, mask, n)];
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    probabilities[i] = mask != nullptr && mask[i] == 0 ? 0 : sim::det_exp(out[i] - most);
    sum += probabilities[i];
  }
  double entropy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    probabilities[i] /= sum;
    if (probabilities[i] > 0) entropy -= probabilities[i] * sim::det_log(probabilities[i]);
  }
  return entropy;
}

std::size_t masked_argmax(const double* numbers, const std::uint8_t* mask, std::size_t n) {
  std::size_t best = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (mask != nullptr && mask[i] == 0) continue;
    if (std::isnan(numbers[i])) throw std::domain_error("an output of the network is not a number");
    if (best == n || numbers[i] > numbers[best]) best = i;
  }
  return best == n ? 0 : best;
}

std::size_t draw_index(const double* probabilities, std::size_t n, sim::RandomStream& random) {
  const double u = random.uniform();
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (probabilities[i] <= 0) continue;
    sum += probabilities[i];
    last = i;
    if (u < sum) return i;
  }
  return last;  // rounding left the sum below u
}

Index ActionHead::outputs() const {
  return static_cast<Index>(space_.kind == ActionKind::box ? 2 * space_.parts() : space_.all_choices());
}

void ActionHead::sample(const double* out, const std::uint8_t* mask, sim::RandomStream& random, double* raw) const {
  if (space_.kind == ActionKind::box) {
    for (std::size_t i = 0; i < space_.parts(); ++i)
      raw[i] = out[i] + sim::det_exp(log_deviation(out[space_.parts() + i])) * random.normal();
    return;
  }
  for_each_part(space_, out, mask, [&](std::size_t part, std::size_t, const std::vector<double>& p, double) {
    raw[part] = static_cast<double>(draw_index(p.data(), p.size(), random));
  });
}

void ActionHead::mode(const double* out, const std::uint8_t* mask, double* raw) const {
  if (space_.kind == ActionKind::box) {
    std::copy(out, out + space_.parts(), raw);
    return;
  }
  std::size_t place = 0;
  for (std::size_t part = 0; part < space_.choices.size(); ++part) {
    const auto n = static_cast<std::size_t>(space_.choices[part]);
    raw[part] = static_cast<double>(masked_argmax(out + place, mask == nullptr ? nullptr : mask + place, n));
    place += n;
  }
}

void ActionHead::to_action(const double* raw, double* action) const {
  for (std::size_t i = 0; i < space_.parts(); ++i) {
    action[i] = raw[i];
    if (space_.kind != ActionKind::box) continue;
    const double low = space_.low[i], high = space_.high[i];
    action[i] = std::clamp(low + (std::clamp(raw[i], -1.0, 1.0) + 1) / 2 * (high - low), low, high);
  }
}

ActionHead::Score ActionHead::score(const double* out, const std::uint8_t* mask, const double* raw) const {
  Score score;
  if (space_.kind == ActionKind::box) {
    for (std::size_t i = 0; i < space_.parts(); ++i) {
      const double spread = log_deviation(out[space_.parts() + i]);
      const double off = (raw[i] - out[i]) / sim::det_exp(spread);
      score.log_probability -= 0.5 * off * off + spread + kHalfLogTwoPi;
      score.entropy += spread + kHalfLogTwoPi + 0.5;
    }
    return score;
  }
  for_each_part(space_, out, mask, [&](std::size_t part, std::size_t, const std::vector<double>& p, double entropy) {
    // A choice of probability 0 by underflow counts as the least positive number.
    score.log_probability += sim::det_log(std::max(p[static_cast<std::size_t>(raw[part])], 1e-300));
    score.entropy += entropy;
  });
  return score;
}

void ActionHead::add_gradient(const double* out, const std::uint8_t* mask, const double* raw, double likelihood,
                              double spread, double* d) const {
  if (space_.kind == ActionKind::box) {
    const std::size_t n = space_.parts();
    for (std::size_t i = 0; i < n; ++i) {
      const double deviation = sim::det_exp(log_deviation(out[n + i]));
      const double off = (raw[i] - out[i]) / deviation;
      d[i] += likelihood * off / deviation;
      const double free = kFirstSpread + out[n + i];
      if (free > kLeastSpread && free < kMostSpread) d[n + i] += likelihood * (off * off - 1) + spread;
    }
    return;
  }
  for_each_part(space_, out, mask,
                [&](std::size_t part, std::size_t place, const std::vector<double>& p, double entropy) {
                  for (std::size_t i = 0; i < p.size(); ++i) {
                    const double chosen = static_cast<std::size_t>(raw[part]) == i ? 1 : 0;
                    d[place + i] += likelihood * (chosen - p[i]);
                    if (p[i] > 0) d[place + i] -= spread * p[i] * (sim::det_log(p[i]) + entropy);
                  }
                });
}

}  // namespace orrery::experiments::rl
