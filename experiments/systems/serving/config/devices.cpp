#include "experiments/systems/serving/config/devices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

constexpr double kHostLink = 25e9;  ///< bytes/s from host memory to a device without a platform: PCIe 4.0 x16 in use

/// The part at a clock; one that it does not reach is a fault.
hw::Device clocked(const hw::Device& device, double clock_hz, const sim::Origin& where, sim::Faults& faults) {
  const hw::DeviceClocks& clocks = device.clocks;
  if (clock_hz >= clocks.lowest_hz && clock_hz <= clocks.highest_hz) return hw::at_clock(device, clock_hz);
  const std::string highest = sim::humanise(clocks.highest_hz, sim::Unit::hertz);
  const std::string got = sim::humanise(clock_hz, sim::Unit::hertz);
  faults.add(where, clocks.lowest_hz < clocks.highest_hz
                        ? fmt::format("expected a clock from {} to {}, got {}",
                                      sim::humanise(clocks.lowest_hz, sim::Unit::hertz), highest, got)
                        : fmt::format("expected {}, the one clock of {}, got {}", highest, device.name, got));
  return device;
}

/// Sets the clock of a group of devices, or those that it may choose from.
void set_clocks(const Node& group, const DeviceGroup& params, DevicePart& device, sim::Faults& faults) {
  const hw::Device whole = device.device;
  if (params.clock_hz) device.device = clocked(whole, *params.clock_hz, place_of(group, "clock"), faults);
  const sim::Origin where = place_of(group, "clocks");
  if (params.clock_hz && !params.clocks_hz.empty()) faults.add(where, "expected no 'clocks' beside 'clock'");
  for (std::size_t i = 0; i < params.clocks_hz.size(); ++i) {
    if (i > 0 && params.clocks_hz[i] >= params.clocks_hz[i - 1])
      faults.add(where, "expected clocks from the highest down, each once");
    device.at_clocks.push_back(clocked(whole, params.clocks_hz[i], where, faults));
  }
  if (!device.at_clocks.empty()) device.device = device.at_clocks.front();
}

/// What the platform of the machine makes launches cost. Its devices last as its kernels do.
void read_platform(const Node& machine, ServingConfig& config, sim::Faults& faults) {
  if (!config.machine.platform) return;
  const auto platform =
      read_platform_choice(*machine.find("platform"), *config.machine.platform, config.platform_files, faults);
  if (!platform) return;
  const hw::KernelLaunchParams& launch = platform->params.launch;
  config.launch_costs = {.kernel_s = hw::dispatch_time(*platform, 0) + launch.call_s,
                         .graph_call_s = launch.graph_call_s,
                         .latency_s = launch.latency_s,
                         .node_s = launch.graph_node_s - launch.null_kernel_s,
                         .core_speed = platform->cpu.single_thread};
  if (auto& weights = config.replica.host_weights; weights && !weights->bandwidth)
    weights->bandwidth = platform->params.copies.to_device.bandwidth;
  for (DevicePart& part : config.parts) {
    if (part.device.model == nullptr) continue;  // reported already
    if (part.file.stem() != platform->params.gpu) {
      faults.add(place_of(machine, "platform"),
                 fmt::format("expected a platform of {}, {} launches on {}", part.file.stem().string(), platform->name,
                             platform->params.gpu),
                 "its `override` may name another gpu");
      continue;
    }
    if (part.device.as<hw::GpuParams>() == nullptr) {
      faults.add(place_of(machine, "platform"),
                 fmt::format("expected GPUs beside a platform, {} is none", part.device.name));
      continue;
    }
    part.device = hw::with_launch(part.device, launch.null_kernel_s);
    for (hw::Device& at_clock : part.at_clocks) at_clock = hw::with_launch(at_clock, launch.null_kernel_s);
  }
}

/// Attention of decodes in memory beside the devices of a group.
void read_attention(const Node& group, const DeviceGroup& params, DevicePart& device, sim::Faults& faults) {
  if (!params.attention || device.device.model == nullptr) return;
  std::vector<std::filesystem::path> files;
  Node entry =
      read_part_entry(*group.find("attention"), params.attention->part, files, faults, hw::AttentionPimParams::kKind);
  if (!entry.is_object()) return;
  device.attention_file = files.front();
  const std::size_t before = faults.size();
  if (params.attention->override_.is_object()) sim::merge_over(entry, params.attention->override_);
  const auto memory = hw::parse_part<hw::AttentionPimParams>(entry, faults).part;
  if (faults.size() != before) return;
  device.attention = memory;
  device.device = hw::with_attention_memory(device.device, memory);
  for (hw::Device& at_clock : device.at_clocks) at_clock = hw::with_attention_memory(at_clock, memory);
}

}  // namespace

