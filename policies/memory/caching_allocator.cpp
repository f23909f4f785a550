#include "policies/memory/caching_allocator.hpp"

#include <algorithm>

#include "policies/memory/online.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::policies {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kUnit = 512;           // of every block
constexpr std::int64_t kSmallRequest = kMiB;  // at most: from small segments
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kOwnSegment = 10 * kMiB;  // from here on a request has a segment of its own
constexpr std::int64_t kSegment = 20 * kMiB;
constexpr std::int64_t kOwnUnit = 2 * kMiB;

}  // namespace

void CachingAllocator::put(Block block) {
  Piece& piece = pieces_[static_cast<std::size_t>(block)];
  piece.free = true;
  pool(piece).emplace(piece.bytes, piece.address, block);
}

void CachingAllocator::drop(Block block) {
  Piece& piece = pieces_[static_cast<std::size_t>(block)];
  piece.free = false;
  pool(piece).erase({piece.bytes, piece.address, block});
}

CachingAllocator::Block CachingAllocator::make(Piece piece) {
  if (unused_.empty()) {
    pieces_.push_back(piece);
    return static_cast<Block>(pieces_.size() - 1);
  }
  const Block block = unused_.back();
  unused_.pop_back();
  pieces_[static_cast<std::size_t>(block)] = piece;
  return block;
}

CachingAllocator::Block CachingAllocator::new_segment(std::int64_t bytes, bool small) {
  if (reserved_ > capacity_ - bytes) give_back();
  exceeded_ = exceeded_ || reserved_ > capacity_ - bytes;
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  const Block block = make({.address = next_address_, .bytes = bytes, .small = small});
  next_address_ += bytes;
  return block;
}

void CachingAllocator::give_back() {
  for (Free* all : {&small_, &large_})
    for (auto at = all->begin(); at != all->end();) {
      const Block block = std::get<2>(*at);
      const Piece& piece = pieces_[static_cast<std::size_t>(block)];
      if (piece.before >= 0 || piece.after >= 0) {
        ++at;
        continue;
      }
      reserved_ -= piece.bytes;
      unused_.push_back(block);
      at = all->erase(at);
    }
}

CachingAllocator::Block CachingAllocator::allocate(std::int64_t bytes) {
  const std::int64_t size = align_up(std::max<std::int64_t>(bytes, 1), kUnit);
  const bool small = size <= kSmallRequest;
  Free& free = small ? small_ : large_;
  Block block = -1;
  if (const auto fit = free.lower_bound({size, -1, -1}); fit != free.end()) {
    block = std::get<2>(*fit);
    drop(block);
  } else {
    block = new_segment(small ? kSmallSegment : size < kOwnSegment ? kSegment : align_up(size, kOwnUnit), small);
  }
  const std::int64_t left = pieces_[static_cast<std::size_t>(block)].bytes - size;
  if (small ? left >= kUnit : left > kSmallRequest) {
    Piece rest = pieces_[static_cast<std::size_t>(block)];
    rest.address += size;
    rest.bytes = left;
    rest.before = block;
    const Block other = make(rest);
    if (rest.after >= 0) pieces_[static_cast<std::size_t>(rest.after)].before = other;
    pieces_[static_cast<std::size_t>(block)].after = other;
    pieces_[static_cast<std::size_t>(block)].bytes = size;
    put(other);
  }
  allocated_ += pieces_[static_cast<std::size_t>(block)].bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return block;
}

void CachingAllocator::free(Block block) {
  Piece& piece = pieces_[static_cast<std::size_t>(block)];
  allocated_ -= piece.bytes;
  const auto join = [&](Block other, bool before) {
    if (other < 0 || !pieces_[static_cast<std::size_t>(other)].free) return;
    drop(other);
    const Piece& gone = pieces_[static_cast<std::size_t>(other)];
    piece.bytes += gone.bytes;
    if (before) {
      piece.address = gone.address;
      piece.before = gone.before;
      if (gone.before >= 0) pieces_[static_cast<std::size_t>(gone.before)].after = block;
    } else {
      piece.after = gone.after;
      if (gone.after >= 0) pieces_[static_cast<std::size_t>(gone.after)].before = block;
    }
    unused_.push_back(other);
  };
  join(piece.before, true);
  join(piece.after, false);
  put(block);
}

std::int64_t CachingAllocator::address(Block block) const {
  return pieces_[static_cast<std::size_t>(block)].address;
}

namespace {

class CachingPlanner final : public MemoryPlanner {
  std::vector<std::int64_t> place(std::span<const Buffer> buffers) const override {
    CachingAllocator allocator;
    std::vector<std::int64_t> offsets;
    using Ending = std::pair<std::int64_t, CachingAllocator::Block>;
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> live;
    for (const Buffer& buffer : buffers) {
      for (; !live.empty() && live.top().first <= buffer.begin; live.pop()) allocator.free(live.top().second);
      // Blocks begin at multiples of 512: what wants more has room to move up.
      const bool wide = kUnit % buffer.alignment != 0;
      const CachingAllocator::Block block = allocator.allocate(buffer.bytes + (wide ? buffer.alignment - 1 : 0));
      offsets.push_back(align_up(allocator.address(block), buffer.alignment));
      live.emplace(buffer.end, block);
    }
    return offsets;
  }
};

}  // namespace

void add_caching_allocator(MemoryPlannerRegistry& registry) {
  registry.add<sim::NoParams>("caching_allocator",
                              "In order of allocation, as PyTorch's caching allocator does: blocks of segments that "
                              "stay.",
                              [](const sim::NoParams&) { return std::make_unique<CachingPlanner>(); });
}

}  // namespace orrery::policies
