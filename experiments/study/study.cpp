#include "experiments/study/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/base/experiment.hpp"
#include "experiments/base/study_file.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::study {

namespace fs = std::filesystem;
using sim::Node;

namespace {

/// Whether two points of the sweep can be the same: where a parameter may not count, or a part has a row twice.
bool may_repeat(const Study& study) {
  const auto& parameters = study.space.parameters();
  if (std::any_of(parameters.begin(), parameters.end(), [](auto& one) { return one.counts.has_value(); })) return true;
  return std::any_of(study.sweep.begin(), study.sweep.end(), [&](const SweepPart& part) {
    std::set<std::vector<double>> distinct;
    for (std::vector<double> row : part.rows) {
      for (std::size_t i = 0; i < row.size(); ++i)  // steps between whole numbers are rounded to them
        if (parameters[part.parameters[i]].kind == search::ParameterKind::integer) row[i] = std::round(row[i]);
      distinct.insert(std::move(row));
    }
    return distinct.size() != part.rows.size();
  });
}

}  // namespace

std::vector<RunEnd> Study::ends() const {
  std::vector<RunEnd> all;
  for (const Limit& limit : limits) {
    if (!limit.end) continue;
    all.push_back(*limit.end);
  }
  return all;
}

double Limit::margin(double x) const {
  const auto over = [](double by, double bound) { return bound == 0 ? by : by / std::abs(bound); };
  if (std::isnan(x) || (!most && !least)) return x;
  if (!most) return over(*least - x, *least);
  if (!least) return over(x - *most, *most);
  return std::max(over(x - *most, *most), over(*least - x, *least));
}

Assignment at_fidelity(const Fidelity& fidelity, double share) {
  const double value = fidelity.number * share;
  if (fidelity.full.kind() == Node::Kind::integer)
    return {fidelity.path, Node::integer(std::max<std::int64_t>(1, std::llround(value)))};
  if (sim::has_dimension(fidelity.unit))
    return {fidelity.path, Node::string(sim::format_quantity(value, fidelity.unit))};
  return {fidelity.path, Node::real(value)};
}

Node Study::config(const Point& point, double share, std::int64_t seed) const {
  Node config = base;
  for (const Assignment& one : space.assignments(point)) sim::assign(config, one.path, one.value);
  const auto set = [&](const std::string& path, Node value) {
    value.set_origin(base.origin_at(path));
    sim::assign(config, path, value);
  };
  if (fidelity) set(fidelity->path, at_fidelity(*fidelity, share).value);
  // One run a point without a seed of its own leaves the base's.
  if (document.find("seeds") != nullptr) set(seeds.path, Node::integer(seed));
  return config;
}

search::Evaluation Study::judge_ended(const Point& point, std::span<const double> measured, std::string reason) const {
  std::vector<double> seen = space.numbers(point);
  seen.insert(seen.end(), measured.begin(), measured.end());
  const sim::FormulaValues values{.scalars = seen, .series = {}};
  search::Evaluation result{.reason = std::move(reason)};
  for (const Limit& limit : limits) {
    const double margin = limit.margin(limit.value.number(values));
    result.margins.push_back(std::isfinite(margin) ? margin : 0);
  }
  for (const Objective& objective : objectives) {
    const double value = objective.value.number(values);
    result.objectives.push_back(objective.maximise ? -value : value);
  }
  if (std::ranges::all_of(result.objectives, [](double value) { return std::isfinite(value); })) return result;
  result.status = TrialStatus::infeasible;
  result.objectives.clear();
  return result;
}

