// The flow-level network: stars, a fat tree, and a ring all-reduce message by message.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "hw/network/collective_closed_form.hpp"
#include "hw/network/collective_run.hpp"
#include "hw/network/network.hpp"
#include "sim/base/document.hpp"
#include "tests/bench/star.hpp"

namespace {

using namespace orrery;

void star_a2a_same(benchmark::State& state) {
  double seconds = 0;
  for (auto _ : state) seconds = bench::star_all_to_all(static_cast<std::uint32_t>(state.range(0)), true);
  state.counters["simulated_s"] = seconds;
}
BENCHMARK(star_a2a_same)->Arg(64)->Unit(benchmark::kMillisecond);

void star_a2a(benchmark::State& state) {
  double seconds = 0;
  for (auto _ : state) seconds = bench::star_all_to_all(static_cast<std::uint32_t>(state.range(0)), false);
  state.counters["simulated_s"] = seconds;
}
BENCHMARK(star_a2a)->Arg(16)->Arg(32)->Arg(64)->Unit(benchmark::kMillisecond);

/// As many flows in flight as hosts, as in the scenario; 64 hosts have 256 and no latency.
void star_closed(benchmark::State& state) {
  const auto hosts = static_cast<std::uint32_t>(state.range(0));
  double seconds = 0;
  for (auto _ : state)
    seconds = hosts == 64 ? bench::star_closed(64, 256, sim::Duration{0})
                          : bench::star_closed(hosts, hosts, sim::Duration{1'000'000});
  state.counters["simulated_s"] = seconds;
}
BENCHMARK(star_closed)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

/// A network from its policy block; ends the program if the block is wrong.
struct Built {
  std::unique_ptr<hw::Topology> topology;
  std::unique_ptr<hw::Routing> routing;
  Built(const std::string& block) {
    sim::Faults faults;
    topology = hw::make_topology(sim::parse_json(block, "bench"), faults);
    if (topology) routing = hw::make_routing(sim::parse_json("{}", "bench"), *topology, faults);
    if (!routing) std::abort();
  }
};

/// 100,000 random flows of 1e6 to 1e7 bytes over a fat tree of k ports, `window` of them in flight.
class RandomFlows final : public sim::EventHandler {
 public:
  RandomFlows(hw::Network& network, std::uint64_t total) : network_(network), total_(total) {}
  void next() {
    if (started_ == total_) return;
    const std::uint64_t k = started_++;
    const auto hosts = static_cast<std::uint64_t>(network_.topology().hosts);
    const std::uint64_t from = bench::mix64(3 * k) % hosts;
    const std::uint64_t to = (from + 1 + bench::mix64(3 * k + 1) % (hosts - 1)) % hosts;
    network_.send(static_cast<hw::NodeIndex>(from), static_cast<hw::NodeIndex>(to),
                  static_cast<std::int64_t>(1'000'000 + bench::mix64(3 * k + 2) % 9'000'000), k, *this, 0);
  }
  void on_event(std::uint64_t) override { next(); }

 private:
  hw::Network& network_;
  std::uint64_t total_;
  std::uint64_t started_ = 0;
};

void run_fat_tree(benchmark::State& state, int ports, std::uint64_t flows, std::uint64_t window) {
  for (auto _ : state) {
    Built built(R"({"policy": "fat_tree", "fat_tree": {"k": )" + std::to_string(ports) +
                R"(, "bandwidth": "12.5 GB/s", "latency": "1 us"}})");
    sim::Engine engine;
    hw::Network network(engine, *built.topology, std::move(built.routing));
    RandomFlows traffic(network, flows);
    for (std::uint64_t i = 0; i < window; ++i) traffic.next();
    engine.run();
    state.counters["simulated_s"] = engine.scale().seconds(engine.now());
    state.counters["freed_per_change"] =
        static_cast<double>(network.flows().effort().freed) / static_cast<double>(network.flows().effort().changes);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(flows));
}

/// 1,024 hosts, 100,000 flows; as many in flight as hosts.
void fat_tree(benchmark::State& state) {
  run_fat_tree(state, 16, 100'000, static_cast<std::uint64_t>(state.range(0)));
}
BENCHMARK(fat_tree)->Arg(256)->Arg(512)->Arg(1024)->Arg(2048)->Unit(benchmark::kMillisecond);

/// 64 MiB over a ring of links of 50 GiB/s and 500 ns.
void ring_allreduce(benchmark::State& state) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  std::int64_t messages = 0;
  for (auto _ : state) {
    Built built(R"({"policy": "ring", "ring": {"hosts": )" + std::to_string(ranks) +
                R"(, "bandwidth": "50 GiB/s", "latency": "500 ns"}})");
    sim::Engine engine;
    hw::Network network(engine, *built.topology, std::move(built.routing));
    hw::CollectiveRegistry registry("collective");
    hw::register_collectives(registry);
    sim::Faults faults;
    hw::CollectiveSpec spec;
    spec.ranks = ranks;
    spec.bytes = 64 << 20;
    std::vector<hw::NodeIndex> nodes(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) nodes[i] = i;
    hw::CollectiveRun run(engine, network, registry.prepare("ring", nullptr, {}, faults).make(spec), ranks, nodes);
    run.enter_all();
    engine.run();
    messages = run.messages();
    state.counters["simulated_s"] = engine.scale().seconds(run.done_at());
  }
  state.SetItemsProcessed(state.iterations() * messages);
}
BENCHMARK(ring_allreduce)->Arg(8)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

/// The same by closed form, the look at whether it holds included.
void ring_closed_form(benchmark::State& state) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  Built built(R"({"policy": "ring", "ring": {"hosts": )" + std::to_string(ranks) +
              R"(, "bandwidth": "50 GiB/s", "latency": "500 ns"}})");
  hw::CollectiveSpec spec;
  spec.ranks = ranks;
  spec.bytes = 64 << 20;
  std::vector<hw::NodeIndex> nodes(ranks);
  for (std::uint32_t i = 0; i < ranks; ++i) nodes[i] = i;
  double seconds = 0;
  for (auto _ : state)
    seconds = hw::collective_on(hw::RingParams{}, spec, nodes, *built.topology, *built.routing).value();
  state.counters["simulated_s"] = seconds;
}
BENCHMARK(ring_closed_form)->Arg(1024)->Unit(benchmark::kMicrosecond);

/// The formula alone.
void ring_formula(benchmark::State& state) {
  hw::CollectiveSpec spec;
  spec.ranks = state.range(0);
  spec.bytes = 64 << 20;
  double seconds = 0;
  for (auto _ : state)
    seconds =
        hw::collective_seconds(hw::RingParams{}, spec, {.alpha_s = 500e-9, .bandwidth = 50.0 * (1 << 30)}).value();
  state.counters["simulated_s"] = seconds;
}
BENCHMARK(ring_formula)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
