// The config of a replay: a network, perhaps a device that prices compute nodes, and a trace a rank.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/config.hpp"
#include "hw/device/device.hpp"
#include "models/import/chakra_nodes.hpp"

namespace orrery::experiments::tasks {

struct DeviceParams {
  std::string part;
  hw::DType dtype = hw::DType::fp16;
  static constexpr auto fields() {
    return sim::FieldTable{
        names_part(sim::required(sim::field("part", &DeviceParams::part, sim::Unit::reference, sim::any_value(),
                                            "Part from the catalog, or a file of the same form."))),
        sim::field("dtype", &DeviceParams::dtype, "Number format whose peak rate applies to FLOPs.")};
  }
};

struct MachineParams {
  network::NetworkSection network;
  std::optional<DeviceParams> device;
  static constexpr auto fields() {
    using M = MachineParams;
    return sim::FieldTable{
        sim::required(sim::field("network", &M::network, "Network between the ranks; rank r is the r-th host.")),
        sim::field("device", &M::device,
                   "Device of every rank, which prices compute nodes by their FLOPs and bytes; null: nodes take the "
                   "recorded time.")};
  }
};

struct WorkloadParams {
  std::string traces;
  std::optional<std::int64_t> ranks;
  hw::CollectiveRegistry::Choice algorithm;
  std::int64_t window = 1;
  std::int64_t splits = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::required(sim::field("traces", &W::traces, Unit::text, sim::any_value(),
                                 "Chakra traces, one file per rank: a path with {rank} in place of the number.")),
        sim::field("ranks", &W::ranks, Unit::count, sim::between(1, 65536),
                   "Number of ranks; null: as many as there are files, from 0 on."),
        sim::choice("algorithm", &W::algorithm, "ring",
                    "Algorithm for collectives; direct for the kinds that it does not support."),
        sim::field("window", &W::window, Unit::count, sim::between(1, 1e9),
                   "Messages of a collective in flight at a time between two ranks."),
        sim::field("splits", &W::splits, Unit::count, sim::between(1, 1024),
                   "Pieces that the buffer of a collective is cut into, sent one after the other.")};
  }
};

struct TasksParams {
  MachineParams machine;
  WorkloadParams workload;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = TasksParams;
    return sim::FieldTable{sim::required(sim::section("machine", &S::machine, "The network and the devices.")),
                           sim::required(sim::section("workload", &S::workload,
                                                      "The traces of the ranks, and how their collectives are run.")),
                           sim::section("run", &S::run, "Seed and resolution of the run.")};
  }
};

/// A validated config.
struct TasksConfig {
  std::string file;  ///< the config's, for messages
  TasksParams params;
  network::NetworkParts network;
  std::optional<hw::Device> device;
  hw::CollectiveRegistry::Choice direct;               ///< does what the chosen algorithm does not
  std::vector<std::vector<models::ChakraNode>> ranks;  ///< nodes by rank, …
  std::vector<models::ChakraOrder> orders;             ///< … and who waits for whom
  std::vector<std::filesystem::path> inputs;
  sim::Node resolved;
};

/// Reads a config document and its traces; every fault goes to `faults` and the result is then not to be used.
TasksConfig read_tasks_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

}  // namespace orrery::experiments::tasks
