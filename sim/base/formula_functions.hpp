// The operators and functions of formulas by name: what sim/base/formula.cpp evaluates and the parser finds. NaN is
// a number that is not there, and what compares with it is not there either.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "sim/base/math.hpp"

namespace orrery::sim::formula {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

inline double truth(bool value) {
  return value ? 1.0 : 0.0;
}
inline bool absent(double a, double b) {
  return std::isnan(a) || std::isnan(b);
}
/// 0 if either side is, whatever the other; so a value that is not there may be guarded.
inline double both(double a, double b) {
  if (a == 0 || b == 0) return 0;
  return absent(a, b) ? kNone : 1;
}
inline double either(double a, double b) {
  if ((a != 0 && !std::isnan(a)) || (b != 0 && !std::isnan(b))) return 1;
  return absent(a, b) ? kNone : 0;
}
inline double larger(double a, double b) {
  return absent(a, b) ? kNone : std::max(a, b);
}
inline double smaller(double a, double b) {
  return absent(a, b) ? kNone : std::min(a, b);
}

struct Unary {
  std::string_view name;
  double (*apply)(double);
};
struct Binary {
  std::string_view name;
  double (*apply)(double, double);
};

inline constexpr std::array kUnary{
    Unary{"-", [](double a) { return -a; }},
    Unary{"!", [](double a) { return std::isnan(a) ? a : truth(a == 0); }},
    Unary{"abs", [](double a) { return std::fabs(a); }},
    Unary{"ceil", [](double a) { return std::ceil(a); }},
    Unary{"exp", det_exp},
    Unary{"floor", [](double a) { return std::floor(a); }},
    Unary{"log", det_log},
    Unary{"log10", det_log10},
    Unary{"log2", det_log2},
    Unary{"round", [](double a) { return std::round(a); }},
    Unary{"sqrt", [](double a) { return std::sqrt(a); }},
};

inline constexpr std::array kBinary{
    Binary{"+", [](double a, double b) { return a + b; }},
    Binary{"-", [](double a, double b) { return a - b; }},
    Binary{"*", [](double a, double b) { return a * b; }},
    Binary{"/", [](double a, double b) { return a / b; }},
    Binary{"^", det_pow},
    Binary{"<", [](double a, double b) { return absent(a, b) ? kNone : truth(a < b); }},
    Binary{"<=", [](double a, double b) { return absent(a, b) ? kNone : truth(a <= b); }},
    Binary{">", [](double a, double b) { return absent(a, b) ? kNone : truth(a > b); }},
    Binary{">=", [](double a, double b) { return absent(a, b) ? kNone : truth(a >= b); }},
    Binary{"==", [](double a, double b) { return absent(a, b) ? kNone : truth(a == b); }},
    Binary{"!=", [](double a, double b) { return absent(a, b) ? kNone : truth(a != b); }},
    Binary{"&&", both},
    Binary{"||", either},
    Binary{"max2", larger},
    Binary{"min2", smaller},
};

/// Row of the function of that name; the size of the table if there is none.
template <class Table>
constexpr std::size_t row_of(const Table& table, std::string_view name) {
  std::size_t row = 0;
  while (row < table.size() && table[row].name != name) ++row;
  return row;
}

/// Reductions, in the order of Formula::Reduction.
inline constexpr std::array<std::string_view, 11> kReductions{"all",  "any", "at",   "count", "first", "geomean",
                                                              "last", "max", "mean", "min",   "sum"};

}  // namespace orrery::sim::formula
