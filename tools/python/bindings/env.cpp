// One environment. The lock is let go while it is reset or stepped.
#include <mutex>
#include <stdexcept>
#include <utility>

#include "experiments/rl/core/vector_env.hpp"
#include "tools/python/bindings/env_support.hpp"

namespace orrery::python {

using namespace experiments::rl;  // in a .cpp of bindings to it

EnvFactory env_factory(const experiments::Systems& systems, const std::string& name, const std::string& params) {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, name);
  const EnvRegistry::Choice choice = systems.registry<EnvRegistry>().prepare(name, &node, {"make_env", ""}, faults);
  faults.throw_if_any();
  return experiments::rl::env_factory(choice, systems);
}

std::unique_ptr<Env> make_env(const EnvFactory& factory, const std::string& name) {
  try {
    return factory();
  } catch (const std::invalid_argument& error) {
    sim::throw_fault({name, ""}, error.what());
  }
}

py::dict spec_dict(const EnvSpec& spec) {
  py::list agents;
  for (const AgentSpec& agent : spec.agents) {
    std::vector<std::string> names;
    std::vector<double> low, high;
    for (const ObservationEntry& entry : agent.observation) {
      names.push_back(entry.name);
      low.push_back(entry.low);
      high.push_back(entry.high);
    }
    py::dict one;
    one["name"] = agent.name;
    one["observation"] = names;
    one["observation_low"] = to_array(std::move(low));
    one["observation_high"] = to_array(std::move(high));
    const char* const kinds[] = {"discrete", "multi_discrete", "box"};
    one["action"] = kinds[static_cast<std::size_t>(agent.action.kind)];
    one["choices"] = agent.action.choices;
    one["action_low"] = agent.action.low;
    one["action_high"] = agent.action.high;
    one["action_names"] = agent.action.names;
    agents.append(one);
  }
  py::dict all;
  all["agents"] = agents;
  all["masked"] = spec.masked;
  all["shared_reward"] = spec.shared_reward;
  all["info"] = spec.info;
  return all;
}

namespace {

class PyEnv {
 public:
  PyEnv(const experiments::Systems& systems, const std::string& name, const std::string& params)
      : env_(make_env(python::env_factory(systems, name, params), name)) {}

  py::tuple reset(std::uint64_t seed) {
    {
      const py::gil_scoped_release release;
      const std::lock_guard one_at_a_time(mutex_);
      begun_ = false;
      env_->reset(seed, step_);
      begun_ = true;
      nothing_asked_ = step_.ended();
    }
    return told();
  }

  py::tuple step(const Actions& action) {
    {
      const py::gil_scoped_release release;
      const std::lock_guard one_at_a_time(mutex_);
      advance(span_of(action));
    }
    return told();
  }

  py::dict spec() const { return spec_dict(env_->spec()); }

 private:
  /// Rows of all agents: observation, rewards, terminated, truncated, mask, figures.
  py::tuple told() const {
    const auto row = [](const auto& values) { return copied(values, {static_cast<py::ssize_t>(values.size())}); };
    return py::make_tuple(row(step_.observation), row(step_.rewards), step_.terminated, step_.truncated,
                          row(step_.mask), row(step_.info));
  }

  void advance(std::span<const double> action) {
    if (!begun_) throw std::runtime_error("reset() comes before step()");
    // An episode without a decision ends with the first step, whatever that is.
    if (std::exchange(nothing_asked_, false)) return;
    if (step_.ended()) throw std::runtime_error("the episode has ended: reset() begins the next");
    check_action(env_->spec(), step_.mask, action);
    begun_ = false;
    env_->step(action, step_);
    begun_ = true;
  }

  std::mutex mutex_;
  std::unique_ptr<Env> env_;
  TimeStep step_;
  bool begun_ = false, nothing_asked_ = false;
};

}  // namespace

void bind_env(py::module_& module, const SharedKnown& known) {
  py::class_<PyEnv>(module, "Env")
      .def(py::init([known](const std::string& name, const std::string& params) {
             return std::make_unique<PyEnv>(known->systems, name, params);
           }),
           py::arg("name"), py::arg("params"))
      .def("spec", &PyEnv::spec)
      .def("reset", &PyEnv::reset, py::arg("seed"))
      .def("step", &PyEnv::step, py::arg("action"));
  module.def("episode_seed", &episode_seed, py::arg("seed"), py::arg("k"));
  module.def("env_seed", &env_seed, py::arg("seed"), py::arg("i"));
}

}  // namespace orrery::python
