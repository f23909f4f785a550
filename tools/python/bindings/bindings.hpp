// What the parts of the Python module share. Each part has one function that adds it to the module.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "experiments/base/experiment.hpp"
#include "sim/base/document.hpp"

namespace orrery::python {

namespace py = pybind11;

/// What the module knows of: made when it is loaded, and anew when a plugin is. What was read before keeps what it was
/// read with. For whoever holds the interpreter's lock.
struct Known {
  experiments::Systems systems;
};
using SharedKnown = std::shared_ptr<Known>;

void bind_components(py::module_& module, const SharedKnown& known);
void bind_batching(py::module_& module, const SharedKnown& known);
void bind_batching_view(py::module_& module);
void bind_routing(py::module_& module);
void bind_experiment(py::module_& module, const SharedKnown& known);
void bind_plugins(py::module_& module, const SharedKnown& known);
void bind_tables(py::module_& module);
void bind_timeline(py::module_& module);
void bind_env(py::module_& module, const SharedKnown& known);
void bind_vector_env(py::module_& module, const SharedKnown& known);
void bind_study(py::module_& module, const SharedKnown& known);
void bind_search(py::module_& module, const SharedKnown& known);
void bind_graph(py::module_& module, const SharedKnown& known);
void bind_machine(py::module_& module, const SharedKnown& known);
void bind_trace(py::module_& module, const SharedKnown& known);
void bind_answers(py::module_& module, const SharedKnown& known);

/// A document as dicts, lists and scalars; keys keep their order.
py::object to_python(const sim::Node& node);

/// An array that takes over the memory of a vector.
template <class T>
py::array_t<T> to_array(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  const py::capsule owner(kept, [](void* memory) { delete static_cast<std::vector<T>*>(memory); });
  return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
}

/// A Python object held by code that runs without the interpreter's lock: copies need no lock, the last one takes it.
using Held = std::shared_ptr<py::object>;
inline Held hold(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            const py::gil_scoped_acquire lock;
            delete held;
          }};
}

}  // namespace orrery::python
