#include "policies/memory/ordered.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "policies/memory/online.hpp"

namespace orrery::policies {

namespace {

/// Placed buffers in order of offset, in chunks, so that a scan reads memory in order and an insertion moves little.
class ByOffset {
 public:
  /// The lowest offset at which `buffer` meets nothing that is live together with it.
  std::int64_t lowest_free(const Buffer& buffer) const {
    std::int64_t offset = 0;
    for (const Chunk& chunk : chunks_) {
      if (chunk.end <= buffer.begin || buffer.end <= chunk.begin) continue;
      for (const Entry& entry : chunk.entries) {
        if (entry.end <= buffer.begin || buffer.end <= entry.begin) continue;
        if (offset + buffer.bytes <= entry.offset) return offset;
        offset = std::max(offset, align_up(entry.top, buffer.alignment));
      }
    }
    return offset;
  }

  void insert(const Buffer& buffer, std::int64_t offset) {
    if (chunks_.empty()) chunks_.emplace_back();
    auto chunk = std::upper_bound(chunks_.begin() + 1, chunks_.end(), offset,
                                  [](std::int64_t value, const Chunk& c) { return value < c.entries.front().offset; }) -
                 1;
    const auto at = std::upper_bound(chunk->entries.begin(), chunk->entries.end(), offset,
                                     [](std::int64_t value, const Entry& entry) { return value < entry.offset; });
    chunk->entries.insert(at, {offset, offset + buffer.bytes, buffer.begin, buffer.end});
    chunk->begin = std::min(chunk->begin, buffer.begin);
    chunk->end = std::max(chunk->end, buffer.end);
    if (chunk->entries.size() < kMostEntries) return;
    Chunk upper;
    const auto middle = chunk->entries.begin() + kMostEntries / 2;
    upper.entries.assign(middle, chunk->entries.end());
    chunk->entries.erase(middle, chunk->entries.end());
    upper.measure();
    chunk->measure();
    chunks_.insert(chunk + 1, std::move(upper));
  }

 private:
  static constexpr std::size_t kMostEntries = 256;

  struct Entry {
    std::int64_t offset, top, begin, end;
  };
  /// Entries, and the steps that their lifetimes lie in.
  struct Chunk {
    std::vector<Entry> entries;
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = std::numeric_limits<std::int64_t>::min();

    void measure() {
      begin = std::numeric_limits<std::int64_t>::max(), end = std::numeric_limits<std::int64_t>::min();
      for (const Entry& entry : entries) {
        begin = std::min(begin, entry.begin);
        end = std::max(end, entry.end);
      }
    }
  };
  std::vector<Chunk> chunks_;
};

}  // namespace

std::vector<std::int64_t> place_in_order(std::span<const Buffer> buffers, std::span<const std::uint32_t> order) {
  std::vector<std::int64_t> offsets(buffers.size());
  ByOffset placed;
  for (const std::uint32_t i : order) {
    offsets[i] = placed.lowest_free(buffers[i]);
    placed.insert(buffers[i], offsets[i]);
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
