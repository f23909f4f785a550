// The deterministic functions against the C library's long double ones (64-bit mantissas, so that their own error is
// some thousandth of a unit of ours), at the edges, and bit for bit.
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace test_math {

using namespace orrery::sim;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kHuge = std::numeric_limits<double>::max();

/// Distance in units of the last place of the expected value.
double ulps(double got, long double expected) {
  const double rounded = static_cast<double>(expected);
  if (std::isnan(rounded) || std::isinf(rounded) || std::isnan(got) || std::isinf(got)) {
    const bool same = std::isnan(rounded) ? std::isnan(got) : got == rounded;
    return same ? 0 : 1e9;
  }
  const double size = std::fabs(rounded);
  const double unit = std::nextafter(size, kInf) - size;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - expected) / unit);
}

constexpr int kPoints = 20'000;

/// Largest error over points that `draw(uniform)` makes of uniforms on [0, 1).
template <class F, class Reference, class Draw>
double worst(F f, Reference reference, Draw draw) {
  RandomStream random(19, "points");
  double most = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double x = draw(random.uniform());
    most = std::max(most, ulps(f(x), reference(static_cast<long double>(x))));
  }
  return most;
}
auto between(double low, double high) {
  return [=](double u) { return low + (high - low) * u; };
}
/// Every magnitude alike, subnormals included.
double any_size(double u) {
  return std::ldexp(1 + std::fmod(u * 1e6, 1.0), static_cast<int>(u * 2097) - 1073);
}
double any_size_signed(double u) {
  return u < 0.5 ? -any_size(2 * u) : any_size(2 * u - 1);
}
/// Bits alike, zeros by their sign.
bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

TEST_CASE("exponentials keep to their error", "[prop]") {
  const auto exp_l = [](long double x) { return std::exp(x); };
  CHECK(worst(det_exp, exp_l, between(-746, 710)) < 0.8);
  CHECK(worst(det_exp, exp_l, between(-1, 1)) < 0.7);
  CHECK(worst(det_exp, exp_l, any_size_signed) < 0.8);
  const auto exp2_l = [](long double x) { return std::exp2(x); };
  CHECK(worst(det_exp2, exp2_l, between(-1076, 1025)) < 0.8);
  CHECK(worst(det_exp2, exp2_l, between(-2, 2)) < 0.7);
  const auto expm1_l = [](long double x) { return std::expm1(x); };
  CHECK(worst(det_expm1, expm1_l, between(-2, 2)) < 1);
  CHECK(worst(det_expm1, expm1_l, between(-45, 710)) < 1);
  CHECK(worst(det_expm1, expm1_l, any_size_signed) < 1);
}

TEST_CASE("logarithms keep to their error", "[prop]") {
  const auto log_l = [](long double x) { return std::log(x); };
  CHECK(worst(det_log, log_l, any_size) < 0.9);
  CHECK(worst(det_log, log_l, between(0.5, 2)) < 0.9);
  CHECK(worst(det_log, log_l, between(0.999, 1.001)) < 0.9);
  const auto log1p_l = [](long double x) { return std::log1p(x); };
  CHECK(worst(det_log1p, log1p_l, any_size) < 0.9);
  CHECK(worst(det_log1p, log1p_l, between(-1, 1)) < 0.9);
  CHECK(worst(det_log1p, log1p_l, between(0.4142, 0.4142135)) <
        1);  // up to sqrt(2) no power of two is split off: 1 + x is rounded
  CHECK(worst(det_log1p, log1p_l, between(-0.2928932, -0.2928)) < 0.9);
  const auto log2_l = [](long double x) { return std::log2(x); };
  CHECK(worst(det_log2, log2_l, any_size) < 0.6);
  CHECK(worst(det_log2, log2_l, between(0.99, 1.01)) < 0.6);
  const auto log10_l = [](long double x) { return std::log10(x); };
  CHECK(worst(det_log10, log10_l, any_size) < 0.6);
  CHECK(worst(det_log10, log10_l, between(0.99, 1.01)) < 0.6);
}

