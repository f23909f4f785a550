// Plugins: policies in shared objects (docs/explain/plugins.md).
#include "policies/plugin_host.hpp"

#include "experiments/all/systems.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {
namespace {

py::dict facts(const policies::LoadedPlugin& loaded) {
  py::dict out;
  out["name"] = loaded.plugin->name;
  out["doc"] = loaded.plugin->doc;
  out["path"] = loaded.file.string();
  out["digest"] = loaded.digest;
  return out;
}

}  // namespace

void bind_plugins(py::module_& module, const SharedKnown& known) {
  const auto renew = [known] { known->systems = experiments::all_systems(policies::loaded_plugins()); };
  module.def("load_plugin", [renew](const std::string& path) {
    const policies::LoadedPlugin loaded = policies::load_plugin(path);
    renew();
    return facts(loaded);
  });
  module.def("load_environment_plugins", [renew] {
    policies::load_environment_plugins();
    renew();
  });
  module.def("plugins", [] {
    py::list all;
    for (const policies::LoadedPlugin& loaded : policies::loaded_plugins()) all.append(facts(loaded));
    return all;
  });
}

}  // namespace orrery::python
