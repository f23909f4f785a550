#include "experiments/search/problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "experiments/search/problem_parts.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

using namespace problem_parts;

using Vector = std::span<const double>;
constexpr double kPi = 3.14159265358979323846;

double square(double x) {
  return x * x;
}

/// x1 … xn in [low, high].
Space box(std::size_t n, double low, double high) {
  Space space;
  for (std::size_t i = 1; i <= n; ++i) add_parameter(space, real(fmt::format("x{}", i), low, high));
  return space;
}

Problem single(std::string name, std::string doc, std::size_t n, double low, double high, double (*f)(Vector)) {
  Problem problem{.name = std::move(name), .doc = std::move(doc), .space = box(n, low, high), .optimum = 0};
  problem.evaluate = [f](const Proposal& p) { return Evaluation{.objectives = {f(p.point)}}; };
  return problem;
}

double sphere(Vector x) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += square(x[i] - 1 + 0.5 * static_cast<double>(i % 3));
  return sum;
}
double rosenbrock(Vector x) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) sum += 100 * square(x[i + 1] - square(x[i])) + square(1 - x[i]);
  return sum;
}
/// Four hills in six dimensions, of Dixon and Szego (1978), less their least value.
double hartmann(Vector x) {
  constexpr double kHeight[4] = {1, 1.2, 3, 3.2};
  constexpr double kSteep[4][6] = {
      {10, 3, 17, 3.5, 1.7, 8}, {0.05, 10, 17, 0.1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kPlace[4][6] = {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
                                   {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
                                   {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
                                   {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
  constexpr double kLeast = -3.3223680114155;
  double sum = 0;
  for (int h = 0; h < 4; ++h) {
    double far = 0;
    for (std::size_t i = 0; i < 6; ++i) far += kSteep[h][i] * square(x[i] - kPlace[h][i]);
    sum -= kHeight[h] * sim::det_exp(-far);
  }
  return sum - kLeast;
}
double rastrigin(Vector x) {
  double sum = 10 * static_cast<double>(x.size());
  for (const double xi : x) sum += square(xi) - 10 * sim::det_cos(2 * kPi * xi);
  return sum;
}

using Shape = double (*)(double f1, double g);

/// A ZDT problem: f1, g of the other variables, f2 = g shape(f1, g); on the front g = 1, and f1 goes from `least` to 1.
Problem zdt(std::string name, std::string doc, Space space, double (*f1)(Vector), double (*g)(Vector), Shape shape,
            double least = 0) {
  Problem problem{.name = std::move(name), .doc = std::move(doc), .space = std::move(space), .objectives = 2};
  problem.evaluate = [f1, g, shape](const Proposal& p) {
    const double first = f1(p.point), rest = g(p.point);
    return Evaluation{.objectives = {first, rest * shape(first, rest)}};
  };
  problem.front = [least, shape](std::size_t n) {
    std::vector<std::vector<double>> points;
    for (std::size_t i = 0; i < n; ++i) {
      const double first = least + (1 - least) * static_cast<double>(i) / static_cast<double>(n - 1);
      points.push_back({first, shape(first, 1)});
    }
    return not_dominated(std::move(points));
  };
  problem.reference = {1.1, 1.1};
  return problem;
}

double first_variable(Vector x) {
  return x[0];
}
double mean_rest(Vector x) {
  double sum = 0;
  for (const double xi : x.subspan(1)) sum += xi;
  return 1 + 9 * sum / static_cast<double>(x.size() - 1);
}
double rastrigin_rest(Vector x) {
  double sum = 1 + 10 * static_cast<double>(x.size() - 1);
  for (const double xi : x.subspan(1)) sum += square(xi) - 10 * sim::det_cos(4 * kPi * xi);
  return sum;
}
double zdt6_first(Vector x) {
  const double sine = sim::det_sin(6 * kPi * x[0]);
  return 1 - sim::det_exp(-4 * x[0]) * square(sine * sine * sine);
}
double zdt6_rest(Vector x) {
  double sum = 0;
  for (const double xi : x.subspan(1)) sum += xi;
  return 1 + 9 * std::sqrt(std::sqrt(sum / static_cast<double>(x.size() - 1)));
}
double convex(double f, double g) {
  return 1 - std::sqrt(f / g);
}
double concave(double f, double g) {
  return 1 - square(f / g);
}
double pieces(double f, double g) {
  return 1 - std::sqrt(f / g) - f / g * sim::det_sin(10 * kPi * f);
}

Problem zdt4(std::size_t n) {
  Space space;
  add_parameter(space, real("x1", 0, 1));
  for (std::size_t i = 2; i <= n; ++i) add_parameter(space, real(fmt::format("x{}", i), -5, 5));
  return zdt("zdt4", "Two objectives with 21^(n-1) local fronts.", std::move(space), first_variable, rastrigin_rest,
             convex);
}

/// DTLZ1 and 2 with two objectives: f1 and f2 of the angle x1, g of the other variables.
Problem dtlz(std::string name, std::string doc, std::size_t n, double (*g)(Vector), double (*f1)(double),
             double (*f2)(double), double reference) {
  Problem problem{
      .name = std::move(name), .doc = std::move(doc), .space = box(n, 0, 1), .objectives = 2, .optimum = {}};
  problem.evaluate = [=](const Proposal& p) {
    const double scale = 1 + g(Vector(p.point).subspan(1));
    return Evaluation{.objectives = {scale * f1(p.point[0]), scale * f2(p.point[0])}};
  };
  problem.front = [=](std::size_t count) {
    std::vector<std::vector<double>> points;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = static_cast<double>(i) / static_cast<double>(count - 1);
      points.push_back({f1(x), f2(x)});
    }
    return not_dominated(std::move(points));
  };
  problem.reference = {reference, reference};
  return problem;
}

double dtlz1_g(Vector x) {
  double sum = static_cast<double>(x.size());
  for (const double xi : x) sum += square(xi - 0.5) - sim::det_cos(20 * kPi * (xi - 0.5));
  return 100 * sum;
}
double dtlz2_g(Vector x) {
  double sum = 0;
  for (const double xi : x) sum += square(xi - 0.5);
  return sum;
}

Problem dtlz1(std::size_t n) {
  return dtlz(
      "dtlz1", "Two objectives with a front on a line and 11^(n-1) local fronts.", n, dtlz1_g,
      [](double x) { return 0.5 * x; }, [](double x) { return 0.5 * (1 - x); }, 0.55);
}

Problem dtlz2(std::size_t n) {
  return dtlz(
      "dtlz2", "Two objectives with a front on a quarter circle.", n, dtlz2_g,
      [](double x) { return sim::det_cos(x * kPi / 2); }, [](double x) { return sim::det_sin(x * kPi / 2); }, 1.1);
}

/// DTLZ2 of several objectives: angles x1 … x(m-1) on the unit sphere, and how far beyond it the others lie. What the
/// front leaves below it of a cube of side r is an orthant of the unit ball, pi^(m/2) / Gamma(m/2 + 1) / 2^m.
Problem dtlz2_of(const std::string& name, std::size_t objectives, std::size_t n) {
  constexpr double kSide = 1.5;
  Problem problem{.name = name,
                  .doc = std::to_string(objectives) + " objectives on a sphere.",
                  .space = box(n, 0, 1),
                  .objectives = objectives,
                  .optimum = {}};
  problem.evaluate = [objectives](const Proposal& p) {
    double radius = 1 + dtlz2_g(Vector(p.point).subspan(objectives - 1));
    Evaluation at;
    at.objectives.resize(objectives);
    for (std::size_t m = objectives - 1; m > 0; --m) {
      const double angle = p.point[objectives - 1 - m] * kPi / 2;
      at.objectives[m] = radius * sim::det_sin(angle);
      radius *= sim::det_cos(angle);
    }
    at.objectives[0] = radius;
    return at;
  };
  problem.reference.assign(objectives, kSide);
  double ball = objectives % 2 == 0 ? 1 : 2, cube = 1;  // V(0), V(1); V(m) = V(m-2) 2 pi / m
  for (std::size_t m = 2 + objectives % 2; m <= objectives; m += 2) ball *= 2 * kPi / static_cast<double>(m);
  for (std::size_t m = 0; m < objectives; ++m) cube *= kSide;
  problem.volume = cube - ball / static_cast<double>(std::uint64_t{1} << objectives);
  return problem;
}

}  // namespace

std::vector<std::string> problem_names() {
  return {"bnh",      "bottleneck", "conditional", "dtlz1",     "dtlz2",      "dtlz2_3", "dtlz2_5", "dtlz2_8",
          "hartmann", "mixed",      "models",      "rastrigin", "rosenbrock", "rungs",   "sphere",  "srn",
          "tnk",      "zdt1",       "zdt2",        "zdt3",      "zdt4",       "zdt6"};
}

Problem make_problem(const std::string& name, std::size_t dimensions) {
  const auto size = [&](std::size_t usual) { return dimensions == 0 ? usual : dimensions; };
  if (name == "sphere") return single(name, "Sum of squares around 1, 0.5, 0, 1 …", size(5), -5, 5, sphere);
  if (name == "rosenbrock") return single(name, "A bent valley.", size(5), -5, 10, rosenbrock);
  if (name == "hartmann") return single(name, "Four hills in six dimensions.", 6, 0, 1, hartmann);
  if (name == "rastrigin")
    return single(name, "A bowl full of local minima, with the optimum off the centre.", size(5), -4.1, 6.4, rastrigin);
  if (name == "zdt1")
    return zdt(name, "Two objectives with a convex front.", box(size(30), 0, 1), first_variable, mean_rest, convex);
  if (name == "zdt2")
    return zdt(name, "Two objectives with a concave front.", box(size(30), 0, 1), first_variable, mean_rest, concave);
  if (name == "zdt3")
    return zdt(name, "Two objectives with a front in five pieces.", box(size(30), 0, 1), first_variable, mean_rest,
               pieces);
  if (name == "zdt4") return zdt4(size(10));
  if (name == "zdt6")
    return zdt(name, "Two objectives with a concave front whose points are unevenly easy to reach.",
               box(size(10), 0, 1), zdt6_first, zdt6_rest, concave, 0.2807753191);
  if (name == "dtlz1") return dtlz1(size(6));
  if (name == "dtlz2") return dtlz2(size(11));
  for (const std::size_t objectives : {3, 5, 8})
    if (name == "dtlz2_" + std::to_string(objectives)) return dtlz2_of(name, objectives, size(objectives + 9));
  for (Problem (*make)() : {bnh, srn, tnk, mixed, conditional, bottleneck, rungs, trap, models})
    if (Problem problem = make(); problem.name == name) return problem;
  throw std::invalid_argument("no problem is called '" + name + "'");
}

}  // namespace orrery::experiments::search
