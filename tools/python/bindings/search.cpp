// Searches in which Python evaluates: a driver is asked for points, and told what came of them in their order, however
// their results come in.
#include "experiments/search/search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
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
    const std::int64_t size = together() ? study_.search.budget : study_.search.in_flight;
    window_ = std::make_unique<search::Window>(*driver_, static_cast<std::size_t>(size));
  }

  /// (number, values by name, fidelity) of `most` points to look at, or of as many as are left; none once the
  /// evaluations are spent, or while the driver has none. Throws std::runtime_error where results must come first.
  py::list ask(std::int64_t most) {
    if (most < 1) throw std::invalid_argument("ask(n): expected n >= 1, got " + std::to_string(most));
    std::vector<std::int64_t> numbers;
    for (bool asked = false; numbers.empty() && asked_ < study_.search.budget; asked = true) {
      if (!make_room(most)) {
        if (asked || dry_) break;
        throw_wait();
      }
      const std::size_t wanted = wanted_of(most);
      std::vector<search::Proposal> batch;
      {
        const py::gil_scoped_release release;
        batch = window_->ask(wanted);
      }
      dry_ = batch.empty();
      if (!dry_) {
        numbers = take_known(batch.size());
        continue;
      }
      if (window_->out().empty()) break;  // else it hears of what is out before it is asked again
    }
    py::list points;
    for (const std::int64_t number : numbers) {
      const search::Proposal& proposal = window_->out()[place_of(number)];
      points.append(py::make_tuple(number, values_of(proposal.point), proposal.fidelity));
    }
    return points;
  }

  /// Whether ask(most) would give points, as far as results decide it. What the driver hears for it, it hears then too.
  bool can_ask(std::int64_t most) {
    if (most < 1 || asked_ >= study_.search.budget || (dry_ && !next_answered())) return false;
    if (together()) return window_->out().empty() || next_answered();
    while (!window_->out().empty() && (dry_ || !window_->can_ask())) {
      if (!next_answered()) return false;
      hear();
    }
    std::size_t heard = 0;  // without hearing more yet
    while (window_->room() + heard < room_for(most) && answered_from(heard)) heard += step_from(heard);
    return window_->room() + heard >= room_for(most) || heard == window_->out().size();
  }

  /// The result of a point that was asked for: "ok" with a figure for each measure (NaN: none), "infeasible" or
  /// "failed" with the reason.
  void tell(std::int64_t number, const std::string& status, const std::string& reason,
            const std::vector<double>& figures) {
    if (number <= heard_ || number > asked_ || window_->answered(place_of(number)))
      throw std::runtime_error("point " + std::to_string(number) + " does not wait for a result");
    search::Evaluation verdict{.status = study::status_of(status), .reason = reason};
    study::PointRow row{.id = number};
    study::judge_row(study_, window_->out()[place_of(number)], figures, verdict, row);
    window_->answer(place_of(number), std::move(verdict));
    rows_.emplace(number, std::move(row));
    for (auto next = rows_.find(stored_ + 1); next != rows_.end(); next = rows_.find(stored_ + 1)) {
      store_->add_point(next->second);
      rows_.erase(next);
      ++stored_;
    }
    store_->commit_if_due();
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
    all["in_flight"] = study_.search.in_flight;
    all["told"] = stored_ + std::ssize(rows_);
    all["waiting"] = asked_ - stored_ - std::ssize(rows_);
    all["driver"] = study_.search.driver.name;
    return all;
  }
  void commit() { store_->commit(); }
  void finish() { store_->finish(); }

 private:
  std::size_t place_of(std::int64_t number) const { return static_cast<std::size_t>(number - heard_ - 1); }

  /// All results before the next ask(), as a study without points in flight has it.
  bool together() const { return study_.search.in_flight <= study_.search.batch; }

  /// The driver hears of a batch at a time, in the order of the points, as in the command.
  std::size_t step_from(std::size_t place) const {
    const std::size_t left = window_->out().size() - place;
    return together() ? left : std::min(left, static_cast<std::size_t>(study_.search.batch));
  }
  /// Whether the batch from this place on has its results.
  bool answered_from(std::size_t place) const {
    const std::size_t end = place + step_from(place);
    for (std::size_t i = place; i < end; ++i)
      if (!window_->answered(i)) return false;
    return end > place;
  }
  bool next_answered() const { return answered_from(0); }

  std::size_t wanted_of(std::int64_t most) const {
    const std::int64_t left = std::min(most, study_.search.budget - asked_);
    return static_cast<std::size_t>(together() ? left : std::min(left, study_.search.in_flight));
  }
  /// Places that must be free before it is asked for `most`: a batch at least, as in the command.
  std::size_t room_for(std::int64_t most) const {
    return static_cast<std::size_t>(std::min(std::max(most, study_.search.batch), study_.search.in_flight));
  }

  /// Lets the driver hear of the oldest points until `most` may be asked for; false where it needs a result that is not
  /// there. Where it had nothing to propose, it hears of something first.
  bool make_room(std::int64_t most) {
    while (!window_->out().empty() && (together() || dry_ || window_->room() < room_for(most) || !window_->can_ask())) {
      if (!next_answered()) return false;
      hear();
    }
    (void)window_->can_ask();  // the driver knows what is out
    return true;
  }

  [[noreturn]] void throw_wait() const {
    std::size_t oldest = 0;
    while (window_->answered(oldest)) ++oldest;
    const std::string first =
        "tell() the result of point " + std::to_string(heard_ + 1 + static_cast<std::int64_t>(oldest)) + " first";
    if (together()) throw std::runtime_error("tell() the results of the last ask() before the next one");
    if (driver_->can_ask(window_->out()))
      throw std::runtime_error("as many points are out as in_flight allows: " + first);
    throw std::runtime_error("the driver '" + study_.search.driver.name + "' needs more results: " + first);
  }

  void hear() {
    const std::size_t count = step_from(0);
    const py::gil_scoped_release release;
    heard_ += std::ssize(window_->hear(count));
    dry_ = false;
  }

  /// Takes the results of new points that the store has; gives the numbers of the others.
  std::vector<std::int64_t> take_known(std::size_t count) {
    std::vector<std::int64_t> others;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t number = ++asked_;
      const search::Proposal& proposal = window_->out()[place_of(number)];
      const auto row = stored_ + 1 == number ? store_->point(number) : std::nullopt;
      if (!row) {
        others.push_back(number);
        continue;
      }
      window_->answer(place_of(number), study::evaluation_of(study_, *row, proposal, 0, out_));
      ++stored_;
    }
    return others;
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
  std::unique_ptr<search::Window> window_;
  std::map<std::int64_t, study::PointRow> rows_;  ///< told, and not stored before those ahead of them
  /// Points so far: that were asked for, that the store has, that the driver heard of.
  std::int64_t asked_ = 0, stored_ = 0, heard_ = 0;
  bool dry_ = false;  ///< the driver had nothing to propose, and has not heard anything since
};

}  // namespace

void bind_search(py::module_& module, const SharedKnown& known) {
  py::class_<PySearch>(module, "Search")
      .def(py::init([known](const std::string& text, const std::string& out, bool any_build) {
             return std::make_unique<PySearch>(known->systems, text, out, any_build);
           }),
           py::arg("text"), py::arg("out"), py::arg("any_build"))
      .def("ask", &PySearch::ask, py::arg("most"))
      .def("can_ask", &PySearch::can_ask, py::arg("most"))
      .def("tell", &PySearch::tell, py::arg("number"), py::arg("status"), py::arg("reason"), py::arg("figures"))
      .def("measures", &PySearch::measures)
      .def("facts", &PySearch::facts)
      .def("commit", &PySearch::commit)
      .def("finish", &PySearch::finish);
}

}  // namespace orrery::python
