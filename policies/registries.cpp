#include "policies/registries.hpp"

namespace orrery::policies {

#define ORRERY_KIND(name, fill, Interface, ...) \
  void fill(sim::Registry<Interface __VA_OPT__(, ) __VA_ARGS__>& registry);
ORRERY_POLICY_KINDS(ORRERY_KIND)
#undef ORRERY_KIND

Registries all_policies(std::span<const LoadedPlugin> plugins) {
  Registries all;
#define ORRERY_KIND(name, fill, ...)         \
  fill(all.name);                            \
  for (const LoadedPlugin& loaded : plugins) \
    if (loaded.plugin->name != nullptr) loaded.plugin->name(all.name);
  ORRERY_POLICY_KINDS(ORRERY_KIND)
#undef ORRERY_KIND
  return all;
}

}  // namespace orrery::policies
