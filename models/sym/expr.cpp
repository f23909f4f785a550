#include "models/sym/expr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "models/sym/form.hpp"
#include "models/sym/symbol_names.hpp"

namespace orrery::models {
namespace {

/// Terms of one sum: a bound on what a short formula can be made to expand to.
constexpr std::size_t kMaxTerms = 100'000;

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto other = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || other(c); });
}

/// The one copy of a name, whose address stands for it. Names of dimensions are few and live as long as the program.
const std::string* interned(std::string_view name);

/// Whoever keeps the names: this copy of the code, or that of the program which loaded it.
std::atomic<InternName> g_intern{&interned};

const std::string* interned(std::string_view name) {
  if (!is_name(name))
    throw std::invalid_argument(
        fmt::format("dimension '{}': expected letters, digits, '_' and '.', not starting with a digit", name));
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  static std::shared_mutex mutex;
  static std::unordered_set<std::string, Hash, std::equal_to<>> names;
  {
    const std::shared_lock lock(mutex);
    if (const auto at = names.find(name); at != names.end()) return &*at;
  }
  const std::unique_lock lock(mutex);
  return &*names.emplace(name).first;
}

void collect(const SymExpr& expr, std::vector<Symbol>& out) {
  for (const SymTerm& term : SymAccess::node_terms(expr))
    for (const SymFactor& factor : term.factors) {
      if (const auto* symbol = std::get_if<Symbol>(&factor.atom)) {
        out.push_back(*symbol);
      } else {
        for (const SymExpr& argument : std::get<1>(factor.atom)->arguments) collect(argument, out);
      }
    }
}

/// a + scale * b.
SymTerms merged(std::span<const SymTerm> a, std::span<const SymTerm> b, std::int64_t scale) {
  SymTerms out;
  out.reserve(a.size() + b.size());
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const std::strong_ordering order = i == a.size()   ? std::strong_ordering::greater
                                       : j == b.size() ? std::strong_ordering::less
                                                       : compare_monomials(a[i].factors, b[j].factors);
    if (order < 0) {
      out.push_back(a[i++]);
      continue;
    }
    const std::int64_t scaled = checked_product(b[j].coefficient, scale);
    const std::int64_t sum = order == 0 ? checked_sum(a[i].coefficient, scaled) : scaled;
    if (sum != 0) out.push_back({b[j].factors, sum});
    if (order == 0) ++i;
    ++j;
  }
  return out;
}

/// Sorts terms and adds those of one monomial.
SymTerms collected(std::vector<SymTerm> terms) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const SymTerm& a, const SymTerm& b) { return compare_monomials(a.factors, b.factors) < 0; });
  SymTerms out;
  for (std::size_t i = 0; i < terms.size();) {
    __int128 sum = 0;
    std::size_t j = i;
    for (; j < terms.size() && compare_monomials(terms[i].factors, terms[j].factors) == 0; ++j)
      sum += terms[j].coefficient;
    if (sum != 0) out.push_back({std::move(terms[i].factors), narrowed(sum)});
    i = j;
  }
  return out;
}

SymTerms multiplied(std::span<const SymTerm> a, std::span<const SymTerm> b) {
  if (a.size() > 1 && b.size() > 1) {
    if (a.size() > kMaxTerms / b.size())
      throw std::overflow_error(fmt::format("symbolic expression: a product of more than {} terms", kMaxTerms));
    std::vector<SymTerm> products;
    products.reserve(a.size() * b.size());
    for (const SymTerm& x : a)
      for (const SymTerm& y : b)
        products.push_back({multiply(x.factors, y.factors), checked_product(x.coefficient, y.coefficient)});
    return collected(std::move(products));
  }
  SymTerms out;  // one term times a sum: the order stays
  out.reserve(a.size() * b.size());
  for (const SymTerm& x : a)
    for (const SymTerm& y : b)
      out.push_back({multiply(x.factors, y.factors), checked_product(x.coefficient, y.coefficient)});
  return out;
}

using Values = std::span<const std::pair<Symbol, std::int64_t>>;

