#include "experiments/search/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double clamped(const Parameter& parameter, double value) {
  if (parameter.has_choices()) return std::clamp(std::round(value), 0.0, double(parameter.choices.size() - 1));
  if (parameter.kind == ParameterKind::integer) value = std::round(value);
  return std::clamp(value, parameter.low, parameter.high) + 0.0;  // + 0: no minus zero
}

void check(const Parameter& parameter, const sim::Origin& where, sim::Faults& faults) {
  if (parameter.has_choices()) {
    if (parameter.choices.empty())
      faults.add(where, fmt::format("expected at least one value of '{}'", parameter.name));
    return;
  }
  if (!std::isfinite(parameter.low) || !std::isfinite(parameter.high) || parameter.low > parameter.high)
    faults.add(where, fmt::format("expected a range [low, high] of '{}' with low <= high, got [{}, {}]", parameter.name,
                                  parameter.low, parameter.high));
  else if (!std::isfinite(parameter.high - parameter.low) ||
           (parameter.log && parameter.low > 0 && !std::isfinite(parameter.high / parameter.low)))
    faults.add(where, fmt::format("expected a range of '{}' whose width is a number, got [{}, {}]", parameter.name,
                                  parameter.low, parameter.high));
  else if (parameter.log && parameter.low <= 0)
    faults.add(where, fmt::format("expected a range above 0 for the logarithmic scale of '{}', got one from {}",
                                  parameter.name, parameter.low));
}

/// Ends of the interval that from_unit spreads; whole numbers own [n, n + 1).
double upper_end(const Parameter& parameter) {
  return parameter.kind == ParameterKind::integer ? parameter.high + 1 : parameter.high;
}

sim::Node number_node(double value, sim::Unit unit, bool integer) {
  if (sim::has_dimension(unit)) return sim::Node::string(sim::format_quantity(value, unit));
  const bool fits = integer && std::abs(value) < 0x1p63;  // else whoever reads the config refuses it
  return fits ? sim::Node::integer(static_cast<std::int64_t>(value)) : sim::Node::real(value);
}

}  // namespace

std::optional<std::uint64_t> Parameter::levels() const {
  if (has_choices()) return choices.size();
  if (kind == ParameterKind::integer) return static_cast<std::uint64_t>(high - low) + 1;
  return low == high ? std::optional<std::uint64_t>(1) : std::nullopt;
}

void Space::add(Parameter parameter, std::string_view when, const sim::Origin& where, sim::Faults& faults) {
  if (names_.find(parameter.name) != nullptr) {
    faults.add(where, fmt::format("expected a new name, found '{}' a second time", parameter.name));
    return;
  }
  if (!derived_.empty())  // whose slots follow those of all parameters
    faults.add(where,
               fmt::format("expected parameter '{}' before the figures that follow from others", parameter.name));
  check(parameter, where, faults);
  if (!when.empty()) parameter.counts = sim::Formula::parse(when, names_, where, faults);
  std::vector<std::pair<std::string, double>> labels;
  if (parameter.kind == ParameterKind::categorical)
    for (std::size_t i = 0; i < parameter.choices.size(); ++i)
      labels.emplace_back(parameter.choices[i].label, double(i));
  names_.scalar(parameter.name, std::move(labels));
  parameters_.push_back(std::move(parameter));
}

void Space::derive(Derived figure, std::string_view formula, const sim::Origin& where, sim::Faults& faults) {
  if (names_.find(figure.name) != nullptr) {
    faults.add(where, fmt::format("expected a new name, found '{}' a second time", figure.name));
    return;
  }
  auto parsed = sim::Formula::parse(formula, names_, where, faults);
  if (!parsed) return;
  figure.formula = *std::move(parsed);
  names_.scalar(figure.name);
  derived_.push_back(std::move(figure));
}

void Space::constrain(std::string_view formula, const sim::Origin& where, sim::Faults& faults) {
  if (auto parsed = sim::Formula::parse(formula, names_, where, faults)) constraints_.push_back(*std::move(parsed));
}

Point Space::canonical(Point point) const {
  point.resize(parameters_.size(), kNaN);
  std::vector<double> seen(parameters_.size() + derived_.size(), kNaN);
  for (std::size_t i = 0; i < point.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    if (parameter.counts) {
      const double counts = parameter.counts->number({.scalars = seen, .series = {}});
      if (std::isnan(counts) || counts == 0) {
        point[i] = kNaN;
        continue;
      }
    }
    point[i] = std::isnan(point[i]) ? (parameter.has_choices() ? 0 : parameter.low) : clamped(parameter, point[i]);
    seen[i] = parameter.kind == ParameterKind::ordinal ? parameter.choices[std::size_t(point[i])].number : point[i];
  }
  return point;
}

std::vector<double> Space::numbers(const Point& point) const {
  std::vector<double> seen(parameters_.size() + derived_.size(), kNaN);
  for (std::size_t i = 0; i < point.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const bool ordinal = parameter.kind == ParameterKind::ordinal && !std::isnan(point[i]);
    seen[i] = ordinal ? parameter.choices[std::size_t(point[i])].number : point[i];
  }
  for (std::size_t i = 0; i < derived_.size(); ++i) {
    const double value = derived_[i].formula.number({.scalars = seen, .series = {}});
    seen[parameters_.size() + i] = derived_[i].integer ? std::round(value) : value;
  }
  return seen;
}

std::size_t Space::violated(const Point& point) const {
  if (constraints_.empty()) return 0;
  const std::vector<double> seen = numbers(point);
  return static_cast<std::size_t>(std::count_if(constraints_.begin(), constraints_.end(), [&](const auto& constraint) {
    const double met = constraint.number({.scalars = seen, .series = {}});
    return std::isnan(met) || met == 0;
  }));
}

