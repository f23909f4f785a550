// Measured design points as a problem for drivers: the kernels of HLSyn (Bai, Sohrabizadeh et al., NeurIPS 2023), whose
// points are reports of a high-level-synthesis tool. Files: kernels.csv and designs_v18.csv of the measured data,
// systems/hlsyn.
//
// The table is a sample of each space: a point that it lacks is a failed evaluation, which costs as much as any other.
// A design must use less than 0.8 of each resource (AutoDSE's rule); one that does not, or that synthesis refused, is
// infeasible.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "experiments/search/problems.hpp"

namespace orrery::experiments::search::test {

struct Landscape {
  Problem problem;
  Point start;              ///< the design without pragmas
  double best = 0;          ///< fewest cycles of a design that fits
  double random_draws = 0;  ///< of the table's points, expected until one is within 5 % of that
};

inline std::vector<std::string> split_by(const std::string& text, char by) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, by);) all.push_back(one);
  return all;
}

/// Rows of a CSV file without quotes, comments left out, the names of columns first.
inline std::vector<std::vector<std::string>> csv_rows(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') rows.push_back(split_by(line, ','));
  return rows;
}

/// Kernels of the folder that have points.
inline std::vector<std::string> landscape_kernels(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& row : csv_rows(folder / "designs_v18.csv"))
    if (row[0] != "kernel" && std::ranges::find(names, row[0]) == names.end()) names.push_back(row[0]);
  return names;
}

/// Parallel and tile factors in their order; pipelines off, coarse, fine as choices.
inline Parameter landscape_parameter(const std::string& option) {
  const std::size_t equals = option.find('=');
  Parameter parameter{.name = option.substr(0, equals)};
  parameter.kind = parameter.name[0] == 'I' ? ParameterKind::categorical : ParameterKind::ordinal;
  std::vector<std::string> values = split_by(option.substr(equals + 1), '/');
  if (parameter.name[0] == 'I') {
    std::erase(values, "off");
    values.insert(values.begin(), "off");  // the value without a pragma first, as 1 is of factors
  }
  for (const std::string& value : values) {
    Choice choice{.label = value};
    if (parameter.kind == ParameterKind::categorical)
      choice.text = true;
    else
      choice.number = std::stod(value);
    parameter.choices.push_back(choice);
  }
  return parameter;
}

/// One kernel of the table.
inline Landscape measured_landscape(const std::filesystem::path& folder, const std::string& kernel) {
  Landscape out;
  out.problem.name = kernel;
  for (const auto& row : csv_rows(folder / "kernels.csv")) {
    if (row[0] != kernel || row[1] != "v18") continue;
    for (const std::string& option : split_by(row.back(), ' ')) {
      sim::Faults faults;
      out.problem.space.add(landscape_parameter(option), "", {}, faults);
      faults.throw_if_any();
    }
  }
  const Space& space = out.problem.space;
  if (space.size() == 0) throw std::runtime_error("no kernel '" + kernel + "' in kernels.csv");
  // What AutoDSE moves first where compute is the bound: copies, then pipelines, those of later loops first: in
  // a nest these are the deeper ones.
  std::vector<std::size_t> order;
  for (const char kind : {'P', 'I'})
    for (std::size_t p = space.size(); p-- > 0;)
      if (space.parameters()[p].name[0] == kind) order.push_back(p);
  out.problem.remedies = {{"loops", order}};
  auto points = std::make_shared<std::map<std::string, Evaluation>>();
  std::vector<double> fitting;
  for (const auto& row : csv_rows(folder / "designs_v18.csv")) {
    if (row[0] != kernel) continue;
    Point point;
    const std::vector<std::string> choices = split_by(row[1], '.');
    for (std::size_t p = 0; p < space.size(); ++p) {
      const auto& all = space.parameters()[p].choices;
      const auto at = std::ranges::find_if(all, [&](const Choice& choice) { return choice.label == choices[p]; });
      point.push_back(at == all.end() ? 0 : static_cast<double>(at - all.begin()));  // NA: the pragma is not there
    }
    const double cycles = std::stod(row[2]);
    bool fits = row[7] == "1" && cycles > 0;
    for (std::size_t column = 3; column < 7; ++column) fits = fits && std::stod(row[column]) < 0.8;
    Evaluation result{.status = fits ? TrialStatus::ok : TrialStatus::infeasible};
    if (fits) {
      result.objectives = {cycles};
      result.breakdown = {{"loops", 1.0}};
    }
    if (fits) fitting.push_back(cycles);
    points->emplace(space.key(space.canonical(point)), std::move(result));
  }
  out.best = *std::ranges::min_element(fitting);
  const auto close = std::ranges::count_if(fitting, [&](double cycles) { return cycles <= 1.05 * out.best; });
  out.random_draws = static_cast<double>(points->size() + 1) / static_cast<double>(close + 1);
  out.start = space.from_units(std::vector<double>(space.size(), 0.0));
  out.problem.optimum = out.best;
  out.problem.evaluate = [points, keys = std::make_shared<const Space>(space)](const Proposal& proposal) {
    const auto known = points->find(keys->key(proposal.point));
    return known != points->end() ? known->second : Evaluation{.status = TrialStatus::failed, .reason = "not measured"};
  };
  return out;
}

}  // namespace orrery::experiments::search::test