std::int64_t value_of(const SymAtom& atom, Values bindings) {
  if (const auto* symbol = std::get_if<Symbol>(&atom)) {
    for (const auto& [name, value] : bindings)
      if (name == *symbol) return value;
    throw UnboundSymbol(*symbol);
  }
  const SymCall& call = *std::get<1>(atom);
  const std::int64_t first = call.arguments[0].eval(bindings);
  if (call.function == SymFunction::floor_div || call.function == SymFunction::ceil_div) {
    const std::int64_t divisor = call.arguments[1].eval(bindings);
    if (divisor <= 0)
      throw std::domain_error(
          fmt::format("symbolic expression: divisor '{}' is {}, expected > 0", call.arguments[1].to_string(), divisor));
    return call.function == SymFunction::floor_div ? floor_quotient(first, divisor) : ceil_quotient(first, divisor);
  }
  std::int64_t best = first;
  for (std::size_t i = 1; i < call.arguments.size(); ++i) {
    const std::int64_t value = call.arguments[i].eval(bindings);
    best = call.function == SymFunction::min ? std::min(best, value) : std::max(best, value);
  }
  return best;
}

void print(const SymAtom& atom, std::string& out) {
  if (const auto* symbol = std::get_if<Symbol>(&atom)) {
    out += symbol->name();
    return;
  }
  const SymCall& call = *std::get<1>(atom);
  out += to_string(call.function);
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    out += i == 0 ? "(" : ", ";
    out += call.arguments[i].to_string();
  }
  out += ')';
}

/// Appends a term to the ones before it.
void print(const SymTerm& term, std::string& text) {
  const bool negative = term.coefficient < 0;
  if (!text.empty()) {
    text += negative ? " - " : " + ";
  } else if (negative) {
    text += '-';
  }
  const std::string size = std::to_string(term.coefficient).substr(negative ? 1 : 0);
  const bool shown = term.factors.empty() || size != "1";
  if (shown) text += size;
  for (std::size_t i = 0; i < term.factors.size(); ++i) {
    if (shown || i > 0) text += '*';
    print(term.factors[i].atom, text);
    if (term.factors[i].exponent > 1) text += fmt::format("^{}", term.factors[i].exponent);
  }
}

}  // namespace

Symbol::Symbol(std::string_view name) : name_(g_intern.load(std::memory_order_relaxed)(name)) {}

InternName intern_name() {
  return g_intern.load();
}

void share_names(InternName intern) {
  g_intern.store(intern);
}

Bindings::Bindings(std::initializer_list<std::pair<std::string_view, std::int64_t>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

void Bindings::set(Symbol symbol, std::int64_t value) {
  const auto at =
      std::find_if(values_.begin(), values_.end(), [&](const auto& entry) { return !(entry.first < symbol); });
  if (at != values_.end() && at->first == symbol) {
    at->second = value;
  } else {
    values_.insert(at, {symbol, value});
  }
}

std::optional<std::int64_t> Bindings::find(Symbol symbol) const {
  for (const auto& [name, value] : values_)
    if (name == symbol) return value;
  return std::nullopt;
}

std::int64_t Bindings::at(Symbol symbol) const {
  if (const std::optional<std::int64_t> value = find(symbol)) return *value;
  throw UnboundSymbol(symbol);
}

SymExpr::SymExpr(std::int64_t constant) : constant_(constant) {}
SymExpr::SymExpr(Symbol symbol) : SymExpr(SymAccess::make(SymAtom(symbol))) {}

namespace {

/// The terms of any expression, without a copy where it has some.
class TermsOf {
 public:
  explicit TermsOf(const SymExpr& expr) : own_{{}, expr.constant().value_or(0)}, all_(SymAccess::node_terms(expr)) {
    if (own_.coefficient != 0) all_ = {&own_, 1};
  }
  TermsOf(const TermsOf&) = delete;
  TermsOf& operator=(const TermsOf&) = delete;
  std::span<const SymTerm> span() const { return all_; }

 private:
  SymTerm own_;
  std::span<const SymTerm> all_;
};

}  // namespace

SymExpr& SymExpr::operator+=(const SymExpr& other) {
  if (!node_ && !other.node_) {
    constant_ = checked_sum(constant_, other.constant_);
  } else if (other.node_ || other.constant_ != 0) {
    *this = SymAccess::make(merged(TermsOf(*this).span(), TermsOf(other).span(), 1));
  }
  return *this;
}

SymExpr& SymExpr::operator-=(const SymExpr& other) {
  if (!node_ && !other.node_) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(constant_, other.constant_, &difference)) throw_sym_overflow();
    constant_ = difference;
    return *this;
  }
  return *this = SymAccess::make(merged(TermsOf(*this).span(), TermsOf(other).span(), -1));
}