TEST_CASE("powers keep to their error however large the exponent", "[prop]") {
  RandomStream random(23, "powers");
  double most = 0;
  for (int i = 0; i < 4 * kPoints; ++i) {
    const double x = i % 2 == 0 ? any_size(random.uniform()) : 0.5 + 1.5 * random.uniform();
    // The logarithm of the result runs over all that a double holds, and a little further.
    const double y = (1480 * random.uniform() - 760) / std::log(x);
    if (!std::isfinite(y)) continue;
    most = std::max(most, ulps(det_pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y))));
  }
  CHECK(most < 0.8);
  for (int base = 2; base <= 10; ++base) {
    double power = 1;
    for (int n = 0; power < 0x1p53; ++n, power *= base) {
      CHECK(det_pow(base, n) == power);
      CHECK(det_pow(-base, n) == (n % 2 == 0 ? power : -power));
    }
  }
  CHECK(worst(
            det_cbrt, [](long double x) { return std::cbrt(x); }, any_size_signed) < 0.6);
  for (int n = -100; n <= 100; ++n) CHECK(det_cbrt(n * n * n) == n);
}

TEST_CASE("circular functions keep to their error at any argument", "[prop]") {
  const auto sin_l = [](long double x) { return std::sin(x); };
  const auto cos_l = [](long double x) { return std::cos(x); };
  const auto tan_l = [](long double x) { return std::tan(x); };
  for (const double reach : {0.8, 10.0, 2e6, 1e18}) {
    CAPTURE(reach);
    CHECK(worst(det_sin, sin_l, between(-reach, reach)) < 0.9);
    CHECK(worst(det_cos, cos_l, between(-reach, reach)) < 0.9);
    CHECK(worst(det_tan, tan_l, between(-reach, reach)) < 2.3);
  }
  CHECK(worst(det_sin, sin_l, any_size_signed) < 0.9);
  CHECK(worst(det_cos, cos_l, any_size_signed) < 0.9);
  CHECK(worst(det_tan, tan_l, any_size_signed) < 2.3);
  // Multiples of pi/2, rounded: what is left is the rounding of the argument, far below it.
  for (int k = 1; k < 2000; ++k) {
    const double x = k * 1.5707963267948966;
    CHECK(ulps(det_sin(x), std::sin(static_cast<long double>(x))) < 0.9);
    CHECK(ulps(det_cos(x), std::cos(static_cast<long double>(x))) < 0.9);
  }
}

TEST_CASE("arc tangents keep to their error", "[prop]") {
  const auto atan_l = [](long double x) { return std::atan(x); };
  CHECK(worst(det_atan, atan_l, between(-1.1, 1.1)) < 0.9);
  CHECK(worst(det_atan, atan_l, any_size_signed) < 0.9);
  RandomStream random(29, "points of the plane");
  double most = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double x = any_size_signed(random.uniform());
    const double y = i % 2 == 0 ? any_size_signed(random.uniform()) : x * (4 * random.uniform() - 2);
    most = std::max(most, ulps(det_atan2(y, x), std::atan2(static_cast<long double>(y), static_cast<long double>(x))));
  }
  CHECK(most < 1.5);
}

