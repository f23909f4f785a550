#include "experiments/search/sobol.hpp"

#include <bit>
#include <initializer_list>

#include "sim/base/random.hpp"

namespace orrery::experiments::search {
namespace {

struct Row {
  unsigned degree;
  std::uint32_t inner;  ///< coefficients between the ends
  std::array<std::uint8_t, 7> m;
};

// Dimensions 2 … 32 of new-joe-kuo-6.21201: degree, polynomial, starting numbers.
constexpr std::array<Row, 31> kJoeKuo{{
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}},
    {7, 4, {1, 3, 7, 13, 13, 15, 69}},
    {7, 7, {1, 1, 3, 13, 7, 35, 63}},
    {7, 8, {1, 3, 5, 9, 1, 25, 53}},
    {7, 14, {1, 3, 1, 13, 9, 35, 107}},
    {7, 19, {1, 3, 1, 5, 27, 61, 31}},
    {7, 21, {1, 1, 5, 11, 19, 41, 61}},
    {7, 28, {1, 3, 5, 3, 3, 13, 69}},
    {7, 31, {1, 1, 7, 13, 1, 19, 1}},
    {7, 32, {1, 3, 7, 5, 13, 19, 59}},
    {7, 37, {1, 1, 3, 9, 25, 29, 41}},
    {7, 41, {1, 3, 5, 13, 23, 1, 55}},
    {7, 42, {1, 3, 7, 3, 13, 59, 17}},
}};

constexpr unsigned kBits = 32;
using Directions = std::array<std::uint32_t, kBits>;

/// Sobol's recurrence: direction numbers from the starting ones, scaled to the top of 32 bits.
Directions extend(unsigned degree, std::uint32_t inner, const std::vector<std::uint32_t>& start) {
  Directions v{};
  for (unsigned i = 0; i < kBits; ++i) {
    if (i < degree) {
      v[i] = start[i] << (kBits - 1 - i);
      continue;
    }
    v[i] = v[i - degree] ^ (v[i - degree] >> degree);
    for (unsigned k = 1; k < degree; ++k)
      if ((inner >> (degree - 1 - k)) & 1U) v[i] ^= v[i - k];
  }
  return v;
}

/// Mixes 64 bits (the finaliser of splitmix64, Steele, Lea, Flood 2014).
std::uint64_t mixed_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint32_t scramble(std::uint32_t x, std::uint64_t seed) {
  std::uint32_t flips = 0;
  for (unsigned bit = 0; bit < kBits; ++bit) {
    const std::uint64_t above = bit == 0 ? 0 : x >> (kBits - bit);
    const std::uint64_t node = (std::uint64_t{bit} << kBits) | above;
    flips |= static_cast<std::uint32_t>(mixed_bits(seed ^ mixed_bits(node)) & 1U) << (kBits - 1 - bit);
  }
  return x ^ flips;
}

}  // namespace

bool primitive_polynomial(unsigned degree, std::uint32_t inner) {
  // x generates the whole multiplicative group: its powers come back to 1 after 2^degree - 1 steps and not before.
  const std::uint32_t top = 1U << degree, polynomial = top | (inner << 1) | 1U;
  std::uint32_t power = 1;
  for (std::uint32_t steps = 1; steps < top; ++steps) {
    power <<= 1;
    if (power & top) power ^= polynomial;
    if (power == 1) return steps == top - 1;
  }
  return false;
}

SobolSequence::SobolSequence(std::size_t dimensions, bool scrambled, std::uint64_t seed)
    : state_(dimensions, 0), scrambled_(scrambled), seed_(seed) {
  Directions first{};
  for (unsigned i = 0; i < kBits; ++i) first[i] = 1U << (kBits - 1 - i);
  directions_.push_back(first);
  for (const Row& row : kJoeKuo) directions_.push_back(extend(row.degree, row.inner, {row.m.begin(), row.m.end()}));
  sim::RandomStream random(1, "sobol");  // the same directions in every run
  unsigned degree = kJoeKuo.back().degree;
  for (std::uint32_t inner = kJoeKuo.back().inner + 1; directions_.size() < dimensions; ++inner) {
    if (inner == 1U << (degree - 1)) {
      ++degree;
      inner = 0;
    }
    if (!primitive_polynomial(degree, inner)) continue;
    std::vector<std::uint32_t> start;
    for (unsigned i = 0; i < degree; ++i) start.push_back(static_cast<std::uint32_t>(random.below(1U << i)) * 2 + 1);
    directions_.push_back(extend(degree, inner, start));
  }
  directions_.resize(dimensions);
}

std::vector<double> SobolSequence::next() {
  std::vector<double> point(state_.size());
  for (std::size_t d = 0; d < point.size(); ++d) {
    const std::uint32_t bits = scrambled_ ? scramble(state_[d], mixed_bits(seed_ + d)) : state_[d];
    point[d] = static_cast<double>(bits) * 0x1.0p-32;
  }
  // Gray code order (Antonov and Saleev 1979): one direction number a step.
  const auto bit = static_cast<std::size_t>(std::countr_one(index_++));
  if (bit < kBits)
    for (std::size_t d = 0; d < state_.size(); ++d) state_[d] ^= directions_[d][bit];
  return point;
}

}  // namespace orrery::experiments::search