SymExpr& SymExpr::operator*=(const SymExpr& other) {
  if (!node_ && !other.node_) {
    constant_ = checked_product(constant_, other.constant_);
  } else if (other.node_ || other.constant_ != 1) {
    *this = SymAccess::make(multiplied(TermsOf(*this).span(), TermsOf(other).span()));
  }
  return *this;
}

std::strong_ordering operator<=>(const SymExpr& a, const SymExpr& b) {
  if (!a.node_ || !b.node_) {
    if (a.node_) return std::strong_ordering::greater;
    if (b.node_) return std::strong_ordering::less;
    return a.constant_ <=> b.constant_;
  }
  if (a.node_ == b.node_) return std::strong_ordering::equal;
  const SymTerms& x = a.node_->terms;
  const SymTerms& y = b.node_->terms;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (const std::strong_ordering order = compare_monomials(x[i].factors, y[i].factors); order != 0) return order;
    if (x[i].coefficient != y[i].coefficient) return x[i].coefficient <=> y[i].coefficient;
  }
  return x.size() <=> y.size();
}

bool operator==(const SymExpr& a, const SymExpr& b) {
  return (a <=> b) == 0;
}

bool SymExpr::is_zero() const {
  return !node_ && constant_ == 0;
}

std::optional<std::int64_t> SymExpr::constant() const {
  return node_ ? std::nullopt : std::optional(constant_);
}

bool SymExpr::depends_on(Symbol symbol) const {
  const std::vector<Symbol> all = symbols();
  return std::binary_search(all.begin(), all.end(), symbol);
}

std::vector<Symbol> SymExpr::symbols() const {
  std::vector<Symbol> out;
  collect(*this, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::int64_t SymExpr::eval(Values bindings) const {
  if (!node_) return constant_;
  __int128 sum = 0;
  for (const SymTerm& term : node_->terms) {
    __int128 value = term.coefficient;
    for (const SymFactor& factor : term.factors) {
      const __int128 base = value_of(factor.atom, bindings);
      for (std::uint32_t i = 0; i < factor.exponent; ++i)
        if (__builtin_mul_overflow(value, base, &value)) throw_sym_overflow();
    }
    if (__builtin_add_overflow(sum, value, &sum)) throw_sym_overflow();
  }
  return narrowed(sum);
}

SymExpr SymExpr::substitute(Symbol symbol, const SymExpr& by) const {
  if (!depends_on(symbol)) return *this;
  SymExpr out;
  for (const SymTerm& term : node_->terms) {
    SymExpr product = term.coefficient;
    for (const SymFactor& factor : term.factors) {
      if (const auto* name = std::get_if<Symbol>(&factor.atom)) {
        product *= *name == symbol ? power(by, factor.exponent) : SymAccess::make(factor.atom, factor.exponent);
        continue;
      }
      const SymCall& call = *std::get<1>(factor.atom);
      std::vector<SymExpr> arguments;
      for (const SymExpr& argument : call.arguments) arguments.push_back(argument.substitute(symbol, by));
      product *= power(SymAccess::apply(call.function, arguments), factor.exponent);
    }
    out += product;
  }
  return out;
}

std::string SymExpr::to_string() const {
  if (!node_) return std::to_string(constant_);
  std::string text;
  for (const SymTerm& term : node_->terms) print(term, text);
  return text;
}

std::string SymExpr::to_string(std::span<const Symbol> first) const {
  if (!node_) return std::to_string(constant_);
  const auto rank = [&](const SymTerm& term) {
    std::size_t best = first.size() + (term.factors.empty() ? 1 : 0);
    for (const SymFactor& factor : term.factors)
      if (const auto* symbol = std::get_if<Symbol>(&factor.atom))
        best = std::min(best, static_cast<std::size_t>(std::find(first.begin(), first.end(), *symbol) - first.begin()));
    return best;
  };
  std::vector<SymTerm> terms(node_->terms.begin(), node_->terms.end());
  std::stable_sort(terms.begin(), terms.end(), [&](const SymTerm& a, const SymTerm& b) { return rank(a) < rank(b); });
  std::string text;
  for (const SymTerm& term : terms) print(term, text);
  return text;
}

SymExpr product(std::span<const SymExpr> dims) {
  SymExpr out = 1;
  for (const SymExpr& dim : dims) out *= dim;
  return out;
}

}  // namespace orrery::models
