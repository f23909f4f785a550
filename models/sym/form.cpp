#include "models/sym/form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace orrery::models {

constexpr std::uint32_t kMaxExponent = 255;

[[noreturn]] void throw_sym_overflow() {
  throw std::overflow_error("symbolic expression: a value does not fit 64 bits");
}

std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_sym_overflow();
  return sum;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw_sym_overflow();
  return product;
}

std::int64_t narrowed(__int128 value) {
  if (value > std::numeric_limits<std::int64_t>::max() || value < std::numeric_limits<std::int64_t>::min())
    throw_sym_overflow();
  return static_cast<std::int64_t>(value);
}

std::strong_ordering compare_atoms(const SymAtom& a, const SymAtom& b) {
  if (a.index() != b.index()) return a.index() <=> b.index();
  if (const auto* symbol = std::get_if<Symbol>(&a)) return *symbol <=> std::get<Symbol>(b);
  const SymCall& x = *std::get<1>(a);
  const SymCall& y = *std::get<1>(b);
  if (&x == &y) return std::strong_ordering::equal;
  if (x.function != y.function) return x.function <=> y.function;
  return std::lexicographical_compare_three_way(x.arguments.begin(), x.arguments.end(), y.arguments.begin(),
                                                y.arguments.end());
}

std::strong_ordering compare_monomials(const SymMonomial& a, const SymMonomial& b) {
  const std::size_t shared = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < shared; ++i) {
    if (const std::strong_ordering order = compare_atoms(a[i].atom, b[i].atom); order != 0) return order;
    if (a[i].exponent != b[i].exponent) return b[i].exponent <=> a[i].exponent;
  }
  return b.size() <=> a.size();
}

SymMonomial multiply(const SymMonomial& a, const SymMonomial& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  SymMonomial out;
  out.reserve(a.size() + b.size());
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const std::strong_ordering order = compare_atoms(a[i].atom, b[j].atom);
    if (order != 0) {
      out.push_back(order < 0 ? a[i++] : b[j++]);
      continue;
    }
    out.push_back({a[i].atom, a[i].exponent + b[j].exponent});
    if (out.back().exponent > kMaxExponent)
      throw std::overflow_error(fmt::format("symbolic expression: an exponent above {}", kMaxExponent));
    ++i, ++j;
  }
  out.insert(out.end(), a.begin() + static_cast<std::ptrdiff_t>(i), a.end());
  out.insert(out.end(), b.begin() + static_cast<std::ptrdiff_t>(j), b.end());
  return out;
}

SymTerms SymAccess::terms(const SymExpr& expr) {
  if (expr.node_) return expr.node_->terms;
  SymTerms out;
  if (expr.constant_ != 0) out.push_back({{}, expr.constant_});
  return out;
}

std::span<const SymTerm> SymAccess::node_terms(const SymExpr& expr) {
  if (!expr.node_) return {};
  return {expr.node_->terms.data(), expr.node_->terms.size()};
}

SymExpr SymAccess::make(SymTerms terms) {
  if (terms.empty()) return {};
  if (terms.size() == 1 && terms[0].factors.empty()) return terms[0].coefficient;
  return SymExpr(std::make_shared<const SymExpr::Node>(SymExpr::Node{std::move(terms)}));
}

SymExpr SymAccess::make(const SymTerm& term) {
  SymTerms terms;
  if (term.coefficient != 0) terms.push_back(term);
  return make(std::move(terms));
}

SymExpr SymAccess::make(const SymAtom& atom, std::uint32_t exponent) {
  SymTerm term{{}, 1};
  if (exponent > 0) term.factors.push_back({atom, exponent});
  return make(term);
}

const SymCall* SymAccess::call(const SymExpr& expr) {
  const std::span<const SymTerm> terms = node_terms(expr);
  if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].factors.size() != 1) return nullptr;
  const SymFactor& factor = terms[0].factors[0];
  return factor.exponent == 1 && factor.atom.index() == 1 ? std::get<1>(factor.atom).get() : nullptr;
}

SymExpr SymAccess::make_call(SymFunction function, std::vector<SymExpr> arguments) {
  return make(SymAtom(std::make_shared<const SymCall>(SymCall{function, std::move(arguments)})));
}

SymExpr power(const SymExpr& expr, std::uint32_t exponent) {
  SymExpr out = 1;
  for (std::uint32_t i = 0; i < exponent; ++i) out *= expr;
  return out;
}

}  // namespace orrery::models