search::Evaluation Study::judge(const Point& point, std::span<const double> measured) const {
  std::vector<double> seen = space.numbers(point);
  seen.insert(seen.end(), measured.begin(), measured.end());
  const sim::FormulaValues values{.scalars = seen, .series = {}};
  search::Evaluation result;
  const auto no_number = [&](const char* what, const std::string& of, const sim::Formula& formula) {
    std::string reason = fmt::format("{} '{}' is not a number", what, of);
    for (const std::size_t slot : formula.scalars_used())
      if (slot >= space.names().all().size() && std::isnan(seen[slot])) {
        const Measure& measure = measures[slot - space.names().all().size()];
        reason += fmt::format(": measure '{}' is not there ({})", measure.name, measure.path);
        break;
      }
    return search::Evaluation{.status = TrialStatus::failed, .reason = std::move(reason)};
  };
  for (const Objective& objective : objectives) {
    const double value = objective.value.number(values);
    if (!std::isfinite(value)) return no_number("objective", objective.name, objective.value);
    result.objectives.push_back(objective.maximise ? -value : value);
  }
  for (const Limit& limit : limits) {
    const double margin = limit.margin(limit.value.number(values));
    if (!std::isfinite(margin)) return no_number("limit", limit.name, limit.value);
    result.margins.push_back(margin);
  }
  for (const Bottleneck& bottleneck : bottlenecks)
    if (const double share = bottleneck.share.number(values); !std::isnan(share))
      result.breakdown.emplace_back(bottleneck.name, share);
  return result;
}

bool is_study(const fs::path& file) {
  return document_kind(sim::read_json(file)) == "study";
}

std::vector<Point> sweep_points(const Study& study, std::size_t* forbidden) {
  std::vector<Point> points;
  std::set<std::string> seen;
  const bool repeats = may_repeat(study);
  std::size_t left_out = 0;
  std::vector<std::size_t> place(study.sweep.size());
  for (bool done = study.sweep.empty(); !done;) {
    Point point(study.space.size(), std::nan(""));
    for (std::size_t part = 0; part < place.size(); ++part)
      for (std::size_t i = 0; i < study.sweep[part].parameters.size(); ++i)
        point[study.sweep[part].parameters[i]] = study.sweep[part].rows[place[part]][i];
    point = study.space.canonical(std::move(point));
    if (!repeats || seen.insert(study.space.key(point)).second) {
      if (study.space.allowed(point))
        points.push_back(std::move(point));
      else
        ++left_out;
    }
    done = true;
    for (std::size_t part = place.size(); done && part-- > 0;) {
      if (++place[part] < study.sweep[part].rows.size())
        done = false;
      else
        place[part] = 0;
    }
  }
  if (forbidden != nullptr) *forbidden = left_out;
  return points;
}

std::vector<Point> sample_points(const Study& study, bool of_sweep, std::size_t most) {
  std::vector<Point> points;
  if (of_sweep) {
    const std::vector<Point> all = sweep_points(study);
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i)
      points.push_back(all[i * all.size() / std::min(most, all.size())]);
    return points;
  }
  sim::RandomStream random(static_cast<std::uint64_t>(study.search.seed), "study/sample");
  for (std::size_t i = 0; i < most; ++i) {
    auto point = study.space.sample(random);
    if (!point) break;
    points.push_back(*std::move(point));
  }
  return points;
}

void check_experiments(const Study& study, std::span<const Point> points) {
  sim::Faults faults;
  std::set<std::string> seen;
  for (const Point& point : points) {
    try {
      (void)study.read(study.config(point, 1, study.seeds.first));
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults())
        if (seen.insert(fault.text()).second)
          faults.add(fault.where, fmt::format("{} (at {})", fault.message, study.space.text(point)), fault.hint);
    }
  }
  faults.throw_if_any();
}

std::string study_text(const Systems& systems, const std::string& name) {
  const fs::path file = home_folder() / "experiments/studies" / (name + ".json");
  const Study study = read_study(systems, file);
  std::string text = fmt::format("\n{}\n\nparameters:\n", file.string());
  for (const search::Parameter& parameter : study.space.parameters()) {
    text += fmt::format("  {}:", parameter.name);
    for (const Choice& choice : parameter.choices) text += " " + choice.label;
    if (!parameter.has_choices())
      text += fmt::format(" {} to {}", sim::humanise(parameter.low, parameter.unit),
                          sim::humanise(parameter.high, parameter.unit));
    text += '\n';
  }
  text += "\nmeasures:\n";
  for (const Measure& measure : study.measures) text += fmt::format("  {}: {}\n", measure.name, measure.path);
  if (!study.objectives.empty()) text += "\nobjectives:\n";
  for (const Objective& objective : study.objectives)
    text += fmt::format("  {} {}\n", objective.maximise ? "maximise" : "minimise", objective.name);
  return text;
}

}  // namespace orrery::experiments::study
