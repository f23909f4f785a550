// Everything with a name: what `orrery list --json` and `orrery describe --json` print.
#include "experiments/base/component_node.hpp"
#include "experiments/base/experiment.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {

void bind_components(py::module_& module) {
  module.def("components", [] {
    sim::Node all = sim::Node::array();
    for (const sim::ComponentInfo& component : experiments::all_components())
      all.push(experiments::component_node(component));
    return to_python(all);
  });
  module.def("schema", [] { return to_python(experiments::config_schema()); });
  module.def(
      "name_hint",
      [](const std::string& name, std::vector<std::string> known) { return sim::name_hint(name, std::move(known)); },
      py::arg("name"), py::arg("known"), "\"did you mean 'x'?\", or the known names.");
}

}  // namespace orrery::python
