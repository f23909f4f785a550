#!/usr/bin/python3
"""Derives the constants of sim/base/math*.cpp from their definitions and prints sim/base/math_tables.hpp.

Usage: /usr/bin/python3 sim/base/derive_math_tables.py > sim/base/math_tables.hpp  (needs python3-mpmath)

Constants in two parts are the nearest double and the nearest double of what is left. Chebyshev series interpolate the
function at the Chebyshev nodes with 60 digits, end where the next coefficients fall below 2^-60 of the largest, and are
printed as polynomials (their coefficients fall faster than 2^-j, so that nothing cancels).
"""
import mpmath as mp

mp.mp.dps = 420  # 2/pi is printed with 1,280 bits


def double(x):
    """Nearest double, as a hexadecimal literal."""
    return float(mp.mpf(x)).hex()


def pair(x):
    high = float(mp.mpf(x))
    return high, float(mp.mpf(x) - mp.mpf(high))


def truncated(x, bits):
    """x cut to its leading bits: products with integers of 53 - bits bits are exact."""
    exponent = int(mp.floor(mp.log(abs(x), 2))) + 1
    scale = mp.mpf(2) ** (bits - exponent)
    return float(mp.floor(x * scale) / scale)


def chebyshev(f, a, b, limit=mp.mpf(2) ** -60):
    with mp.workdps(60):
        n = 64
        nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n) for k in range(n)]
        values = [f((a + b) / mp.mpf(2) + (b - a) / mp.mpf(2) * node) for node in nodes]
        coefficients = []
        for j in range(n):
            total = mp.fsum(values[k] * mp.cos(mp.pi * j * (k + mp.mpf(1) / 2) / n) for k in range(n))
            coefficients.append(total * (1 if j == 0 else 2) / n)
        largest = max(abs(c) for c in coefficients)
        last = max(j for j in range(n) if abs(coefficients[j]) > limit * largest)
        return as_polynomial(coefficients[: last + 1])


def as_polynomial(coefficients):
    """The same function of t in [-1, 1] in powers of t: T_0 = 1, T_1 = t, T_j+1 = 2 t T_j - T_j-1."""
    size = len(coefficients)
    before, now = [mp.mpf(1)] + [mp.mpf(0)] * (size - 1), [mp.mpf(0), mp.mpf(1)] + [mp.mpf(0)] * (size - 2)
    total = [coefficients[0] * b for b in before]
    for c in coefficients[1:]:
        total = [a + c * b for a, b in zip(total, now)]
        before, now = now, [2 * a - b for a, b in zip([mp.mpf(0)] + now[:-1], before)]
    return total


def print_double(name, value, comment):
    print(f"inline constexpr double {name} = {double(value)};  ///< {comment}")


def print_pair(name, value, comment):
    high, low = pair(value)
    print(f"inline constexpr Wide {name}{{{high.hex()}, {low.hex()}}};  ///< {comment}")


def print_array(name, values, comment):
    print(f"/// {comment}")
    print(f"inline constexpr std::array<double, {len(values)}> {name}{{")
    line = "   "
    for value in values:
        text = f" {double(value)},"
        if len(line) + len(text) > 118:
            print(line)
            line = "   "
        line += text
    print(line.rstrip(",") + "};")


def lgamma_factor(x):
    """lgamma(x) / ((x - 1)(x - 2)), which has no zeros on (0, 3]."""
    for zero in (1, 2):
        if abs(x - zero) < mp.mpf(10) ** -25:
            x = zero + mp.mpf(10) ** -25
    with mp.workdps(100):
        return mp.loggamma(x) / ((x - 1) * (x - 2))


