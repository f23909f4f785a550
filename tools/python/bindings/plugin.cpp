// Plugins: policies in shared objects (docs/plugins.md).
#include "policies/plugin_host.hpp"

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

void bind_plugins(py::module_& module) {
  module.def("load_plugin", [](const std::string& path) { return facts(policies::load_plugin(path)); });
  module.def("load_environment_plugins", [] { policies::load_environment_plugins(); });
  module.def("plugins", [] {
    py::list all;
    for (const policies::LoadedPlugin& loaded : policies::loaded_plugins()) all.append(facts(loaded));
    return all;
  });
}

}  // namespace orrery::python
