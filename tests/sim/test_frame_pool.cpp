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

}  // namespace test_frame_pool
