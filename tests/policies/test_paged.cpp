#include "tests/policies/view.hpp"

#include "sim/base/random.hpp"

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("blocks are counted up, whole, and given back", "[unit]") {
  const auto kv = paged_cache(10);
  CHECK(kv->total_blocks() == 10);
  CHECK(kv->blocks_for(1) == 1);
  CHECK(kv->blocks_for(16) == 1);
  CHECK(kv->blocks_for(17) == 2);
  REQUIRE(kv->reserve({3}, 33));  // 3 blocks
  CHECK(kv->free_blocks() == 7);
  CHECK(kv->capacity({3}) == 48);
  CHECK(kv->used_bytes() == 48);
  REQUIRE(kv->reserve({3}, 48));  // fits what it has
  CHECK(kv->free_blocks() == 7);
  REQUIRE(kv->reserve({3}, 49));
  CHECK(kv->held_blocks({3}) == 4);
  kv->release({3});
  CHECK(kv->free_blocks() == 10);
  kv->release({3});  // nothing left to give back
  kv->release({99});
  CHECK(kv->free_blocks() == 10);
}

TEST_CASE("a reservation that does not fit changes nothing", "[unit]") {
  const auto kv = paged_cache(4);
  REQUIRE(kv->reserve({0}, 32));
  CHECK_FALSE(kv->reserve({1}, 48));
  CHECK(kv->free_blocks() == 2);
  CHECK(kv->held_blocks({1}) == 0);
  CHECK(kv->can_allocate(32));
  CHECK_FALSE(kv->can_allocate(32, 1));  // one block must stay free
}

TEST_CASE("bytes that hold no block make an empty cache", "[unit]") {
  KvCacheRegistry registry("kvcache");
  register_kv_caches(registry);
  sim::Faults faults;
  const auto make = [&](KvGeometry geometry) {
    return registry.prepare("paged", nullptr, {}, faults).make(geometry)->total_blocks();
  };
  CHECK(make({.bytes_per_token = 10, .bytes_available = 159}) == 0);
  CHECK(make({.bytes_per_token = 10, .bytes_available = 160}) == 1);
  CHECK(make({.bytes_per_token = 10, .bytes_available = -5}) == 0);
}

TEST_CASE("blocks are conserved whatever happens", "[prop]") {
  sim::RandomStream random(1, "paged");
  const auto kv = paged_cache(200);
  std::vector<std::int64_t> held(40);
  for (int step = 0; step < 20'000; ++step) {
    const SeqId id{static_cast<std::uint32_t>(random.below(held.size()))};
    if (random.below(3) == 0) {
      kv->release(id);
      held[id.index] = 0;
    } else {
      const auto tokens = static_cast<std::int64_t>(random.below(300));
      if (kv->reserve(id, tokens)) held[id.index] = std::max(held[id.index], (tokens + 15) / 16);
    }
    std::int64_t sum = 0;
    for (const std::int64_t blocks : held) sum += blocks;
    REQUIRE(kv->free_blocks() == 200 - sum);
  }
}
