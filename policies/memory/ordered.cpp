#include "policies/memory/ordered.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "policies/memory/online.hpp"
#include "policies/memory/placed.hpp"

namespace orrery::policies {

std::vector<std::int64_t> place_in_order(std::span<const Buffer> buffers, std::span<const std::uint32_t> order) {
  std::vector<std::int64_t> offsets(buffers.size());
  PlacedIndex placed(buffers);
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;  // [offset, end) of what is live together with the buffer
  for (const std::uint32_t i : order) {
    taken.clear();
    placed.for_each_overlap(buffers[i],
                            [&](std::size_t j) { taken.emplace_back(offsets[j], offsets[j] + buffers[j].bytes); });
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + buffers[i].bytes <= begin) break;
      offset = std::max(offset, align_up(end, buffers[i].alignment));
    }
    offsets[i] = offset;
    placed.insert(i);
  }
  return offsets;
}

namespace {

/// Of each buffer, the most bytes that are live at one of its steps.
std::vector<std::int64_t> contention(std::span<const Buffer> buffers) {
  std::vector<std::int64_t> steps;  // live bytes rise at these only
  for (const Buffer& buffer : buffers) steps.push_back(buffer.begin);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const auto at = [&](std::int64_t step) {
    return static_cast<std::size_t>(std::lower_bound(steps.begin(), steps.end(), step) - steps.begin());
  };
  std::vector<std::int64_t> live(steps.size() + 1, 0);
  for (const Buffer& buffer : buffers) {
    live[at(buffer.begin)] += buffer.bytes;
    live[at(buffer.end)] -= buffer.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  // most[k][i]: the largest of the 2^k sums from i on.
  std::vector<std::vector<std::int64_t>> most{live};
  for (std::size_t size = 1; 2 * size <= live.size(); size *= 2) {
    std::vector<std::int64_t> wider(live.size() - 2 * size + 1);
    for (std::size_t i = 0; i < wider.size(); ++i) wider[i] = std::max(most.back()[i], most.back()[i + size]);
    most.push_back(std::move(wider));
  }
  std::vector<std::int64_t> all;
  for (const Buffer& buffer : buffers) {
    const std::size_t first = at(buffer.begin), end = at(buffer.end);
    const auto level = static_cast<std::size_t>(std::bit_width(end - first)) - 1;
    all.push_back(std::max(most[level][first], most[level][end - (std::size_t{1} << level)]));
  }
  return all;
}

}  // namespace

std::vector<std::uint32_t> order_by(std::span<const Buffer> buffers, std::string_view keys) {
  const std::vector<std::int64_t> most =
      keys.find('t') == keys.npos ? std::vector<std::int64_t>{} : contention(buffers);
  const auto key = [&](std::size_t i, char letter) {
    const auto bytes = static_cast<double>(buffers[i].bytes);
    const auto steps = static_cast<double>(buffers[i].end - buffers[i].begin);
    if (letter == 't') return static_cast<double>(most[i]);
    return letter == 'z' ? bytes : letter == 'w' ? steps : bytes * steps;
  };
  std::vector<std::vector<double>> rows(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i)
    for (const char letter : keys) rows[i].push_back(key(i, letter));
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return rows[a] > rows[b]; });
  return order;
}

}  // namespace orrery::policies