void read_devices(const Node& machine, ServingConfig& config, sim::Faults& faults) {
  const Node* devices = machine.find("devices");
  config.parts.resize(config.machine.devices.size());
  for (std::size_t i = 0; i < config.parts.size(); ++i) {
    const Node& group = devices->items()[i];
    DevicePart& device = config.parts[i];
    const Node* part = group.find("part");
    if (part != nullptr && part->is_string()) device.file = part_file(part->as_string(), part->origin(), faults);
    if (device.file.empty()) continue;
    const auto entry =
        hw::parse_computing_part(sim::read_config(device.file), config.machine.devices[i].override_, faults);
    if (!entry || !config.machine.cost.make) continue;
    auto made = hw::make_device(entry->name, entry->part, config.machine.cost, place_of(machine, "cost"), faults);
    if (!made) continue;
    device.device = *std::move(made);
    set_clocks(group, config.machine.devices[i], device, faults);
  }
  read_platform(machine, config, faults);
  if (auto& weights = config.replica.host_weights; weights && !weights->bandwidth) weights->bandwidth = kHostLink;
  for (std::size_t i = 0; i < config.parts.size(); ++i)
    read_attention(devices->items()[i], config.machine.devices[i], config.parts[i], faults);
}

void check_power(const Node& policies, const Node& machine, const ServingConfig& config, sim::Faults& faults) {
  const bool any = std::any_of(config.parts.begin(), config.parts.end(),
                               [](const DevicePart& part) { return !part.at_clocks.empty(); });
  if (config.policies.power.name != kHighestClock && !any)
    faults.add(place_of(policies, "power"), "expected 'clocks' of a group of machine.devices to choose from");
  if (!config.machine.profile.path) return;
  if (any) faults.add(place_of(machine, "profile"), "expected no measured tables beside 'clocks' of devices");
  if (std::ranges::any_of(config.parts, [](const DevicePart& part) { return part.attention.has_value(); }))
    faults.add(place_of(machine, "profile"), "expected no measured tables beside attention in memory");
  if (config.replica.host_weights)
    faults.add(place_of(machine, "profile"), "expected no measured tables beside weights in host memory");
  for (const DevicePart& part : config.parts)
    if (part.device.model != nullptr && part.device.cache.bandwidth <= 0)
      faults.add(
          place_of(machine, "profile"),
          fmt::format("expected no measured tables for {}: they are extended by the bandwidth of a shared cache, which "
                      "it has not",
                      part.device.name));
}

sim::FieldRows<AttentionMemoryParams> AttentionMemoryParams::fields() {
  using P = AttentionMemoryParams;
  static const sim::FieldTable table{
      names_part(sim::required(sim::field("part", &P::part, sim::Unit::reference, sim::any_value(),
                                          "Part of kind attention_pim, which keeps the KV cache."))),
      sim::annotated(sim::field("override", &P::override_, "Fields of the part to change."),
                     [](sim::FieldInfo& info, const sim::RegistrySet*) {
                       info.nested = sim::describe_params<hw::AttentionPimParams>();
                     }),
      sim::field(
          "schedule", &P::schedule,
          "How products on the device and attention in the memory overlap. `serial`: one after the other. "
          "`interleaved`: two halves of the decodes take turns. `fastest`: the quicker of both, batch by batch.")};
  return table;
}

sim::FieldRows<DeviceGroup> DeviceGroup::fields() {
  static const sim::FieldTable table{
      names_part(sim::required(sim::field("part", &DeviceGroup::part, sim::Unit::reference, sim::any_value(),
                                          "Part from the catalog (its name, with or without \"catalog:\"), or a "
                                          "JSON file like the catalog's."))),
      sim::field("count", &DeviceGroup::count, sim::Unit::count, sim::between(1, 4096),
                 "Number of devices in the group."),
      sim::field("clock", &DeviceGroup::clock_hz, sim::Unit::hertz, sim::positive(),
                 "Clock at which the devices run, with the voltage that goes with it; null: the highest."),
      sim::field("clocks", &DeviceGroup::clocks_hz, sim::Unit::hertz, sim::positive(),
                 "Clocks that policies.power may choose from, the highest first; empty: always `clock`."),
      sim::only_if_given(sim::field("attention", &DeviceGroup::attention,
                                    "Memory beside each device that computes the attention of decodes.")),
      sim::annotated(sim::field("override", &DeviceGroup::override_,
                                "Fields of the part to change, e.g. {\"memory_bandwidth\": \"3 TB/s\"}."),
                     [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); })};
  return table;
}

sim::FieldRows<MachineParams> MachineParams::fields() {
  static const sim::FieldTable table{
      sim::required(sim::field("devices", &MachineParams::devices, "Groups of equal devices, all in one node.")),
      sim::only_if_given(sim::field("platform", &MachineParams::platform,
                                    "Platform that launches kernels on the devices: a CPU coupled to GPUs of this "
                                    "part. `host` then counts launches at its costs.")),
      sim::only_if_given(sim::field("network", &MachineParams::network,
                                    "Network between the devices, each of which is a host. null: each replica has "
                                    "links of its own, as given by its part.")),
      sim::field("profile", &MachineParams::profile, "Measured operator tables in place of the cost model's times."),
      sim::choice("cost", &MachineParams::cost, "by_kind", "Cost model of the devices.")};
  return table;
}

}  // namespace orrery::experiments
