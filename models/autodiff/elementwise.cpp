// Gradients of elementwise ops. Where a broadcast made an operand larger, Adjoint::give sums its gradient back.
#include <numbers>

#include "models/autodiff/rules.hpp"

namespace orrery::models::detail {
namespace {

Attributes factor(double value) {
  return {{"factor", value}};
}

TensorId scaled(Adjoint& a, TensorId id, double value) {
  return a.emit(OpKind::scale, {id}, factor(value));
}

void add(Adjoint& a) {
  for (std::size_t slot = 0; slot < a.op().inputs.size(); ++slot) a.give(slot, a.dy());
}

void sub(Adjoint& a) {
  a.give(0, a.dy());
  if (a.needs(1)) a.give(1, a.emit(OpKind::neg, {a.dy()}));
}

void mul(Adjoint& a) {
  for (const std::size_t slot : {std::size_t{0}, std::size_t{1}})
    if (a.needs(slot)) a.give(slot, a.emit(OpKind::mul, {a.dy(), a.input(1 - slot)}));
}

/// y = u / v: du = dy / v, dv = -dy y / v.
void div(Adjoint& a) {
  if (!a.needs(0) && !a.needs(1)) return;
  const TensorId du = a.emit(OpKind::div, {a.dy(), a.input(1)});
  a.give(0, du);
  if (a.needs(1)) a.give(1, a.emit(OpKind::neg, {a.emit(OpKind::mul, {du, a.output()})}));
}

/// dy where `chosen`, else zero.
TensorId masked(Adjoint& a, TensorId chosen, bool value) {
  const TensorId dy = a.dy(), none = a.zero(a.tensor(dy).type);
  return a.emit(OpKind::where, value ? std::vector{chosen, dy, none} : std::vector{chosen, none, dy});
}

TensorId comparison(Adjoint& a, TensorId x, TensorId y, const char* relation) {
  return a.emit(OpKind::compare, {x, y}, {{"relation", std::string(relation)}});
}

void maximum(Adjoint& a) {
  const TensorId first = comparison(a, a.input(0), a.input(1), "greater_equal");
  if (a.needs(0)) a.give(0, masked(a, first, true));
  if (a.needs(1)) a.give(1, masked(a, first, false));
}

void where(Adjoint& a) {
  if (a.needs(1)) a.give(1, masked(a, a.input(0), true));
  if (a.needs(2)) a.give(2, masked(a, a.input(0), false));
}

void neg(Adjoint& a) {
  a.give(0, a.emit(OpKind::neg, {a.dy()}));
}

void abs(Adjoint& a) {
  const TensorId positive = comparison(a, a.input(0), a.zero(a.tensor(a.input(0)).type), "greater_equal");
  a.give(0, a.emit(OpKind::where, {positive, a.dy(), a.emit(OpKind::neg, {a.dy()})}));
}

void exp(Adjoint& a) {
  a.give(0, a.emit(OpKind::mul, {a.dy(), a.output()}));
}

void log(Adjoint& a) {
  a.give(0, a.emit(OpKind::div, {a.dy(), a.input(0)}));
}

void sqrt(Adjoint& a) {
  a.give(0, scaled(a, a.emit(OpKind::div, {a.dy(), a.output()}), 0.5));
}

/// y = x^-1/2: dx = -dy y^3 / 2.
void rsqrt(Adjoint& a) {
  const TensorId cube = a.emit(OpKind::pow, {a.output()}, {{"exponent", 3.0}});
  a.give(0, scaled(a, a.emit(OpKind::mul, {a.dy(), cube}), -0.5));
}

/// cos x = sin(x + pi/2).
void sin(Adjoint& a) {
  const double phase = a.op().number("phase", 0) + std::numbers::pi / 2;
  const TensorId cosine = a.emit(OpKind::sin, {a.input(0)}, {{"phase", phase}});
  a.give(0, a.emit(OpKind::mul, {a.dy(), cosine}));
}

void pow(Adjoint& a) {
  const double exponent = a.op().number("exponent", 2);
  const TensorId power = exponent == 2 ? a.input(0) : a.emit(OpKind::pow, {a.input(0)}, {{"exponent", exponent - 1}});
  a.give(0, scaled(a, a.emit(OpKind::mul, {a.dy(), power}), exponent));
}

void scale(Adjoint& a) {
  Attributes attributes = a.op().attributes;
  std::erase_if(attributes, [](const auto& entry) { return entry.first == "offset" || entry.first == "shift"; });
  a.give(0, a.emit(OpKind::scale, {a.dy()}, std::move(attributes)));
}

/// Passes where nothing was cut.
void clamp(Adjoint& a) {
  a.give(0, masked(a, comparison(a, a.input(0), a.output(), "equal"), true));
}

/// 2 / sqrt(pi) e^(-x^2).
void erf(Adjoint& a) {
  const TensorId square = a.emit(OpKind::mul, {a.input(0), a.input(0)});
  const TensorId bell = a.emit(OpKind::exp, {a.emit(OpKind::neg, {square})});
  a.give(0, scaled(a, a.emit(OpKind::mul, {a.dy(), bell}), 2 * std::numbers::inv_sqrtpi));
}

void cast(Adjoint& a) {
  a.give(0, a.dy());  // give() casts back
}

void dropout(Adjoint& a) {
  a.give(0, a.emit(OpKind::dropout_grad, {a.dy(), a.output(1)}, a.op().attributes));
}

template <OpKind Gradient>
void from_input(Adjoint& a) {
  a.give(0, a.emit(Gradient, {a.dy(), a.input(0)}, a.op().attributes));
}
template <OpKind Gradient>
void from_output(Adjoint& a) {
  a.give(0, a.emit(Gradient, {a.dy(), a.output()}, a.op().attributes));
}

}  // namespace

GradientRule elementwise_gradient(OpKind kind) {
  switch (kind) {
    case OpKind::add:
    case OpKind::add_n:
      return add;
    case OpKind::sub:
      return sub;
    case OpKind::mul:
      return mul;
    case OpKind::div:
      return div;
    case OpKind::maximum:
      return maximum;
    case OpKind::where:
      return where;
    case OpKind::neg:
      return neg;
    case OpKind::abs:
      return abs;
    case OpKind::exp:
      return exp;
    case OpKind::log:
      return log;
    case OpKind::sqrt:
      return sqrt;
    case OpKind::rsqrt:
      return rsqrt;
    case OpKind::sin:
      return sin;
    case OpKind::pow:
      return pow;
    case OpKind::scale:
      return scale;
    case OpKind::clamp:
      return clamp;
    case OpKind::erf:
      return erf;
    case OpKind::cast:
      return cast;
    case OpKind::dropout:
      return dropout;
    case OpKind::relu:
      return from_output<OpKind::relu_grad>;
    case OpKind::gelu:
      return from_input<OpKind::gelu_grad>;
    case OpKind::silu:
      return from_input<OpKind::silu_grad>;
    case OpKind::tanh:
      return from_output<OpKind::tanh_grad>;
    case OpKind::sigmoid:
      return from_output<OpKind::sigmoid_grad>;
    default:
      return nullptr;
  }
}

}  // namespace orrery::models::detail
