// Fair sharing, and flows in time.
#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/flow_network.hpp"
#include "sim/max_min.hpp"
#include "tests/determinism/digest.hpp"

namespace orrery::determinism {
namespace {

using namespace sim;

/// Up to `most` different links.
std::vector<std::uint32_t> random_route(RandomStream& random, std::size_t links, std::uint64_t most) {
  std::vector<std::uint32_t> route(links);
  std::iota(route.begin(), route.end(), 0U);
  random.shuffle(std::span<std::uint32_t>(route));
  route.resize(1 + random.below(most));
  return route;
}

/// Keeps flows going, and does to them and their links whatever can be done.
class Unrest final : public EventHandler {
 public:
  Unrest(Engine& engine, Digest& digest)
      : engine_(engine), digest_(digest), random_(engine.stream("unrest")), network_(engine) {
    for (std::size_t l = 0; l < kLinks; ++l) network_.add_link(1e9 * static_cast<double>(1 + l % 4));
    for (std::size_t p = 0; p < kPaths; ++p)
      network_.add_path(random_route(random_, kLinks, 6), Duration{1000 * random_.integer(0, 2)});
    flows_.resize(kWindow);
    for (std::uint64_t place = 0; place < kWindow; ++place) start(place);
    engine_.schedule_in(Duration{1}, *this, kAct);
  }
  void on_event(std::uint64_t payload) override {
    digest_.add(engine_.now().ticks);
    digest_.add(payload);
    if (payload != kAct) {
      if (++ended_ < 6000) start(payload);
      return;
    }
    act();
    if (++acts_ < 3000) {
      engine_.schedule_in(Duration{random_.integer(1, 100'000)}, *this, kAct);
    } else {
      for (FlowNetwork::Link link = 0; link < kLinks; ++link) network_.set_bandwidth(link, 1e9);
    }
  }
  void report() {
    if (network_.active() != 0) throw std::runtime_error("flows were left");
    for (const double bytes : network_.carried()) digest_.add(bytes);
    digest_.add(network_.effort().solves);
    digest_.add(network_.effort().freed);
    digest_.add(ended_);
  }

 private:
  static constexpr std::size_t kLinks = 30, kPaths = 120, kWindow = 80;
  static constexpr std::uint64_t kAct = ~0ULL;
  FlowNetwork::Path any_path() { return static_cast<FlowNetwork::Path>(random_.below(kPaths)); }
  void start(std::uint64_t place) {
    const std::int64_t bytes = random_.bernoulli(0.3) ? 1000 : random_.integer(0, 20'000);
    flows_[place] = network_.start(any_path(), bytes, *this, place, Duration{random_.integer(0, 1) * 500});
  }
  void act() {
    const std::uint64_t place = random_.below(kWindow);
    const auto link = static_cast<FlowNetwork::Link>(random_.below(kLinks));
    switch (random_.below(4)) {
      case 0:
        if (network_.cancel(flows_[place])) start(place);
        break;
      case 1:
        digest_.add(network_.move(flows_[place], any_path()));
        break;
      case 2:
        network_.set_bandwidth(link, 1e9 * static_cast<double>(random_.below(4)));
        break;
      default:
        digest_.add(network_.load(link));
        for (const FlowId flow : network_.flows_on(link)) {
          digest_.add(flow.value);
          digest_.add(network_.rate(flow));
          digest_.add(network_.bytes_left(flow));
        }
    }
  }

  Engine& engine_;
  Digest& digest_;
  RandomStream random_;
  FlowNetwork network_;
  std::vector<FlowId> flows_;
  std::int64_t ended_ = 0;
  int acts_ = 0;
};

}  // namespace

void max_min_under_changes(Digest& digest) {
  RandomStream random(11, "max-min");
  for (const std::int64_t largest : {std::int64_t{7}, std::int64_t{1000}, MaxMinSolver::kMaxCapacity}) {
    MaxMinSolver solver;
    for (int l = 0; l < 40; ++l) solver.add_link(random.integer(0, largest));
    for (int p = 0; p < 150; ++p) solver.add_path(random_route(random, 40, 8));
    for (int step = 0; step < 600; ++step) {
      for (std::uint64_t n = random.below(6); n-- > 0;)
        solver.set_flows(static_cast<MaxMinSolver::Path>(random.below(150)), random.integer(0, 3));
      if (random.bernoulli(0.3))
        solver.set_capacity(static_cast<MaxMinSolver::Link>(random.below(40)), random.integer(0, largest));
      solver.solve();
      for (MaxMinSolver::Path path = 0; path < solver.paths(); ++path) {
        digest.add(solver.rate(path));
        digest.add(solver.bottleneck(path));
      }
      for (MaxMinSolver::Link link = 0; link < solver.links(); ++link) digest.add(solver.load(link));
    }
    digest.add(solver.effort().freed);
    digest.add(solver.effort().levels);
  }
}

void flows_under_changes(Digest& digest) {
  for (const std::int64_t tick_ps : {1, 1000}) {
    Engine engine(31, TickScale{tick_ps});
    Unrest unrest(engine, digest);
    engine.run();
    unrest.report();
  }
}

}  // namespace orrery::determinism
