// Formulas: a small expression language for what files may compute: values of claims, priorities of policies.
//
//   geomean(jit.stall / dvm.stall where batch >= 4)        at(aot.latency / vm.latency, 128) <= 1.1
//
// Numbers; names with dots; + - * / ^; < <= > >= == != (1 or 0; of two, no chains); && || !; parentheses. A value is a
// scalar or a series (one number a point); arithmetic is elementwise and a scalar goes with every element. Elementwise
// functions: abs ceil exp floor if(c, a, b) log log10 log2 max2 min2 round sqrt. Reductions of a series to a scalar:
// all any at count (elements that are not 0) first geomean last max mean min sum, each over the elements `where` a
// condition holds; at(s, condition) is the one element for which it does, at(s, number) the one where the default axis
// has that value. A name with labels may be compared with one of them in quotes: model == "bert". No value: NaN stands
// for a number that is not there and goes through all operations, comparisons too; && || if() and `where` leave it
// behind when it does not matter. A reduction of nothing but sum, count, all, any is NaN. Parsed once, names resolved
// to slots, evaluated many times: no allocation, O(operations x elements); the results are the same bits on every
// processor (sim/base/math.hpp). Left out: assignments, strings as values, functions of users.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/fault.hpp"

namespace orrery::sim {

/// What the names of a formula stand for: slots of scalars and slots of series, numbered in the order of declaration.
class FormulaNames {
 public:
  struct Name {
    std::string name;
    bool series = false;
    std::size_t slot = 0;
    std::vector<std::pair<std::string, double>> labels;  ///< texts that it may be compared with
  };

  /// Declares a name and returns its slot. Throws std::invalid_argument for one that is declared already.
  std::size_t scalar(std::string name, std::vector<std::pair<std::string, double>> labels = {});
  std::size_t series(std::string name, std::vector<std::pair<std::string, double>> labels = {});
  /// The series that at(s, number) looks the number up in.
  void set_default_axis(std::size_t series_slot) { default_axis_ = series_slot; }

  const Name* find(std::string_view name) const;
  const std::vector<Name>& all() const { return names_; }
  std::optional<std::size_t> default_axis() const { return default_axis_; }

 private:
  std::size_t declare(Name name, std::size_t slot);
  std::vector<Name> names_;
  std::size_t scalars_ = 0, series_ = 0;
  std::optional<std::size_t> default_axis_;
};

/// Whether a text may be used as a name, or as a part of one between dots: letters, digits, _, and no digit first.
bool is_formula_name(std::string_view text);

/// Values of the slots.
struct FormulaValues {
  std::span<const double> scalars;
  std::span<const std::span<const double>> series;  ///< those of one elementwise expression are equally long
};

class Formula {
 public:
  /// Parses; nothing if there was a fault, which names the column and the nearest known name.
  static std::optional<Formula> parse(std::string_view text, const FormulaNames& names, const Origin& where,
                                      Faults& faults);

  /// Whether the value is a series, which number() cannot give.
  bool is_series() const { return programs_.back().series; }
  /// The value of a formula that is a scalar. Throws std::invalid_argument where series differ in length.
  double number(const FormulaValues& values) const;
  /// The value, one number an element; a scalar gives one.
  void series(const FormulaValues& values, std::vector<double>& out) const;
  /// Where the formula is one reduction: the series that is reduced, NaN where it is left out; else the value.
  void reduced(const FormulaValues& values, std::vector<double>& out) const;

  /// One step of its value in postfix order.
  struct Step {
    enum class Kind : std::uint8_t { number, scalar, function };
    Kind kind = Kind::number;
    double number = 0;
    std::size_t slot = 0;
    std::string_view function;  ///< operator or name, as in formula_functions.hpp, or "if"
    std::size_t arguments = 0;
  };
  /// The steps of a formula of scalars alone, for who takes it apart; nothing where it reads series.
  std::vector<Step> steps() const;

  /// Slots it reads, sorted.
  const std::vector<std::size_t>& scalars_used() const { return scalars_used_; }
  const std::vector<std::size_t>& series_used() const { return series_used_; }

 private:
  friend class FormulaParser;

  enum class Op : std::uint8_t { number, scalar, series, reduced, unary, binary, choose };
  enum class Reduction : std::uint8_t { all, any, at, count, first, geomean, last, max, mean, min, sum };
  struct Instruction {
    Op op = Op::number;
    std::uint32_t index = 0;  ///< slot, number of a reduction, or row of a table of functions
    double number = 0;
  };
  /// Code for one element, and what becomes of the elements. The last program is the formula's value; those before it
  /// are reductions, in an order in which each finds what it needs.
  struct Program {
    std::vector<Instruction> code, condition;  ///< condition: empty if every element counts
    std::optional<Reduction> reduction;
    bool series = false;
    std::vector<std::uint32_t> series_read;
  };
  static constexpr std::size_t kMostDepth = 32, kMostReductions = 32;
  using Temporaries = std::array<double, kMostReductions>;

  static double element(std::span<const Instruction> code, const FormulaValues& values, const Temporaries& reduced,
                        std::size_t index);
  struct Elements;
  static void accumulate(Reduction kind, double x, Elements& all);
  static double finish(Reduction kind, const Elements& all);
  static double of_nothing(Reduction kind);
  static double reduce(const Program& program, const FormulaValues& values, const Temporaries& reduced);
  static std::size_t length(const Program& program, const FormulaValues& values);
  void run_reductions(const FormulaValues& values, Temporaries& reduced) const;

  std::vector<Program> programs_;
  std::vector<std::size_t> scalars_used_, series_used_;
};

}  // namespace orrery::sim
