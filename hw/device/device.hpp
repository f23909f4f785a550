// A device: a computing part of the catalog, at a clock, with the cost model that answers for it.
//
// Every system that prices kernels holds Devices, made by make_device() whatever the kind of part. What only one kind
// has (measured L2 bandwidth of a GPU, say) is in `part`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/base/cost_model.hpp"
#include "hw/device/part.hpp"
#include "hw/gpu/area.hpp"
#include "hw/network/link.hpp"
#include "hw/parts/catalog.hpp"
#include "sim/base/document.hpp"

namespace orrery::hw {

struct Device;
/// Makes a cost model for a device whose other members are set; null where it has none for the kind of part.
using CostModelFactory = std::function<std::unique_ptr<CostModel>(const Device&)>;

/// How kernels come to a device, s. `in_cost` and `access` are inside of cost()'s times: the launch, and what the first
/// load waits for whatever the kernel does. `stream` and `node` replace `in_cost` where a host is modelled: a kernel
/// that does nothing, launched by itself or as a node of a captured graph.
struct DeviceLaunch {
  double in_cost_s = 0, access_s = 0;
  double stream_s = 0, node_s = 0;
};

/// Clocks that a device may run at, Hz; one clock only where both are equal.
struct DeviceClocks {
  double lowest_hz = 0, highest_hz = 0;
};

/// The cache that all cores share: bytes, and bytes/s. 0: there is none, or its bandwidth is not known.
struct SharedCache {
  std::int64_t bytes = 0;
  double bandwidth = 0;
};

/// Sizes in bytes, rates per s.
struct Device {
  std::string name;  ///< of the catalog entry
  Part part;
  std::int64_t memory_bytes = 0;
  double memory_bandwidth = 0;  ///< that the units see
  SharedCache cache;
  LinkParams link;    ///< to its like in a node; bandwidth 0: none
  PowerParams power;  ///< idle, busy, and dynamic energies where the part has them
  double clock_hz = 0;
  DeviceClocks clocks;
  std::int64_t cores = 1;          ///< that work by themselves: SMs, cores, DPUs
  std::int64_t scratch_bytes = 0;  ///< on chip, all cores: what tiles of a fused kernel may fill; 0: not known
  DeviceLaunch launch;
  bool beside_host = false;  ///< computes what a host sends it: no machine by itself
  CostModelFactory make_cost;
  std::shared_ptr<const CostModel> model;

  std::string_view kind() const { return kind_of(part); }
  /// Throws std::invalid_argument for a kernel that the device cannot run.
  Cost cost(const Kernel& kernel) const { return model->cost(kernel); }
  /// Why it cannot run a kernel by itself; nothing if it can.
  std::optional<std::string> obstacle(const Kernel& kernel) const { return model->obstacle(kernel); }
  /// Why it cannot be a machine by itself; nothing if it can.
  std::optional<std::string> alone_obstacle() const;
  /// Why it cannot be one of `ranks` that share every layer; nothing if it can.
  std::optional<std::string> rank_obstacle(std::int64_t ranks) const;
  /// Peak FLOP/s of its units for products in a format, at the rate of the one they would run in.
  double peak(DType dtype) const;
  /// Peak FLOP/s in fp32 of what makes passes over memory.
  double vector_peak() const;
  /// Dynamic energy of a FLOP of products, J; 0 where the part states none.
  double flop_energy(DType dtype) const;
  /// Whether it has units of the format's own for products.
  bool has_units_for(DType dtype) const;
  /// Estimate of its die in a process, and the name of that process; nothing where the part names none.
  const DieParams* die() const;
  std::optional<AreaEstimate> area(const ProcessParams& process) const;
  /// The parameters of its part, where it is of that kind.
  template <class P>
  const P* as() const {
    return std::get_if<P>(&part);
  }
};

/// The device that a part is. `make_cost` must have a model for it.
Device make_device(std::string name, const Part& part, const CostModelFactory& make_cost);

/// The same at another clock, as hw/gpu/dvfs.hpp has it. Throws std::invalid_argument outside `clocks`.
Device at_clock(const Device& device, double clock_hz);

/// The same where a kernel of no work takes so long. Throws std::invalid_argument for what is no GPU.
Device with_launch(const Device& device, double seconds);

/// The same with attention of decodes in memory beside it; a memory that is not the device's own adds its background
/// to the idle power.
Device with_attention_memory(const Device& device, const AttentionPimParams& memory);

/// Fields of all kinds of computing part, those of one name once and none of them required: what an override may say.
std::vector<sim::FieldInfo> computing_part_fields();

/// Reads a catalog entry of any computing kind with `changes` (null: none) laid over it; nothing after a fault. An
/// entry of another kind is one. Rates that the entry states at its clock follow a changed `clock`, unless they are
/// changed themselves: the peaks and the L2 bandwidth of a GPU, the L2 bandwidth of an NPU. Energies stay, for it is
/// another part and not the same one at another voltage (that is at_clock).
std::optional<CatalogEntry<Part>> parse_computing_part(const sim::Node& entry, const sim::Node& changes,
                                                       sim::Faults& faults);

}  // namespace orrery::hw
