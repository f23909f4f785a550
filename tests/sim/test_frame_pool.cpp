#include "sim/frame_pool.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"

namespace test_frame_pool {

using namespace orrery::sim;

TEST_CASE("frames of all sizes come back", "[prop][process]") {
  FramePool* const pool = FramePool::make();
  RandomStream random(3, "frames");
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (int i = 0; i < 20'000; ++i) {
    if (random.below(2) == 0 || blocks.empty()) {
      const std::size_t bytes = 8 + random.below(random.below(50) == 0 ? 300'000 : 2000);
      void* const block = pool->allocate(bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
      std::fill_n(static_cast<unsigned char*>(block), bytes, static_cast<unsigned char>(0xA5));
      blocks.emplace_back(block, bytes);
    } else {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      pool->release(blocks.back().first, blocks.back().second);
      blocks.pop_back();
    }
    REQUIRE(pool->live() == blocks.size());
  }
  pool->orphan();
  for (const auto& [block, bytes] : blocks) pool->release(block, bytes);  // the last one ends the pool
}

TEST_CASE("a block goes back to the list of its size, and is the next of that size", "[unit][process]") {
  FramePool* const pool = FramePool::make();
  CHECK(pool->live() == 0);
  CHECK(pool->reserved() == 0);
  void* const small = pool->allocate(64);
  CHECK(pool->reserved() == 64 << 10);  // the first chunk
  void* const next = pool->allocate(65);
  CHECK(static_cast<char*>(next) - static_cast<char*>(small) == 64);  // one behind the other
  void* const third = pool->allocate(1);
  CHECK(static_cast<char*>(third) - static_cast<char*>(next) == 128);  // two lines for 65 bytes
  pool->release(small, 64);
  pool->release(third, 1);
  CHECK(pool->live() == 1);
  CHECK(pool->allocate(33) == third);  // the last that came back goes first
  CHECK(pool->allocate(64) == small);
  pool->release(next, 65);
  CHECK(pool->allocate(128) == next);
  // Past 1 KiB sizes are powers of two.
  void* const large = pool->allocate(1025);
  pool->release(large, 1025);
  CHECK(pool->allocate(2048) == large);
  void* const fine = pool->allocate(1024);
  CHECK(fine != large);
  CHECK(pool->live() == 5);
  CHECK(pool->reserved() == 64 << 10);
  // More than a quarter of a chunk stands alone, and leaves the current one as it is.
  void* const alone = pool->allocate(64 << 10);
  CHECK(pool->reserved() == (64 + 64) << 10);
  void* const behind = pool->allocate(1024);
  CHECK(static_cast<char*>(behind) - static_cast<char*>(fine) == 1024);
  for (const auto& [block, bytes] : std::vector<std::pair<void*, std::size_t>>{
           {small, 64}, {next, 65}, {third, 1}, {large, 2048}, {fine, 1024}, {behind, 1024}})
    pool->release(block, bytes);
  CHECK(pool->live() == 1);
  pool->orphan();
  pool->release(alone, 64 << 10);
}

TEST_CASE("chunks grow with the pool", "[unit][process]") {
  FramePool* const pool = FramePool::make();
  std::vector<void*> blocks;
  std::vector<std::size_t> grown;
  while (grown.size() < 4) {
    const std::size_t before = pool->reserved();
    blocks.push_back(pool->allocate(1024));
    if (pool->reserved() != before) grown.push_back((pool->reserved() - before) >> 10);
  }
  CHECK(grown == std::vector<std::size_t>{64, 64, 128, 256});  // each as large as all before
  CHECK(blocks.size() == 64 + 64 + 128 + 1);
  for (void* const block : blocks) pool->release(block, 1024);
  pool->orphan();
}

}  // namespace test_frame_pool
