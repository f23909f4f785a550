// One system, its parts made in different orders: the results are the same bytes.
//
// Orders that must not matter, and do not:
//   - of making components, as long as no two of them act at one instant: random streams hang on names, and a resource
//     serves by time of arrival (first test);
//   - of adding links, paths and flows to a flow network, ends at one instant included: rates are found level by level,
//     and work is counted in integers, whose sums have no order (second test).
// An order that may matter: events of one instant fire in the order in which they were scheduled. Some order must hold,
// or a run would not be reproducible; this one needs no further key, and is the one in which the program says things.
// So jobs that arrive at one instant queue up as they were scheduled, processes spawned together start in the order of
// spawning, and flows that end together are told in the order of their start. Whoever wants another order at an instant
// gives priorities, or lets components act at different instants.
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "sim/flow_network.hpp"
#include "sim/resources.hpp"
#include "sim/when.hpp"

namespace test_creation_order {

using namespace orrery::sim;

namespace {

using Order = std::vector<std::size_t>;

/// 0 … n-1 as they are for round 0, else in a random order of that round.
Order order(std::size_t n, std::uint64_t round, const char* what) {
  Order numbers(n);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  if (round > 0) RandomStream(round, what).shuffle(std::span<std::size_t>(numbers));
  return numbers;
}

std::string text(__int128 value) {
  // Enough for a sum of ticks; high part first.
  return std::to_string(static_cast<std::int64_t>(value >> 62)) + ":" +
         std::to_string(static_cast<std::int64_t>(value & ((std::int64_t{1} << 62) - 1)));
}

/// Parts that are made one by one, in any order.
struct Workshop {
  explicit Workshop(Engine& engine_) : engine(engine_) {}
  static constexpr std::size_t kParts = 6;
  void make(std::size_t part) {
    if (part == 0) desk = std::make_unique<Server>(engine, "desk", 2);
    if (part == 1) urgent = std::make_unique<Server>(engine, "urgent", 2, Discipline::preempt_resume);
    if (part == 2) pool = std::make_unique<TokenPool>(engine, "pool", 8);
    if (part == 3) shared = std::make_unique<ProcessorSharing>(engine, "shared", 2);
    if (part == 4) channel = std::make_unique<Channel<std::string>>(engine, "channel", 2);
    if (part == 5) signal = std::make_unique<Signal>(engine, "signal");
  }
  Engine& engine;
  std::unique_ptr<Server> desk, urgent;
  std::unique_ptr<TokenPool> pool;
  std::unique_ptr<ProcessorSharing> shared;
  std::unique_ptr<Channel<std::string>> channel;
  std::unique_ptr<Signal> signal;
  std::string log;
};

Process step(Engine& engine, Workshop& shop, RandomStream& random, const std::string& name) {
  const Duration work = engine.scale().duration(random.exponential(1e-6));
  switch (random.below(7)) {
    case 0:
      co_await shop.desk->use(work);
      break;
    case 1:
      co_await shop.urgent->use(work, random.integer(0, 2));
      break;
    case 2: {
      const Tokens tokens = co_await shop.pool->acquire(random.integer(1, 4));
      co_await engine.delay(work);
      break;
    }
    case 3:
      co_await shop.shared->use(work, random.integer(1, 3));
      break;
    case 4:
      co_await shop.channel->send(name);
      break;
    case 5:
      shop.log += (co_await shop.channel->receive()).value_or("-");
      break;
    default:
      if (random.bernoulli(0.5)) {
        shop.signal->set();
        shop.signal->reset();
      } else {
        co_await shop.signal->wait();
      }
  }
}

Process worker(Engine& engine, Workshop& shop, std::string name) {
  RandomStream random = engine.stream("worker/" + name);
  for (int i = 0; i < 200; ++i) {
    co_await engine.delay(engine.scale().duration(random.exponential(1e-6)));
    const Duration patience = engine.scale().duration(random.exponential(5e-6));
    const auto first = co_await when_any(step(engine, shop, random, name), engine.delay(patience));
    shop.log += name + (first.index == 1 ? " gives up " : " ") + std::to_string(engine.now().ticks) + "\n";
  }
}

std::string run_workshop(std::uint64_t round) {
  Engine engine(77);
  Workshop shop(engine);
  for (const std::size_t part : order(Workshop::kParts, round, "parts")) shop.make(part);
  for (const std::size_t i : order(12, round, "workers")) {
    const std::string name(1, static_cast<char>('a' + i));
    engine.processes().spawn(name, worker(engine, shop, name));
  }
  engine.run();
  for (const Server* server : {shop.desk.get(), shop.urgent.get()}) {
    const ServerStatistics statistics = server->statistics();
    for (const std::int64_t n : {statistics.arrived, statistics.served, statistics.cancelled, statistics.preempted})
      shop.log += std::to_string(n) + " ";
    shop.log += text(statistics.busy_ticks) + " " + text(statistics.queued_ticks) + "\n";
  }
  shop.log += text(shop.pool->used_over_time().area(engine.now())) + "\n";
  shop.log += text(shop.shared->statistics().job_ticks) + "\n";
  return shop.log + std::to_string(engine.events());
}

/// Flows on a network of which everything has a number of its own, whatever it is added as. Few sizes, few starts:
/// most of what happens coincides with something.
class Traffic final : public EventHandler {
 public:
  explicit Traffic(std::uint64_t round) : network_(engine_) {
    plan();
    link_of_.resize(kLinks);
    path_of_.resize(kPaths);
    for (const std::size_t l : order(kLinks, round, "links")) link_of_[l] = network_.add_link(bandwidth_[l]);
    for (const std::size_t p : order(kPaths, round, "paths")) {
      std::vector<FlowNetwork::Link> links;
      for (const std::size_t l : route_[p]) links.push_back(link_of_[l]);
      path_of_[p] = network_.add_path(links, latency_[p]);
    }
    for (const std::size_t f : order(kFlows, round, "flows")) engine_.schedule_at(flow_[f].start, *this, f);
    // At odd ticks, each at its own: what is done to flow or link must find the same state.
    for (const std::size_t c : order(kChanges, round, "changes"))
      engine_.schedule_at(Time{static_cast<std::int64_t>(2'000'000 * c + 1)}, *this, kChange + c);
  }
  std::string run() {
    engine_.run();
    for (std::size_t f = 0; f < kFlows; ++f)
      log_ += "flow " + std::to_string(f) + " " + std::to_string(flow_[f].end.ticks) + "\n";
    const std::vector<double> carried = network_.carried();
    for (std::size_t l = 0; l < kLinks; ++l) log_ += exact(carried[link_of_[l]]);
    return log_;
  }
  void on_event(std::uint64_t payload) override {
    if (payload >= kChange) {
      change(static_cast<std::size_t>(payload - kChange));
    } else if (payload >= kEnd) {
      flow_[payload - kEnd].end = engine_.now();
    } else {
      Flow& flow = flow_[payload];
      flow.id = network_.start(path_of_[flow.path], flow.bytes, *this, kEnd + payload);
    }
  }

