// Experiments: read from a file or from text, run with files or without.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "experiments/base/experiment.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/claims/runner.hpp"
#include "tools/python/bindings/policy.hpp"

namespace orrery::python {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Tells how far a run is, and notices Ctrl-C. Runs report often; the lock is taken a few times a second.
class Watch {
 public:
  explicit Watch(py::object tell) : tell_(hold(std::move(tell))) {}
  void operator()(const experiments::Progress& progress) {
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(100);
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (tell_->is_none()) return;
    (*tell_)(progress.done, progress.total, progress.simulated_s, progress.what);
  }

 private:
  Held tell_;
  Clock::time_point next_ = Clock::now();
};

/// A config in memory, with the files that its `base` names below it.
sim::Node parse_config(const std::string& text) {
  sim::Node own = sim::parse_json(text, "config");
  const sim::Node* base = own.is_object() ? own.find("base") : nullptr;
  if (base == nullptr) return own;
  sim::Node merged = sim::Node::object();
  const auto add = [&](const sim::Node& name) {
    if (!name.is_string()) sim::throw_fault(name.origin(), fmt::format("expected a path, got {}", name.shown()));
    sim::merge_over(merged, sim::read_config(name.as_string()));
  };
  if (base->is_array()) {
    for (const sim::Node& name : base->items()) add(name);
  } else {
    add(*base);
  }
  own.erase("base");
  sim::merge_over(merged, own);
  return merged;
}

sim::Node read_root(const std::optional<std::string>& path, const std::string& text,
                    const std::vector<std::string>& assignments) {
  if (path && experiments::claims::is_claim_study(fs::path(*path)))
    sim::throw_fault({*path, "/kind"}, "expected an experiment, got a claim study", "`orrery reproduce` runs it");
  if (path) return sim::read_config(*path, assignments);
  sim::Node root = parse_config(text);
  for (const std::string& assignment : assignments) sim::assign(root, assignment);
  return root;
}

std::unique_ptr<experiments::Experiment> make_experiment(const experiments::Systems& systems, const sim::Node& root,
                                                         const PythonPolicies& policies) {
  return policies.any() ? read_installed(systems, root, policies) : experiments::read_experiment(systems, root);
}

class PyExperiment {
 public:
  PyExperiment(const experiments::Systems& systems, const std::optional<std::string>& path, const std::string& text,
               const std::vector<std::string>& assignments, PythonPolicies policies)
      : policies_(std::move(policies)),
        experiment_(make_experiment(systems, read_root(path, text, assignments), policies_)) {}

  /// Runs, with files in `folder` (which is there) if it is given. Needs the lock, and lets it go.
  py::dict run(const std::optional<std::string>& folder, py::object progress) const {
    return told(execute(folder ? std::optional<fs::path>(*folder) : std::nullopt, std::move(progress)));
  }

  /// Runs into a run folder, as the command does.
  py::dict run_into(const std::string& folder, bool force, py::object progress) const {
    experiments::RunFolder target(folder, force);
    const std::string hash = experiments::config_hash(*experiment_);
    const Ran ran = execute(target.working(), std::move(progress));
    experiments::write_text(target.working() / "summary.json", ran.outcome.summary.dump(2) + "\n");
    const sim::Node manifest = experiments::manifest(*experiment_, ran.outcome, {hash, ran.wall_s});
    experiments::write_text(target.working() / "manifest.json", manifest.dump(2) + "\n");
    target.commit();
    return told(ran);
  }

  const experiments::Experiment& get() const { return *experiment_; }

 private:
  struct Ran {
    experiments::Outcome outcome;
    double wall_s = 0;
  };

  Ran execute(const std::optional<fs::path>& folder, py::object progress) const {
    const auto start = Clock::now();
    Watch watch(std::move(progress));
    Ran ran;
    try {
      const py::gil_scoped_release release;
      ran.outcome = experiment_->run({folder, [&](const experiments::Progress& p) { watch(p); }});
    } catch (const std::logic_error& error) {
      if (policies_.batching) policies_.batching->refuse(error.what());
      throw;
    }
    ran.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
    return ran;
  }

  static py::dict told(const Ran& ran) {
    py::dict all;
    all["summary"] = to_python(ran.outcome.summary);
    all["events"] = ran.outcome.events;
    all["notes"] = ran.outcome.notes;
    all["wall_s"] = ran.wall_s;
    return all;
  }

  PythonPolicies policies_;
  std::unique_ptr<experiments::Experiment> experiment_;
};

}  // namespace

void bind_experiment(py::module_& module, const SharedKnown& known) {
  using Source = std::shared_ptr<PolicySource>;
  py::class_<PyExperiment>(module, "Experiment", "A validated config that can be run any number of times.")
      .def(py::init([known](const std::optional<std::string>& path, const std::string& text,
                            const std::vector<std::string>& assignments, const Source& batching, const Source& routing,
                            const Source& decode_routing) {
             return std::make_unique<PyExperiment>(known->systems, path, text, assignments,
                                                   PythonPolicies{batching, routing, decode_routing});
           }),
           py::arg("path"), py::arg("text"), py::arg("assignments"), py::kw_only(), py::arg("batching") = py::none(),
           py::arg("routing") = py::none(), py::arg("decode_routing") = py::none())
      .def("run", &PyExperiment::run, py::arg("folder"), py::arg("progress"))
      .def("run_into", &PyExperiment::run_into, py::arg("folder"), py::arg("force"), py::arg("progress"))
      .def("resolved", [](const PyExperiment& e) { return to_python(e.get().resolved()); })
      .def("hash", [](const PyExperiment& e) { return experiments::config_hash(e.get()); })
      .def("inputs",
           [](const PyExperiment& e) {
             std::vector<std::string> files;
             for (const fs::path& file : e.get().inputs()) files.push_back(file.string());
             return files;
           })
      .def("seed", [](const PyExperiment& e) { return e.get().seed(); });
}

}  // namespace orrery::python
