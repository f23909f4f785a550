// Design spaces: named parameters, when each of them counts, and which combinations are allowed.
//
// A point is one number a parameter: the value of a real or an integer, the index of a choice of an ordinal or a
// categorical, NaN of a parameter that does not count there (its condition on earlier ones fails). Drivers think in
// points, or in the unit cube through from_unit(); a study turns points into configs (experiments/study). Formulas see
// a parameter under its name: reals, integers and ordinals as their number, categoricals as something to compare with a
// label (policy == "sarathi"), what does not count as NaN, which && || and if() may leave behind.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/base/assignment.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/formula.hpp"
#include "sim/base/random.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments::search {

enum class ParameterKind : std::uint8_t {
  real,        ///< any number in [low, high]
  integer,     ///< whole numbers in [low, high]
  ordinal,     ///< choices with an order: 256, 512, 1024
  categorical  ///< choices without one: names of policies
};
constexpr auto enum_names(ParameterKind) {
  using enum ParameterKind;
  return sim::names<ParameterKind>(
      {{"real", real}, {"integer", integer}, {"ordinal", ordinal}, {"categorical", categorical}});
}

struct Parameter {
  std::string name;
  ParameterKind kind = ParameterKind::real;
  double low = 0, high = 1;  ///< of reals and integers, ends included
  bool log = false;          ///< equal steps of the unit interval are equal ratios; low > 0
  sim::Unit unit = sim::Unit::none;
  std::vector<Choice> choices;         ///< of ordinals and categoricals
  std::vector<std::string> paths;      ///< of the config, that get its value
  std::optional<sim::Formula> counts;  ///< over earlier parameters; nothing: always

  bool has_choices() const { return kind == ParameterKind::ordinal || kind == ParameterKind::categorical; }
  /// How many values it has; nothing for a real that has more than one.
  std::optional<std::uint64_t> levels() const;
};

/// A figure that follows from the parameters: `replicas = 8 / tp`.
struct Derived {
  std::string name;
  sim::Formula formula;
  bool integer = false;  ///< rounded to the nearest whole number
  sim::Unit unit = sim::Unit::none;
  std::vector<std::string> paths;
};

using Point = std::vector<double>;

/// Integers with more values than this move by normal steps.
inline constexpr std::uint64_t kLongRange = 16;

class Space {
 public:
  /// Adds a parameter; `when` (may be empty) is a formula over those added before. What is wrong with it (a name twice,
  /// no value, low above high, a logarithm of what is not positive) is a fault at `where`.
  void add(Parameter parameter, std::string_view when, const sim::Origin& where, sim::Faults& faults);
  /// Adds a figure that follows from parameters and earlier figures.
  void derive(Derived figure, std::string_view formula, const sim::Origin& where, sim::Faults& faults);
  /// Adds a condition over parameters and figures that an allowed point meets (its value is not 0; NaN counts as 0).
  void constrain(std::string_view formula, const sim::Origin& where, sim::Faults& faults);

  std::size_t size() const { return parameters_.size(); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Derived>& derived() const { return derived_; }
  std::size_t constraints() const { return constraints_.size(); }
  /// Names that formulas over points may use: parameters, then derived figures, in the slots of numbers().
  const sim::FormulaNames& names() const { return names_; }

  /// The point as it counts: numbers clamped and rounded, NaN where a parameter does not count, the first value where
  /// one counts that was NaN. Points that mean the same are the same bits afterwards. O(parameters).
  Point canonical(Point point) const;
  /// Which constraints a canonical point breaks.
  std::size_t violated(const Point& point) const;
  bool allowed(const Point& point) const { return violated(point) == 0; }
  /// What formulas see of a canonical point: parameters, then derived figures.
  std::vector<double> numbers(const Point& point) const;
  /// The bytes of a canonical point: equal for equal points.
  std::string key(const Point& point) const;
  /// "policy=sarathi, budget=512"; what does not count is left out.
  std::string text(const Point& point) const;
  /// What a canonical point assigns: the values of its parameters, what their choices set, derived figures.
  std::vector<Assignment> assignments(const Point& point) const;

  /// Points of the grid with neither conditions nor constraints: an upper bound; nothing if a real has more than one
  /// value or the product passes 2^63. `fixed`, if given, is a parameter that keeps its first or lowest value.
  std::optional<std::uint64_t> grid_size(std::optional<std::size_t> fixed = {}) const;
  /// The i-th point of that grid, canonical; the last parameter varies fastest.
  Point grid_point(std::uint64_t index, std::optional<std::size_t> fixed = {}) const;

  /// The value at u in [0, 1) of a parameter's interval; each of n choices or integers has 1/n of it (of an integer on
  /// a logarithmic scale, its share of the logarithm).
  double from_unit(std::size_t parameter, double u) const;
  /// The middle of what from_unit maps to the value; 0.5 for NaN.
  double to_unit(std::size_t parameter, double value) const;
  /// Canonical point at a place of the unit cube.
  Point from_units(std::span<const double> u) const;
  std::vector<double> to_units(const Point& point) const;

  /// An allowed point, uniform over the unit cube; nothing if `tries` of them are all forbidden.
  std::optional<Point> sample(sim::RandomStream& random, int tries = 10'000) const;
  /// Another value of one parameter: a normal step of `width` (share of the interval) for reals and long ranges of
  /// integers, a step to a neighbour for short ones and ordinals, any other choice for categoricals. Same value if
  /// there is no other.
  double step(std::size_t parameter, double value, double width, sim::RandomStream& random) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<Derived> derived_;
  std::vector<sim::Formula> constraints_;
  sim::FormulaNames names_;
};

}  // namespace orrery::experiments::search
