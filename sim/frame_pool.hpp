// Memory for the frames of coroutines: free lists by size, carved from large chunks.
//
// A simulation makes and ends millions of processes; the general allocator costs more than most of them do. Sizes are
// rounded up to cache lines (to powers of two past 1 KiB), and a block goes back to the list of its size. Every engine
// has a pool of its own, so simulations on different threads share nothing. Memory is returned when the pool goes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <vector>

#include "sim/base/pages.hpp"

namespace orrery::sim {

class FramePool {
 public:
  /// A pool on the heap. End it with orphan(), not delete: frames may outlive their engine.
  static FramePool* make() { return new FramePool; }
  /// No block is asked for again: the pool ends itself once the last block is back.
  void orphan();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// A block of `bytes`, aligned to a cache line. Throws std::bad_alloc.
  void* allocate(std::size_t bytes) {
    const std::size_t index = class_of(bytes);
    Free* const block = free_[index];
    if (block == nullptr) return carve(index);
    unpoison(block, class_bytes(index));
    free_[index] = block->next;
    ++live_;
    return block;
  }
  /// Gives back a block of allocate(bytes).
  void release(void* block, std::size_t bytes) noexcept {
    const std::size_t index = class_of(bytes);
    free_[index] = ::new (block) Free{free_[index]};
    poison(block, class_bytes(index));
    if (--live_ == 0 && orphaned_) delete this;
  }

  /// Blocks in use.
  std::size_t live() const { return live_; }
  /// Memory taken from the system so far, in bytes: constant in a steady state.
  std::size_t reserved() const { return reserved_; }

 private:
  struct Free {
    Free* next;
  };
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  struct Chunk {
    Line* start;
    std::size_t lines;
  };
  // Classes 0 … 15 are 1 … 16 cache lines; class 16 + i is 2^(11 + i) bytes.
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kFine = 16;
  static constexpr std::size_t kClasses = kFine + 40;
  static constexpr std::size_t kFirstChunk = std::size_t{64} << 10;

  FramePool() = default;
  ~FramePool();
  static std::size_t class_of(std::size_t bytes) {
    const std::size_t lines = (bytes + kLine - 1) / kLine;
    return lines <= kFine ? lines - 1 : kFine + static_cast<std::size_t>(std::bit_width(bytes - 1)) - 11;
  }
  static std::size_t class_bytes(std::size_t index) {
    return index < kFine ? (index + 1) * kLine : std::size_t{1} << (index - kFine + 11);
  }
  // A block that was given back is out of bounds for the address sanitizer, as freed memory is.
  static void poison(void* block, std::size_t bytes) noexcept;
  static void unpoison(void* block, std::size_t bytes) noexcept;
  void* carve(std::size_t index);
  Line* take_chunk(std::size_t lines);

  std::array<Free*, kClasses> free_{};
  Line* next_ = nullptr;
  std::size_t left_ = 0;  // lines after next_
  std::size_t live_ = 0;
  std::size_t reserved_ = 0;
  std::vector<Chunk> chunks_;
  bool orphaned_ = false;
};

#ifdef __SANITIZE_ADDRESS__
extern "C" void __asan_poison_memory_region(void const volatile*, std::size_t);
extern "C" void __asan_unpoison_memory_region(void const volatile*, std::size_t);
inline void FramePool::poison(void* block, std::size_t bytes) noexcept {
  __asan_poison_memory_region(block, bytes);
}
inline void FramePool::unpoison(void* block, std::size_t bytes) noexcept {
  __asan_unpoison_memory_region(block, bytes);
}
#else
inline void FramePool::poison(void*, std::size_t) noexcept {}
inline void FramePool::unpoison(void*, std::size_t) noexcept {}
#endif

}  // namespace orrery::sim
