// KV on its way between a replica and its tiers: who waits for which copy, and for how long.
#include "experiments/systems/serving/replica/tier_copies.hpp"
#include "tests/serving/replica_parts.hpp"

namespace test_tier_copies {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::SeqId;

namespace {

using Told = std::vector<std::string>;

struct Copies : Workbench {
  explicit Copies(const std::function<void(Copies&)>& set_up) : Workbench(100, 16) {
    set_up(*this);
    if (with_tier) parts.tier = &tier;
    books.emplace(parts);
    copies.emplace(table, *books, time, parts);
  }
  Copies() : Copies([](Copies&) {}) {}

  std::int64_t stalls() const { return static_cast<std::int64_t>(books->counts().swap_stall_ps); }
  /// A turn of session 9 that says something.
  SeqId turn() {
    const SeqId id = decode(100, 50);
    Request& request = table.request(id);
    request.session = 9;
    request.text = {{3, 100}};
    table[id].text = &request.text;
    return id;
  }
  /// Copies off the device of 2 blocks each.
  void swap_out(int count) {
    for (int i = 0; i < count; ++i) copies->swap_out(decode(32, 50), 32);
  }
  /// What await_room() adds to the stall.
  std::int64_t room(std::int64_t unused) {
    time.stall_ps = 0;
    copies->await_room(unused);
    return time.stall_ps;
  }