TEST_CASE("special functions keep to their error", "[prop]") {
  CHECK(worst(
            det_tanh, [](long double x) { return std::tanh(x); }, between(-23, 23)) < 2.4);
  CHECK(worst(
            det_tanh, [](long double x) { return std::tanh(x); }, between(-1, 1)) < 2.4);
  const auto erf_l = [](long double x) { return std::erf(x); };
  CHECK(worst(det_erf, erf_l, between(-7, 7)) < 1.6);
  CHECK(worst(det_erf, erf_l, any_size_signed) < 1.6);
  const auto erfc_l = [](long double x) { return std::erfc(x); };
  CHECK(worst(det_erfc, erfc_l, between(-7, 7)) < 3.5);
  CHECK(worst(det_erfc, erfc_l, between(5, 26.5)) < 3.5);
  const auto lgamma_l = [](long double x) { return std::lgamma(x); };
  CHECK(worst(det_lgamma, lgamma_l, between(0, 3)) < 4);
  CHECK(worst(det_lgamma, lgamma_l, between(0.999, 1.001)) < 4);
  CHECK(worst(det_lgamma, lgamma_l, between(1.999, 2.001)) < 4);
  CHECK(worst(det_lgamma, lgamma_l, between(3, 100)) < 4);
  CHECK(worst(det_lgamma, lgamma_l, any_size) < 4);
  RandomStream random(31, "left of zero");
  for (int i = 0; i < kPoints; ++i) {
    const double x = -30 * random.uniform();
    const long double expected = std::lgamma(static_cast<long double>(x));
    CHECK(std::fabs(det_lgamma(x) - expected) <= 1e-15L * (1 + std::fabs(x)) + 1e-15L * std::fabs(expected));
  }
}

TEST_CASE("edges of the exponentials and logarithms", "[unit]") {
  CHECK(det_exp(0) == 1);
  // Many at once: the same bits, whatever the number and wherever one is beyond what is plain.
  RandomStream random(1, "each");
  for (const std::size_t n : {0, 1, 2, 7, 64}) {
    for (const double reach : {1.0, 40.0, 689.9, 760.0}) {
      std::vector<double> x(n), out(n, -1);
      for (double& one : x) one = random.uniform(-reach, reach);
      if (n > 2) x[1] = 0;
      det_exp_each(x.data(), out.data(), n);
      for (std::size_t i = 0; i < n; ++i) CHECK(out[i] == det_exp(x[i]));
    }
  }
  const double odd[2] = {-kInf, 1};
  double out[2];
  det_exp_each(odd, out, 2);
  CHECK(out[0] == 0);
  CHECK(out[1] == det_exp(1));
  CHECK(det_exp(kInf) == kInf);
  CHECK(det_exp(-kInf) == 0);
  CHECK(std::isnan(det_exp(kNan)));
  CHECK(det_exp(709.782712893384) < kInf);  // ln of the largest double is 709.78271289338397…
  CHECK(det_exp(std::nextafter(709.782712893384, kInf)) == kInf);
  CHECK(det_exp(-745.13) == kTiny);  // ln(2^-1074) = -744.44, of half of it -745.133
  CHECK(det_exp(-745.14) == 0);
  CHECK(det_exp2(1023) == 0x1p1023);
  CHECK(det_exp2(1024) == kInf);
  CHECK(det_exp2(-1074) == kTiny);
  CHECK(det_exp2(-1076) == 0);
  for (int k = -1074; k < 1024; ++k) CHECK(det_exp2(k) == std::ldexp(1.0, k));
  CHECK(same(det_expm1(-0.0), -0.0));
  CHECK(det_expm1(-kInf) == -1);
  CHECK(det_expm1(kTiny) == kTiny);
  CHECK(det_log(1) == 0);
  CHECK(det_log(0) == -kInf);
  CHECK(det_log(-0.0) == -kInf);
  CHECK(det_log(kInf) == kInf);
  CHECK(std::isnan(det_log(-kTiny)));
  CHECK(std::isnan(det_log(kNan)));
  for (int k = -1074; k < 1024; ++k) CHECK(det_log2(std::ldexp(1.0, k)) == k);
  double power = 1;
  for (int k = 0; k <= 22; ++k, power *= 10) CHECK(det_log10(power) == k);  // 10^22 is the last exact one
  CHECK(det_log1p(-1) == -kInf);
  CHECK(std::isnan(det_log1p(-1.0000001)));
  CHECK(same(det_log1p(-0.0), -0.0));
  CHECK(det_log1p(kInf) == kInf);
}

