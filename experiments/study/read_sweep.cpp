// The sweep of a study: grids, parameters that go together, lists of points; their product.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/study/read_parts.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::study {
namespace {

using search::Parameter;
using sim::Faults;
using sim::Node;

constexpr double kMostPoints = 2'000'000;

class SweepReader {
 public:
  SweepReader(const std::vector<std::int64_t>& steps, Study& study, Faults& faults)
      : steps_(steps), study_(study), faults_(faults), named_(study.space.size()) {
    for (const Parameter& parameter : study.space.parameters()) known_.push_back(parameter.name);
  }

  void part(const Node& node) {
    if (!node.is_object() || node.members().size() != 1) {
      faults_.add(node.origin(), fmt::format("expected one of 'grid', 'zip' and 'list', got {}", node.shown()));
      return;
    }
    const auto& [key, value] = node.members().front();
    if (key != "grid" && key != "zip" && key != "list") {
      faults_.add(value.origin(), fmt::format("unknown key '{}'", key), sim::name_hint(key, {"grid", "zip", "list"}));
    } else if (!value.is_array() || value.items().empty()) {
      faults_.add(value.origin(), fmt::format("expected a list that is not empty, got {}", value.shown()));
    } else if (key == "list") {
      list(value);
    } else {
      names(value, key == "zip");
    }
  }

  /// Parameters that no part named, each by itself.
  void rest() {
    for (std::size_t i = 0; i < named_.size(); ++i)
      if (!named_[i]) grid(i, place_of(study_.document, "parameters"));
  }

 private:
  std::optional<std::size_t> find(const std::string& name, const sim::Origin& where) {
    const auto found = std::find(known_.begin(), known_.end(), name);
    if (found == known_.end()) {
      faults_.add(where, fmt::format("expected a parameter, got '{}'", name), sim::name_hint(name, known_));
      return std::nullopt;
    }
    return static_cast<std::size_t>(found - known_.begin());
  }
  /// Once in a sweep only.
  void take(std::size_t parameter, const sim::Origin& where) {
    if (named_[parameter]) faults_.add(where, fmt::format("'{}' is in the sweep already", known_[parameter]));
    named_[parameter] = true;
  }

  std::vector<double> values(std::size_t index, const sim::Origin& where) {
    const Parameter& p = study_.space.parameters()[index];
    std::vector<double> all;
    const double steps = static_cast<double>(steps_[index]);
    const auto levels = p.levels();
    if (steps == 0 && !levels) {
      unswept_ = true;
      if (study_.document.find("sweep") != nullptr)
        faults_.add(where, fmt::format("'{}' is a range of real numbers: expected 'steps' for a sweep", p.name));
      return {p.low};
    }
    const double count = p.has_choices() || steps == 0 ? static_cast<double>(*levels) : steps;
    if (count > kMostPoints) {
      unswept_ = true;
      if (study_.document.find("sweep") != nullptr)
        faults_.add(where, fmt::format("'{}' has {} values: expected 'steps' for a sweep", p.name, count));
      return {p.low};
    }
    for (double k = 0; k < count; ++k) {
      const double t = count == 1 ? 0.5 : k / (count - 1);
      if (p.has_choices())
        all.push_back(k);
      else if (steps == 0)
        all.push_back(p.low + k);
      else if (t == 1)
        all.push_back(p.high);  // exactly, whatever the logarithm rounds to
      else
        all.push_back(p.log ? p.low * sim::det_exp(t * sim::det_log(p.high / p.low)) : p.low + t * (p.high - p.low));
    }
    return all;
  }

  void grid(std::size_t index, const sim::Origin& where) {
    SweepPart part{.parameters = {index}};
    for (const double value : values(index, where)) part.rows.push_back({value});
    study_.sweep.push_back(std::move(part));
  }

  void names(const Node& list, bool together) {
    SweepPart zip;
    for (const Node& item : list.items()) {
      const auto index = find(item.is_string() ? item.as_string() : item.dump(), item.origin());
      if (!index) continue;
      take(*index, item.origin());
      if (!together) {
        grid(*index, item.origin());
        continue;
      }
      const std::vector<double> column = values(*index, item.origin());
      if (zip.parameters.empty()) zip.rows.resize(column.size());
      if (column.size() != zip.rows.size()) {
        faults_.add(item.origin(),
                    fmt::format("expected as many values as of '{}', {}, got {} of '{}'",
                                known_[zip.parameters.front()], zip.rows.size(), column.size(), known_[*index]));
        continue;
      }
      zip.parameters.push_back(*index);
      for (std::size_t row = 0; row < column.size(); ++row) zip.rows[row].push_back(column[row]);
    }
    if (!zip.parameters.empty()) study_.sweep.push_back(std::move(zip));
  }

  void list(const Node& list) {
    SweepPart part;
    for (const Node& item : list.items()) {
      if (!item.is_object()) {
        faults_.add(item.origin(), fmt::format("expected an object of \"parameter\": value, got {}", item.shown()));
        continue;
      }
      if (part.rows.empty())
        for (const auto& [name, node] : item.members())
          if (const auto index = find(name, node.origin())) {
            take(*index, node.origin());
            part.parameters.push_back(*index);
          }
      row(item, part);
    }
    study_.sweep.push_back(std::move(part));
  }

  /// Every item names the parameters that the first one names.
  void row(const Node& item, SweepPart& part) {
    std::vector<double>& row = part.rows.emplace_back(part.parameters.size(), std::nan(""));
    std::vector<std::string> names;
    for (const std::size_t index : part.parameters) names.push_back(known_[index]);
    check_keys_of(item, names, faults_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Node* node = item.find(names[i]);
      const auto value =
          node != nullptr ? value_of(study_.space.parameters()[part.parameters[i]], *node) : std::nullopt;
      if (value)
        row[i] = *value;
      else
        faults_.add(place_of(item, names[i]), fmt::format("expected a value of '{}', got {}", names[i],
                                                          node != nullptr ? node->shown() : "nothing"));
    }
  }

 public:
  bool unswept() const { return unswept_; }

 private:
  const std::vector<std::int64_t>& steps_;
  Study& study_;
  Faults& faults_;
  std::vector<bool> named_;
  std::vector<std::string> known_;
  bool unswept_ = false;  ///< a range without steps, which only a search can do
};

}  // namespace

void read_sweep(const Node& root, const std::vector<std::int64_t>& steps, Study& study, Faults& faults) {
  SweepReader reader(steps, study, faults);
  const Node* parts = member(root, "sweep", Node::Kind::array, "a list of parts", false, faults);
  if (parts != nullptr)
    for (const Node& item : parts->items()) reader.part(item);
  reader.rest();
  double product = 1;
  for (const SweepPart& part : study.sweep) product *= static_cast<double>(part.rows.size());
  if (product > kMostPoints && parts != nullptr)
    faults.add(place_of(root, "sweep"), fmt::format("expected at most {} points, got {}", kMostPoints, product));
  // Such a study can be searched only.
  if (reader.unswept() || product > kMostPoints) study.sweep.clear();
}

}  // namespace orrery::experiments::study