  ToldTier tier;
  bool with_tier = true;
  DeviceTime time;
  std::optional<Books> books;
  std::optional<TierCopies> copies;
};

void beside(Copies& c) {
  c.tier.beside = true;
}
void turns(Copies& c) {
  c.tier.turns = true;
}
void prefixes(Copies& c) {
  c.tier.prefixes = c.kv->hands_on = true;
}

}  // namespace

TEST_CASE("without a tier nothing is copied", "[unit]") {
  Copies c([](Copies& set) { set.with_tier = false; });
  const SeqId id = c.turn();
  c.copies->claim_turn(id);
  c.copies->keep_turn(id);
  c.copies->swap_out(id, 100);
  c.table.account(id).stored = true;
  c.table[id].ready_tokens = 50;
  CHECK_FALSE(c.copies->load(id, 0, true));
  c.copies->drop(c.requests[0]);
  CHECK_FALSE(c.copies->hands_on());
  CHECK(c.copies->idle());
  CHECK(c.time.stall_ps == 0);
}

TEST_CASE("a turn claims what the tier has of its conversation, all but a token of it", "[unit]") {
  Copies c(turns);
  c.tier.kept = 60;
  const SeqId id = c.turn();
  c.copies->claim_turn(id);
  CHECK(c.tier.told() == Told{"claim 0 9 99"});
  CHECK(c.table[id].ready_tokens == 60);
  CHECK(c.table.account(id).stored);
  // One that brings KV along asks for none.
  c.copies->claim_turn(id);
  CHECK(c.tier.told().empty());
  c.tier.kept = 0;
  const SeqId other = c.turn();
  c.copies->claim_turn(other);
  CHECK(c.table[other].ready_tokens == 0);
  CHECK_FALSE(c.table.account(other).stored);
}

TEST_CASE("only turns of a session that say something, by one branch, are claimed and kept", "[unit]") {
  Copies c(turns);
  c.tier.kept = 60;
  const auto asked = [&](const std::function<void(SeqId)>& change) {
    const SeqId id = c.turn();
    change(id);
    c.copies->claim_turn(id);
    c.copies->keep_turn(id);
    return c.tier.told().size();
  };
  CHECK(asked([](SeqId) {}) == 2);
  CHECK(asked([&](SeqId id) { c.table.request(id).session = -1; }) == 0);
  CHECK(asked([&](SeqId id) { c.table.request(id).session = 0; }) == 2);
  CHECK(asked([&](SeqId id) { c.table[id].text = nullptr; }) == 0);
  CHECK(asked([&](SeqId id) { c.table[id].branches = 2; }) == 0);
  CHECK(asked([&](SeqId) { c.tier.turns = false; }) == 0);
}

TEST_CASE("a turn that ends is copied as it lies, and the next iteration waits", "[unit]") {
  Copies c(turns);
  const SeqId id = c.turn();  // 100 tokens in 7 blocks, which lie in 4 pieces
  c.copies->keep_turn(id);
  CHECK(c.tier.told() == Told{"keep 0 9 100 7 4"});
  CHECK(c.time.stall_ps == 700);
  CHECK(c.stalls() == 700);
  CHECK(c.copies->idle());
  c.tier.room = false;
  c.copies->keep_turn(id);
  CHECK(c.time.stall_ps == 700);
}

TEST_CASE("a swapped sequence comes back with what was copied, or with nothing", "[unit]") {
  Copies c;
  const SeqId id = c.decode(100, 50);
  c.copies->swap_out(id, 0);
  CHECK(c.tier.told().empty());
  c.tier.room = false;
  c.copies->swap_out(id, 100);
  CHECK(c.tier.told() == Told{"out 0 100 7 4"});
  CHECK(c.table[id].ready_tokens == 0);
  CHECK_FALSE(c.table.account(id).stored);
  c.tier.room = true;
  c.copies->swap_out(id, 1);
  CHECK(c.table[id].ready_tokens == 1);
  c.copies->swap_out(id, 100);
  CHECK(c.table[id].ready_tokens == 99);  // a token of the 100 is prefilled again
  CHECK(c.table.account(id).stored);
  CHECK(c.time.stall_ps == 1400);
  CHECK(c.copies->idle());
  c.copies->drop(c.requests[0]);
  CHECK(c.tier.told() == Told{"out 0 1 7 4", "out 0 100 7 4", "drop 0"});
}

TEST_CASE("what is stored and not found in the cache is loaded before the next iteration", "[unit]") {
  Copies c;
  const SeqId id = c.decode(100, 50);
  c.table[id].ready_tokens = 80;
  CHECK_FALSE(c.copies->load(id, 30, true));
  CHECK(c.tier.told().empty());  // it came with its KV from elsewhere
  c.table.account(id).stored = true;
  CHECK_FALSE(c.copies->load(id, 80, true));
  CHECK(c.tier.told().empty());
  CHECK_FALSE(c.copies->load(id, 79, true));
  CHECK_FALSE(c.copies->load(id, 0, true));
  // 1 token is a block in one piece, 80 are 5 blocks in 4.
  CHECK(c.tier.told() == Told{"in 0 1 1 1", "in 0 80 5 4"});
  CHECK(c.time.stall_ps == 600);
  CHECK(c.stalls() == 600);
  CHECK(c.kv->computed_to.empty());
  CHECK_FALSE(c.copies->loading());
}

TEST_CASE("blocks of prefixes are loaded too, and at the first admission were not on the device", "[unit]") {
  Copies c(prefixes);
  CHECK(c.copies->hands_on());
  c.kv->hashes = {11, 12, 13};
  const SeqId id = c.decode(100, 50);
  c.table[id].prefilled = 70;
  CHECK_FALSE(c.copies->load(id, 48, true));
  CHECK(c.tier.told() == Told{"first load 3 16"});
  CHECK(c.books->counts().device_tokens == -48);
  CHECK(c.time.stall_ps == 300);
  CHECK(c.kv->computed_to == std::vector<std::int64_t>{70});
  c.table.account(id).stored = true;
  c.table[id].ready_tokens = 96;
  CHECK_FALSE(c.copies->load(id, 48, false));
  CHECK(c.tier.told() == Told{"load 3 16", "in 0 48 3 3"});
  CHECK(c.books->counts().device_tokens == -48);
  CHECK(c.time.stall_ps == 300 + 600);
  c.time.at = {7, 0};
  c.copies->tell_time({9, 0});
  CHECK(c.tier.told() == Told{"at 9"});
  c.kv->hashes.clear();
  CHECK_FALSE(c.copies->load(id, 96, false));
  CHECK(c.kv->computed_to.size() == 2);
}

TEST_CASE("a tier that the cache gives nothing to is not told the time", "[unit]") {
  Copies tier_only([](Copies& c) { c.tier.prefixes = true; });
  CHECK_FALSE(tier_only.copies->hands_on());
  tier_only.copies->tell_time({9, 0});
  CHECK(tier_only.tier.told().empty());
  Copies cache_only([](Copies& c) { c.kv->hands_on = true; });
  CHECK_FALSE(cache_only.copies->hands_on());
}

TEST_CASE("copies beside iterations take the link one after the other, each direction by itself", "[unit]") {
  Copies c(beside);
  c.time.at = {1000, 0};
  const SeqId a = c.decode(32, 50), b = c.decode(48, 50);
  for (const SeqId id : {a, b}) {
    c.table[id].ready_tokens = c.table[id].kv_then - 1;
    c.table.account(id).stored = true;
  }
  CHECK(c.copies->idle());
  CHECK(c.copies->load(a, 0, true));  // 2 blocks: until 1200
  CHECK(c.copies->load(b, 0, true));  // 3 more: until 1500
  CHECK(c.time.stall_ps == 0);
  CHECK(c.copies->loading());
  CHECK_FALSE(c.copies->idle());
  CHECK(c.copies->first_loaded() == ExactTime{1200, 0});
  c.copies->swap_out(b, 48);  // off the device, the link is free: until 1300
  c.time.at = {1199, 0};
  CHECK_FALSE(c.copies->loaded());
  c.time.at = {1200, 0};
  CHECK(c.copies->loaded() == a);
  CHECK_FALSE(c.copies->loaded());
  CHECK(c.copies->first_loaded() == ExactTime{1500, 0});
  CHECK(c.room(0) == 0);  // 3 blocks are outbound, as many as the one on its way back lacks
  c.copies->await_load();
  CHECK(c.time.at == ExactTime{1500, 0});
  CHECK(c.stalls() == 300);
  c.copies->await_load();
  CHECK(c.stalls() == 300);
  CHECK(c.copies->loaded() == b);
  CHECK_FALSE(c.copies->loading());
}

TEST_CASE("a sequence comes back once it has gone, and a turn once the one before it has", "[unit]") {
  Copies c([](Copies& set) {
    beside(set);
    turns(set);
  });
  const SeqId swapped = c.decode(32, 50), next_turn = c.decode(32, 50), other = c.decode(32, 50);
  c.copies->swap_out(swapped, 32);  // until 200
  CHECK(c.copies->load(swapped, 0, false));
  CHECK(c.copies->first_loaded() == ExactTime{400, 0});
  c.time.at = {400, 0};
  REQUIRE(c.copies->loaded() == swapped);

  c.copies->keep_turn(c.turn());  // 7 blocks: until 1100
  c.table[other].ready_tokens = 20;
  CHECK_FALSE(c.copies->load(other, 0, true));  // nothing of it is stored
  c.table[next_turn].ready_tokens = 20;
  c.table.account(next_turn).stored = true;
  CHECK(c.copies->load(next_turn, 0, true));
  CHECK(c.copies->first_loaded() == ExactTime{1300, 0});
}

TEST_CASE("copies back wait for the blocks that others are still being read from", "[unit]") {
  Copies c(beside);
  c.swap_out(3);  // 2 blocks each: until 200, 400, 600
  const SeqId id = c.decode(64, 50);
  c.table[id].ready_tokens = 63;
  c.table.account(id).stored = true;
  c.kv->used = 100 - 3;  // 6 blocks are on their way, 3 are free: two of the copies have to be through
  CHECK(c.copies->load(id, 0, false));
  CHECK(c.copies->first_loaded() == ExactTime{400 + 400, 0});
}

TEST_CASE("an iteration waits until what it writes to has been read", "[unit]") {
  Copies c(beside);
  CHECK(c.room(0) == 0);
  c.swap_out(3);  // 2 blocks each: until 200, 400, 600
  std::vector<std::int64_t> stalls;
  for (std::int64_t unused = 7; unused >= 0; --unused) stalls.push_back(c.room(unused));
  CHECK(stalls == std::vector<std::int64_t>{0, 0, 200, 200, 400, 400, 600, 600});
  CHECK(c.stalls() == 2 * (200 + 400 + 600));
  c.time.at = {199, 0};
  CHECK(c.room(4) == 1);
  c.time.at = {200, 0};
  CHECK(c.room(4) == 0);
  CHECK(c.room(3) == 200);
  // A copy that begins when the link has been idle takes its time from there.
  c.time.at = {1000, 0};
  CHECK(c.room(0) == 0);
  CHECK(c.copies->idle());
  c.swap_out(1);
  CHECK(c.room(0) == 200);
  c.copies->clear();
  CHECK(c.copies->idle());
  CHECK(c.room(0) == 0);
}

TEST_CASE("a sequence that decoded goes on decoding when it is back, one that prefilled goes on with that", "[unit]") {
  Copies c(beside);
  const auto back = [&](std::int64_t generated, std::int64_t prefilled) {
    const SeqId id = c.decode(32, 50);
    policies::Sequence& seq = c.table[id];
    seq.ready_tokens = 20;
    c.table.account(id).stored = true;
    seq.generated_then = generated;
    seq.prefilled = prefilled;
    CHECK(c.copies->load(id, 0, false));
    c.copies->await_load();
    REQUIRE(c.copies->loaded() == id);
    return seq.prefilled;
  };
  CHECK(back(4, 31) == 32);
  CHECK(back(4, 30) == 30);
  CHECK(back(1, 31) == 32);
  CHECK(back(0, 31) == 31);
  CHECK(c.kv->computed_to.empty());
}

TEST_CASE("what a prefix cache is told of a sequence comes when its copy is through", "[unit]") {
  Copies c([](Copies& set) {
    beside(set);
    prefixes(set);
  });
  c.kv->hashes = {1, 2};
  const SeqId id = c.decode(64, 50);
  c.table[id].prefilled = 32;
  CHECK(c.copies->load(id, 32, true));
  CHECK(c.kv->computed_to.empty());
  c.copies->await_load();
  REQUIRE(c.copies->loaded() == id);
  CHECK(c.kv->computed_to == std::vector<std::int64_t>{32});
}

TEST_CASE("time that goes on without iterations takes from what devices wait for", "[unit]") {
  Copies c;
  c.copies->swap_out(c.decode(32, 50), 32);
  c.time.at = {100, 0};
  c.copies->move_on({150, 0});
  CHECK(c.time.at == ExactTime{150, 0});
  CHECK(c.time.stall_ps == 150);
  CHECK(c.stalls() == 150);
  c.copies->move_on({1000, 0});
  CHECK(c.time.stall_ps == 0);
  CHECK(c.stalls() == 0);
  CHECK(c.time.at == ExactTime{1000, 0});
}

TEST_CASE("books: tokens that leave the last layer count, peaks are kept, cut iterations cost their part", "[unit]") {
  Workbench bench;
  bench.model.cost_ps = [](const BatchShape& shape) { return 10 * shape.sequences; };
  Books books(bench.parts);
  CHECK_FALSE(books.observed());
  CHECK_FALSE(books.watched());
  BatchShape shape;
  shape.sequences = 3;
  shape.segments = {{.first = 0, .last = 16, .tokens = 100}, {.first = 16, .last = 32, .tokens = 7}};
  books.iterations(shape, 4);
  books.iterations(shape, 1);
  CHECK(books.counts().iterations == 5);
  CHECK(bench.metrics.iterations == 5);
  CHECK(books.counts().processed_tokens == 35);
  CHECK(bench.metrics.processed_tokens == 35);
  CHECK(static_cast<std::int64_t>(books.cost().time_ps) == 150);
  books.cut(shape, 2, 3);
  CHECK(static_cast<std::int64_t>(books.cost().time_ps) == 150 + 20);
  books.busy(8);
  books.busy(9);
  CHECK(static_cast<std::int64_t>(books.counts().busy_ps) == 17);
  CHECK(static_cast<std::int64_t>(bench.metrics.busy_ps) == 17);
  bench.metrics.kv_peak_bytes = 50;  // of another replica
  books.kv_used(30);
  CHECK(books.counts().kv_peak_bytes == 30);
  CHECK(bench.metrics.kv_peak_bytes == 50);
  books.kv_used(70);
  books.kv_used(60);
  CHECK(books.counts().kv_peak_bytes == 70);
  CHECK(bench.metrics.kv_peak_bytes == 70);
}

}  // namespace test_tier_copies
