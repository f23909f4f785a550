#include "experiments/search/problem_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments::search::problem_parts {
namespace {

constexpr double kPi = 3.14159265358979323846;

double square(double x) {
  return x * x;
}
/// By how much `value` is above 0.
double over(double value) {
  return std::max(0.0, value);
}

/// Two reals, two objectives, limits.
Problem two_by_two(std::string name, std::string doc, std::array<Parameter, 2> parameters) {
  Problem problem{.name = std::move(name), .doc = std::move(doc), .objectives = 2};
  for (Parameter& parameter : parameters) add_parameter(problem.space, std::move(parameter));
  return problem;
}

/// The front of a problem of two reals as images of points of a curve.
template <class Curve>
auto front_of(const Problem& problem, Curve curve) {
  return [evaluate = problem.evaluate, curve](std::size_t n) {
    std::vector<std::vector<double>> points;
    for (std::size_t i = 0; i < n; ++i) {
      const Evaluation at = evaluate({curve(static_cast<double>(i) / static_cast<double>(n - 1))});
      if (at.violation() <= 1e-9) points.push_back(at.objectives);  // rounding, where a limit is met just so
    }
    return not_dominated(std::move(points));
  };
}

}  // namespace

Parameter real(std::string name, double low, double high) {
  return {.name = std::move(name), .kind = ParameterKind::real, .low = low, .high = high};
}

Parameter integer(std::string name, double low, double high, bool log) {
  return {.name = std::move(name), .kind = ParameterKind::integer, .low = low, .high = high, .log = log};
}

Parameter ordinal(std::string name, const std::vector<double>& values) {
  Parameter parameter{.name = std::move(name), .kind = ParameterKind::ordinal};
  for (const double value : values) parameter.choices.push_back({fmt::format("{}", value), value, false, {}});
  return parameter;
}

Parameter categorical(std::string name, const std::vector<std::string>& labels) {
  Parameter parameter{.name = std::move(name), .kind = ParameterKind::categorical};
  for (const std::string& label : labels)
    parameter.choices.push_back({label, static_cast<double>(parameter.choices.size()), true, {}});
  return parameter;
}

void add_parameter(Space& space, Parameter parameter, std::string_view when) {
  sim::Faults faults;
  space.add(std::move(parameter), when, {"problem", ""}, faults);
  faults.throw_if_any();
}

std::vector<std::vector<double>> not_dominated(std::vector<std::vector<double>> points) {
  std::sort(points.begin(), points.end());
  std::vector<std::vector<double>> front;
  for (std::vector<double>& point : points)
    if (front.empty() || point[1] < front.back()[1]) front.push_back(std::move(point));
  return front;
}

Problem bnh() {
  Problem problem =
      two_by_two("bnh", "Two objectives with two limits that exclude little.", {real("x", 0, 5), real("y", 0, 3)});
  problem.limits = 2;
  problem.evaluate = [](const Proposal& p) {
    const double x = p.point[0], y = p.point[1];
    return Evaluation{.objectives = {4 * x * x + 4 * y * y, square(x - 5) + square(y - 5)},
                      .margins = {square(x - 5) + y * y - 25, 7.7 - square(x - 8) - square(y + 3)}};
  };
  // Deb 2001: x = y up to 3, then y = 3.
  problem.front = front_of(problem, [](double t) { return Point{5 * t, std::min(3.0, 5 * t)}; });
  problem.reference = {140, 50};
  return problem;
}

Problem srn() {
  Problem problem = two_by_two("srn", "Two objectives with a front on a line inside the space.",
                               {real("x", -20, 20), real("y", -20, 20)});
  problem.limits = 2;
  problem.evaluate = [](const Proposal& p) {
    const double x = p.point[0], y = p.point[1];
    return Evaluation{.objectives = {2 + square(x - 2) + square(y - 1), 9 * x - square(y - 1)},
                      .margins = {x * x + y * y - 225, x - 3 * y + 10}};
  };
  // x = -2.5 from the second limit (y = 2.5) to the first (x^2 + y^2 = 225), and along that circle to smaller x as long
  // as f2 falls; the second limit itself from the point where f1 is least.
  problem.front = [evaluate = problem.evaluate](std::size_t n) {
    std::vector<std::vector<double>> points;
    const auto look = [&](double x, double y) {
      const Evaluation at = evaluate({{x, y}});
      if (at.violation() <= 1e-9) points.push_back(at.objectives);
    };
    for (std::size_t i = 0; i < n; ++i) {
      const double t = static_cast<double>(i) / static_cast<double>(n - 1);
      look(-2.5, 2.5 + t * (std::sqrt(225 - 6.25) - 2.5));
      const double x = -2.5 - 12.5 * t;
      look(x, std::sqrt(over(225 - x * x)));
      const double on = -2.5 + 10 * t;
      look(on, (on + 10) / 3);
    }
    return not_dominated(std::move(points));
  };
  problem.reference = {250, 0};
  return problem;
}

