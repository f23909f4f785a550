#include "experiments/systems/dram/system.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figures.hpp"
#include "hw/memory/dram_traffic.hpp"
#include "hw/parts/catalog.hpp"

namespace orrery::experiments {
namespace dram {
namespace {

using sim::Node;

struct MachineParams {
  std::string memory;
  sim::Node override_;
  hw::DramDesign controller;
  static constexpr auto fields() {
    using sim::Unit;
    using M = MachineParams;
    return sim::FieldTable{
        names_part(sim::required(
            sim::field("memory", &M::memory, Unit::reference, sim::any_value(), "Memory, a part of kind dram."))),
        sim::field("override", &M::override_, "Fields of the memory part to change."),
        sim::field("controller", &M::controller, "The memory controller."),
    };
  }
};

struct RunParams {
  std::int64_t seed = 1, replications = 1;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("seed", &RunParams::seed, Unit::none, sim::at_least(0), "Seed of the traffic."),
        sim::field("replications", &RunParams::replications, Unit::count, sim::between(1, 1000),
                   "Number of runs, each with its own traffic; figures are over all of them."),
    };
  }
};

struct Sections {
  MachineParams machine;
  hw::DramTraffic workload;
  RunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::required(sim::section("machine", &S::machine, "The memory and its controller.")),
                           sim::section("workload", &S::workload, "Traffic."),
                           sim::section("run", &S::run, "Seed and repetitions.")};
  }
};

/// Sums over replications.
struct Totals {
  hw::DramRun commands;
  hw::DramDesignEnergy energy;
  sim::SampleStats latency;

  void add(const hw::DramParams& dram, const hw::DramDesignRun& run) {
    const hw::DramRun& c = run.commands;
    commands.clocks += c.clocks;
    commands.reads += c.reads;
    commands.writes += c.writes;
    commands.activations += c.activations;
    commands.refreshes += c.refreshes;
    commands.row_hits += c.row_hits;
    const hw::DramDesignEnergy one = hw::design_energy(dram, run);
    energy.rows += one.rows;
    energy.bits += one.bits;
    energy.refresh += one.refresh;
    energy.background += one.background;
    for (const std::int64_t clocks : run.latencies) latency.add(clocks);
  }
};

class DramExperiment final : public ConfigExperiment {
 public:
  DramExperiment(const Node& root, const Systems& systems, sim::Faults& faults) {
    config_ = read_sections<Sections>(root, *systems.registries(), faults);
    const Node workload = section(root, "workload");
    read_memory(section(root, "machine"), faults);
    if (faults.empty() && config_.workload.footprint_bytes > memory_.capacity_bytes())
      faults.add(place_of(workload, "footprint"),
                 fmt::format("expected at most the memory's {}, got {}",
                             sim::humanise(memory_.capacity_bytes(), sim::Unit::bytes),
                             sim::humanise(config_.workload.footprint_bytes, sim::Unit::bytes)));
    if (!faults.empty()) return;
    seed_ = config_.run.seed;
    resolved_ = resolved_config("dram", config_);
  }

  Outcome run(const RunSink&) const override {
    const sim::RandomStream random(static_cast<std::uint64_t>(config_.run.seed), "traffic");
    Totals totals;
    for (std::int64_t i = 0; i < config_.run.replications; ++i) {
      const auto accesses = hw::draw_traffic(memory_, config_.workload, random.child(static_cast<std::uint64_t>(i)));
      totals.add(memory_, hw::run_design(memory_, config_.machine.controller, accesses));
    }
    Outcome outcome;
    outcome.summary = summary(totals);
    outcome.events = static_cast<std::uint64_t>(totals.commands.commands());
    return outcome;
  }

 private:
  void read_memory(const Node& machine, sim::Faults& faults) {
    const Node* name = machine.find("memory");
    if (name == nullptr || !name->is_string()) return;
    const std::filesystem::path file = part_file(name->as_string(), name->origin(), faults);
    if (file.empty()) return;
    Node entry = sim::read_config(file);
    if (config_.machine.override_.is_object()) sim::merge_over(entry, config_.machine.override_);
    memory_ = hw::parse_part<hw::DramParams>(entry, faults).part;
    inputs_.push_back(file);
  }

  Node summary(const Totals& totals) const {
    constexpr std::pair<const char*, double> kQuantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};
    const hw::DramRun& c = totals.commands;
    const double time = static_cast<double>(c.clocks) / memory_.clock_hz;
    const auto columns = static_cast<double>(c.reads + c.writes);
    const double bytes = columns * static_cast<double>(memory_.access_bytes());
    Node node = Node::object();
    node.set("status", Node::string("ok"));
    node.set("simulated_s", Node::real(time));
    node.set("latency_s", distribution_figures(totals.latency, 1 / memory_.clock_hz, kQuantiles));
    node.set("bandwidth_bytes_per_s", Node::real(bytes / time));
    node.set("bandwidth_share",
             Node::real(bytes / time / memory_.peak_bandwidth() * static_cast<double>(memory_.lanes())));
    node.set("power_w", Node::real(totals.energy.total() / time));
    Node& energy = node.set("energy_j", Node::object());
    energy.set("total", Node::real(totals.energy.total()));
    energy.set("rows", Node::real(totals.energy.rows));
    energy.set("bits", Node::real(totals.energy.bits));
    energy.set("refresh", Node::real(totals.energy.refresh));
    energy.set("background", Node::real(totals.energy.background));
    node.set("row_hit_rate", Node::real(static_cast<double>(c.row_hits) / columns));
    Node& counts = node.set("commands", Node::object());
    counts.set("reads", Node::integer(c.reads));
    counts.set("writes", Node::integer(c.writes));
    counts.set("activations", Node::integer(c.activations));
    counts.set("refreshes", Node::integer(c.refreshes));
    return node;
  }

  Sections config_;
  hw::DramParams memory_;
};

}  // namespace
}  // namespace dram

System dram_system() {
  return {.name = "dram",
          .doc = "Simulates traffic through a memory controller, every choice of which is a parameter.",
          .fields = describe_sections<dram::Sections>,
          .read = read_as<dram::DramExperiment>};
}

}  // namespace orrery::experiments
