// Blocks of a sequence whose outputs (branches) are sampled side by side from one prompt.
//
// Copy-on-write (PagedAttention, SOSP 2023, section 4.4): blocks full of prompt are shared, every branch has the rest,
// its copy of the last, partly filled prompt block included. The copy is counted from admission on, not from the first
// token after the prompt: a block a branch more for the time of the prefill.
#pragma once

#include <algorithm>

#include "policies/base/types.hpp"

namespace orrery::policies {

constexpr std::int64_t blocks_up(std::int64_t tokens, std::int64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

/// Blocks of `tokens` tokens in every branch, those full of prompt once.
inline std::int64_t shared_blocks_of(const Sequence& seq, std::int64_t tokens, std::int64_t block_tokens) {
  const std::int64_t blocks = blocks_up(tokens, block_tokens);
  if (seq.branches == 1) return blocks;
  const std::int64_t once = std::min(blocks, seq.prompt_tokens / block_tokens);
  return once + seq.branches * (blocks - once);
}

/// Of the first `tokens` tokens of a sequence, those that are the same in every branch: a text names no more.
inline std::int64_t common_to_branches(const Sequence& seq, std::int64_t tokens) {
  return seq.branches == 1 ? tokens : std::min(tokens, seq.prompt_tokens);
}

/// Tokens in every branch that `held` blocks are enough for.
inline std::int64_t shared_capacity(const Sequence& seq, std::int64_t held, std::int64_t block_tokens) {
  if (seq.branches == 1) return held * block_tokens;
  const std::int64_t once = std::min(held, seq.prompt_tokens / block_tokens);
  return (once + (held - once) / seq.branches) * block_tokens;
}

}  // namespace orrery::policies