Problem tnk() {
  Problem problem = two_by_two("tnk", "Two objectives; the front is the boundary of a wavy limit.",
                               {real("x", 0, kPi), real("y", 0, kPi)});
  problem.limits = 2;
  const auto wave = [](double x, double y) { return 1 + 0.1 * sim::det_cos(16 * sim::det_atan2(x, y)); };
  problem.evaluate = [wave](const Proposal& p) {
    const double x = p.point[0], y = p.point[1];
    return Evaluation{.objectives = {x, y},
                      .margins = {wave(x, y) - x * x - y * y, square(x - 0.5) + square(y - 0.5) - 0.5}};
  };
  problem.front = front_of(problem, [wave](double t) {
    const double x = sim::det_sin(t * kPi / 2), y = sim::det_cos(t * kPi / 2), r = std::sqrt(wave(x, y));
    return Point{r * x, r * y};
  });
  problem.reference = {1.2, 1.2};
  return problem;
}

// f = 2 [kind != c] + [order != 64] |log2(order / 64)| / 4 + |log2(n / 24)| + 10 (x - 0.3)^2 + 10 (y - t)^2 with
// t = 0.2, 0.5, 0.8, 0.35 for kinds a … d: the minimum 0 is at (c, 64, 24, 0.3, 0.8), since each term is at its least.
Problem mixed() {
  Problem problem{
      .name = "mixed",
      .doc = "A categorical, an ordinal, an integer and two real parameters; the category moves the optimum of a real.",
      .optimum = 0};
  add_parameter(problem.space, categorical("kind", {"a", "b", "c", "d"}));
  add_parameter(problem.space, ordinal("order", {8, 16, 32, 64, 128, 256}));
  add_parameter(problem.space, integer("n", 1, 128, true));
  add_parameter(problem.space, real("x", 0, 1));
  add_parameter(problem.space, real("y", 0, 1));
  problem.evaluate = [](const Proposal& p) {
    constexpr std::array kTarget{0.2, 0.5, 0.8, 0.35};
    const auto kind = static_cast<std::size_t>(p.point[0]);
    const double value = (kind == 2 ? 0 : 2) + std::abs(p.point[1] - 3) / 4 + std::abs(sim::det_log2(p.point[2] / 24)) +
                         10 * square(p.point[3] - 0.3) + 10 * square(p.point[4] - kTarget[kind]);
    return Evaluation{.objectives = {value}};
  };
  return problem;
}

// Of policies: fcfs costs 3 + (batch - 8)^2 / 100, chunked 1 + |log2(chunk / 512)| + (batch - 20)^2 / 100 and another
// 4 (overlap - 0.6)^2 - 1 where it overlaps. Minimum 0: chunked, 512, overlapping by 0.6, batch 20.
Problem conditional() {
  Problem problem{.name = "conditional", .doc = "Parameters that only matter for one choice.", .optimum = 0};
  add_parameter(problem.space, categorical("policy", {"fcfs", "chunked"}));
  add_parameter(problem.space, integer("batch", 1, 64));
  add_parameter(problem.space, ordinal("chunk", {128, 256, 512, 1024, 2048}), "policy == \"chunked\"");
  add_parameter(problem.space, categorical("mode", {"plain", "overlap"}), "policy == \"chunked\"");
  add_parameter(problem.space, real("share", 0, 1), "mode == \"overlap\"");
  problem.evaluate = [](const Proposal& p) {
    if (p.point[0] == 0) return Evaluation{.objectives = {3 + square(p.point[1] - 8) / 100}};
    const double overlap = p.point[3] == 1 ? 4 * square(p.point[4] - 0.6) - 1 : 0;
    return Evaluation{.objectives = {1 + std::abs(p.point[2] - 2) + square(p.point[1] - 20) / 100 + overlap}};
  };
  return problem;
}

// An accelerator that takes the sum of compute, memory and network time; area is limited. 8^5 = 32,768 points; the
// optimum is (64, 16, 8, 32, 4) by enumeration (tests/search/test_problems.cpp): 1/8 + 1/32 + 1/32 + 1/32 at area 180.
Problem bottleneck() {
  Problem problem{
      .name = "bottleneck", .doc = "Time of an accelerator under a limit on area.", .limits = 1, .optimum = 0.21875};
  const std::vector<double> powers{1, 2, 4, 8, 16, 32, 64, 128};
  for (const char* name : {"lanes", "buffer", "channels", "links", "banks"})
    add_parameter(problem.space, ordinal(name, powers));
  problem.evaluate = [space = problem.space](const Proposal& p) {
    const std::vector<double> x = space.numbers(p.point);
    const double compute = 8 / x[0], memory = 4 / (x[2] * std::min(x[1], 16.0)) + 1 / (8 * x[4]), network = 1 / x[3];
    const double area = x[0] + x[1] + 4 * x[2] + 2 * x[3] + x[4];
    return Evaluation{.objectives = {compute + memory + network},
                      .margins = {(area - 180) / 180},
                      .breakdown = {{"compute", compute}, {"memory", memory}, {"network", network}}};
  };
  problem.remedies = {{"compute", {0}}, {"memory", {2, 1, 4}}, {"network", {3}}};
  return problem;
}

