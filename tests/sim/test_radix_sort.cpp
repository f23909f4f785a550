#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/base/radix_sort.hpp"
#include "sim/base/random.hpp"

namespace test_radix_sort {

using orrery::sim::radix_sort;
using Item = std::pair<std::uint64_t, int>;

/// Items with keys below `most`, each with its place.
std::vector<Item> drawn(std::size_t count, std::uint64_t most, std::uint64_t add = 0) {
  orrery::sim::RandomStream random(7, "radix");
  std::vector<Item> items;
  for (std::size_t i = 0; i < count; ++i)
    items.emplace_back(add + static_cast<std::uint64_t>(random.uniform() * static_cast<double>(most)),
                       static_cast<int>(i));
  return items;
}

TEST_CASE("sorted by key, and equal keys stay in their order, few and many", "[prop]") {
  // Keys of one digit of 11 bits, of two, that differ in the topmost bits alone, and below and above what is compared.
  for (const std::size_t count : {0, 1, 2, 511, 512, 5000})
    for (const auto& [most, add] : {std::pair<std::uint64_t, std::uint64_t>{100, 0},
                                    {3'000'000, 0},
                                    {1'000'000'000'000, 5'000'000'000'000},
                                    {1'000, std::uint64_t{1} << 63}}) {
      std::vector<Item> items = drawn(count, most, add);
      std::vector<Item> expected = items;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const Item& a, const Item& b) { return a.first < b.first; });
      radix_sort(items, [](const Item& item) { return item.first; });
      CHECK(items == expected);
    }
}

TEST_CASE("the least and the greatest key, and digits in which all agree between others", "[unit]") {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 1000; ++i) keys.push_back((i % 2 << 63) + (i * 7919 % 1000));
  keys.push_back(std::numeric_limits<std::uint64_t>::max());
  keys.push_back(0);
  radix_sort(keys, [](std::uint64_t key) { return key; });
  CHECK(std::is_sorted(keys.begin(), keys.end()));
  CHECK(keys.size() == 1002);
  CHECK(keys.front() == 0);
  CHECK(keys.back() == std::numeric_limits<std::uint64_t>::max());
}

}  // namespace test_radix_sort
