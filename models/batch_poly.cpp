#include "models/batch_poly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace orrery::models {
namespace {

[[noreturn]] void throw_overflow() {
  throw std::overflow_error("symbolic expression: a value does not fit 64 bits");
}

std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_overflow();
  return sum;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw_overflow();
  return product;
}

}  // namespace

std::string_view symbol(Dim dim) {
  switch (dim) {
    case Dim::tokens:
      return "T";
    case Dim::logit_rows:
      return "R";
    case Dim::query_tokens:
      return "Q";
    case Dim::kv_tokens:
      return "K";
    case Dim::pairs:
      return "P";
    case Dim::sequences:
      return "S";
    case Dim::context:
      return "C";
  }
  return "?";
}

BatchPoly::BatchPoly(std::int64_t constant) {
  if (constant != 0) terms_.push_back({{}, constant});
}

BatchPoly::BatchPoly(Dim dim) {
  Term term{{}, 1};
  term.exponents[static_cast<std::size_t>(dim)] = 1;
  terms_.push_back(term);
}

void BatchPoly::add(const Term& term) {
  if (term.coefficient == 0) return;
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), term,
                                   [](const Term& a, const Term& b) { return a.exponents > b.exponents; });
  if (at == terms_.end() || at->exponents != term.exponents) {
    terms_.insert(at, term);
    return;
  }
  at->coefficient = checked_sum(at->coefficient, term.coefficient);
  if (at->coefficient == 0) terms_.erase(at);
}

BatchPoly& BatchPoly::operator+=(const BatchPoly& other) {
  if (&other == this) return *this *= BatchPoly(2);
  BatchPoly sum = *this;  // an overflow leaves this expression as it was
  for (const Term& term : other.terms_) sum.add(term);
  terms_ = std::move(sum.terms_);
  return *this;
}

BatchPoly& BatchPoly::operator*=(const BatchPoly& other) {
  BatchPoly product;
  for (const Term& a : terms_) {
    for (const Term& b : other.terms_) {
      Term term{a.exponents, checked_product(a.coefficient, b.coefficient)};
      for (std::size_t i = 0; i < kDims; ++i) {
        const int exponent = a.exponents[i] + b.exponents[i];
        if (exponent > std::numeric_limits<std::uint8_t>::max()) throw_overflow();
        term.exponents[i] = static_cast<std::uint8_t>(exponent);
      }
      product.add(term);
    }
  }
  terms_ = std::move(product.terms_);
  return *this;
}

bool BatchPoly::is_constant() const {
  return terms_.empty() || (terms_.size() == 1 && terms_[0].exponents == Exponents{});
}

bool BatchPoly::depends_on(Dim dim) const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [&](const Term& term) { return term.exponents[static_cast<std::size_t>(dim)] != 0; });
}

std::int64_t BatchPoly::eval(const BatchSizes& bindings) const {
  __int128 sum = 0;
  for (const Term& term : terms_) {
    __int128 value = term.coefficient;
    for (std::size_t i = 0; i < kDims; ++i)
      for (int power = 0; power < term.exponents[i]; ++power)
        if (__builtin_mul_overflow(value, static_cast<__int128>(bindings.values[i]), &value)) throw_overflow();
    if (__builtin_add_overflow(sum, value, &sum)) throw_overflow();
  }
  if (sum > std::numeric_limits<std::int64_t>::max() || sum < std::numeric_limits<std::int64_t>::min())
    throw_overflow();
  return static_cast<std::int64_t>(sum);
}

std::string BatchPoly::to_string() const {
  if (terms_.empty()) return "0";
  std::string text;
  for (const Term& term : terms_) {
    std::string factors;
    for (std::size_t i = 0; i < kDims; ++i) {
      if (term.exponents[i] == 0) continue;
      if (!factors.empty()) factors += '*';
      factors += symbol(static_cast<Dim>(i));
      if (term.exponents[i] == 1) continue;
      factors += fmt::format("^{}", term.exponents[i]);
    }
    const bool negative = term.coefficient < 0;
    if (!text.empty()) {
      text.append(negative ? " - " : " + ");
    } else if (negative) {
      text.push_back('-');
    }
    const std::string size = fmt::format("{}", term.coefficient).substr(negative ? 1 : 0);
    if (factors.empty() || size != "1") text.append(size);
    if (!factors.empty() && size != "1") text.push_back('*');
    text.append(factors);
  }
  return text;
}

}  // namespace orrery::models
