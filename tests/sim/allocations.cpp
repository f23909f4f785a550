#include "allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> count{0};
}

std::int64_t orrery::test::allocations() {
  return count.load();
}

// The address sanitizer has an allocator of its own; nothing is counted there.
#ifndef __SANITIZE_ADDRESS__
void* operator new(std::size_t bytes) {
  ++count;
  if (void* const block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
#endif
