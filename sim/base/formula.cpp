#include "sim/base/formula.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/base/formula_functions.hpp"

namespace orrery::sim {

using namespace formula;

namespace {

bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

bool is_formula_name(std::string_view text) {
  if (text.empty() || !letter(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::size_t FormulaNames::declare(Name name, std::size_t slot) {
  if (find(name.name) != nullptr) throw std::invalid_argument("the name '" + name.name + "' is declared already");
  name.slot = slot;
  names_.push_back(std::move(name));
  return slot;
}

std::size_t FormulaNames::scalar(std::string name, std::vector<std::pair<std::string, double>> labels) {
  return declare({.name = std::move(name), .series = false, .labels = std::move(labels)}, scalars_++);
}

std::size_t FormulaNames::series(std::string name, std::vector<std::pair<std::string, double>> labels) {
  return declare({.name = std::move(name), .series = true, .labels = std::move(labels)}, series_++);
}

const FormulaNames::Name* FormulaNames::find(std::string_view name) const {
  const auto same = [&](const Name& other) { return other.name == name; };
  const auto found = std::find_if(names_.begin(), names_.end(), same);
  return found == names_.end() ? nullptr : &*found;
}

double Formula::element(std::span<const Instruction> code, const FormulaValues& values, const Temporaries& reduced,
                        std::size_t index) {
  std::array<double, kMostDepth> stack;  // the parser keeps every formula within it
  std::size_t top = 0;                   // the next free place
  for (const Instruction& one : code) {
    switch (one.op) {
      case Op::number:
        stack[top++] = one.number;
        break;
      case Op::scalar:
        stack[top++] = values.scalars[one.index];
        break;
      case Op::series:
        stack[top++] = values.series[one.index][index];
        break;
      case Op::reduced:
        stack[top++] = reduced[one.index];
        break;
      case Op::unary:
        stack[top - 1] = kUnary[one.index].apply(stack[top - 1]);
        break;
      case Op::binary:
        --top;
        stack[top - 1] = kBinary[one.index].apply(stack[top - 1], stack[top]);
        break;
      case Op::choose:
        top -= 2;
        stack[top - 1] = std::isnan(stack[top - 1]) ? kNone : stack[top - 1] != 0 ? stack[top] : stack[top + 1];
        break;
    }
  }
  return stack[0];
}

/// Elements so far.
struct Formula::Elements {
  double result = 0, low = 0, high = 0;
  std::size_t count = 0;
};

void Formula::accumulate(Reduction kind, double x, Elements& all) {
  const bool first = all.count++ == 0;
  all.low = first ? x : smaller(all.low, x);
  all.high = first ? x : larger(all.high, x);
  switch (kind) {
    case Reduction::all:
      all.result = both(first ? 1 : all.result, x);
      break;
    case Reduction::any:
      all.result = either(all.result, x);
      break;
    case Reduction::count:
      all.result += std::isnan(x) ? x : truth(x != 0);
      break;
    case Reduction::first:
      if (first) all.result = x;
      break;
    case Reduction::at:
    case Reduction::last:
      all.result = x;
      break;
    case Reduction::geomean:
      all.result += det_log(x);
      break;
    case Reduction::mean:
    case Reduction::sum:
      all.result += x;
      break;
    case Reduction::max:
    case Reduction::min:
      break;
  }
}

double Formula::finish(Reduction kind, const Elements& all) {
  const auto n = static_cast<double>(all.count);
  // A mean lies between the elements, and is the element where all are equal, whatever rounding says.
  const auto mean = [&](double value) { return std::isnan(value) ? value : std::clamp(value, all.low, all.high); };
  switch (kind) {
    case Reduction::at:
      return all.count == 1 ? all.result : kNone;
    case Reduction::geomean:
      return mean(det_exp(all.result / n));
    case Reduction::mean:
      return mean(all.result / n);
    case Reduction::max:
      return all.high;
    case Reduction::min:
      return all.low;
    default:
      return all.result;
  }
}

double Formula::of_nothing(Reduction kind) {
  switch (kind) {
    case Reduction::all:
      return 1;
    case Reduction::any:
    case Reduction::count:
    case Reduction::sum:
      return 0;
    default:
      return kNone;
  }
}

double Formula::reduce(const Program& program, const FormulaValues& values, const Temporaries& reduced) {
  Elements all;
  const std::size_t n = length(program, values);
  for (std::size_t i = 0; i < n; ++i) {
    if (!program.condition.empty()) {
      const double holds = element(program.condition, values, reduced, i);
      if (std::isnan(holds)) return kNone;
      if (holds == 0) continue;
    }
    accumulate(*program.reduction, element(program.code, values, reduced, i), all);
  }
  return all.count == 0 ? of_nothing(*program.reduction) : finish(*program.reduction, all);
}

std::size_t Formula::length(const Program& program, const FormulaValues& values) {
  if (program.series_read.empty()) return 1;
  const std::size_t n = values.series[program.series_read.front()].size();
  for (const std::uint32_t slot : program.series_read)
    if (values.series[slot].size() != n) throw std::invalid_argument("series of one expression differ in length");
  return n;
}

void Formula::run_reductions(const FormulaValues& values, Temporaries& reduced) const {
  for (std::size_t i = 0; i + 1 < programs_.size(); ++i) reduced[i] = reduce(programs_[i], values, reduced);
}

double Formula::number(const FormulaValues& values) const {
  if (is_series()) throw std::invalid_argument("expected a formula whose value is a scalar");
  Temporaries reduced;
  run_reductions(values, reduced);
  return element(programs_.back().code, values, reduced, 0);
}

std::vector<Formula::Step> Formula::steps() const {
  std::vector<Step> all;
  if (programs_.size() != 1 || is_series()) return all;
  for (const Instruction& one : programs_.back().code) {
    switch (one.op) {
      case Op::scalar:
        all.push_back({.kind = Step::Kind::scalar, .slot = one.index});
        break;
      case Op::unary:
        all.push_back({.kind = Step::Kind::function, .function = kUnary[one.index].name, .arguments = 1});
        break;
      case Op::binary:
        all.push_back({.kind = Step::Kind::function, .function = kBinary[one.index].name, .arguments = 2});
        break;
      case Op::choose:
        all.push_back({.kind = Step::Kind::function, .function = "if", .arguments = 3});
        break;
      default:
        all.push_back({.number = one.number});
        break;
    }
  }
  return all;
}

void Formula::series(const FormulaValues& values, std::vector<double>& out) const {
  Temporaries reduced;
  run_reductions(values, reduced);
  const std::size_t n = length(programs_.back(), values);
  out.resize(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = element(programs_.back().code, values, reduced, i);
}

void Formula::reduced(const FormulaValues& values, std::vector<double>& out) const {
  const std::vector<Instruction>& outer = programs_.back().code;
  if (programs_.size() < 2 || outer.size() != 1 || outer.front().op != Op::reduced) return series(values, out);
  const Program& inner = programs_[outer.front().index];
  Temporaries reduced;
  run_reductions(values, reduced);
  const std::size_t n = length(inner, values);
  out.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double holds = inner.condition.empty() ? 1 : element(inner.condition, values, reduced, i);
    out[i] = std::isnan(holds) || holds == 0 ? kNone : element(inner.code, values, reduced, i);
  }
}

}  // namespace orrery::sim
