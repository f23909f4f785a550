// Orders of transactions: what a lock waits for, what an order costs, what no order is below.
#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

#include "policies/transaction_order/transaction_score.hpp"

namespace test_transaction_orders {

using namespace orrery;
using namespace orrery::policies;

namespace {

/// A transaction from "r0 - w1": a tick each, a digit names the key.
Transaction ticks(const std::string& text) {
  Transaction one;
  for (std::size_t at = 0; at < text.size(); ++one.length) {
    if (text[at] != '-')
      one.locks.push_back({static_cast<std::uint32_t>(text[at + 1] - '0'), one.length, text[at] == 'w'});
    at += text[at] == '-' ? 2 : 3;
  }
  return one;
}

std::vector<Transaction> drawn(sim::RandomStream& random, std::size_t count, std::uint32_t keys) {
  std::vector<Transaction> all(count);
  for (Transaction& one : all) {
    one.length = 2 + static_cast<std::int64_t>(random.below(6));
    for (std::int64_t tick = 0; tick < one.length; ++tick)
      if (random.uniform() < 0.7)
        one.locks.push_back({static_cast<std::uint32_t>(random.below(keys)), tick, random.uniform() < 0.5});
  }
  return all;
}

/// The order that a policy gives.
std::vector<std::uint32_t> order_of(const std::vector<Transaction>& all, std::size_t keys, const std::string& policy,
                                    const std::string& params = "{}") {
  TransactionOrderRegistry registry("transaction_order");
  register_transaction_orders(registry);
  const sim::Node node = sim::parse_json(params, "params.json");
  sim::Faults faults;
  const auto choice = registry.prepare(policy, &node, {}, faults);
  faults.throw_if_any();
  const auto made = choice.make(sim::RandomStream(1, "test"));
  std::vector<std::uint32_t> order;
  LockSchedule schedule(keys);
  Contention contention(all, keys);
  while (!contention.left().empty()) {
    const std::size_t place = made->next({all, schedule, contention});
    REQUIRE(place < contention.left().size());
    order.push_back(contention.take(place));
    schedule.append(all[order.back()]);
  }
  return order;
}

}  // namespace

TEST_CASE("transaction orders: reads meet, a write waits for both, a read waits for writes") {
  LockSchedule schedule(2);
  CHECK(schedule.append(ticks("r0 r1")) == 1);
  CHECK(schedule.append(ticks("r0 r1")) == 1);  // all reads
  // Key 1 was read at tick 2; its write is tick 0 of the transaction, so it starts at 3.
  CHECK(schedule.append(ticks("w1")) == 3);
  // Key 0 was read at tick 1 and key 1 written at 3: the write of 0 could be at 2, the read of 1, two ticks later,
  // at 4.
  CHECK(schedule.append(ticks("w0 - r1")) == 2);
  CHECK(schedule.makespan() == 4);
  CHECK(schedule.append(ticks("r1")) == 4);  // beside the other read
  CHECK(schedule.makespan() == 4);
}

TEST_CASE("transaction orders: no order is below the bound, and none above one after the other", "[prop]") {
  sim::RandomStream random(7, "orders");
  for (int round = 0; round < 12; ++round) {
    const std::vector<Transaction> all = drawn(random, 6, 4);
    std::vector<std::uint32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0U);
    std::int64_t serial = 0, least = INT64_MAX;
    for (const Transaction& one : all) serial += one.length;
    do {
      const std::int64_t makespan = makespan_of(all, order, 4);
      least = std::min(least, makespan);
      CHECK(makespan <= serial);
    } while (std::ranges::next_permutation(order).found);
    CHECK(least >= makespan_bound(all, 4));
    // The search by moves finds no order that is better than the best of all 720.
    const std::int64_t searched = makespan_of(all, order_of(all, 4, "local_search"), 4);
    CHECK(searched >= least);
    CHECK(searched <= makespan_of(all, order_of(all, 4, "shortest_makespan"), 4));
  }
}

TEST_CASE("transaction orders: every policy puts down each transaction once") {
  sim::RandomStream random(3, "orders");
  const std::vector<Transaction> all = drawn(random, 20, 8);
  for (const char* policy : {"sequential", "shortest_makespan", "expression", "least_delay", "local_search"}) {
    std::vector<std::uint32_t> order = order_of(all, 8, policy);
    std::ranges::sort(order);
    REQUIRE(order.size() == 20);
    for (std::uint32_t i = 0; i < 20; ++i) CHECK(order[i] == i);
  }
  std::vector<std::uint32_t> back = order_of(all, 8, "sequential", R"({"reversed": true})");
  CHECK(std::ranges::is_sorted(back, std::greater<>()));
}

