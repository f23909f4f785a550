// The module `_orrery`: the compiled core of the package `orrery`, which is what users see (tools/python/orrery).
#include "experiments/all/systems.hpp"
#include "experiments/base/run_folder.hpp"
#include "sim/base/fault.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {
namespace {

/// Raises orrery.ConfigError with the faults as tuples (file, pointer, message, hint).
void raise_config_error(const sim::ConfigError& error) {
  py::list faults;
  for (const sim::Fault& fault : error.faults())
    faults.append(py::make_tuple(fault.where.file, fault.where.pointer, fault.message, fault.hint));
  const py::object type = py::module_::import("orrery.errors").attr("ConfigError");
  PyErr_SetObject(type.ptr(), type(faults).ptr());
}

}  // namespace
}  // namespace orrery::python

PYBIND11_MODULE(_orrery, module) {
  using namespace orrery;
  module.doc() = "Compiled core of the package orrery.";
  pybind11::register_exception_translator([](std::exception_ptr raised) {
    try {
      if (raised) std::rethrow_exception(raised);
    } catch (const sim::ConfigError& error) {
      python::raise_config_error(error);
    }
  });
  module.def("version", [] { return std::string(experiments::version()); });
  module.def("build_id", [] { return experiments::build_id(); });
  module.def("home_folder", [] { return experiments::home_folder().string(); });
  const auto known =
      std::make_shared<python::Known>(python::Known{experiments::all_systems(policies::loaded_plugins())});
  python::bind_components(module, known);
  python::bind_plugins(module, known);
  python::bind_tables(module);
  python::bind_timeline(module);
  python::bind_batching_view(module);
  python::bind_batching(module, known);
  python::bind_routing(module);
  python::bind_experiment(module, known);
  python::bind_env(module, known);
  python::bind_vector_env(module, known);
  python::bind_study(module, known);
  python::bind_search(module, known);
  python::bind_machine(module, known);
  python::bind_graph(module, known);
  python::bind_trace(module, known);
  python::bind_answers(module, known);
}
