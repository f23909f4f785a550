#include "models/sym/expr_program.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <stdexcept>
#include <tuple>

#include "models/sym/form.hpp"

namespace orrery::models {

/// Turns expressions into instructions, each distinct operation once; result i has register inputs + i.
class ExprProgram::Compiler {
 public:
  Compiler(ExprProgram& program, std::span<const Symbol> inputs) : program_(program), inputs_(inputs) {}

  std::int32_t compile(const SymExpr& expr) {
    const std::span<const SymTerm> terms = SymAccess::node_terms(expr);
    if (terms.empty()) return emit({.code = Code::constant, .constant = *expr.constant()});
    if (const auto at = known_.find(expr); at != known_.end()) return at->second;
    // Terms that are added come first: the sum then stays small and needs no negation.
    std::int32_t sum = -1;
    for (const bool negative : {false, true})
      for (const SymTerm& term : terms)
        if (!term.factors.empty() && (term.coefficient < 0) == negative) sum = add(sum, term);
    if (terms.back().factors.empty())
      sum = emit({.code = Code::add_const, .a = sum, .constant = terms.back().coefficient});
    return known_[expr] = sum;
  }

 private:
  using Key = std::tuple<Code, std::int32_t, std::int32_t, std::int64_t>;

  std::int32_t add(std::int32_t sum, const SymTerm& term) {
    std::int32_t value = -1;
    for (const SymFactor& factor : term.factors) {
      const std::int32_t base = compile(factor.atom);
      for (std::uint32_t i = 0; i < factor.exponent; ++i)
        value = value < 0 ? base : emit({.code = Code::mul, .a = value, .b = base});
    }
    const std::int64_t c = term.coefficient;
    if (sum < 0) return c == 1 ? value : emit({.code = Code::mul_const, .a = value, .constant = c});
    if (c == 1) return emit({.code = Code::add, .a = sum, .b = value});
    if (c == -1) return emit({.code = Code::sub, .a = sum, .b = value});
    return emit({.code = Code::add_scaled, .a = sum, .b = value, .constant = c});
  }

  std::int32_t compile(const SymAtom& atom) {
    if (const auto* symbol = std::get_if<Symbol>(&atom)) {
      const auto at = std::find(inputs_.begin(), inputs_.end(), *symbol);
      if (at == inputs_.end()) throw UnboundSymbol(*symbol);
      return static_cast<std::int32_t>(at - inputs_.begin());
    }
    const SymCall& call = *std::get<1>(atom);
    if (call.function == SymFunction::floor_div || call.function == SymFunction::ceil_div) return quotient(call);
    const Code code = call.function == SymFunction::min ? Code::min : Code::max;
    std::int32_t value = compile(call.arguments[0]);
    for (std::size_t i = 1; i < call.arguments.size(); ++i)
      value = emit({.code = code, .a = value, .b = compile(call.arguments[i])});
    return value;
  }

  std::int32_t quotient(const SymCall& call) {
    const bool floor = call.function == SymFunction::floor_div;
    const std::int32_t value = compile(call.arguments[0]);
    const std::optional<std::int64_t> d = call.arguments[1].constant();
    if (!d)
      return emit({.code = floor ? Code::floor_div : Code::ceil_div, .a = value, .b = compile(call.arguments[1])});
    const auto bits = static_cast<std::uint64_t>(*d);
    if (std::has_single_bit(bits))
      return emit(
          {.code = floor ? Code::floor_shift : Code::ceil_shift, .a = value, .constant = std::countr_zero(bits)});
    return emit({.code = floor ? Code::floor_div_const : Code::ceil_div_const, .a = value, .constant = *d});
  }

  std::int32_t emit(Instruction op) {
    if (op.b < 0) op.b = op.a;
    op.to = static_cast<std::int32_t>(program_.inputs_ + program_.code_.size());
    const auto [at, is_new] = emitted_.try_emplace(Key{op.code, op.a, op.b, op.constant}, op.to);
    if (is_new) program_.code_.push_back(op);
    return at->second;
  }

