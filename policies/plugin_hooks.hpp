// What a plugin hands over: for each kind of policy a function that adds its policies to a registry of that kind.
// Registries are only named here, so that a plugin includes no more than the interfaces it implements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::sim {
template <class Interface, class... Args>
class Registry;
class RandomStream;
}  // namespace orrery::sim

namespace orrery::policies {

class AdmissionControl;
class Batching;
class ClockPolicy;
class Execution;
class GraphPass;
class KvCache;
struct KvGeometry;
class MemoryPlanner;
class Migration;
class Router;
class Scaling;
class Speculator;
class StepPrices;

/// Describes a plugin. A hook that is null adds nothing; one that is there is called for every registry that is filled,
/// so it does nothing but add.
struct Plugin {
  const char* name = "";  ///< of the plugin
  const char* doc = "";   ///< one line
  void (*admission)(sim::Registry<AdmissionControl>&) = nullptr;
  void (*batching)(sim::Registry<Batching>&) = nullptr;
  void (*execution)(sim::Registry<Execution>&) = nullptr;
  void (*kvcache)(sim::Registry<KvCache, const KvGeometry&>&) = nullptr;
  void (*memory_planner)(sim::Registry<MemoryPlanner>&) = nullptr;
  void (*migration)(sim::Registry<Migration>&) = nullptr;
  void (*pass)(sim::Registry<GraphPass>&) = nullptr;
  void (*power)(sim::Registry<ClockPolicy>&) = nullptr;
  void (*routing)(sim::Registry<Router, sim::RandomStream>&) = nullptr;
  void (*scaling)(sim::Registry<Scaling>&) = nullptr;
  void (*speculation)(sim::Registry<Speculator, const StepPrices&, std::uint64_t>&) = nullptr;
};

/// What the program that loads a plugin lends to the plugin's copy of the code: names of dimensions are compared by
/// address, so both must keep them in one place (models::share_names).
struct PluginHost {
  const std::string* (*intern_name)(std::string_view) = nullptr;
};

/// Names of the two symbols that a plugin exports: the ABI it was built for (text), and the entry.
inline constexpr const char* kPluginAbiSymbol = "orrery_plugin_abi";
inline constexpr const char* kPluginEntrySymbol = "orrery_plugin";
using PluginEntry = const Plugin* (*)(const PluginHost&);

}  // namespace orrery::policies
