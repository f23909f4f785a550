// What environments and vectors of them share in Python.
#pragma once

#include "experiments/rl/core/env.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {

/// The way to make an environment of that name with parameters as JSON. Throws sim::ConfigError.
experiments::rl::EnvFactory env_factory(const experiments::Systems& systems, const std::string& name,
                                        const std::string& params);
/// Makes one; what its parameters cannot say by their ranges is a sim::ConfigError too.
std::unique_ptr<experiments::rl::Env> make_env(const experiments::rl::EnvFactory& factory, const std::string& name);
/// {"agents": [...], "masked", "shared_reward", "info"}.
py::dict spec_dict(const experiments::rl::EnvSpec& spec);

using Actions = py::array_t<double, py::array::c_style | py::array::forcecast>;
inline std::span<const double> span_of(const Actions& actions) {
  return {actions.data(), static_cast<std::size_t>(actions.size())};
}

/// A copy as an array of this shape.
template <class T>
py::array_t<T> copied(const std::vector<T>& values, const std::vector<py::ssize_t>& shape) {
  return py::array_t<T>(shape, values.data());
}

}  // namespace orrery::python
