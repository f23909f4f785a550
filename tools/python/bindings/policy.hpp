// Policies that are Python objects: who they are, when they were asked last, and what becomes of what they raise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {

/// A Python policy of a run: how to make an object of it for a replica, and where it was asked last.
class PolicySource {
 public:
  /// `make()` gives the object that is asked; `name` is its class, `source` stands for its code.
  PolicySource(py::object make, std::string name, std::string source)
      : make_(hold(std::move(make))), name_(std::move(name)), source_(std::move(source)) {}

  /// Needs the lock.
  py::object make() const { return (*make_)(); }
  const std::string& name() const { return name_; }
  /// As a config's policy block shows it.
  sim::Node block() const;

  /// Notes that it is asked; takes no lock.
  void asked(double at_s) { at_s_ = at_s; }
  /// Goes on with what Python raised as orrery.PolicyError, which names policy and simulated time; an interrupt stays
  /// one. Inside a catch block, with the lock.
  [[noreturn]] void rethrow(py::error_already_set& error) const;
  /// The same for a decision that the replica refused.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string where() const;
  Held make_;
  std::string name_, source_;
  double at_s_ = 0;
};

/// The policies that a run takes from Python; null: as the config says.
struct PythonPolicies {
  std::shared_ptr<PolicySource> batching, routing, decode_routing;
  bool any() const { return batching || routing || decode_routing; }
};

/// Puts them into a config.
void install(const PythonPolicies& policies, experiments::ServingConfig& config);
/// Reads a serving experiment with them in place of its own.
std::unique_ptr<experiments::Experiment> read_installed(const experiments::Systems& systems, const sim::Node& root,
                                                        const PythonPolicies& policies);
/// In the base of a study: "python" stands for them, so that a parameter may choose between them and others.
void stand_for(const PythonPolicies& policies, sim::Node& base);
/// Reads a config of such a study. Every run has sources of its own, since runs go side by side.
std::unique_ptr<experiments::Experiment> read_with(const experiments::Systems& systems, const sim::Node& config,
                                                   const PythonPolicies& policies);
void install_batching(const std::shared_ptr<PolicySource>& source, experiments::ServingConfig& config);
policies::RouterRegistry::Factory python_router(const std::shared_ptr<PolicySource>& source);

/// Throws where a view or a decision is used after the call that it was made for.
[[noreturn]] void throw_closed(const char* what);

}  // namespace orrery::python
