#include "tools/python/bindings/policy.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace orrery::python {

sim::Node PolicySource::block() const {
  sim::Node params = sim::Node::object();
  params.set("class", sim::Node::string(name_));
  params.set("source", sim::Node::string(source_));
  sim::Node block = sim::Node::object();
  block.set("policy", sim::Node::string("python"));
  block.set("python", std::move(params));
  return block;
}

std::string PolicySource::where() const {
  return fmt::format("policy {} at {:.9g} s of simulated time", name_, at_s_);
}

void PolicySource::rethrow(py::error_already_set& error) const {
  if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C, exit
  const std::string text =
      fmt::format("{}: {}: {}", where(), py::str(error.type().attr("__name__")).cast<std::string>(),
                  py::str(error.value()).cast<std::string>());
  const py::object type = py::module_::import("orrery.errors").attr("PolicyError");
  py::raise_from(error, type.ptr(), text.c_str());
  throw py::error_already_set();
}

void PolicySource::refuse(const std::string& what) const {
  const py::object type = py::module_::import("orrery.errors").attr("PolicyError");
  PyErr_SetString(type.ptr(), fmt::format("{}: {}", where(), what).c_str());
  throw py::error_already_set();
}

void install(const PythonPolicies& policies, experiments::ServingConfig& config) {
  sim::Node& blocks = *config.resolved.find("policies");
  if (policies.batching) {
    install_batching(policies.batching, config);
    blocks.set("batching", policies.batching->block());
  }
  if (policies.routing) {
    config.routing.make = python_router(policies.routing);
    blocks.set("routing", policies.routing->block());
  }
  if (policies.decode_routing) {
    config.decode_routing.make = python_router(policies.decode_routing);
    blocks.set("decode_routing", policies.decode_routing->block());
  }
}

void throw_closed(const char* what) {
  throw std::runtime_error(fmt::format("a {} is valid during the call that it was made for only", what));
}

}  // namespace orrery::python
