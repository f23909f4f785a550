#include "tests/policies/view.hpp"

#include "sim/base/random.hpp"

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {
const Sequence one;  // a sequence of one branch
}

TEST_CASE("blocks are counted up, whole, and given back", "[unit]") {
  const auto kv = paged_cache(10);
  CHECK(kv->total_blocks() == 10);
  CHECK(kv->blocks_for(1) == 1);
  CHECK(kv->blocks_for(16) == 1);
  CHECK(kv->blocks_for(17) == 2);
  REQUIRE(kv->reserve({3}, one, 33));  // 3 blocks
  CHECK(kv->free_blocks() == 7);
  CHECK(kv->capacity({3}, one) == 48);
  CHECK(kv->used_bytes() == 48);
  REQUIRE(kv->reserve({3}, one, 48));  // fits what it has
  CHECK(kv->free_blocks() == 7);
  REQUIRE(kv->reserve({3}, one, 49));
  CHECK(kv->held_blocks({3}) == 4);
  kv->release({3}, one, 0, Leave::keep);
  CHECK(kv->free_blocks() == 10);
  kv->release({3}, one, 0, Leave::keep);  // nothing left to give back
  kv->release({99}, one, 0, Leave::keep);
  CHECK(kv->free_blocks() == 10);
}

TEST_CASE("a reservation that does not fit changes nothing", "[unit]") {
  const auto kv = paged_cache(4);
  REQUIRE(kv->reserve({0}, one, 32));
  CHECK_FALSE(kv->reserve({1}, one, 48));
  CHECK(kv->free_blocks() == 2);
  CHECK(kv->held_blocks({1}) == 0);
  CHECK(kv->blocks_to_admit(one, 32) == kv->available_blocks());
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
      kv->release(id, one, 0, Leave::keep);
      held[id.index] = 0;
    } else {
      const auto tokens = static_cast<std::int64_t>(random.below(300));
      if (kv->reserve(id, one, tokens)) held[id.index] = std::max(held[id.index], (tokens + 15) / 16);
    }
    std::int64_t sum = 0;
    for (const std::int64_t blocks : held) sum += blocks;
    REQUIRE(kv->free_blocks() == 200 - sum);
  }
}

TEST_CASE("blocks taken for all decodes belong to one when it leaves them", "[unit]") {
  const auto kv = paged_cache(10);
  REQUIRE(kv->reserve({0}, one, 16));
  REQUIRE(kv->reserve({1}, one, 20));
  // 20 steps: the first needs blocks at tokens 17 and 33, the second at 33.
  kv->take(3);
  CHECK(kv->free_blocks() == 4);
  CHECK(kv->held_blocks({0}) == 1);
  kv->settle({0}, one, 36);
  CHECK(kv->held_blocks({0}) == 3);
  CHECK(kv->free_blocks() == 4);
  kv->release({0}, one, 36, Leave::keep);
  kv->settle({1}, one, 40);
  kv->release({1}, one, 40, Leave::drop);
  CHECK(kv->free_blocks() == 10);
  CHECK_THROWS_AS(kv->settle({1}, one, 16), std::logic_error);  // nobody took it
  CHECK_THROWS_AS(kv->take(11), std::logic_error);
}