TEST_CASE("powers at the edges are C's", "[unit]") {
  const double values[] = {0.0,
                           -0.0,
                           0.5,
                           -0.5,
                           1.0,
                           -1.0,
                           2.0,
                           -2.0,
                           3.0,
                           -3.0,
                           2.5,
                           0x1p53,
                           kTiny,
                           -kTiny,
                           kHuge,
                           -kHuge,
                           kInf,
                           -kInf,
                           kNan,
                           1e-300,
                           0.9999999999999999,
                           -1.0000000000000002};
  for (const double x : values)
    for (const double y : values) {
      CAPTURE(x, y);
      const double expected = std::pow(x, y);
      if (std::isfinite(expected) && expected != 0)
        CHECK(ulps(det_pow(x, y), static_cast<long double>(expected)) <= 1);
      else
        CHECK(same(det_pow(x, y), expected));
    }
  CHECK(same(det_cbrt(-0.0), -0.0));
  CHECK(det_cbrt(-kInf) == -kInf);
  CHECK(det_cbrt(0x1p-1074) == std::cbrt(0x1p-1074));
}

TEST_CASE("circular and special functions at the edges are C's", "[unit]") {
  for (const double x : {kInf, -kInf, kNan}) {
    CHECK(std::isnan(det_sin(x)));
    CHECK(std::isnan(det_cos(x)));
    CHECK(std::isnan(det_tan(x)));
  }
  CHECK(same(det_sin(-0.0), -0.0));
  CHECK(det_sin(kTiny) == kTiny);
  CHECK(ulps(det_sin(kHuge), std::sin(static_cast<long double>(kHuge))) < 0.9);
  // The double closest to a multiple of pi/2 (Kahan): 6381956970095103 * 2^797, cos about -4.7e-19.
  const double closest = std::ldexp(6381956970095103.0, 797);
  CHECK(ulps(det_cos(closest), std::cos(static_cast<long double>(closest))) < 0.9);
  CHECK(det_cos(closest) == Approx(-4.68716592425462761112e-19).epsilon(1e-15));
  const double values[] = {0.0, -0.0, 1.0, -1.0, kTiny, -kTiny, kHuge, -kHuge, kInf, -kInf, kNan};
  for (const double y : values)
    for (const double x : values) {
      CAPTURE(y, x);
      const double expected = std::atan2(y, x);
      if (std::isfinite(expected) && expected != 0)
        CHECK(ulps(det_atan2(y, x), static_cast<long double>(expected)) <= 1);
      else
        CHECK(same(det_atan2(y, x), expected));
    }
  CHECK(det_atan(kInf) == std::atan(kInf));
  CHECK(same(det_atan(-0.0), -0.0));
  CHECK(det_tanh(-kInf) == -1);
  CHECK(same(det_tanh(-0.0), -0.0));
  CHECK(det_erf(kInf) == 1);
  CHECK(det_erfc(-kInf) == 2);
  CHECK(det_erfc(kInf) == 0);
  CHECK(det_erfc(26.5) > 0);
  CHECK(same(det_erf(-0.0), -0.0));
  CHECK(det_lgamma(1) == 0);
  CHECK(det_lgamma(2) == 0);
  for (const double x : {0.0, -0.0, -1.0, -7.0, kInf, -kInf, -0x1p60}) CHECK(det_lgamma(x) == kInf);
  CHECK(det_lgamma(2.6e305) == kInf);
  CHECK(det_lgamma(-kTiny) == Approx(744.4400719213812));
}

TEST_CASE("functions keep their symmetries exactly", "[prop]") {
  RandomStream random(37, "symmetry");
  for (int i = 0; i < 2000; ++i) {
    const double x = any_size(random.uniform());
    CHECK(same(det_sin(-x), -det_sin(x)));
    CHECK(same(det_cos(-x), det_cos(x)));
    CHECK(same(det_tan(-x), -det_tan(x)));
    CHECK(same(det_atan(-x), -det_atan(x)));
    CHECK(same(det_tanh(-x), -det_tanh(x)));
    CHECK(same(det_erf(-x), -det_erf(x)));
    CHECK(same(det_cbrt(-x), -det_cbrt(x)));
  }
}

