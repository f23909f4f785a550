#include "policies/base/expression.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace orrery::policies {

std::int64_t score_key(double score) {
  if (std::isnan(score)) return std::numeric_limits<std::int64_t>::max();
  // Bits of positive numbers grow with them; those of negative ones, the sign apart, fall. Adding 0 makes -0 a 0.
  const auto bits = std::bit_cast<std::int64_t>(score + 0.0);
  return bits >= 0 ? bits : ~(bits & std::numeric_limits<std::int64_t>::max());
}

std::optional<sim::Formula> parse_expression(std::string_view text, std::span<const NameInfo> names,
                                             const sim::Origin& where, sim::Faults& faults) {
  if (text.size() > kMostExpressionText) {
    faults.add(where, fmt::format("expected an expression of at most {} characters, got {}", kMostExpressionText,
                                  text.size()));
    return std::nullopt;
  }
  sim::FormulaNames known;
  for (const NameInfo& one : names) known.scalar(one.name);
  return sim::Formula::parse(text, known, where, faults);
}

}  // namespace orrery::policies
