// Proximity-score fusion: chains of kernels that always follow each other, found in what was launched.
//
// The sequence of launched kernels is cut where the stream was synchronised. Every window of exactly `length` kernels
// within a piece is a chain; its proximity score is how often the first kernel is followed by the rest,
//     PS(chain) = count(chain) / count(its first kernel),
// counted over the whole sequence. A chain is recommended if PS >= threshold; with 1 the first kernel never goes
// another way. Recommended chains are fused from left to right where they do not overlap, and each occurrence saves
// length - 1 launches: an idealised fusion, which makes one launch of kernels and leaves their work as it is.
// Source: SKIP, arXiv 2504.11750 (ISPASS'25), and its authors' later tool; card 16 of the systems. That occurrences
// must not overlap is our reading: a kernel can only be in one launch. Left out: whether a chain can be fused at all.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace orrery::policies {

/// Kernels in the order of their launches.
struct KernelSequence {
  std::span<const std::uint32_t> kernels;  ///< same number: same kernel
  std::span<const std::size_t> cuts;       ///< positions before which the stream was synchronised, rising
};

/// Numbers for kernels by name, in the order of first appearance.
std::vector<std::uint32_t> number_kernels(std::span<const std::string_view> names);

/// A recommended chain: where it first occurs, how often it occurs (overlaps included), and its score.
struct ProximityChain {
  std::size_t first = 0;
  std::int64_t count = 0;
  double score = 0;
};

struct ProximityFusion {
  std::vector<ProximityChain> chains;  ///< by first occurrence
  std::vector<std::size_t> fused;      ///< where the occurrences that become one launch start; rising, without overlap
  std::int64_t launches = 0;           ///< that are left
};

/// Chains of `length` kernels. O(n log n log length). Throws std::invalid_argument for a length below 2, a threshold
/// outside (0, 1], or cuts that do not rise within the sequence.
ProximityFusion proximity_fusion(const KernelSequence& sequence, std::int64_t length, double threshold);

}  // namespace orrery::policies