namespace {
struct Golden {
  const char* name;
  double (*function)(double);
  std::uint64_t at_one_third;  ///< bits of f(1/3)
  std::uint64_t hash;          ///< of f(i 0.0617) and f(-i 0.0617), i = 1 … 1000
};
std::uint64_t hash_of(double (*function)(double)) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (int i = 1; i <= 1000; ++i)
    for (const double x : {i * 0.0617, -i * 0.0617}) {
      const double value = function(x);
      // A NaN's sign is the processor's choice.
      hash = (hash ^ (std::isnan(value) ? 0 : std::bit_cast<std::uint64_t>(value))) * 0x100000001b3ULL;
    }
  return hash;
}
}  // namespace

TEST_CASE("elementary functions give these bits everywhere", "[golden]") {
  // Golden values are this implementation's own, written down once: another host or compiler must give the same.
  const Golden golden[] = {
      {"exp", det_exp, 0x3ff6546db1ba2d13, 0x14ae7e0688a4c224},
      {"exp2", det_exp2, 0x3ff428a2f98d728b, 0x4aabe666a55cb765},
      {"expm1", det_expm1, 0x3fd951b6c6e8b44c, 0xd9807ea1304bc7c0},
      {"log", det_log, 0xbff193ea7aad030b, 0xda75a5334c7092fb},
      {"log2", det_log2, 0xbff95c01a39fbd69, 0xf7cb4a4531d7e414},
      {"log10", det_log10, 0xbfde8927964fd5fd, 0x879316f2f3f253b9},
      {"log1p", det_log1p, 0x3fd269621134db92, 0xe133053b6cf36799},
      {"cbrt", det_cbrt, 0x3fe63003fbb4c375, 0x9a1331f9d4079055},
      {"sin", det_sin, 0x3fd4f0c2068a80c6, 0x93aefa443a51d5cb},
      {"cos", det_cos, 0x3fee3d165991982d, 0x68c37e5785a67dfb},
      {"tan", det_tan, 0x3fd62904a5d165cd, 0x7b219be7d98fca2d},
      {"atan", det_atan, 0x3fd4978fa3269ee1, 0x13ce9c241280e473},
      {"tanh", det_tanh, 0x3fd493aa293c8802, 0x5c42a3e677b48c17},
      {"erf", det_erf, 0x3fd735a06cff72fc, 0xe3cb4cef41327cef},
      {"erfc", det_erfc, 0x3fe4652fc9804682, 0x11e08d9c5a95e861},
      {"lgamma", det_lgamma, 0x3fef8890e16b741a, 0x806a5b58f24a9428},
      {"pow", [](double x) { return det_pow(std::fabs(x), 1.37); }, 0x3fcc6a57fbc68599, 0xc16208530f88507b},
      {"atan2", [](double x) { return det_atan2(x, -1.7); }, 0x40079571a44b5ae8, 0x307f3c988f292449}};
  for (const Golden& g : golden) {
    CAPTURE(g.name);
    CHECK(std::bit_cast<std::uint64_t>(g.function(1.0 / 3)) == g.at_one_third);
    CHECK(hash_of(g.function) == g.hash);
  }
}

namespace {

std::uint64_t hashed(std::uint64_t hash, double value) {
  return (hash ^ (std::isnan(value) ? 0 : std::bit_cast<std::uint64_t>(value))) * 0x100000001b3ULL;
}
/// A number of that binary exponent, the i-th of a row whose digits have no pattern.
double sized(int i, int exponent) {
  return std::ldexp(1 + std::fmod(i * 0.6180339887498949, 1.0), exponent);
}
/// Of f at numbers of every size, of both signs.
std::uint64_t hash_at_all_sizes(double (*f)(double)) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (int i = 1; i <= 4000; ++i) {
    const double x = sized(i, i * 7 % 2098 - 1074);
    hash = hashed(hashed(hash, f(x)), f(-x));
  }
  return hash;
}
/// Of f between 2^-64 and 2^12, where most of them turn from one formula to another.
std::uint64_t hash_around_one(double (*f)(double)) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (int i = 1; i <= 7600; ++i) {
    const double x = sized(i, i % 76 - 64);
    hash = hashed(hashed(hash, f(x)), f(-x));
  }
  return hash;
}

}  // namespace

