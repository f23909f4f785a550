// From the text of a formula to its programs: recursive descent, code emitted on the way. A reduction opens a program
// of its own, which stands before the one that uses it once it is complete.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "sim/base/formula.hpp"
#include "sim/base/formula_functions.hpp"

namespace orrery::sim {

class FormulaParser {
 public:
  FormulaParser(std::string_view text, const FormulaNames& names, const Origin& where, Faults& faults)
      : text_(text), names_(names), where_(where), faults_(faults) {}

  std::optional<Formula> run() {
    const std::size_t before = faults_.size();
    Target target{&value_.code, &value_};
    target_ = &target;
    const Value value = expression();
    if (!stopped_ && !end()) fail(fmt::format("expected an operator or the end, got {}", shown()));
    if (faults_.size() != before) return std::nullopt;
    value_.series = value.series;
    done_.push_back(std::move(value_));
    Formula formula;
    formula.programs_ = std::move(done_);
    formula.scalars_used_.assign(scalars_.begin(), scalars_.end());
    formula.series_used_.assign(series_.begin(), series_.end());
    return formula;
  }

 private:
  using Op = Formula::Op;
  using Program = Formula::Program;

  /// Type of a part; `known` is false after a fault, so that it leads to no further ones.
  struct Value {
    bool series = false;
    bool known = true;
    const FormulaNames::Name* name = nullptr;  ///< if it is nothing but a name
  };
  /// Where code goes: the code or the condition of a program.
  struct Target {
    std::vector<Formula::Instruction>* code;
    Program* program;
    std::size_t depth = 0;
  };

  // --- text ---

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool end() {
    skip_space();
    return at_ >= text_.size();
  }
  bool accept(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  /// The name that starts here, with its dots; empty if none does.
  std::string_view word() {
    skip_space();
    std::size_t to = at_;
    for (;;) {
      const std::size_t part = to;
      while (to < text_.size() && is_formula_name(text_.substr(part, to + 1 - part))) ++to;
      if (to == part) return text_.substr(at_, part == at_ ? 0 : part - 1 - at_);  // a dot that no name follows
      if (to >= text_.size() || text_[to] != '.') return text_.substr(at_, to - at_);
      ++to;
    }
  }
  std::string shown() { return end() ? std::string("the end") : fmt::format("'{}'", text_.substr(at_, 1)); }
  /// Reports a fault of the syntax, after which nothing more is read.
  Value fail(const std::string& message, const std::string& hint = {}) {
    if (!stopped_) report(message, at_, hint);
    stopped_ = true;
    at_ = text_.size();
    return {.known = false};
  }
  void report(const std::string& message, std::size_t at, const std::string& hint = {}) {
    faults_.add(where_, fmt::format("formula \"{}\", column {}: {}", text_, at + 1, message), hint);
  }

  // --- code ---

  void emit(Op op, std::size_t index = 0, double number = 0) {
    target_->code->push_back({op, static_cast<std::uint32_t>(index), number});
    if (op == Op::binary) {
      --target_->depth;
    } else if (op == Op::choose) {
      target_->depth -= 2;
    } else if (op != Op::unary && ++target_->depth > Formula::kMostDepth) {
      fail(fmt::format("expected at most {} values at a time", Formula::kMostDepth));
    }
  }
  void emit_name(const FormulaNames::Name& name) {
    emit(name.series ? Op::series : Op::scalar, name.slot);
    if (name.series) read_series(name.slot);
    (name.series ? series_ : scalars_).insert(name.slot);
  }
  void read_series(std::size_t slot) {
    auto& read = target_->program->series_read;
    const auto index = static_cast<std::uint32_t>(slot);
    if (std::find(read.begin(), read.end(), index) == read.end()) read.push_back(index);
  }
  void emit_binary(std::string_view name) { emit(Op::binary, formula::row_of(formula::kBinary, name)); }
  static Value joined(const Value& a, const Value& b) {
    return {.series = a.series || b.series, .known = a.known && b.known};
  }

  // --- grammar, loosest first ---

  Value expression() {
    Value left = conjunction();
    while (accept("||")) left = binary(left, "||", &FormulaParser::conjunction);
    return left;
  }
  Value conjunction() {
    Value left = negation();
    while (accept("&&")) left = binary(left, "&&", &FormulaParser::negation);
    return left;
  }
  Value negation() {
    skip_space();
    if (text_.substr(at_).starts_with("!=") || !accept("!")) return comparison();
    const Value value = nested(&FormulaParser::negation);
    emit(Op::unary, formula::row_of(formula::kUnary, "!"));
    return {.series = value.series, .known = value.known};
  }
  std::string_view comparator() {
    for (const std::string_view op : {"<=", ">=", "==", "!=", "<", ">"})
      if (accept(op)) return op;
    return {};
  }
  Value comparison() {
    Value left = sum();
    const std::string_view op = comparator();
    if (op.empty()) return left;
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      left = label(left, op);
    } else {
      left = binary(left, op, &FormulaParser::sum);
    }
    const std::size_t at = at_;
    if (const std::string_view second = comparator(); !second.empty()) {
      at_ = at;
      return fail("comparisons do not chain", "write a < b && b < c");
    }
    return left;
  }
  Value sum() {
    Value left = product();
    for (;;) {
      if (accept("+")) {
        left = binary(left, "+", &FormulaParser::product);
      } else if (accept("-")) {
        left = binary(left, "-", &FormulaParser::product);
      } else {
        return left;
      }
    }
  }
  Value product() {
    Value left = sign();
    for (;;) {
      if (accept("*")) {
        left = binary(left, "*", &FormulaParser::sign);
      } else if (accept("/")) {
        left = binary(left, "/", &FormulaParser::sign);
      } else {
        return left;
      }
    }
  }
  Value sign() {
    if (accept("+")) return nested(&FormulaParser::sign);
    if (!accept("-")) return power();
    const Value value = nested(&FormulaParser::sign);
    emit(Op::unary, formula::row_of(formula::kUnary, "-"));
    return {.series = value.series, .known = value.known};
  }
  Value power() {
    const Value left = primary();
    return accept("^") ? binary(left, "^", &FormulaParser::sign) : left;
  }
  Value binary(const Value& left, std::string_view op, Value (FormulaParser::*next)()) {
    const Value right = nested(next);
    emit_binary(op);
    return joined(left, right);
  }
  /// Goes one level deeper; what is too deep for the program's own stack is a fault.
  Value nested(Value (FormulaParser::*next)()) {
    constexpr int kMostLevels = 200;
    if (level_ >= kMostLevels) return fail(fmt::format("expected fewer than {} levels", kMostLevels));
    ++level_;
    const Value value = (this->*next)();
    --level_;
    return value;
  }

