#include "tools/python/bindings/policy.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "experiments/systems/serving/read.hpp"

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
    config.policies.routing.make = python_router(policies.routing);
    blocks.set("routing", policies.routing->block());
  }
  if (policies.decode_routing) {
    config.policies.decode_routing.make = python_router(policies.decode_routing);
    blocks.set("decode_routing", policies.decode_routing->block());
  }
}

std::unique_ptr<experiments::Experiment> read_installed(const experiments::Systems& systems, const sim::Node& root,
                                                        const PythonPolicies& policies) {
  const sim::Node* system = root.find("system");
  if (system == nullptr || !system->is_string() || system->as_string() != "serving")
    sim::throw_fault(root.origin_at("system"), "expected \"serving\", whose policies may be Python classes");
  sim::Faults faults;
  return experiments::read_serving(root, systems.registries(), faults,
                                   [&](experiments::ServingConfig& config) { install(policies, config); });
}

namespace {

struct Decision {
  const char* name;
  std::shared_ptr<PolicySource> PythonPolicies::*source;
};
constexpr std::array<Decision, 3> kDecisions{{{"batching", &PythonPolicies::batching},
                                              {"routing", &PythonPolicies::routing},
                                              {"decode_routing", &PythonPolicies::decode_routing}}};

}  // namespace

void stand_for(const PythonPolicies& policies, sim::Node& base) {
  sim::Node chosen = sim::Node::object();
  for (const Decision& decision : kDecisions)
    if (const auto& source = policies.*decision.source) chosen.set(decision.name, source->block());
  sim::Node above = sim::Node::object();
  above.set("policies", std::move(chosen));
  sim::merge_over(base, above);
}

std::unique_ptr<experiments::Experiment> read_with(const experiments::Systems& systems, const sim::Node& config,
                                                   const PythonPolicies& policies) {
  sim::Node root = config;
  PythonPolicies used;
  sim::Node* blocks = root.find("policies");
  for (const Decision& decision : kDecisions) {
    const auto& source = policies.*decision.source;
    sim::Node* block = source && blocks != nullptr ? blocks->find(decision.name) : nullptr;
    if (block == nullptr) continue;
    const sim::Node* policy = block->find("policy");
    const bool ours = policy != nullptr && policy->is_string() && policy->as_string() == "python";
    if (ours) used.*decision.source = std::make_shared<PolicySource>(*source);
    block->erase("python");
    if (ours) blocks->erase(decision.name);
  }
  return used.any() ? read_installed(systems, root, used) : experiments::read_experiment(systems, root);
}

void throw_closed(const char* what) {
  throw std::runtime_error(fmt::format("a {} is valid during the call that it was made for only", what));
}

}  // namespace orrery::python
