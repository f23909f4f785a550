// Which requests of a batch should run together for the sake of one prefix that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/base/types.hpp"

namespace orrery::policies {

/// Texts that share a head.
struct PrefixGroup {
  std::int64_t shared = 0;           ///< tokens of that head; 0: one text by itself
  std::vector<std::size_t> members;  ///< indices of texts, ascending
};

/// A text as far as others may share it: its first `tokens` tokens.
struct SharedText {
  const Text* text = nullptr;  ///< null: like no other
  std::int64_t tokens = 0;
};

/// Divides texts into groups with one shared prefix each, such that the tokens saved, the sum of shared x (members -
/// 1), are the most that groups of this kind allow: whole subtrees of the tree of all prefixes, no two of which lie in
/// each other. best(v) = max(len(v) x (leaves(v) - 1), sum of best(children)). Ties go to the smaller groups; groups
/// come in the order of their first members. O(n log n) comparisons of texts.
/// Source: BatchLLM (MLSys 2026, arXiv 2412.03594), its dynamic programme over the compact prefix tree.
std::vector<PrefixGroup> prefix_groups(std::span<const SharedText> texts);

}  // namespace orrery::policies