TEST_CASE("transaction orders: the expression `added` is shortest makespan first, also of a sample of all") {
  sim::RandomStream random(5, "orders");
  for (int round = 0; round < 20; ++round) {
    const std::vector<Transaction> all = drawn(random, 15, 5);
    const auto greedy = order_of(all, 5, "shortest_makespan", R"({"from_first": false})");
    CHECK(greedy == order_of(all, 5, "expression"));
    CHECK(greedy == order_of(all, 5, "shortest_makespan", R"({"from_first": false, "sample": 15})"));
    CHECK(order_of(all, 5, "shortest_makespan").front() == 0);
  }
}

TEST_CASE("transaction orders: a delay is what a copy of the schedule says; least delay has the least", "[prop]") {
  sim::RandomStream random(11, "orders");
  for (int round = 0; round < 20; ++round) {
    const std::vector<Transaction> all = drawn(random, 12, 4);
    LockSchedule schedule(4);
    Contention contention(all, 4);
    for (const std::uint32_t next : order_of(all, 4, "least_delay")) {
      std::vector<std::int64_t> delays;
      for (const std::uint32_t one : contention.left()) {
        LockSchedule after = schedule;
        after.append(all[one]);
        std::int64_t delay = 0;
        for (const std::uint32_t other : contention.left())
          if (other != one) delay += after.start_of(all[other]) - schedule.start_of(all[other]);
        CHECK(contention.delay_of(one, schedule) == delay);
        delays.push_back(delay);
      }
      const auto place = std::ranges::min_element(delays) - delays.begin();
      CHECK(contention.left()[static_cast<std::size_t>(place)] == next);
      schedule.append(all[contention.take(static_cast<std::size_t>(place))]);
    }
    CHECK(order_of(all, 4, "least_delay") == order_of(all, 4, "expression", R"({"score": "delay"})"));
  }
}

TEST_CASE("transaction orders: a sample of one is a random order") {
  sim::RandomStream random(9, "orders");
  const std::vector<Transaction> all = drawn(random, 30, 5);
  const auto order = order_of(all, 5, "shortest_makespan", R"({"sample": 1, "from_first": false})");
  CHECK_FALSE(std::ranges::is_sorted(order));
}

TEST_CASE("transaction orders: the names of a score, by hand") {
  // Key 0 was written at tick 2 (start 1, tick 1). Left: A "w0 r1" and B "r0 - w1".
  const std::vector<Transaction> all{ticks("- w0"), ticks("w0 r1"), ticks("r0 - w1")};
  LockSchedule schedule(2);
  schedule.append(all[0]);
  // Locks left: on key 0 a write (A) and a read (B), on key 1 a read (A) and a write (B).
  Contention contention(all, 2);
  contention.take(0);
  const TransactionOrderView view{all, schedule, contention};
  const auto value = [&](const char* name, std::uint32_t index) {
    return TransactionScore(name)({view, index, schedule.start_of(all[index])});
  };
  // A starts at 3: its write of 0 follows tick 2 at once, its read of 1 at tick 4 follows nothing (3 idle ticks).
  CHECK(value("start", 1) == 3);
  CHECK(value("end", 1) == 4);
  CHECK(value("added", 1) == 2);  // 4 after 2
  CHECK(value("idle", 1) == 3);
  // The write of 0 holds up B's read, the read of 1 B's write.
  CHECK(value("demand", 1) == 2);
  CHECK(value("waste", 1) == 3);
  CHECK(value("length", 2) == 3);
  CHECK(value("locks", 2) == 2);
  CHECK(value("writes", 2) == 1);
  CHECK(value("left", 2) == 2);
  CHECK(value("order", 2) == 2);
  CHECK(value("makespan", 2) == 2);
  // B could start at 3 as well. After A, key 0 is written at 3 and key 1 read at 4: B's read is at 4 at the earliest,
  // its write, two ticks later, at 5. So it starts at 4: a tick later. After B (key 0 read at 3, key 1 written at 5) A
  // writes at 4 and reads at 6, so it starts at 5: two ticks later.
  CHECK(value("delay", 1) == 1);
  CHECK(value("delay", 2) == 2);
}

}  // namespace test_transaction_orders