// A sphere whose value at a part of the fidelity is off by up to (1 - fidelity) / 2, by a wave over the space: what
// looks best on a short run need not be. Optimum 0 at full fidelity.
Problem rungs() {
  Problem problem{.name = "rungs", .doc = "A bowl whose values are less accurate at low fidelity.", .optimum = 0};
  for (int i = 1; i <= 4; ++i) add_parameter(problem.space, real(fmt::format("x{}", i), 0, 1));
  problem.evaluate = [](const Proposal& p) {
    double sum = 0, phase = 0;
    for (const double x : p.point) {
      sum += square(x - 0.4);
      phase += x;
    }
    return Evaluation{.objectives = {sum + 0.5 * (1 - p.fidelity) * sim::det_sin(40 * phase)}};
  };
  return problem;
}

// Three branches: easy ends at its floor of 0.25 almost at once, middle at 0.15, hard at 0 in a bowl of four reals that
// is worse than the others' floors until each is within some 0.2 of its place. A driver that follows what it saw first
// stays in a floor. Minimum 0: hard, (0.3, 0.7, 0.45, 0.6).
Problem trap() {
  Problem problem{
      .name = "trap", .doc = "A trap: the branch that looks best at first has the highest minimum.", .optimum = 0};
  add_parameter(problem.space, categorical("branch", {"easy", "middle", "hard"}));
  add_parameter(problem.space, real("e", 0, 1), "branch == \"easy\"");
  for (const char* name : {"m1", "m2"}) add_parameter(problem.space, real(name, 0, 1), "branch == \"middle\"");
  for (const char* name : {"h1", "h2", "h3", "h4"})
    add_parameter(problem.space, real(name, 0, 1), "branch == \"hard\"");
  problem.evaluate = [](const Proposal& p) {
    if (p.point[0] == 0) return Evaluation{.objectives = {0.25 + 0.1 * square(p.point[1] - 0.5)}};
    if (p.point[0] == 1) return Evaluation{.objectives = {0.15 + square(p.point[2] - 0.4) + square(p.point[3] - 0.6)}};
    constexpr std::array kPlace{0.3, 0.7, 0.45, 0.6};
    double sum = 0;
    for (std::size_t i = 0; i < kPlace.size(); ++i) sum += 2 * square(p.point[4 + i] - kPlace[i]);
    return Evaluation{.objectives = {sum}};
  };
  return problem;
}

// Four models, each with a learning rate on a logarithmic scale, a width and a rate of its own; the more there is to
// gain, the narrower the valley: f = floor + depth (log10(rate / best))^2 + (log2(width / best))^2 / 20 + (drop -
// best)^2 with floors 0.3, 0.2, 0.1, 0 and depths 0.05, 0.15, 0.5, 2. Minimum 0: the fourth, 2e-4, 96, 0.35.
Problem models() {
  Problem problem{.name = "models", .doc = "Four models, the best of which is the hardest to tune.", .optimum = 0};
  const std::vector<std::string> names{"a", "b", "c", "d"};
  add_parameter(problem.space, categorical("model", names));
  for (const std::string& name : names) {
    const std::string when = "model == \"" + name + "\"";
    Parameter rate = real("rate_" + name, 1e-5, 1e-1);
    rate.log = true;
    add_parameter(problem.space, rate, when);
    add_parameter(problem.space, integer("width_" + name, 8, 512, true), when);
    add_parameter(problem.space, real("drop_" + name, 0, 1), when);
  }
  problem.evaluate = [](const Proposal& p) {
    constexpr std::array kRate{1e-2, 3e-3, 1e-3, 2e-4}, kWidth{32.0, 48.0, 64.0, 96.0}, kDrop{0.5, 0.6, 0.2, 0.35};
    constexpr std::array kDepth{0.05, 0.15, 0.5, 2.0}, kFloor{0.3, 0.2, 0.1, 0.0};
    const auto m = static_cast<std::size_t>(p.point[0]);
    const double rate = p.point[1 + 3 * m], width = p.point[2 + 3 * m], drop = p.point[3 + 3 * m];
    const double value = kFloor[m] + kDepth[m] * square(sim::det_log(rate / kRate[m]) / sim::det_log(10)) +
                         square(sim::det_log2(width / kWidth[m])) / 20 + square(drop - kDrop[m]);
    return Evaluation{.objectives = {value}};
  };
  return problem;
}

}  // namespace orrery::experiments::search::problem_parts