TEST_CASE("elementary functions give these bits at every size", "[golden]") {
  struct Row {
    const char* name;
    double (*function)(double);
    std::array<std::uint64_t, 2> hashes;  // at all sizes, around 1
  };
  for (const Row& row : std::vector<Row>{
           {"exp", det_exp, {0x52a9541261bc8050ULL, 0xb4b212d1ecc1aa9aULL}},
           {"exp2", det_exp2, {0x003a6ce9364d0c29ULL, 0xafdc08c1fc1a8b86ULL}},
           {"expm1", det_expm1, {0x9f8df129c12ff5eaULL, 0xa4e8c4bfb233b36eULL}},
           {"log", det_log, {0x489d918c3f2f1861ULL, 0x9b07f8d5f5e2b991ULL}},
           {"log2", det_log2, {0xbfc0e42e897bc708ULL, 0x612f026089848c15ULL}},
           {"log10", det_log10, {0x923e7a9a7678bbcbULL, 0x7ade0d6e49dffd93ULL}},
           {"log1p", det_log1p, {0x87648656c70e1f43ULL, 0xc5df24819c85b5c2ULL}},
           {"cbrt", det_cbrt, {0xe2cc56f32ed48e91ULL, 0xb87fff398044ce5fULL}},
           {"sin", det_sin, {0x5d7d1f6c4d6a8a55ULL, 0x9072debbe04ce8b9ULL}},
           {"cos", det_cos, {0xbd325af5148f3b15ULL, 0x05c2be3a66a17643ULL}},
           {"tan", det_tan, {0xa63c8e558f6b810dULL, 0x2aadd82174d5d32dULL}},
           {"atan", det_atan, {0x415be6cfcbc99fa1ULL, 0x870ac0bcfbd71441ULL}},
           {"tanh", det_tanh, {0x24c18104db95a671ULL, 0x86d15826085f1b0dULL}},
           {"erf", det_erf, {0xfce73d6c900af5d9ULL, 0xabf0296622ce5207ULL}},
           {"erfc", det_erfc, {0x04e3ea5916e8170dULL, 0xce562f23a0a0a098ULL}},
           {"lgamma", det_lgamma, {0x5f9f2de091d0e04dULL, 0x8d15dcc7bd1388a7ULL}},
       }) {
    CAPTURE(row.name);
    CHECK(hash_at_all_sizes(row.function) == row.hashes[0]);
    CHECK(hash_around_one(row.function) == row.hashes[1]);
  }
}

TEST_CASE("powers and angles give these bits at every size", "[golden]") {
  // Powers whose results run over all that a double holds, and near 1; angles of points near and far, all quadrants.
  std::uint64_t powers = 0xcbf29ce484222325ULL, angles = powers;
  for (int i = 1; i <= 8000; ++i) {
    const double x = i % 3 == 0 ? sized(i, i * 11 % 2098 - 1074) : sized(i, i % 4 - 2);
    const double y = (i % 2 == 0 ? 1 : -1) * sized(7 * i, i % 24 - 13);
    powers = hashed(hashed(powers, det_pow(x, y)), det_pow(-x, std::floor(y)));
    const double up = sized(3 * i, i % 5 == 0 ? i * 13 % 2098 - 1074 : i % 61 - 30);
    for (const double sign : {1.0, -1.0})
      angles = hashed(hashed(angles, det_atan2(sign * up, x)), det_atan2(sign * up, -x));
  }
  CHECK(powers == 0x0b699aaf8afbfeaaULL);
  CHECK(angles == 0x31744e2d2b81c1f9ULL);
}

}  // namespace test_math
