#include "policies/memory/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

#include "policies/memory/placed.hpp"

namespace orrery::policies {
namespace {

constexpr std::int32_t kNone = -1;

bool canonical_less(const Buffer& a, const Buffer& b) {
  return std::tie(a.begin, a.end, a.bytes, a.alignment) < std::tie(b.begin, b.end, b.bytes, b.alignment);
}

/// Buffers to place, and for every given buffer which of them it lies in (kNone: it holds no bytes).
struct Merged {
  std::vector<Buffer> buffers;
  std::vector<std::int32_t> home;
};

/// The buffer that takes the place of each; of several that may, the first in canonical order.
std::vector<std::int32_t> successors(std::span<const Buffer> buffers) {
  std::vector<std::int32_t> next(buffers.size(), kNone);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].in_place_of) continue;
    std::int32_t& taker = next[static_cast<std::size_t>(*buffers[i].in_place_of)];
    if (taker == kNone || canonical_less(buffers[i], buffers[static_cast<std::size_t>(taker)]))
      taker = static_cast<std::int32_t>(i);
  }
  return next;
}

/// With `in_place`, a chain of buffers that reuse each other in place is one that lives from the first to the last of
/// them.
Merged merge(std::span<const Buffer> buffers, bool in_place) {
  Merged merged{{}, std::vector<std::int32_t>(buffers.size(), kNone)};
  const std::vector<std::int32_t> next =
      in_place ? successors(buffers) : std::vector<std::int32_t>(buffers.size(), kNone);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& head = buffers[i];
    const bool follows = in_place && head.in_place_of &&
                         next[static_cast<std::size_t>(*head.in_place_of)] == static_cast<std::int32_t>(i);
    if (head.bytes == 0 || follows) continue;
    Buffer whole{head.begin, head.end, head.bytes, head.alignment};
    for (std::size_t at = i;; at = static_cast<std::size_t>(next[at])) {
      merged.home[at] = static_cast<std::int32_t>(merged.buffers.size());
      whole.end = std::max(whole.end, buffers[at].end);
      whole.alignment = std::lcm(whole.alignment, buffers[at].alignment);
      if (next[at] == kNone) break;
    }
    merged.buffers.push_back(whole);
  }
  return merged;
}

}  // namespace

std::optional<std::string> buffer_fault(std::span<const Buffer> buffers, std::size_t index) {
  const Buffer& buffer = buffers[index];
  if (buffer.begin >= buffer.end)
    return fmt::format("expected a lifetime that ends after it begins, got [{}, {})", buffer.begin, buffer.end);
  if (buffer.bytes < 0) return fmt::format("expected >= 0 bytes, got {}", buffer.bytes);
  if (buffer.alignment < 1) return fmt::format("expected an alignment >= 1, got {}", buffer.alignment);
  if (!buffer.in_place_of) return std::nullopt;
  const std::int32_t partner = *buffer.in_place_of;
  if (partner < 0 || partner >= std::ssize(buffers) || partner == static_cast<std::int32_t>(index))
    return fmt::format("expected a partner among the other buffers, got {}", partner);
  const Buffer& other = buffers[static_cast<std::size_t>(partner)];
  if (other.begin >= buffer.begin)
    return fmt::format("expected a partner that begins before step {}, got one that begins at {}", buffer.begin,
                       other.begin);
  if (other.end != buffer.begin + 1)
    return fmt::format("expected a partner that ends at step {}, got one that ends at {}", buffer.begin + 1, other.end);
  if (other.bytes != buffer.bytes)
    return fmt::format("expected a partner of {} bytes, got {}", buffer.bytes, other.bytes);
  return std::nullopt;
}

Plan MemoryPlanner::plan(std::span<const Buffer> buffers) const {
  bool partners = false;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (const auto fault = buffer_fault(buffers, i))
      throw std::invalid_argument(fmt::format("buffer {}: {}", i, *fault));
    partners = partners || buffers[i].in_place_of.has_value();
  }
  const auto plan_merged = [&](bool in_place) {
    const Merged merged = merge(buffers, in_place);
    std::vector<std::size_t> order(merged.buffers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return canonical_less(merged.buffers[a], merged.buffers[b]);
    });
    std::vector<Buffer> sorted;
    sorted.reserve(order.size());
    for (const std::size_t at : order) sorted.push_back(merged.buffers[at]);
    const std::vector<std::int64_t> placed = place(sorted);
    std::vector<std::int64_t> of_merged(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) of_merged[order[i]] = placed[i];
    Plan plan{std::vector<std::int64_t>(buffers.size(), 0), 0};
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (merged.home[i] != kNone) plan.offsets[i] = of_merged[static_cast<std::size_t>(merged.home[i])];
    plan.peak = peak_of(buffers, plan.offsets);
    return plan;
  };
  Plan best = plan_merged(partners);
  if (!partners) return best;
  Plan apart = plan_merged(false);
  return apart.peak < best.peak ? apart : best;
}

std::int64_t peak_of(std::span<const Buffer> buffers, std::span<const std::int64_t> offsets) {
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].bytes > 0) peak = std::max(peak, offsets[i] + buffers[i].bytes);
  return peak;
}

std::int64_t lower_bound(std::span<const Buffer> buffers) {
  // Live bytes change at these steps; where a partner is replaced, its bytes go one step earlier.
  const std::vector<std::int32_t> next = successors(buffers);
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  changes.reserve(2 * buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const bool replaced = next[i] != kNone;
    changes.emplace_back(buffers[i].begin, buffers[i].bytes);
    changes.emplace_back(buffers[i].end - (replaced ? 1 : 0), -buffers[i].bytes);
  }
  std::sort(changes.begin(), changes.end());  // at one step what ends goes first: its change is negative
  std::int64_t live = 0, most = 0;
  for (const auto& [step, change] : changes) most = std::max(most, live += change);
  return most;
}

std::optional<std::string> plan_fault(std::span<const Buffer> buffers, std::span<const std::int64_t> offsets) {
  if (offsets.size() != buffers.size())
    return fmt::format("expected {} offsets, got {}", buffers.size(), offsets.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] % buffers[i].alignment != 0)
      return fmt::format("buffer {}: expected a multiple of {} from 0, got offset {}", i, buffers[i].alignment,
                         offsets[i]);
  }
  PlacedIndex placed(buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes == 0) continue;
    std::optional<std::string> fault;
    placed.for_each_overlap(buffers[i], [&](std::size_t j) {
      const bool apart = offsets[i] + buffers[i].bytes <= offsets[j] || offsets[j] + buffers[j].bytes <= offsets[i];
      const auto takes = [&](std::size_t a, std::size_t b) {
        return buffers[a].in_place_of == static_cast<std::int32_t>(b) && offsets[a] == offsets[b];
      };
      if (!apart && !takes(i, j) && !takes(j, i) && !fault)
        fault = fmt::format("buffers {} and {} are live together and overlap in space", std::min(i, j), std::max(i, j));
    });
    if (fault) return fault;
    placed.insert(i);
  }
  return std::nullopt;
}

}  // namespace orrery::policies
