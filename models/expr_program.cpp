#include "models/expr_program.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "models/sym_form.hpp"

namespace orrery::models {

/// Turns expressions into instructions, each distinct operation once.
class ExprProgram::Compiler {
 public:
  Compiler(ExprProgram& program, std::span<const Symbol> inputs) : program_(program), inputs_(inputs) {}

  std::int32_t compile(const SymExpr& expr) {
    const std::span<const SymTerm> terms = SymAccess::node_terms(expr);
    if (terms.empty()) return constant(*expr.constant());
    if (const auto at = known_.find(expr); at != known_.end()) return at->second;
    // Terms that are added come first, so that the sum starts with one; what is subtracted and the constant follow.
    std::int32_t sum = -1;
    for (const bool negative : {false, true})
      for (const SymTerm& term : terms)
        if (!term.factors.empty() && (term.coefficient < 0) == negative) sum = add(sum, term);
    if (terms.back().factors.empty()) sum = emit({Code::add_const, sum, 0, terms.back().coefficient});
    return known_[expr] = sum;
  }

 private:
  using Key = std::tuple<Code, std::int32_t, std::int32_t, std::int64_t>;

  std::int32_t add(std::int32_t sum, const SymTerm& term) {
    std::int32_t value = -1;
    for (const SymFactor& factor : term.factors) {
      const std::int32_t base = compile(factor.atom);
      for (std::uint32_t i = 0; i < factor.exponent; ++i) value = value < 0 ? base : emit({Code::mul, value, base, 0});
    }
    if (sum < 0) return term.coefficient == 1 ? value : emit({Code::mul_const, value, 0, term.coefficient});
    if (term.coefficient == -1) return emit({Code::sub, sum, value, 0});
    if (term.coefficient != 1) value = emit({Code::mul_const, value, 0, term.coefficient});
    return emit({Code::add, sum, value, 0});
  }

  std::int32_t compile(const SymAtom& atom) {
    if (const auto* symbol = std::get_if<Symbol>(&atom)) {
      const auto at = std::find(inputs_.begin(), inputs_.end(), *symbol);
      if (at == inputs_.end()) throw UnboundSymbol(*symbol);
      return static_cast<std::int32_t>(at - inputs_.begin());
    }
    const SymCall& call = *std::get<1>(atom);
    std::int32_t value = compile(call.arguments[0]);
    for (std::size_t i = 1; i < call.arguments.size(); ++i)
      value = emit({code(call.function), value, compile(call.arguments[i]), 0});
    return value;
  }

  static Code code(SymFunction function) {
    switch (function) {
      case SymFunction::floor_div:
        return Code::floor_div;
      case SymFunction::ceil_div:
        return Code::ceil_div;
      case SymFunction::min:
        return Code::min;
      case SymFunction::max:
        break;
    }
    return Code::max;
  }

  std::int32_t constant(std::int64_t value) { return emit({Code::constant, 0, 0, value}); }

  std::int32_t emit(const Instruction& instruction) {
    const Key key{instruction.code, instruction.a, instruction.b, instruction.constant};
    const auto [at, is_new] =
        emitted_.try_emplace(key, static_cast<std::int32_t>(program_.inputs_ + program_.code_.size()));
    if (is_new) program_.code_.push_back(instruction);
    return at->second;
  }

  ExprProgram& program_;
  std::span<const Symbol> inputs_;
  std::map<SymExpr, std::int32_t> known_;
  std::map<Key, std::int32_t> emitted_;
};

ExprProgram::ExprProgram(std::span<const SymExpr> outputs, std::span<const Symbol> inputs) : inputs_(inputs.size()) {
  Compiler compiler(*this, inputs);
  for (const SymExpr& output : outputs) outputs_.push_back(compiler.compile(output));
}

void ExprProgram::evaluate(std::span<const std::int64_t> values, std::span<std::int64_t> out) const {
  evaluate_batch(1, values, out);
}

void ExprProgram::evaluate_batch(std::size_t points, std::span<const std::int64_t> values,
                                 std::span<std::int64_t> out) const {
  boost::container::small_vector<std::int64_t, 256> r(inputs_ + code_.size());
  for (std::size_t p = 0; p < points; ++p) {
    for (std::size_t i = 0; i < inputs_; ++i) r[i] = values[i * points + p];
    std::size_t next = inputs_;
    for (const Instruction& op : code_) {
      const std::int64_t a = r[static_cast<std::size_t>(op.a)], b = r[static_cast<std::size_t>(op.b)];
      std::int64_t& to = r[next++];
      bool overflow = false;
      switch (op.code) {
        case Code::constant:
          to = op.constant;
          break;
        case Code::add:
          overflow = __builtin_add_overflow(a, b, &to);
          break;
        case Code::sub:
          overflow = __builtin_sub_overflow(a, b, &to);
          break;
        case Code::mul:
          overflow = __builtin_mul_overflow(a, b, &to);
          break;
        case Code::add_const:
          overflow = __builtin_add_overflow(a, op.constant, &to);
          break;
        case Code::mul_const:
          overflow = __builtin_mul_overflow(a, op.constant, &to);
          break;
        case Code::floor_div:
        case Code::ceil_div:
          if (b <= 0) throw std::domain_error("symbolic expression: a divisor that is not positive");
          to = op.code == Code::floor_div ? floor_quotient(a, b) : ceil_quotient(a, b);
          break;
        case Code::min:
          to = std::min(a, b);
          break;
        case Code::max:
          to = std::max(a, b);
          break;
      }
      if (overflow) throw_sym_overflow();
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) out[i * points + p] = r[static_cast<std::size_t>(outputs_[i])];
  }
}

}  // namespace orrery::models
