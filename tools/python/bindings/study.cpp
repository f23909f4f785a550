// Studies: read from a file or from text, explored into a store; and what stores hold.
#include "experiments/study/study.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "experiments/base/study_file.hpp"
#include "experiments/study/analysis.hpp"
#include "experiments/study/explore.hpp"
#include "experiments/study/remote_runs.hpp"
#include "experiments/study/results.hpp"
#include "experiments/study/selected.hpp"
#include "experiments/study/trials.hpp"
#include "sim/base/write_fault.hpp"
#include "tools/python/bindings/policy.hpp"
#include "tools/python/bindings/watched.hpp"

namespace orrery::python {
namespace {

namespace fs = std::filesystem;
namespace study = experiments::study;
using sim::Node;

Node read_document(const std::optional<std::string>& path, const std::string& text) {
  return path ? sim::read_json(*path) : sim::parse_json(text, "study");
}

class PyStudy {
 public:
  PyStudy(const experiments::Systems& systems, const std::optional<std::string>& path, const std::string& text,
          const std::vector<std::string>& assignments, const PythonPolicies& policies)
      : study_(study::read_study(systems, read_document(path, text), path.value_or("study"), assignments)) {
    if (!policies.any()) return;
    stand_for(policies, study_.base);
    study_.read = [policies, systems](const Node& config) { return read_with(systems, config, policies); };
  }

  py::dict facts() const {
    py::dict all;
    all["name"] = study_.name;
    all["title"] = study_.title;
    all["file"] = study_.file.string();
    all["document"] = to_python(study_.document);
    all["sweeps"] = !study_.sweep.empty();
    all["objectives"] = study_.objectives.size();
    all["driver"] = study_.search.driver.name;
    return all;
  }

  std::string store_file(bool search) const { return study::default_store(study_, search).string(); }

  /// `cluster`: the process that hands runs on, and what it is called; none: threads of this one. `from`: earlier
  /// stores.
  py::dict explore(bool search, const std::string& out, std::size_t jobs, bool any_build, py::object progress,
                   const std::vector<std::string>& cluster, const std::string& address,
                   const std::vector<std::string>& from) const {
    Watched watched(std::move(progress));
    study::ExploreOptions how{.search = search, .out = out, .jobs = jobs, .any_build = any_build};
    how.from.assign(from.begin(), from.end());
    how.stop = [&] { return watched.stopped(); };
    how.progress = [&](std::int64_t done, std::optional<std::int64_t> total) {
      watched.report({.done = done, .total = total, .what = "points"});
    };
    study::ExploreResult result;
    watched.run([&] {
      std::optional<study::RemoteRuns> remote;
      if (!cluster.empty()) {
        remote.emplace(cluster, address, study_, how.stop);
        how.executor = &*remote;
      }
      result = study::explore(study_, how);
    });
    py::dict told;
    told["points"] = result.points;
    told["known"] = result.known;
    told["earlier"] = result.earlier;
    told["runs"] = result.runs;
    told["forbidden"] = result.forbidden;
    told["reused"] = result.was_complete;
    told["notes"] = result.notes;
    return told;
  }

  /// The study that runs the best points of a store of this one again until it is known which is best.
  std::unique_ptr<PyStudy> confirming(const experiments::Systems& systems, const std::string& store,
                                      std::size_t candidates, double within, double confidence,
                                      std::int64_t runs) const {
    return std::unique_ptr<PyStudy>(new PyStudy(study::confirming_study(
        systems, study_, store, {.candidates = candidates, .within = within, .confidence = confidence, .runs = runs})));
  }

  /// The resolved config of a point of a store of this study, with the first seed.
  py::object config(const std::string& file, std::int64_t id) const {
    study::StoreReader store(file);
    const study::StoredTrials stored = study::read_trials(store, {});
    if (id < 1 || id > std::ssize(stored.trials))
      sim::throw_fault({file, ""}, fmt::format("expected a point from 1 to {}, got {}", stored.trials.size(), id));
    const experiments::search::Proposal& proposal = stored.trials[static_cast<std::size_t>(id - 1)].proposal;
    return to_python(study_.read(study_.config(proposal.point, proposal.fidelity, study_.seeds.first))->resolved());
  }

  /// Every fault, in the study and in the experiments of (some of) its points.
  void check(std::size_t most) const {
    const bool swept = !study_.sweep.empty();
    (void)study::check_explorable(study_, !swept);
    study::check_experiments(study_, study::sample_points(study_, swept, most));
  }

 private:
  explicit PyStudy(study::Study study) : study_(std::move(study)) {}

