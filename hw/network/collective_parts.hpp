// What the collective algorithms share: their parameters and constructors, cutting buffers, and holding early messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "hw/network/collective.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

struct RingParams {
  std::int64_t channels = 1;
  std::int64_t chunks = 1;
  std::optional<std::int64_t> chunk_bytes;
  bool bidirectional = false;
  static sim::FieldRows<RingParams> fields();
};

struct DoubleTreeParams {
  std::int64_t chunks = 8;
  std::optional<std::int64_t> chunk_bytes;
  static sim::FieldRows<DoubleTreeParams> fields();
};

struct DirectParams {
  bool staggered = true;
  std::int64_t window = 0;
  static sim::FieldRows<DirectParams> fields();
};

/// Algorithm of one level of `hierarchical`.
enum class LevelAlgorithm : std::uint8_t { ring, direct, halving_doubling };
constexpr auto enum_names(LevelAlgorithm) {
  using enum LevelAlgorithm;
  return sim::names<LevelAlgorithm>({{"ring", ring}, {"direct", direct}, {"halving_doubling", halving_doubling}});
}

struct HierarchicalParams {
  LevelAlgorithm inside = LevelAlgorithm::ring;
  LevelAlgorithm across = LevelAlgorithm::ring;
  RingParams ring;
  DirectParams direct;
  static sim::FieldRows<HierarchicalParams> fields();
};

struct InNetworkParams {
  std::int64_t chunks = 8;
  std::optional<std::int64_t> chunk_bytes;
  static sim::FieldRows<InNetworkParams> fields();
};

std::unique_ptr<CollectiveSchedule> make_ring(const RingParams& params, const CollectiveSpec& spec);
std::unique_ptr<CollectiveSchedule> make_double_tree(const DoubleTreeParams& params, const CollectiveSpec& spec);
std::unique_ptr<CollectiveSchedule> make_halving_doubling(const CollectiveSpec& spec);
std::unique_ptr<CollectiveSchedule> make_direct(const DirectParams& params, const CollectiveSpec& spec);
std::unique_ptr<CollectiveSchedule> make_hierarchical(const HierarchicalParams& params, const CollectiveSpec& spec);
std::unique_ptr<CollectiveSchedule> make_in_network(const InNetworkParams& params, const CollectiveSpec& spec);

/// Throws ConfigError with every fault of the spec, for the algorithm of that name.
void check_spec(std::string_view algorithm, const CollectiveSpec& spec);

/// Position of part `i` when `bytes` are cut into `parts` that differ by one byte at most; i may be `parts`.
constexpr std::int64_t part_first(std::int64_t bytes, std::int64_t parts, std::int64_t i) {
  return bytes / parts * i + std::min(i, bytes % parts);
}
constexpr std::int64_t part_bytes(std::int64_t bytes, std::int64_t parts, std::int64_t i) {
  return bytes / parts + (i < bytes % parts ? 1 : 0);
}
/// How many of the parts are not empty: the first ones.
constexpr std::int64_t parts_used(std::int64_t bytes, std::int64_t parts) {
  return std::min(bytes, parts);
}
/// Number of chunks for at most `bytes` in one piece: at least `chunks`, more where `chunk_bytes` asks for it. Throws
/// ConfigError where that is more than `limit`, which is 0 where not even one would do.
std::int64_t chunk_count(std::int64_t bytes, std::int64_t chunks, const std::optional<std::int64_t>& chunk_bytes,
                         std::int64_t limit, const sim::Origin& where);

/// A buffer cut into a shard a rank.
class Shards {
 public:
  Shards(std::int64_t bytes, std::int64_t parts);
  explicit Shards(const std::vector<std::int64_t>& sizes);
  /// By the spec: given sizes, or even ones.
  static Shards of(const CollectiveSpec& spec);

  std::int64_t size() const { return static_cast<std::int64_t>(first_.size()) - 1; }
  std::int64_t first(std::size_t i) const { return first_[i]; }
  std::int64_t bytes(std::size_t i) const { return first_[i + 1] - first_[i]; }
  std::int64_t largest() const;
  std::int64_t smallest() const;

 private:
  std::vector<std::int64_t> first_;
};

/// Messages that arrived before their receiver takes part, in order of arrival. Memory is used again.
class HeldMessages {
 public:
  explicit HeldMessages(std::size_t members) : last_(members, kNone) {}

  void hold(const Message& message) {
    std::uint32_t index = free_;
    if (index == kNone) {
      index = static_cast<std::uint32_t>(held_.size());
      held_.emplace_back();
    } else {
      free_ = held_[index].next;
    }
    std::uint32_t& last = last_[message.to];
    held_[index] = {message, last == kNone ? index : held_[last].next};
    if (last != kNone) held_[last].next = index;
    last = index;
  }

  /// Calls `visit` with every message held for `member`, oldest first, and forgets them.
  template <class Visit>
  void release(Member member, Visit visit) {
    const std::uint32_t last = std::exchange(last_[member], kNone);
    if (last == kNone) return;
    for (std::uint32_t index = held_[last].next;;) {
      const Held held = held_[index];
      held_[index].next = std::exchange(free_, index);
      visit(held.message);
      if (index == last) return;
      index = held.next;
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Held {
    Message message;
    std::uint32_t next = 0;  // a circle: the last one's next is the first
  };
  std::vector<std::uint32_t> last_;  // of each member
  std::vector<Held> held_;
  std::uint32_t free_ = kNone;
};

}  // namespace orrery::hw