  ExprProgram& program_;
  std::span<const Symbol> inputs_;
  std::map<SymExpr, std::int32_t> known_;
  std::map<Key, std::int32_t> emitted_;
};

namespace {

constexpr std::size_t kBlock = 128;             ///< points of a block: a column of 1 KiB
constexpr std::size_t kStackRegisters = 1'024;  ///< of one point
constexpr std::size_t kStackColumns = 48;       ///< of a block

/// The count of a single point, known when compiling: its loops are none.
using One = std::integral_constant<std::size_t, 1>;

/// Every point; `f(a, b, to)` returns what is or-ed into the flag of the column.
template <class Count, class F>
std::int64_t each(Count points, const std::int64_t* a, const std::int64_t* b, std::int64_t* to, F f) {
  std::int64_t flag = 0;
  for (std::size_t p = 0; p < points; ++p) flag |= f(a[p], b[p], to[p]);
  return flag;
}

std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// a + b; the sign bit of what is returned says that it wrapped: both operands differ from the sum in sign.
std::int64_t add_to(std::int64_t a, std::int64_t b, std::int64_t& to) {
  const std::int64_t sum = wrapped_sum(a, b);
  to = sum;
  return (a ^ sum) & (b ^ sum);
}

std::int64_t sign_bit(bool set) {
  return -static_cast<std::int64_t>(set);
}

}  // namespace

ExprProgram::ExprProgram(std::span<const SymExpr> outputs, std::span<const Symbol> inputs) : inputs_(inputs.size()) {
  Compiler compiler(*this, inputs);
  for (const SymExpr& output : outputs) outputs_.push_back(compiler.compile(output));
  assign_registers();
}

void ExprProgram::assign_registers() {
  const auto inputs = static_cast<std::int32_t>(inputs_);
  constexpr std::size_t kEnd = ~std::size_t{0};
  std::vector<std::size_t> last(inputs_ + code_.size(), 0);
  for (std::size_t i = 0; i < code_.size(); ++i)
    if (code_[i].code != Code::constant)
      for (const std::int32_t read : {code_[i].a, code_[i].b}) last[static_cast<std::size_t>(read)] = i;
  for (const std::int32_t output : outputs_) last[static_cast<std::size_t>(output)] = kEnd;
  std::vector<std::int32_t> place(last.size());
  for (std::int32_t i = 0; i < inputs; ++i) place[static_cast<std::size_t>(i)] = i;
  std::vector<std::int32_t> free;
  registers_ = inputs_;
  for (std::size_t i = 0; i < code_.size(); ++i) {
    Instruction& op = code_[i];
    if (op.code != Code::constant) {  // a result may take the place of an operand that it is the last to read
      const std::int32_t a = op.a, b = op.b;
      op.a = place[static_cast<std::size_t>(a)];
      op.b = place[static_cast<std::size_t>(b)];
      if (a >= inputs && last[static_cast<std::size_t>(a)] == i) free.push_back(op.a);
      if (b != a && b >= inputs && last[static_cast<std::size_t>(b)] == i) free.push_back(op.b);
    }
    std::int32_t& to = place[static_cast<std::size_t>(op.to)];
    if (free.empty()) {
      to = static_cast<std::int32_t>(registers_++);
    } else {
      to = free.back();
      free.pop_back();
    }
    op.to = to;
  }
  for (std::int32_t& output : outputs_) output = place[static_cast<std::size_t>(output)];
}

template <class Count>
void ExprProgram::run(const Instruction& op, Count n, const std::int64_t* a, const std::int64_t* b, std::int64_t* to,
                      Faults& faults) {
  using I = std::int64_t;
  const I c = op.constant;
  const auto divided = [&](auto quotient) {
    faults.divisor |= each(n, a, b, to, [&](I x, I d, I& out) {
      out = quotient(x, d > 0 ? d : 1);
      return static_cast<I>(d <= 0);
    });
  };
  const auto plain = [&](auto f) {
    each(n, a, b, to, [&](I x, I y, I& out) {
      out = f(x, y);
      return I{0};
    });
  };
  switch (op.code) {
    case Code::constant:
      std::fill_n(to, std::size_t{n}, c);
      return;
    case Code::add:
      faults.overflow |= each(n, a, b, to, [](I x, I y, I& out) { return add_to(x, y, out); });
      return;
    case Code::sub:
      faults.overflow |= each(n, a, b, to, [](I x, I y, I& out) {
        out = static_cast<I>(static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y));
        return (x ^ y) & (x ^ out);
      });
      return;
    case Code::mul:
      faults.overflow |=
          each(n, a, b, to, [](I x, I y, I& out) { return sign_bit(__builtin_mul_overflow(x, y, &out)); });
      return;
    case Code::min:
      return plain([](I x, I y) { return std::min(x, y); });
    case Code::max:
      return plain([](I x, I y) { return std::max(x, y); });
    case Code::floor_div:
      return divided([](I x, I d) { return floor_quotient(x, d); });
    case Code::ceil_div:
      return divided([](I x, I d) { return ceil_quotient(x, d); });
    case Code::add_const:
      faults.overflow |= each(n, a, b, to, [c](I x, I, I& out) { return add_to(x, c, out); });
      return;
    case Code::mul_const:
      faults.overflow |=
          each(n, a, b, to, [c](I x, I, I& out) { return sign_bit(__builtin_mul_overflow(x, c, &out)); });
      return;
    case Code::add_scaled:
      faults.overflow |= each(n, a, b, to, [c](I x, I y, I& out) {
        I scaled = 0;
        const I wrapped = sign_bit(__builtin_mul_overflow(y, c, &scaled));
        return wrapped | add_to(x, scaled, out);
      });
      return;
    case Code::floor_div_const:
      return plain([c](I x, I) { return floor_quotient(x, c); });
    case Code::ceil_div_const:
      return plain([c](I x, I) { return ceil_quotient(x, c); });
    case Code::floor_shift:
      return plain([c](I x, I) { return x >> c; });
    case Code::ceil_shift:
      return plain([c, low = (I{1} << c) - 1](I x, I) { return (x >> c) + static_cast<I>((x & low) != 0); });
  }
}

