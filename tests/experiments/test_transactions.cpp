// The system `transactions`: files, drawn batches, makespans of published workloads, faults.
#include <catch2/catch.hpp>

#include "experiments/systems/transactions/batch.hpp"
#include "tests/experiments/support.hpp"
#include "tests/experiments/system_run.hpp"
#include "tests/measured.hpp"

namespace test_transactions {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

sim::Node run(const std::vector<std::string>& assignments = {}) {
  return summary_of(R"({"system": "transactions"})", assignments);
}
std::string fault(const std::vector<std::string>& assignments) {
  return faults_of_run([&] { return run(assignments); });
}

}  // namespace

TEST_CASE("transactions: makespans of the published workloads, to the tick", "[golden]") {
  // adrs_txn_oracle.csv: the evaluator of ADRS in the order of arrival, reversed, and greedy from the first.
  const std::filesystem::path data = ORRERY_SHARED_DIR "/data";
  if (!std::filesystem::exists(data / "systems/adrs_txn_oracle.csv")) {
    WARN("no reference data beside the checkout");
    return;
  }
  Predictions out;
  transaction_oracle_tables()->predict(MeasuredTable::read(data, "systems/adrs_txn_oracle.csv"), shelf(), out);
  REQUIRE(out.columns().size() == 1);
  CHECK(out.columns()[0].uncovered == 0);
  CHECK(out.columns()[0].rows.size() >= 9);
  for (const auto& row : out.columns()[0].rows) CHECK(row.predicted == row.measured);
}

TEST_CASE("transactions: a file, by hand") {
  const Scratch scratch;
  // Key 8 is written at tick 1 by a, at tick 2 by b, read by c at tick 3; c's first tick takes none.
  const auto file = scratch.write("batch.json", R"({"a": "w-8", "b": "w-8 *", "c": "* r-8"})");
  const sim::Node summary =
      run({"workload.file=\"" + file.string() + "\"", "policies.transaction_order.policy=sequential"});
  CHECK(figure(summary, "makespan") == 3);
  CHECK(figure(summary, "transactions") == 3);
  CHECK(figure(summary, "locks") == 3);
  CHECK(figure(summary, "bound") == 3);  // two writes and a read of key 8
  CHECK(figure(summary, "running") == Approx(5.0 / 3));
  CHECK(figure(summary, "gain") == 1);
}

TEST_CASE("transactions: what is drawn has the locks, the order of keys and the popularity asked for", "[prop]") {
  const transactions::BatchGenerator generator{.transactions = 200, .locks = 4, .length = 9, .keys = 50, .skew = 1};
  const auto batch = transactions::draw_batch(generator, sim::RandomStream(2, "draw"));
  REQUIRE(batch.transactions.size() == 200);
  std::vector<int> takers(50, 0);
  std::int64_t writes = 0;
  std::vector<std::vector<bool>> before(50, std::vector<bool>(50, false));
  for (const policies::Transaction& one : batch.transactions) {
    CHECK(one.length == 9);
    REQUIRE(one.locks.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      ++takers[one.locks[i].key];
      writes += one.locks[i].writes ? 1 : 0;
      CHECK(one.locks[i].tick < 9);
      for (std::size_t j = 0; j < i; ++j) {
        CHECK(one.locks[j].tick < one.locks[i].tick);
        CHECK(one.locks[j].key != one.locks[i].key);
        before[one.locks[j].key][one.locks[i].key] = true;
      }
    }
  }
  // No two transactions take a pair of keys in unlike orders.
  for (std::size_t a = 0; a < 50; ++a)
    for (std::size_t b = 0; b < 50; ++b) CHECK_FALSE((before[a][b] && before[b][a]));
  // 800 locks, half of them writes: a standard deviation is 14.
  CHECK(std::abs(writes - 400) < 60);
  CHECK(takers[0] > 2 * takers[5]);  // Zipf: six to one, less as a transaction takes a key once
}

TEST_CASE("transactions: a key for every lock where there are no more") {
  const auto batch = transactions::draw_batch({.transactions = 3, .locks = 5, .length = 5, .keys = 5, .skew = 100},
                                              sim::RandomStream(2, "draw"));
  for (const policies::Transaction& one : batch.transactions) CHECK(one.locks.size() == 5);
}

TEST_CASE("transactions: faults of files and generators, each with its place") {
  const Scratch scratch;
  const auto with = [&](const std::string& text) {
    return fault({"workload.file=\"" + scratch.write("batch.json", text).string() + "\""});
  };
  CHECK_THAT(with(R"({"a": "r-1 x-2 w-"})"),
             Contains("batch.json:/a: expected \"r-KEY\", \"w-KEY\" or \"*\" as tick 2, got \"x-2\"") &&
                 Contains("tick 3, got \"w-\""));
  CHECK_THAT(with(R"({"a": ""})"), Contains("/a: expected at least one tick"));
  CHECK_THAT(with(R"({"a": 3})"), Contains("/a: expected a text such as"));
  CHECK_THAT(with("{}"), Contains("expected an object of transactions"));
  CHECK_THAT(with("[1]"), Contains("expected an object of transactions"));
  CHECK_THAT(fault({"workload.generator.locks=20"}),
             Contains("/workload/generator/locks: expected at most 16 ticks, got 20"));
  CHECK_THAT(fault({"workload.generator.locks=3", "workload.generator.keys=2"}),
             Contains("expected at most 2 keys, got 3"));
  CHECK_THAT(fault({"workload.generator.transactions=10000", "workload.generator.locks=1000",
                    "workload.generator.length=1000"}),
             Contains("expected at most 1000000 locks in all, got 10000000"));
  CHECK_THAT(fault({"workload.file=\"x.json\"", "workload.generator.locks=3"}),
             Contains("/workload: expected either a 'file' or a 'generator'"));
  CHECK_THAT(fault({"workload.file=\"no.json\""}), Contains("no.json"));
  CHECK_THAT(fault({"policies.transaction_order.policy=greedy"}),
             Contains("unknown transaction_order policy 'greedy'"));
  CHECK_THAT(
      fault({"policies.transaction_order.policy=expression", "policies.transaction_order.expression.score=\"adde\""}),
      Contains("did you mean 'added'?"));
}

}  // namespace test_transactions
