#include "tests/models/interpreter.hpp"

#include <algorithm>
#include <cmath>

#include "models/graph/op_work.hpp"
#include "sim/base/random.hpp"
#include "tests/models/interpreter_ops.hpp"

namespace orrery::models::test {
namespace {

double gelu(double x) {
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}
double gelu_slope(double x) {
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
}
double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

double compared(std::string_view relation, double a, double b) {
  return relation == "equal" ? a == b : a >= b;
}

/// Two inputs of one place: a gradient and what the forward op had.
bool run_slopes(const Step& s) {
  const auto with = [&](const std::function<double(double, double)>& f) {
    s.map([&](const std::vector<double>& v) { return f(v[0], v[1]); });
    return true;
  };
  switch (s.op.kind) {
    case OpKind::relu_grad:
      return with([](double dy, double y) { return y > 0 ? dy : 0; });
    case OpKind::gelu_grad:
      return with([](double dy, double x) { return dy * gelu_slope(x); });
    case OpKind::silu_grad:
      return with([](double dy, double x) { return dy * logistic(x) * (1 + x * (1 - logistic(x))); });
    case OpKind::tanh_grad:
      return with([](double dy, double y) { return dy * (1 - y * y); });
    case OpKind::sigmoid_grad:
      return with([](double dy, double y) { return dy * y * (1 - y); });
    case OpKind::dropout_grad:
      return with([&](double dy, double mask) { return dy * mask / (1 - s.op.number("p", 0.1)); });
    case OpKind::add:
      return with(std::plus<>());
    case OpKind::sub:
      return with(std::minus<>());
    case OpKind::mul:
      return with(std::multiplies<>());
    case OpKind::div:
      return with(std::divides<>());
    case OpKind::maximum:
      return with([](double a, double b) { return std::max(a, b); });
    case OpKind::compare:
      return with([&](double a, double b) { return compared(s.op.text("relation"), a, b); });
    default:
      return false;
  }
}

double unary(const OpNode& op, double x, const Bindings& bindings) {
  switch (op.kind) {
    case OpKind::neg:
      return -x;
    case OpKind::abs:
      return std::abs(x);
    case OpKind::exp:
      return std::exp(x);
    case OpKind::log:
      return std::log(x);
    case OpKind::sqrt:
      return std::sqrt(x);
    case OpKind::rsqrt:
      return 1 / std::sqrt(x);
    case OpKind::sin:
      return std::sin(x + op.number("phase", 0));
    case OpKind::pow:
      return std::pow(x, op.number("exponent", 2));
    case OpKind::scale:
      return op.find("divisor") != nullptr
                 ? x / static_cast<double>(op.expr("divisor", 1).eval(bindings))
                 : x * op.number("factor", 1) + op.number("offset", 0) + op.number("shift", 0);
    case OpKind::clamp:
      return std::clamp(x, op.number("min", -1), op.number("max", 1));
    case OpKind::relu:
      return std::max(x, 0.0);
    case OpKind::gelu:
      return gelu(x);
    case OpKind::silu:
      return x * logistic(x);
    case OpKind::tanh:
      return std::tanh(x);
    case OpKind::sigmoid:
      return logistic(x);
    case OpKind::erf:
      return std::erf(x);
    default:
      return x;  // cast, copy
  }
}

}  // namespace

bool run_elementwise(const Step& s, const Bindings& bindings) {
  if (run_slopes(s)) return true;
  switch (s.op.kind) {
    case OpKind::where:
      s.map([](const std::vector<double>& v) { return v[0] != 0 ? v[1] : v[2]; });
      return true;
    case OpKind::add_n:
      s.map([](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); });
      return true;
    case OpKind::dropout:
      for (std::size_t i = 0; i < s.x().data.size(); ++i) {
        s.y(1).data[i] = i % 4 != 1;
        s.y().data[i] = s.x().data[i] * s.y(1).data[i] / (1 - s.op.number("p", 0.1));
      }
      return true;
    case OpKind::cast:
    case OpKind::copy:
      break;
    default:
      if (info(s.op.kind).pattern != Pattern::elementwise || s.op.inputs.size() != 1) return false;
  }
  s.map([&](const std::vector<double>& v) { return unary(s.op, v[0], bindings); });
  return true;
}

std::vector<Value> interpret(const OpGraph& graph, const Bindings& bindings, const Feed& feed) {
  std::vector<Value> values(graph.tensor_count());
  for (const TensorId id : graph.tensors()) {
    values[index(id)] = filled(sizes(graph, id, bindings));
    if (graph.producer(id)) continue;
    const auto found = feed.find(graph.tensor(id).name);
    if (found != feed.end()) values[index(id)] = found->second;
  }
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    Step step{op, {}, {}};
    for (const TensorId input : op.inputs) step.in.push_back(&values[index(input)]);
    for (const TensorId output : op.outputs) step.out.push_back(&values[index(output)]);
    if (op.kind == OpKind::optimizer_step) continue;
    if (!run_elementwise(step, bindings) && !run_rows(step) && !run_movement(step, bindings) && !run_products(step) &&
        !run_images(step))
      throw std::runtime_error("the interpreter does not know " + std::string(to_string(op.kind)));
  }
  return values;
}

Feed random_feed(const OpGraph& graph, const Bindings& bindings, std::uint64_t seed, std::int64_t classes) {
  sim::RandomStream random(seed, "feed");
  Feed feed;
  for (const TensorId id : graph.tensors()) {
    if (graph.producer(id)) continue;
    const Tensor& tensor = graph.tensor(id);
    Value value = filled(sizes(graph, id, bindings), tensor.name == "loss.gradient" ? 1 : 0);
    if (tensor.role != TensorRole::constant)
      for (double& v : value.data)
        v = tensor.type == ElementType::int64 || tensor.type == ElementType::int32
                ? std::floor(random.uniform() * static_cast<double>(classes))
                : 2 * random.uniform() - 1;
    feed.emplace(tensor.name, std::move(value));
  }
  return feed;
}

}  // namespace orrery::models::test
