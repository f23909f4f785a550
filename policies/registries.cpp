#include "policies/registries.hpp"

namespace orrery::policies {

#define KIND(name, fill, Interface, ...) void fill(sim::Registry<Interface __VA_OPT__(, ) __VA_ARGS__>& registry);
ORRERY_POLICY_KINDS(KIND)
#undef KIND

Registries all_policies(std::span<const LoadedPlugin> plugins) {
  Registries all;
#define KIND(name, fill, ...)                \
  fill(all.name);                            \
  for (const LoadedPlugin& loaded : plugins) \
    if (loaded.plugin->name != nullptr) loaded.plugin->name(all.name);
  ORRERY_POLICY_KINDS(KIND)
#undef KIND
  return all;
}

}  // namespace orrery::policies