void ExprProgram::refuse(const Faults& faults) {
  if (faults.divisor != 0) throw std::domain_error("symbolic expression: a divisor that is not positive");
  if (faults.overflow < 0) throw_sym_overflow();
}

void ExprProgram::evaluate(std::span<const std::int64_t> values, std::span<std::int64_t> out) const {
  std::array<std::int64_t, kStackRegisters> stack;  // NOLINT(*-member-init): registers are written before they are read
  std::int64_t* r = stack.data();
  if (registers_ > kStackRegisters) {
    thread_local std::vector<std::int64_t> large;
    if (large.size() < registers_) large.resize(registers_);
    r = large.data();
  }
  std::copy(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(inputs_), r);
  Faults faults;
  for (const Instruction& op : code_) run(op, One{}, r + op.a, r + op.b, r + op.to, faults);
  refuse(faults);
  for (std::size_t i = 0; i < outputs_.size(); ++i) out[i] = r[outputs_[i]];
}

void ExprProgram::evaluate_batch(std::size_t points, std::span<const std::int64_t> values,
                                 std::span<std::int64_t> out) const {
  const std::size_t columns = registers_ - inputs_;
  std::array<std::int64_t, kStackColumns * kBlock> stack;  // NOLINT(*-member-init): written before read
  std::vector<std::int64_t> heap(columns > kStackColumns ? columns * kBlock : 0);
  std::int64_t* scratch = heap.empty() ? stack.data() : heap.data();
  Faults faults;
  for (std::size_t start = 0; start < points; start += kBlock) {
    const std::size_t n = std::min(kBlock, points - start);
    const auto column = [&](std::int32_t reg) -> const std::int64_t* {
      const auto i = static_cast<std::size_t>(reg);
      return i < inputs_ ? values.data() + i * points + start : scratch + (i - inputs_) * kBlock;
    };
    for (const Instruction& op : code_)
      run(op, n, column(op.a), column(op.b), scratch + (static_cast<std::size_t>(op.to) - inputs_) * kBlock, faults);
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      std::copy_n(column(outputs_[i]), n, out.data() + i * points + start);
  }
  refuse(faults);
}

}  // namespace orrery::models
