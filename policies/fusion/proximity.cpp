#include "policies/fusion/proximity.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>

namespace orrery::policies {
namespace {

constexpr std::uint32_t kNoWindow = ~0U;

/// Numbers equal windows alike. `a` and `b` number the windows that start at a position and `shift` further on; a
/// window that crosses a cut or the end has no number.
std::vector<std::uint32_t> combine(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b,
                                   std::size_t shift) {
  const std::size_t n = a.size();
  const auto second = [&](std::size_t i) { return i + shift < n ? b[i + shift] : kNoWindow; };
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < n; ++i)
    if (a[i] != kNoWindow && second(i) != kNoWindow) order.push_back(i);
  const auto key = [&](std::uint32_t i) { return std::pair{a[i], second(i)}; };
  std::sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) { return key(x) < key(y); });
  std::vector<std::uint32_t> numbers(n, kNoWindow);
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && key(order[i]) != key(order[i - 1])) ++number;
    numbers[order[i]] = number;
  }
  return numbers;
}

/// Numbers the windows of `length` kernels: windows of powers of two, put together by the bits of the length.
std::vector<std::uint32_t> number_windows(std::span<const std::uint32_t> kernels, std::size_t length) {
  std::vector<std::uint32_t> doubled(kernels.begin(), kernels.end());
  std::vector<std::uint32_t> windows;
  std::size_t covered = 0;
  for (std::size_t size = 1;; size *= 2) {
    if ((length & size) != 0) {
      windows = covered == 0 ? doubled : combine(windows, doubled, covered);
      covered += size;
    }
    if (covered == length) return windows;
    doubled = combine(doubled, doubled, size);
  }
}

void check(const KernelSequence& sequence, std::int64_t length, double threshold) {
  if (length < 2) throw std::invalid_argument("expected chains of at least two kernels");
  if (!(threshold > 0 && threshold <= 1)) throw std::invalid_argument("expected a threshold in (0, 1]");
  std::size_t before = 0;
  for (const std::size_t cut : sequence.cuts) {
    if (cut < before || cut > sequence.kernels.size())
      throw std::invalid_argument("expected cuts that rise within the sequence");
    before = cut;
  }
}

}  // namespace

std::vector<std::uint32_t> number_kernels(std::span<const std::string_view> names) {
  std::map<std::string_view, std::uint32_t> numbers;
  std::vector<std::uint32_t> kernels;
  for (const std::string_view name : names)
    kernels.push_back(numbers.emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second);
  return kernels;
}

ProximityFusion proximity_fusion(const KernelSequence& sequence, std::int64_t length, double threshold) {
  check(sequence, length, threshold);
  const std::size_t n = sequence.kernels.size();
  const auto window = static_cast<std::size_t>(length);
  ProximityFusion result{.launches = static_cast<std::int64_t>(n)};
  if (window > n) return result;
  std::vector<std::uint32_t> windows = number_windows(sequence.kernels, window);
  for (const std::size_t cut : sequence.cuts)  // windows that cross it are no chains
    for (std::size_t i = cut - std::min(cut, window - 1); i < cut; ++i) windows[i] = kNoWindow;

  std::map<std::uint32_t, std::int64_t> kernel_count;
  for (const std::uint32_t kernel : sequence.kernels) ++kernel_count[kernel];
  std::vector<ProximityChain> chains(n);  // by number; no more numbers than positions
  for (std::size_t i = 0; i < n; ++i) {
    if (windows[i] == kNoWindow) continue;
    ProximityChain& chain = chains[windows[i]];
    if (chain.count++ == 0) chain.first = i;
  }
  for (ProximityChain& chain : chains)
    if (chain.count > 0)
      chain.score = static_cast<double>(chain.count) / static_cast<double>(kernel_count[sequence.kernels[chain.first]]);
  const auto recommended = [&](const ProximityChain& chain) { return chain.count > 0 && chain.score >= threshold; };

  for (std::size_t i = 0; i < n;) {
    if (windows[i] == kNoWindow || !recommended(chains[windows[i]])) {
      ++i;
      continue;
    }
    result.fused.push_back(i);
    result.launches -= length - 1;
    i += window;
  }
  std::copy_if(chains.begin(), chains.end(), std::back_inserter(result.chains), recommended);
  std::sort(result.chains.begin(), result.chains.end(),
            [](const ProximityChain& a, const ProximityChain& b) { return a.first < b.first; });
  return result;
}

}  // namespace orrery::policies