 private:
  static constexpr std::size_t kLinks = 16, kPaths = 50, kFlows = 400, kChanges = 60;
  static constexpr std::uint64_t kEnd = 1 << 20, kChange = 1 << 21;
  struct Flow {
    std::size_t path = 0;
    std::int64_t bytes = 0;
    Time start, end;
    FlowId id;
  };
  static std::string exact(double value) {
    std::array<char, 40> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%a\n", value);
    return buffer.data();
  }
  void plan() {
    RandomStream random(3, "plan");
    for (std::size_t l = 0; l < kLinks; ++l) bandwidth_.push_back(1e9 * static_cast<double>(random.integer(1, 3)));
    for (std::size_t p = 0; p < kPaths; ++p) {
      Order links(kLinks);
      std::iota(links.begin(), links.end(), std::size_t{0});
      random.shuffle(std::span<std::size_t>(links));
      links.resize(1 + random.below(5));
      route_.push_back(links);
      latency_.push_back(Duration{1'000'000 * random.integer(0, 2)});
    }
    for (std::size_t f = 0; f < kFlows; ++f)
      flow_.push_back({.path = random.below(kPaths),
                       .bytes = 1000 * random.integer(0, 4),
                       .start = Time{10'000'000 * random.integer(0, 9)},
                       .end = {},
                       .id = {}});
  }
  void change(std::size_t c) {
    RandomStream random = RandomStream(4, "changes").child(c);
    const std::size_t l = random.below(kLinks), f = random.below(kFlows), p = random.below(kPaths);
    if (c >= kChanges - kLinks) {  // in the end all links come up
      network_.set_bandwidth(link_of_[c - (kChanges - kLinks)], 1e9);
    } else if (c % 3 == 0) {
      network_.set_bandwidth(link_of_[l], bandwidth_[l] * static_cast<double>(random.below(3)));
    } else if (c % 3 == 1) {
      if (flow_[f].id != FlowId{}) log_ += exact(network_.cancel(flow_[f].id) ? 1 : 0);
    } else if (flow_[f].id != FlowId{}) {
      log_ += exact(network_.move(flow_[f].id, path_of_[p]) ? 1 : 0);
    }
    log_ += exact(network_.load(link_of_[l]));
  }

  Engine engine_;
  FlowNetwork network_;
  std::vector<double> bandwidth_;
  std::vector<Order> route_;
  std::vector<Duration> latency_;
  std::vector<Flow> flow_;
  std::vector<FlowNetwork::Link> link_of_;
  std::vector<FlowNetwork::Path> path_of_;
  std::string log_;
};

}  // namespace

TEST_CASE("processes and resources made in any order give the same run", "[prop]") {
  const std::string reference = run_workshop(0);
  CHECK(reference.size() > 12 * 200 * 10);
  for (std::uint64_t round = 1; round <= 8; ++round) {
    INFO(round);
    CHECK(run_workshop(round) == reference);
  }
}

TEST_CASE("links, paths and flows added in any order give the same times", "[prop]") {
  const std::string reference = Traffic(0).run();
  CHECK(reference.find(" 0\n") != std::string::npos);  // of a flow that was cancelled
  for (std::uint64_t round = 1; round <= 20; ++round) {
    INFO(round);
    CHECK(Traffic(round).run() == reference);
  }
}

}  // namespace test_creation_order
