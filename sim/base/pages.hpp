// Storage for large arrays that are touched at random: aligned to cache lines, on huge pages where the system has them.
//
// A heap of a million events touches a page per level; with 4 KiB pages the translation misses cost more than the data.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace orrery::sim {

/// Allocator for std::vector: 64-byte alignment; blocks of 2 MiB and more are aligned to, and advised to use, huge
/// pages.
template <class T>
struct PageAllocator {
  using value_type = T;
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kHuge = std::size_t{2} << 20;

  PageAllocator() = default;
  template <class U>
  explicit PageAllocator(const PageAllocator<U>&) {}

  T* allocate(std::size_t n) {
    const std::size_t align = n * sizeof(T) >= kHuge ? kHuge : kLine;
    const std::size_t bytes = (n * sizeof(T) + align - 1) / align * align;
    void* const block = std::aligned_alloc(align, bytes);
    if (block == nullptr) throw std::bad_alloc();
#ifdef __linux__
    if (align == kHuge) (void)madvise(block, bytes, MADV_HUGEPAGE);  // advice: a refusal changes nothing but speed
#endif
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t) noexcept {
    std::free(block);
  }

  friend bool operator==(const PageAllocator&, const PageAllocator&) {
    return true;
  }
};

}  // namespace orrery::sim