  Value primary() {
    if (stopped_) return {.known = false};
    if (accept("(")) {
      const Value value = nested(&FormulaParser::expression);
      if (!stopped_ && !accept(")")) return fail(fmt::format("expected ')', got {}", shown()));
      return {.series = value.series, .known = value.known};
    }
    skip_space();
    if (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.')) return number();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\''))
      return fail("expected a text only to the right of == or != after a name with such values");
    const std::size_t start = at_;
    const std::string_view name = word();
    if (name.empty() || name == "where") return fail(fmt::format("expected a number, a name or '(', got {}", shown()));
    at_ += name.size();
    if (accept("(")) return function(name, start);
    return variable(name, start);
  }

  Value number() {
    double value = 0;
    const auto [to, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) return fail("expected a number such as 1.5 or 2e4");
    const auto rest = static_cast<std::size_t>(to - text_.data());
    if (rest < text_.size() && is_formula_name(text_.substr(rest, 1)))
      return fail(fmt::format("expected an operator after {}, got '{}'", text_.substr(at_, rest - at_), text_[rest]));
    at_ = rest;
    emit(Op::number, 0, value);
    return {};
  }

  Value variable(std::string_view name, std::size_t start) {
    if (const FormulaNames::Name* known = names_.find(name)) {
      emit_name(*known);
      return {.series = known->series, .name = known};
    }
    std::vector<std::string> names;
    for (const FormulaNames::Name& one : names_.all()) names.push_back(one.name);
    report(fmt::format("unknown name '{}'", name), start, name_hint(name, std::move(names)));
    emit(Op::number);
    return {.known = false};
  }

  /// A quoted text after == or !=.
  Value label(const Value& left, std::string_view op) {
    const std::size_t start = at_;
    const std::size_t to = text_.find(text_[at_], at_ + 1);
    if (to == std::string_view::npos) return fail("expected the closing quote of this text");
    const std::string text(text_.substr(start + 1, to - start - 1));
    at_ = to + 1;
    double value = 0;
    if (op != "==" && op != "!=") return fail("expected == or != before a text");
    if (left.known && (left.name == nullptr || left.name->labels.empty())) {
      report("expected a name that has texts as values before this comparison", start);
    } else if (left.known) {
      const auto& labels = left.name->labels;
      const auto same = [&](const auto& one) { return one.first == text; };
      const auto found = std::find_if(labels.begin(), labels.end(), same);
      if (found != labels.end()) {
        value = found->second;
      } else {
        std::vector<std::string> known;
        for (const auto& one : labels) known.push_back(one.first);
        report(fmt::format("'{}' is never \"{}\"", left.name->name, text), start, name_hint(text, std::move(known)));
      }
    }
    emit(Op::number, 0, value);
    emit_binary(op);
    return {.series = left.series, .known = left.known};
  }

