// Searches in which Python evaluates: a driver is asked for points, and told what came of each in their order.
#include "experiments/search/search.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>

#include "experiments/study/evaluator.hpp"
#include "experiments/study/explore.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {
namespace {

namespace study = experiments::study;
namespace search = experiments::search;

class PySearch {
 public:
  /// `text` is a study without experiments; `out` its store, gone on with if it is there.
  PySearch(const experiments::Systems& systems, const std::string& text, const std::string& out, bool any_build)
      : study_(study::read_study(systems, sim::parse_json(text, "search"), "search", {})), out_(out) {
    if (study_.objectives.empty())
      sim::throw_fault({"search", "/objectives"}, "expected at least one objective to search for");
    driver_ = study::make_driver(study_, 0);
    store_ = std::make_unique<study::Store>(out_, study::facts_of(study_, true), any_build);
  }

  /// (number, values by name, fidelity) of points to look at; none once the evaluations are spent.
  py::list ask(std::int64_t most) {
    if (most < 1) throw std::invalid_argument("ask(n): expected n >= 1, got " + std::to_string(most));
    if (!open_.empty()) throw std::runtime_error("tell() the results of the last ask() before the next one");
    while (open_.empty() && asked_ < study_.search.budget) {
      const std::int64_t left = std::min(most, study_.search.budget - asked_);
      {
        const py::gil_scoped_release release;
        batch_ = driver_->ask(static_cast<std::size_t>(left));
      }
      if (batch_.empty()) break;
      trials_.clear();
      take_known();
    }
    py::list points;
    for (std::size_t i = 0; i < open_.size(); ++i)
      points.append(py::make_tuple(next_ + static_cast<std::int64_t>(i), values_of(batch_[open_[i]].point),
                                   batch_[open_[i]].fidelity));
    return points;
  }

  /// The result of the next point that was asked for: "ok" with a figure for each measure (NaN: none), "infeasible" or
  /// "failed" with the reason.
  void tell(const std::string& status, const std::string& reason, const std::vector<double>& figures) {
    if (open_.empty()) throw std::runtime_error("no point is waiting for a result: ask() first");
    const search::Proposal& proposal = batch_[open_.front()];
    search::Evaluation verdict{.status = study::status_of(status), .reason = reason};
    study::PointRow row{.id = next_};
    study::judge_row(study_, proposal, figures, verdict, row);
    store_->add_point(row);
    store_->commit_if_due();
    ++next_;
    trials_.push_back({proposal, std::move(verdict)});
    open_.pop_front();
    if (open_.empty()) end_batch();
  }

  std::vector<std::string> measures() const {
    std::vector<std::string> names;
    for (const experiments::Measure& measure : study_.measures) names.push_back(measure.name);
    return names;
  }
  py::dict facts() const {
    py::dict all;
    all["evaluations"] = study_.search.budget;
    all["batch"] = study_.search.batch;
    all["told"] = next_ - 1;
    all["waiting"] = open_.size();
    all["driver"] = study_.search.driver.name;
    return all;
  }
  void commit() { store_->commit(); }
  void finish() { store_->finish(); }

 private:
  /// Trials that the store has come first in a batch: it was told in order. The rest waits for its results.
  void take_known() {
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const auto row = open_.empty() ? store_->point(next_) : std::nullopt;
      if (row) {
        trials_.push_back({batch_[i], study::evaluation_of(study_, *row, batch_[i], 0, out_)});
        ++next_;
      } else {
        open_.push_back(i);
      }
    }
    asked_ += std::ssize(batch_);
    if (open_.empty()) end_batch();
  }

  void end_batch() {
    const py::gil_scoped_release release;
    driver_->tell(trials_);
  }

  /// Parameters and figures that follow from them, by name; what does not count is left out.
  py::dict values_of(const search::Point& point) const {
    const std::vector<double> numbers = study_.space.numbers(point);
    const std::vector<study::Cell> cells = study::parameter_cells(study_, point);
    py::dict values;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool derived = i >= point.size();
      const py::str name(derived ? study_.space.derived()[i - point.size()].name : study_.space.parameters()[i].name);
      if (const auto* whole = std::get_if<std::int64_t>(&cells[i])) values[name] = py::int_(*whole);
      if (const auto* real = std::get_if<double>(&cells[i])) values[name] = py::float_(*real);
      if (const auto* text = std::get_if<std::string>(&cells[i])) values[name] = py::str(*text);
    }
    return values;
  }

  study::Study study_;
  std::filesystem::path out_;
  std::unique_ptr<search::Driver> driver_;
  std::unique_ptr<study::Store> store_;
  std::vector<search::Proposal> batch_;
  std::vector<search::Trial> trials_;  ///< of the batch, as far as they are known
  std::deque<std::size_t> open_;       ///< places in the batch that wait for a result
  std::int64_t next_ = 1, asked_ = 0;  ///< number of the next point; how many were asked for
};

}  // namespace

void bind_search(py::module_& module, const SharedKnown& known) {
  py::class_<PySearch>(module, "Search")
      .def(py::init([known](const std::string& text, const std::string& out, bool any_build) {
             return std::make_unique<PySearch>(known->systems, text, out, any_build);
           }),
           py::arg("text"), py::arg("out"), py::arg("any_build"))
      .def("ask", &PySearch::ask, py::arg("most"))
      .def("tell", &PySearch::tell, py::arg("status"), py::arg("reason"), py::arg("figures"))
      .def("measures", &PySearch::measures)
      .def("facts", &PySearch::facts)
      .def("commit", &PySearch::commit)
      .def("finish", &PySearch::finish);
}

}  // namespace orrery::python
