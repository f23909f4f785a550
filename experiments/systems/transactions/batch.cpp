#include "experiments/systems/transactions/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "experiments/base/config_parts.hpp"
#include "sim/base/distributions.hpp"

namespace orrery::experiments::transactions {

namespace {

using policies::LockUse;
using policies::Transaction;
using sim::Node;

constexpr std::size_t kMostFaults = 20;

/// Ticks of a text, parted by blanks.
std::vector<std::string_view> ticks_of(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

/// Keys as numbers from 0, in the order in which they are met.
class Keys {
 public:
  std::uint32_t number(std::string_view name) {
    return numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(numbers_.size())).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
};

Transaction read_transaction(const Node& node, Keys& keys, sim::Faults& faults) {
  Transaction one;
  for (const std::string_view tick : ticks_of(node.as_string())) {
    const bool lock = tick.size() > 2 && tick[1] == '-' && (tick[0] == 'r' || tick[0] == 'w');
    if (lock) one.locks.push_back({keys.number(tick.substr(2)), one.length, tick[0] == 'w'});
    if (!lock && tick != "*")
      faults.add(node.origin(), fmt::format("expected \"r-KEY\", \"w-KEY\" or \"*\" as tick {}, got \"{}\"",
                                            one.length + 1, tick.substr(0, 40)));
    ++one.length;
  }
  if (one.length == 0) faults.add(node.origin(), "expected at least one tick, such as \"r-17 * w-3\"");
  return one;
}

}  // namespace

Batch read_batch(const std::filesystem::path& file) {
  const Node root = sim::read_json(file);
  if (!root.is_object() || root.members().empty())
    sim::throw_fault(root.origin(), "expected an object of transactions, {\"name\": \"r-17 * w-3\"}");
  if (root.members().size() > kMostTransactions)
    sim::throw_fault(root.origin(),
                     fmt::format("expected at most {} transactions, got {}", kMostTransactions, root.members().size()));
  Batch batch;
  Keys keys;
  sim::Faults faults;
  std::size_t locks = 0;
  for (const auto& [name, node] : root.members()) {
    if (faults.all().size() >= kMostFaults) break;
    if (!node.is_string()) {
      faults.add(node.origin(), fmt::format("expected a text such as \"r-17 * w-3\", got {}", node.shown()));
      continue;
    }
    batch.names.push_back(name);
    batch.transactions.push_back(read_transaction(node, keys, faults));
    locks += batch.transactions.back().locks.size();
  }
  if (locks > kMostLocks)
    faults.add(root.origin(), fmt::format("expected at most {} locks in all, got {}", kMostLocks, locks));
  faults.throw_if_any();
  batch.keys = keys.size();
  return batch;
}

void check_generator(const Node& node, const BatchGenerator& generator, sim::Faults& faults) {
  const auto check = [&](std::int64_t most, const char* what) {
    if (generator.locks > most)
      faults.add(place_of(node, "locks"), fmt::format("expected at most {} {}, got {}", most, what, generator.locks));
  };
  check(generator.keys, "keys");
  check(generator.length, "ticks");
  if (static_cast<std::size_t>(generator.locks * generator.transactions) > kMostLocks)
    faults.add(place_of(node, "locks"), fmt::format("expected at most {} locks in all, got {}", kMostLocks,
                                                    generator.locks * generator.transactions));
}

Batch draw_batch(const BatchGenerator& generator, const sim::RandomStream& random) {
  const auto keys = static_cast<std::size_t>(generator.keys), locks = static_cast<std::size_t>(generator.locks);
  std::vector<std::uint32_t> rank(keys);  // where a key comes among those that a transaction takes
  std::iota(rank.begin(), rank.end(), 0U);
  sim::RandomStream order = random.child("order");
  order.shuffle(std::span(rank));
  const sim::Zipf popularity(generator.keys, generator.skew);
  constexpr int kTries = 100;  // draws for a key that is new; then the most popular that is
  Batch batch;
  batch.keys = keys;
  for (std::int64_t i = 0; i < generator.transactions; ++i) {
    sim::RandomStream stream = random.child("transactions").child(static_cast<std::uint64_t>(i));
    std::vector<std::uint32_t> taken;
    std::vector<bool> has(keys, false);
    std::uint32_t next = 0;
    while (taken.size() < locks) {
      std::uint32_t key = 0;
      int tries = 0;
      do key = static_cast<std::uint32_t>(popularity(stream) - 1);
      while (has[key] && ++tries < kTries);
      while (has[key]) key = next++;
      has[key] = true;
      taken.push_back(key);
    }
    if (generator.sorted) std::ranges::sort(taken, {}, [&](std::uint32_t key) { return rank[key]; });
    std::vector<std::int64_t> ticks(static_cast<std::size_t>(generator.length));
    std::iota(ticks.begin(), ticks.end(), 0);
    stream.shuffle(std::span(ticks));
    ticks.resize(locks);
    std::ranges::sort(ticks);
    Transaction one{.length = generator.length, .locks = {}};
    for (std::size_t j = 0; j < locks; ++j)
      one.locks.push_back({taken[j], ticks[j], stream.uniform() < generator.writes});
    batch.names.push_back(fmt::format("{}", i));
    batch.transactions.push_back(std::move(one));
  }
  return batch;
}

}  // namespace orrery::experiments::transactions
