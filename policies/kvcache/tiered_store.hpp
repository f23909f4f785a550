// A list of memories behind a device, fastest first, that hold KV: of swapped sequences, of conversations between two
// turns, and blocks of prefixes.
//
// A copy takes n x fixed + bytes / bandwidth, n being the number of separate runs of blocks times `copies_per_run` (two
// a layer: keys and values). New copies go to the first tier; what was used longest ago makes room by moving on to the
// next (in the background: counted, no time), and what nobody waits for is given up behind the last. Every tier is
// reached directly, at its own bandwidth. All bytes are of one device, as its link sees them.
//  - reuse: the copy outlives the way back as long as there is room, so that the next swap-out writes only what has
//    been added (FastSwitch, arXiv 2411.18424).
//  - turns: what a turn of a conversation leaves is copied out too, and the next turn begins from there (the same).
//  - prefixes: blocks that a prefix cache gives up are copied one after the other and can be loaded when they are
//    through; a load takes a run a block. A block that comes again is there already.
#pragma once

#include <compare>
#include <map>
#include <vector>

#include "policies/kvcache/tier.hpp"

namespace orrery::policies {

struct TierFacts {
  std::int64_t capacity_bytes = 0;
  double bandwidth = 1;      ///< B/s, each way
  std::int64_t copy_ps = 0;  ///< fixed cost of a copy
};

struct TieredStoreOptions {
  std::int64_t block_bytes = 1;
  std::int64_t block_tokens = 0;  ///< of a full block; 0: no such thing
  std::int64_t copies_per_run = 2;
  bool overlap = false;
  bool reuse = false;
  bool turns = false;
  bool prefixes = false;
};

class TieredStore final : public KvTier {
 public:
  TieredStore(std::vector<TierFacts> tiers, const TieredStoreOptions& options);

  std::optional<std::int64_t> swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                       std::int64_t pieces) override;
  /// Throws std::logic_error for what was never swapped out.
  std::int64_t swap_in(std::int64_t key, std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) override;
  void drop(std::int64_t key) override;
  bool overlaps() const override { return options_.overlap; }
  TierCounters counters() const override { return counters_; }

  bool keeps_turns() const override { return options_.turns; }
  std::optional<std::int64_t> keep_turn(std::int64_t key, std::int64_t session, const Text& text, std::int64_t tokens,
                                        std::int64_t blocks, std::int64_t pieces) override;
  std::int64_t claim_turn(std::int64_t key, std::int64_t session, const Text& text, std::int64_t most) override;

  bool takes_prefixes() const override { return options_.prefixes; }
  void at(Picoseconds time) override { clock_ = time; }
  void keep_block(std::uint64_t hash) override;
  bool has_block(std::uint64_t hash) const override;
  void pin_block(std::uint64_t hash) override;
  std::int64_t load_blocks(std::span<const std::uint64_t> hashes, std::int64_t block_tokens, bool first) override;

  /// Bytes in tier `i`.
  std::int64_t used_bytes(std::size_t i) const { return used_[i]; }

 private:
  enum class Kind : std::uint8_t { request, turn, block };
  struct Key {
    Kind kind = Kind::request;
    std::uint64_t id = 0;
    friend constexpr auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    std::int64_t tokens = 0, blocks = 0;
    std::int64_t used = 0;  // when last
    std::size_t tier = 0;
    std::int32_t awaited = 0;  // by so many who are going to copy it back
    Picoseconds ready = 0;     // of a block: when it is all here
    Text text;                 // of a turn
  };
  static Key of_request(std::int64_t key) { return {Kind::request, static_cast<std::uint64_t>(key)}; }
  static Key of_turn(std::int64_t session) { return {Kind::turn, static_cast<std::uint64_t>(session)}; }
  static Key of_block(std::uint64_t hash) { return {Kind::block, hash}; }
  std::int64_t bytes(const Entry& entry) const { return entry.blocks * options_.block_bytes; }
  std::int64_t copy(std::size_t tier, std::int64_t bytes, std::int64_t pieces);
  bool make_room(std::size_t tier, std::int64_t needed);
  bool place(const Key& key, Entry entry);
  void touch(const Key& key, Entry& entry);
  void rename(const Key& from, const Key& to);
  void erase(const Key& key);

  std::vector<TierFacts> tiers_;
  TieredStoreOptions options_;
  std::map<Key, Entry> entries_;
  std::vector<std::map<std::int64_t, Key>> by_use_;  // of each tier: key by last use
  std::vector<std::int64_t> used_;
  std::int64_t now_ = 0;
  Picoseconds clock_ = 0, out_free_ = 0;  // of copies of blocks
  TierCounters counters_;
};

}  // namespace orrery::policies