def main():
    print("// Written by sim/base/derive_math_tables.py from the definitions; do not edit.")
    print("#pragma once\n")
    print("#include <array>\n#include <cstdint>\n")
    print('#include "sim/base/double_double.hpp"\n')
    print("namespace orrery::sim::tables {\n")
    ln2, half_pi = mp.log(2), mp.pi / 2
    ln2_high = truncated(ln2, 40)
    print_double("kLn2High", ln2_high, "first 40 bits of ln 2: times an exponent it is exact")
    print_double("kLn2Low", ln2 - mp.mpf(ln2_high), "the rest")
    print_pair("kLn2", ln2, "ln 2")
    print_pair("kLog2E", 1 / ln2, "1 / ln 2")
    print_pair("kLog10E", 1 / mp.log(10), "1 / ln 10")
    print_pair("kThird", mp.mpf(1) / 3, "1/3")
    print_pair("kFifth", mp.mpf(1) / 5, "1/5")
    first = truncated(half_pi, 33)
    second = truncated(half_pi - mp.mpf(first), 33)
    print_double("kHalfPi1", first, "first 33 bits of pi/2")
    print_double("kHalfPi2", second, "the next 33")
    print_double("kHalfPi3", half_pi - mp.mpf(first) - mp.mpf(second), "the rest")
    print_pair("kHalfPi", half_pi, "pi/2")
    print_pair("kPi", mp.pi, "pi")
    print_double("kTwoOverPi", 2 / mp.pi, "2/pi")
    print_double("kTwoOverRootPiLess1", 2 / mp.sqrt(mp.pi) - 1, "2/sqrt(pi) - 1")
    print_pair("kHalfLog2PiLessHalf", mp.log(2 * mp.pi) / 2 - mp.mpf(1) / 2, "ln(2 pi)/2 - 1/2")
    print_double("kLogPi", mp.log(mp.pi), "ln pi")
    words = [int(mp.floor((2 / mp.pi) * mp.mpf(2) ** (64 * (i + 1)))) % 2**64 for i in range(20)]
    print("/// The bits of 2/pi behind the point, 64 a word.")
    print("inline constexpr std::uint64_t kTwoOverPiBits[] = {")
    for i in range(0, 20, 4):
        print("    " + ", ".join(f"0x{w:016x}" for w in words[i : i + 4]) + ("," if i < 16 else "};"))
    print("/// atan(i/8), i = 0 … 8.")
    print("inline constexpr Wide kAtan[] = {")
    for i in range(9):
        high, low = pair(mp.atan(mp.mpf(i) / 8))
        print(f"    {{{high.hex()}, {low.hex()}}}" + ("," if i < 8 else "};"))
    terms = [(-1) ** n * 2 / mp.sqrt(mp.pi) / (mp.factorial(n) * (2 * n + 1)) for n in range(1, 15)]
    print_array("kErf", terms, "Taylor coefficients of erf(x)/x in x^2, from the second on.")
    terms = [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 13)]
    print_array("kStirling", terms, "B(2k) / (2k (2k-1)), k = 1 … 12: the Stirling series of ln Gamma.")
    print("// Polynomials in t in [-1, 1], which runs over the interval, from Chebyshev series: e^(x^2) erfc(x).")
    erfcx = lambda x: mp.exp(x * x) * mp.erfc(x)
    for name, a, b in (("A", 0.5, 1.5), ("B", 1.5, 3.0), ("C", 3.0, 6.0)):
        print_array(f"kErfcx{name}", chebyshev(erfcx, a, b), f"x in [{a}, {b}].")
    print_array("kErfcxD", chebyshev(lambda u: erfcx(1 / mp.sqrt(u)) / mp.sqrt(u), mp.mpf(1) / 729, mp.mpf(1) / 36),
                "Times x, in u = 1/x^2 on [1/729, 1/36].")
    print("// The same for ln Gamma(x) / ((x-1)(x-2)).")
    print_array("kLgammaA", chebyshev(lgamma_factor, 0.5, 1.5), "x in [0.5, 1.5].")
    print_array("kLgammaB", chebyshev(lgamma_factor, 1.5, 3.0), "x in [1.5, 3].")
    print("\n}  // namespace orrery::sim::tables")


main()