  // --- functions; the name and '(' are read ---

  Value function(std::string_view name, std::size_t start) {
    const auto reduction = std::find(formula::kReductions.begin(), formula::kReductions.end(), name);
    if (reduction != formula::kReductions.end()) {
      const auto kind = static_cast<Formula::Reduction>(reduction - formula::kReductions.begin());
      return reduce(name, kind, start);
    }
    if (name == "if") {
      const Value value = arguments(name, 3);
      emit(Op::choose);
      return value;
    }
    if (const std::size_t row = formula::row_of(formula::kUnary, name); row < formula::kUnary.size()) {
      const Value value = arguments(name, 1);
      emit(Op::unary, row);
      return value;
    }
    if (const std::size_t row = formula::row_of(formula::kBinary, name); row < formula::kBinary.size()) {
      const Value value = arguments(name, 2);
      emit(Op::binary, row);
      return value;
    }
    std::vector<std::string> known(formula::kReductions.begin(), formula::kReductions.end());
    known.emplace_back("if");
    for (const formula::Unary& one : formula::kUnary)
      if (is_formula_name(one.name)) known.emplace_back(one.name);
    for (const formula::Binary& one : formula::kBinary)
      if (is_formula_name(one.name)) known.emplace_back(one.name);
    at_ = start;
    return fail(fmt::format("unknown function '{}'", name), name_hint(name, std::move(known)));
  }

  /// `count` expressions and the closing parenthesis.
  Value arguments(std::string_view name, int count) {
    Value all;
    for (int i = 0; i < count; ++i) {
      if (i > 0 && !stopped_ && !accept(","))
        return fail(fmt::format("expected {} arguments of {}(), got {} after argument {}", count, name, shown(), i));
      all = joined(all, nested(&FormulaParser::expression));
    }
    if (!stopped_ && !accept(")"))
      return fail(fmt::format("expected ')' after argument {} of {}(), got {}", count, name, shown()));
    return all;
  }

  Value reduce(std::string_view name, Formula::Reduction kind, std::size_t start) {
    Program program{.reduction = kind};
    Target* const outer = target_;
    Target code{&program.code, &program};
    target_ = &code;
    const Value value = nested(&FormulaParser::expression);
    Target condition{&program.condition, &program};
    target_ = &condition;
    if (kind == Formula::Reduction::at && accept(",")) {
      select_by_axis();
    } else if (word() == "where") {
      at_ += 5;
      nested(&FormulaParser::expression);
    }
    target_ = outer;
    if (!stopped_ && value.known && !value.series && program.series_read.empty())
      report(fmt::format("expected a series in {}(), got a scalar", name), start, scalar_hint(name));
    if (!stopped_ && !accept(")")) {
      const std::string hint = accept(",") ? scalar_hint(name) : "";
      return fail(fmt::format("expected ')' or 'where' in {}()", name), hint);
    }
    if (done_.size() >= Formula::kMostReductions)
      return fail(fmt::format("expected at most {} reductions", Formula::kMostReductions));
    done_.push_back(std::move(program));
    emit(Op::reduced, done_.size() - 1);
    return {};
  }

  static std::string scalar_hint(std::string_view name) {
    return name == "min" || name == "max" ? fmt::format("elementwise it is {}2(a, b)", name) : "";
  }

  /// The second argument of at(): a condition, or the value of the default axis.
  void select_by_axis() {
    const std::size_t start = at_;
    const Value second = nested(&FormulaParser::expression);
    if (!second.known || second.series) return;
    if (!names_.default_axis()) {
      report("at(series, number) needs one axis to look the number up in", start, "write at(series, axis == number)");
      return;
    }
    emit(Op::series, *names_.default_axis());
    read_series(*names_.default_axis());
    series_.insert(*names_.default_axis());
    emit_binary("==");
  }

  std::string_view text_;
  const FormulaNames& names_;
  const Origin& where_;
  Faults& faults_;
  std::size_t at_ = 0;
  int level_ = 0;
  bool stopped_ = false;
  Program value_;
  std::vector<Program> done_;
  Target* target_ = nullptr;
  std::set<std::size_t> scalars_, series_;
};

std::optional<Formula> Formula::parse(std::string_view text, const FormulaNames& names, const Origin& where,
                                      Faults& faults) {
  return FormulaParser(text, names, where, faults).run();
}

}  // namespace orrery::sim
