// Sorting by a whole number, digit after digit from the least: a third of the time of comparing, from some hundred
// items on.
//
// Stable; linear in the items and in the digits in which their keys differ. A digit has 11 bits, so that the 2,048
// counters stay in the first cache and times in picoseconds take four passes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::sim {

/// Sorts `items` by `key(item)`, an std::uint64_t.
template <class T, class Key>
void radix_sort(std::vector<T>& items, Key key) {
  constexpr std::size_t kFew = 512;  // below that, clearing counters takes longer than comparing
  constexpr unsigned kBits = 11;
  if (items.size() < kFew) {
    std::stable_sort(items.begin(), items.end(), [&](const T& a, const T& b) { return key(a) < key(b); });
    return;
  }
  std::uint64_t differing = 0;
  for (const T& item : items) differing |= key(item) ^ key(items.front());
  std::vector<T> sorted(items.size());
  std::array<std::size_t, std::size_t{1} << kBits> places;
  for (unsigned shift = 0; shift < 64 && differing >> shift != 0; shift += kBits) {
    const auto digit = [&](const T& item) { return key(item) >> shift & (places.size() - 1); };
    if ((differing >> shift & (places.size() - 1)) == 0) continue;
    places.fill(0);
    for (const T& item : items) ++places[digit(item)];
    std::size_t before = 0;
    for (std::size_t& place : places) {
      const std::size_t count = place;
      place = before;
      before += count;
    }
    for (const T& item : items) sorted[places[digit(item)]++] = item;
    items.swap(sorted);
  }
}

}  // namespace orrery::sim
