// Everything with a name: what `orrery list --json` and `orrery describe --json` print.
#include "experiments/all/systems.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {

void bind_components(py::module_& module, const SharedKnown& known) {
  module.def("components", [known] {
    sim::Node all = sim::Node::array();
    for (const sim::ComponentInfo& component : experiments::all_components(known->systems))
      all.push(experiments::described(known->systems, component));
    return to_python(all);
  });
  module.def("schema", [known] { return to_python(experiments::config_schema(known->systems)); });
  module.def(
      "name_hint",
      [](const std::string& name, std::vector<std::string> names) { return sim::name_hint(name, std::move(names)); },
      py::arg("name"), py::arg("known"), "\"did you mean 'x'?\", or the known names.");
}

}  // namespace orrery::python
