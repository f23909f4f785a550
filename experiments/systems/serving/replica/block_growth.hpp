// Blocks that decodes take while all of them step together: a decode that fills a block at a value of the clock takes
// one every `block_tokens` steps from then on, so how many fill one at each value modulo a block says it all.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::experiments {

class BlockGrowth {
 public:
  /// Blocks of so many tokens; 0: nobody grows block by block.
  explicit BlockGrowth(std::int64_t block_tokens)
      : block_tokens_(block_tokens), taken_(static_cast<std::size_t>(block_tokens), 0) {}
  std::int64_t block_tokens() const { return block_tokens_; }
  bool any() const { return period_ > 0; }
  std::int64_t residue(std::int64_t clock) const { return clock % block_tokens_; }
  /// So many blocks more are taken at `clock` and every block after it. Returns its residue, for remove().
  std::int64_t add(std::int64_t clock, std::int64_t blocks);
  void remove(std::int64_t residue, std::int64_t blocks);
  /// Taken at this value of the clock.
  std::int64_t at(std::int64_t clock) const { return taken_[static_cast<std::size_t>(residue(clock))]; }
  /// Taken in the step at `clock`.
  std::int64_t next(std::int64_t clock) const { return period_ == 0 ? 0 : at(clock); }
  /// Taken in `steps` steps from `clock` on.
  std::int64_t blocks(std::int64_t clock, std::int64_t steps) const;
  /// How many steps from `clock` on (up to `most`) so many blocks are enough for.
  std::int64_t steps_with(std::int64_t available, std::int64_t clock, std::int64_t most) const;
  /// Taken at each residue.
  const std::int64_t* taken() const { return taken_.data(); }

 private:
  std::int64_t block_tokens_;
  std::vector<std::int64_t> taken_;
  std::int64_t period_ = 0;  // their sum
};

}  // namespace orrery::experiments
