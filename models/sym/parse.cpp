#include <fmt/format.h>

#include <charconv>

#include "models/sym/form.hpp"

namespace orrery::models {
namespace {

constexpr int kMaxDepth = 200;

/// sum = product {(+|-) product}; product = power {* power}; power = operand [^ integer]; operand = [-] integer, name,
/// (sum), function(sum, …).
class FormulaParser {
 public:
  explicit FormulaParser(std::string_view text) : text_(text) {}

  SymExpr whole() {
    SymExpr out = sum();
    if (at_ < text_.size()) fail("an operator or the end");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    const std::string_view rest = text_.substr(at_);
    throw std::invalid_argument(fmt::format("formula '{}': expected {} at character {}, got {}", text_, expected,
                                            at_ + 1,
                                            rest.empty() ? "the end" : fmt::format("'{}'", rest.substr(0, 1))));
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    skip_blanks();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}'", c));
  }

  SymExpr sum() {
    if (++depth_ > kMaxDepth) fail(fmt::format("at most {} levels of parentheses", kMaxDepth));
    SymExpr out = product();
    for (;;) {
      if (accept('+')) {
        out += product();
      } else if (accept('-')) {
        out -= product();
      } else {
        --depth_;
        return out;
      }
    }
  }

  SymExpr product() {
    bool negative = false;
    while (accept('-')) negative = !negative;
    SymExpr out = negative ? negated_power() : power_of_operand();
    while (accept('*')) {
      negative = false;
      while (accept('-')) negative = !negative;
      out *= negative ? negated_power() : power_of_operand();
    }
    return out;
  }

  /// A literal keeps its sign, so that the smallest number reads.
  SymExpr negated_power() {
    if (at_ < text_.size() && is_digit(text_[at_])) {
      const SymExpr value = integer(true);
      const std::uint32_t power_of = exponent();
      return power_of == 1 ? value : SymExpr(0) - power(SymExpr(0) - value, power_of);
    }
    return SymExpr(0) - power_of_operand();
  }

  SymExpr power_of_operand() {
    const SymExpr base = operand();
    return power(base, exponent());
  }

  std::uint32_t exponent() {
    if (!accept('^')) return 1;
    if (at_ == text_.size() || !is_digit(text_[at_])) fail("an exponent");
    const std::size_t start = at_;
    const std::optional<std::int64_t> value = integer(false).constant();
    if (*value > 255) {
      at_ = start;
      fail("an exponent of at most 255");
    }
    return static_cast<std::uint32_t>(*value);
  }

  SymExpr operand() {
    skip_blanks();
    if (accept('(')) {
      SymExpr inner = sum();
      expect(')');
      return inner;
    }
    if (at_ < text_.size() && is_digit(text_[at_])) return integer(false);
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           (is_letter(text_[at_]) || (at_ > start && (is_digit(text_[at_]) || text_[at_] == '.'))))
      ++at_;
    if (at_ == start) fail("a number, a dimension, a function or '('");
    const std::string_view name = text_.substr(start, at_ - start);
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '(') return call(name, start);
    return SymExpr::dim(name);
  }

  SymExpr call(std::string_view name, std::size_t start) {
    const std::optional<SymFunction> function = sim::value_named<SymFunction>(name);
    if (!function) {
      at_ = start;
      fail("floor_div, ceil_div, min or max before '('");
    }
    const bool is_quotient = function == SymFunction::floor_div || function == SymFunction::ceil_div;
    expect('(');
    std::vector<SymExpr> arguments{sum()};
    expect(',');
    arguments.push_back(sum());
    while (!is_quotient && accept(',')) arguments.push_back(sum());
    expect(')');
    return SymAccess::apply(*function, arguments);
  }

  SymExpr integer(bool negative) {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    const std::string digits = (negative ? "-" : "") + std::string(text_.substr(start, at_ - start));
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
      at_ = start;
      fail("an integer of 64 bits");
    }
    skip_blanks();
    return value;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

SymExpr SymExpr::parse(std::string_view text) {
  try {
    return FormulaParser(text).whole();
  } catch (const std::domain_error& error) {
    throw std::invalid_argument(fmt::format("formula '{}': {}", text, error.what()));
  } catch (const std::overflow_error& error) {
    throw std::invalid_argument(fmt::format("formula '{}': {}", text, error.what()));
  }
}

}  // namespace orrery::models