  study::Study study_;
};

/// A column of cells: whole numbers, numbers (NaN: nothing), or `texts` (None: nothing).
py::object column_of(const std::vector<study::Cell>& cells, bool texts) {
  const auto all = [&](auto holds) { return std::all_of(cells.begin(), cells.end(), holds); };
  if (!texts && all([](const study::Cell& cell) { return std::holds_alternative<std::int64_t>(cell); })) {
    std::vector<std::int64_t> values;
    for (const study::Cell& cell : cells) values.push_back(std::get<std::int64_t>(cell));
    return to_array(std::move(values));
  }
  if (!texts && all([](const study::Cell& cell) { return !std::holds_alternative<std::string>(cell); })) {
    std::vector<double> values;
    for (const study::Cell& cell : cells) values.push_back(study::number_of(cell));
    return to_array(std::move(values));
  }
  py::list values;
  for (const study::Cell& cell : cells)
    values.append(std::holds_alternative<std::monostate>(cell) ? py::object(py::none())
                                                               : py::object(py::str(study::text_of(cell))));
  return values;
}

/// Everything in a store: columns by name, and what they mean.
py::dict read_store(const std::string& file) {
  study::StoreReader store(file);
  std::vector<std::string> names{"id", "repeat", "fidelity"};
  for (const study::Column& column : store.columns()) names.push_back(column.name);
  for (const char* name : {"violation", "status", "reason"}) names.emplace_back(name);
  std::vector<std::vector<study::Cell>> cells(names.size());
  store.for_each([&](const study::PointRow& row) {
    std::size_t i = 0;
    cells[i++].emplace_back(row.id);
    cells[i++].emplace_back(row.repeat);
    cells[i++].emplace_back(row.fidelity);
    for (const study::Cell& cell : row.cells) cells[i++].push_back(cell);
    const bool ok = row.status == study::TrialStatus::ok;
    cells[i++].push_back(ok ? study::Cell(row.violation) : study::Cell());
    cells[i++].emplace_back(std::string(sim::to_string(row.status)));
    cells[i++].push_back(row.reason.empty() ? study::Cell() : study::Cell(row.reason));
  });
  py::dict table, all;
  for (std::size_t i = 0; i < names.size(); ++i) table[py::str(names[i])] = column_of(cells[i], i + 2 >= names.size());
  py::list columns;
  for (const study::Column& column : store.columns())
    columns.append(py::make_tuple(column.name, column.kind, column.detail));
  all["table"] = table;
  all["columns"] = columns;
  all["study"] = store.study();
  all["mode"] = store.fact("mode");
  all["document"] = to_python(sim::parse_json(store.fact("document"), file));
  all["complete"] = store.complete();
  return all;
}

std::vector<fs::path> paths(const std::vector<std::string>& files) {
  return {files.begin(), files.end()};
}

/// Places (store, id) of the best points, as `orrery best` has them.
py::list best_ids(const std::vector<std::string>& files, std::size_t most) {
  const std::vector<fs::path> stores = paths(files);
  py::list all;
  for (const study::BestPoint& point : study::best_points(stores, most).points)
    all.append(py::make_tuple(point.store, point.row.id));
  return all;
}

void export_points(const std::vector<std::string>& files, const std::string& out, bool lines) {
  const std::vector<fs::path> stores = paths(files);
  std::ofstream file(out, std::ios::binary);
  if (!file) sim::throw_fault({out, ""}, "expected a place that can be written");
  (lines ? study::export_jsonl : study::export_csv)(stores, file);
  file.close();
  if (!file) throw sim::WriteFault(out);
}

}  // namespace

void bind_study(py::module_& module, const SharedKnown& known) {
  using Source = std::shared_ptr<PolicySource>;
  py::class_<PyStudy>(module, "Study", "A validated study, ready to run.")
      .def(py::init([known](const std::optional<std::string>& path, const std::string& text,
                            const std::vector<std::string>& assignments, const Source& batching, const Source& routing,
                            const Source& decode_routing) {
             return std::make_unique<PyStudy>(known->systems, path, text, assignments,
                                              PythonPolicies{batching, routing, decode_routing});
           }),
           py::arg("path"), py::arg("text"), py::arg("assignments"), py::kw_only(), py::arg("batching") = py::none(),
           py::arg("routing") = py::none(), py::arg("decode_routing") = py::none())
      .def("facts", &PyStudy::facts)
      .def("store_file", &PyStudy::store_file, py::arg("search"))
      .def("config", &PyStudy::config, py::arg("file"), py::arg("id"))
      .def(
          "confirming",
          [known](const PyStudy& self, const std::string& store, std::size_t candidates, double within,
                  double confidence, std::int64_t runs) {
            return self.confirming(known->systems, store, candidates, within, confidence, runs);
          },
          py::arg("store"), py::arg("candidates"), py::arg("within"), py::arg("confidence"), py::arg("runs"))
      .def("check", &PyStudy::check, py::arg("most"))
      .def("explore", &PyStudy::explore, py::arg("search"), py::arg("out"), py::arg("jobs"), py::arg("any_build"),
           py::arg("progress"), py::arg("cluster"), py::arg("address"), py::arg("earlier"));
  module.def("read_store", &read_store, py::arg("file"));
  module.def(
      "remove_store", [](const std::string& file) { study::Store::remove(file); }, py::arg("file"));
  module.def(
      "quantity",
      [](const std::string& text) -> py::object {
        const auto found = experiments::quantity_of(text);
        return found ? py::object(py::make_tuple(found->first, std::string(sim::symbol(found->second)))) : py::none();
      },
      py::arg("text"));
  module.def("best_ids", &best_ids, py::arg("files"), py::arg("most"));
  module.def("export_points", &export_points, py::arg("files"), py::arg("out"), py::arg("lines"));
  module.def(
      "is_study", [](const std::string& file) { return study::is_study(file); }, py::arg("file"));
}

}  // namespace orrery::python
