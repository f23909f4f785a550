// Many environments stepped together on threads, without Python's lock.
#include "experiments/rl/core/vector_env.hpp"

#include <fmt/format.h>

#include <mutex>
#include <stdexcept>

#include "tools/python/bindings/env_support.hpp"

namespace orrery::python {
namespace {

using namespace experiments::rl;

Autoreset autoreset_of(const std::string& mode) {
  if (mode == "next_step") return Autoreset::next_step;
  if (mode == "same_step") return Autoreset::same_step;
  throw std::invalid_argument(fmt::format("autoreset: expected \"next_step\" or \"same_step\", got \"{}\"", mode));
}

std::vector<std::unique_ptr<Env>> make_envs(const experiments::Systems& systems, const std::string& name,
                                            const std::string& params, std::size_t n) {
  const EnvFactory factory = python::env_factory(systems, name, params);
  std::vector<std::unique_ptr<Env>> envs;
  for (std::size_t i = 0; i < n; ++i) envs.push_back(make_env(factory, name));
  return envs;
}

class PyVectorEnv {
 public:
  PyVectorEnv(const experiments::Systems& systems, const std::string& name, const std::string& params, std::size_t n,
              const std::string& mode, std::size_t threads)
      : envs_(make_envs(systems, name, params, n), autoreset_of(mode), threads) {}

  py::dict reset(const std::vector<std::uint64_t>& seeds) {
    {
      const py::gil_scoped_release release;
      const std::lock_guard one_at_a_time(mutex_);
      envs_.reset(seeds);
    }
    return told();
  }

  py::dict step(const Actions& actions) {
    {
      const py::gil_scoped_release release;
      const std::lock_guard one_at_a_time(mutex_);
      envs_.step(span_of(actions));
    }
    return told();
  }

  py::dict spec() const { return spec_dict(envs_.spec()); }

 private:
  py::dict told() const {
    const VectorStep& now = envs_.now();
    const auto n = static_cast<py::ssize_t>(envs_.size());
    const auto rows = [n](const auto& values) {
      return copied(values, {n, static_cast<py::ssize_t>(values.size()) / n});
    };
    const auto flags = [n](const auto& values) { return copied(values, {n}); };
    py::dict all;
    all["observations"] = rows(now.observations);
    all["rewards"] = rows(now.rewards);
    all["masks"] = rows(now.masks);
    all["terminated"] = flags(now.terminated);
    all["truncated"] = flags(now.truncated);
    all["info"] = rows(now.info);
    all["ended"] = flags(now.ended);
    all["final_observations"] = rows(now.final_observations);
    all["final_info"] = rows(now.final_info);
    return all;
  }

  std::mutex mutex_;
  VectorEnv envs_;
};

}  // namespace

void bind_vector_env(py::module_& module, const SharedKnown& known) {
  py::class_<PyVectorEnv>(module, "VectorEnv")
      .def(py::init([known](const std::string& name, const std::string& params, std::size_t n,
                            const std::string& autoreset, std::size_t threads) {
             return std::make_unique<PyVectorEnv>(known->systems, name, params, n, autoreset, threads);
           }),
           py::arg("name"), py::arg("params"), py::arg("n"), py::arg("autoreset"), py::arg("threads"))
      .def("spec", &PyVectorEnv::spec)
      .def("reset", &PyVectorEnv::reset, py::arg("seeds"))
      .def("step", &PyVectorEnv::step, py::arg("actions"));
}

}  // namespace orrery::python