std::string Space::key(const Point& point) const {
  std::string bytes(point.size() * sizeof(double), '\0');
  for (std::size_t i = 0; i < point.size(); ++i) {
    const double value = std::isnan(point[i]) ? kNaN : point[i];  // one NaN of the many
    std::memcpy(bytes.data() + i * sizeof(double), &value, sizeof(double));
  }
  return bytes;
}

std::string Space::text(const Point& point) const {
  std::string text;
  for (std::size_t i = 0; i < point.size(); ++i) {
    if (std::isnan(point[i])) continue;
    const Parameter& parameter = parameters_[i];
    const std::string value = parameter.has_choices()              ? parameter.choices[std::size_t(point[i])].label
                              : sim::has_dimension(parameter.unit) ? sim::humanise(point[i], parameter.unit)
                                                                   : fmt::format("{}", point[i]);
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", parameter.name, value);
  }
  return text;
}

std::vector<Assignment> Space::assignments(const Point& point) const {
  std::vector<Assignment> all;
  for (std::size_t i = 0; i < point.size(); ++i) {
    if (std::isnan(point[i])) continue;
    const Parameter& parameter = parameters_[i];
    if (parameter.has_choices()) {
      const std::vector<Assignment>& sets = parameter.choices[std::size_t(point[i])].assignments;
      all.insert(all.end(), sets.begin(), sets.end());
      continue;
    }
    for (const std::string& path : parameter.paths)
      all.push_back({path, number_node(point[i], parameter.unit, parameter.kind == ParameterKind::integer)});
  }
  if (derived_.empty()) return all;
  const std::vector<double> seen = numbers(point);
  for (std::size_t i = 0; i < derived_.size(); ++i) {
    const double value = seen[parameters_.size() + i];
    if (std::isnan(value)) continue;  // it follows from what does not count
    for (const std::string& path : derived_[i].paths)
      all.push_back({path, number_node(value, derived_[i].unit, derived_[i].integer)});
  }
  return all;
}

std::optional<std::uint64_t> Space::grid_size(std::optional<std::size_t> fixed) const {
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (i == fixed) continue;
    const auto levels = parameters_[i].levels();
    if (!levels || *levels > (std::uint64_t{1} << 63) / product) return std::nullopt;
    product *= *levels;
  }
  return product;
}

Point Space::grid_point(std::uint64_t index, std::optional<std::size_t> fixed) const {
  Point point(parameters_.size());
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const std::uint64_t levels = i == fixed ? 1 : parameters_[i].levels().value_or(1);
    const double place = static_cast<double>(index % levels);
    point[i] = parameters_[i].has_choices() ? place : parameters_[i].low + place;
    index /= levels;
  }
  return canonical(std::move(point));
}

double Space::from_unit(std::size_t parameter, double u) const {
  const Parameter& p = parameters_[parameter];
  u = std::clamp(u, 0.0, 1.0);
  if (p.has_choices()) return clamped(p, std::floor(u * double(p.choices.size())));
  if (u == 1) return p.high;  // exactly, whatever the logarithm rounds to
  const double low = p.low, high = upper_end(p);
  double value = p.log ? low * sim::det_exp(u * sim::det_log(high / low)) : low + u * (high - low);
  if (p.kind == ParameterKind::integer) value = std::floor(value);
  return clamped(p, value);
}

double Space::to_unit(std::size_t parameter, double value) const {
  const Parameter& p = parameters_[parameter];
  if (std::isnan(value)) return 0.5;
  if (p.has_choices()) return (value + 0.5) / double(p.choices.size());
  const double low = p.low, high = upper_end(p);
  if (high == low) return 0.5;
  const auto place = [&](double x) {
    return p.log ? sim::det_log(x / low) / sim::det_log(high / low) : (x - low) / (high - low);
  };
  if (p.kind == ParameterKind::integer) return (place(value) + place(value + 1)) / 2;
  return std::clamp(place(value), 0.0, 1.0);
}

Point Space::from_units(std::span<const double> u) const {
  Point point(parameters_.size());
  for (std::size_t i = 0; i < point.size(); ++i) point[i] = from_unit(i, u[i]);
  return canonical(std::move(point));
}

std::vector<double> Space::to_units(const Point& point) const {
  std::vector<double> u(point.size());
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = to_unit(i, point[i]);
  return u;
}

std::optional<Point> Space::sample(sim::RandomStream& random, int tries) const {
  std::vector<double> u(parameters_.size());
  for (int i = 0; i < tries; ++i) {
    for (double& x : u) x = random.uniform();
    Point point = from_units(u);
    if (allowed(point)) return point;
  }
  return std::nullopt;
}

double Space::step(std::size_t parameter, double value, double width, sim::RandomStream& random) const {
  const Parameter& p = parameters_[parameter];
  const auto levels = p.levels();
  if (levels && *levels == 1) return value;
  if (std::isnan(value)) return from_unit(parameter, random.uniform());
  if (p.kind == ParameterKind::categorical) {
    const double other = static_cast<double>(random.below(p.choices.size() - 1));
    return other >= value ? other + 1 : other;
  }
  const bool short_range = p.kind == ParameterKind::ordinal || (levels && *levels <= kLongRange);
  if (short_range) {
    const double move = random.bernoulli(0.5) ? 1 : -1;
    const double next = clamped(p, value + move);
    return next != value ? next : clamped(p, value - move);  // at an end there is one neighbour only
  }
  const double u = to_unit(parameter, value);
  const double next = from_unit(parameter, random.truncated_normal(u, width, 0, 1));
  if (p.kind != ParameterKind::integer || next != value) return next;
  return value == p.low ? value + 1 : value == p.high || random.bernoulli(0.5) ? value - 1 : value + 1;
}

}  // namespace orrery::experiments::search
