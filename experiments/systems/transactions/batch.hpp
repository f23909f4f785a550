// A batch of transactions: read from a file, or drawn.
//
// A file is a JSON object; each member is a transaction, its name and its ticks in one text, parted by blanks: `r-KEY`
// and `w-KEY` read and write a key, `*` takes no lock. Transactions stand in the order of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "policies/transaction_order/lock_schedule.hpp"
#include "sim/base/params.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::transactions {

inline constexpr std::size_t kMostTransactions = 10'000, kMostLocks = 1'000'000;

struct Batch {
  std::vector<std::string> names;
  std::vector<policies::Transaction> transactions;
  std::size_t keys = 0;
};

/// Reads a file. Throws sim::ConfigError with every fault: its place, what was expected.
Batch read_batch(const std::filesystem::path& file);

/// Transactions alike in length and number of locks. A key is drawn by Zipf's law, each once a transaction.
struct BatchGenerator {
  std::int64_t transactions = 100, locks = 16, length = 16, keys = 10'000;
  double skew = 1.8, writes = 0.5;
  bool sorted = true;

  static constexpr auto fields() {
    using sim::Unit;
    using G = BatchGenerator;
    return sim::FieldTable{
        sim::field("transactions", &G::transactions, Unit::count, sim::between(1, kMostTransactions),
                   "Number of transactions in the batch."),
        sim::field("locks", &G::locks, Unit::count, sim::between(1, 10'000), "Locks that a transaction takes."),
        sim::field("length", &G::length, Unit::count, sim::between(1, 1'000'000),
                   "Ticks that a transaction runs; its locks are taken at randomly drawn ticks, one per tick."),
        sim::field("keys", &G::keys, Unit::count, sim::between(1, 1'000'000), "Number of keys."),
        sim::field("skew", &G::skew, Unit::none, sim::between(0, 100),
                   "Zipf exponent of the popularity of keys; 0: all equally popular."),
        sim::field("writes", &G::writes, Unit::ratio, sim::between(0, 1), "Share of the locks that are writes."),
        sim::field(
            "sorted", &G::sorted,
            "Whether all transactions take keys in the same order, drawn once; if not, each has its own order.")};
  }
};

/// Adds what no field alone tells. `node` is where the generator stands.
void check_generator(const sim::Node& node, const BatchGenerator& generator, sim::Faults& faults);

Batch draw_batch(const BatchGenerator& generator, const sim::RandomStream& random);

}  // namespace orrery::experiments::transactions
