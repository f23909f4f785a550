#include "experiments/systems/function/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/search/problems.hpp"

namespace orrery::experiments::search {
namespace {

using sim::Node;

struct WorkloadParams {
  std::string function;
  std::int64_t dimensions = 0;
  double fidelity = 1;
  Node point;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::annotated(
            sim::required(sim::field("function", &W::function, "Name of the function: zdt1, rastrigin, mixed …")),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.suggestions = problem_names(); }),
        sim::field("dimensions", &W::dimensions, Unit::count, sim::between(0, 10'000),
                   "Number of dimensions, for functions that allow any; 0: as many as their source uses."),
        sim::field("fidelity", &W::fidelity, Unit::ratio, sim::between(1e-9, 1),
                   "Fidelity of the evaluation, as a share of a full run."),
        sim::field("point", &W::point, "Value of each parameter, by name."),
    };
  }
};

struct RunParams {
  std::int64_t seed = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("seed", &RunParams::seed, sim::Unit::none, sim::at_least(0), "Not used: functions are exact.")};
  }
};

struct Sections {
  WorkloadParams workload;
  RunParams run;
  static constexpr auto fields() {
    return sim::FieldTable{sim::required(sim::section("workload", &Sections::workload, "The function and the point.")),
                           sim::section("run", &Sections::run, "Seed.")};
  }
};

/// The number that stands for a value of a parameter in a point; a wrong one is a fault.
double read_value(const Parameter& parameter, const Node& node, sim::Faults& faults) {
  if (!parameter.has_choices()) {
    if (node.is_number() && node.as_number() >= parameter.low && node.as_number() <= parameter.high)
      return node.as_number();
    faults.add(node.origin(),
               fmt::format("expected a number from {} to {}, got {}", parameter.low, parameter.high, node.shown()));
    return parameter.low;
  }
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < parameter.choices.size(); ++i) {
    const Choice& choice = parameter.choices[i];
    if (choice.text ? node.is_string() && node.as_string() == choice.label
                    : node.is_number() && node.as_number() == choice.number)
      return static_cast<double>(i);
    labels.push_back(choice.label);
  }
  faults.add(node.origin(), fmt::format("expected one of {}, got {}", fmt::join(labels, ", "), node.shown()));
  return 0;
}

Point read_point(const Space& space, const Node& node, sim::Faults& faults) {
  Point point(space.size(), std::numeric_limits<double>::quiet_NaN());
  std::vector<std::string> names;
  for (std::size_t p = 0; p < space.size(); ++p) {
    names.push_back(space.parameters()[p].name);
    if (const Node* value = node.find(names.back())) point[p] = read_value(space.parameters()[p], *value, faults);
  }
  for (const auto& [name, value] : node.members())
    if (std::find(names.begin(), names.end(), name) == names.end())
      faults.add(value.origin(), "unknown parameter '" + name + "'", sim::name_hint(name, names));
  const Point canonical = space.canonical(point);
  for (std::size_t p = 0; p < space.size(); ++p)
    if (std::isnan(point[p]) && !std::isnan(canonical[p]))
      faults.add(node.origin_of(names[p]), fmt::format("expected a value of '{}'", names[p]));
  return canonical;
}

class FunctionExperiment final : public ConfigExperiment {
 public:
  FunctionExperiment(const Node& root, const Systems& systems, sim::Faults& faults) {
    auto config = read_sections<Sections>(root, *systems.registries(), faults);
    const Node workload = section(root, "workload");
    WorkloadParams& params = config.workload;
    run_ = config.run;
    if (!faults.empty()) return;
    const auto names = problem_names();
    if (std::find(names.begin(), names.end(), params.function) == names.end()) {
      faults.add(place_of(workload, "function"), "unknown function '" + params.function + "'",
                 sim::name_hint(params.function, names));
      return;
    }
    problem_ = make_problem(params.function, static_cast<std::size_t>(params.dimensions));
    if (!params.point.is_object()) params.point = section(workload, "point");
    at_ = {read_point(problem_.space, params.point, faults), params.fidelity};
    seed_ = run_.seed;
    resolved_ = resolved_config("function", config);
  }

  Outcome run(const RunSink&) const override {
    const Evaluation result = problem_.evaluate(at_);
    Outcome outcome;
    outcome.summary = Node::object();
    outcome.summary.set("status", Node::string("ok"));
    for (std::size_t i = 0; i < result.objectives.size(); ++i)
      outcome.summary.set(fmt::format("f{}", i + 1), Node::real(result.objectives[i]));
    if (problem_.limits > 0) {
      Node& limits = outcome.summary.set("limits", Node::object());
      for (std::size_t i = 0; i < problem_.limits; ++i)
        limits.set(fmt::format("g{}", i + 1), Node::real(result.margins[i]));
    }
    if (result.breakdown.empty()) return outcome;
    Node& breakdown = outcome.summary.set("breakdown", Node::object());
    for (const auto& [name, value] : result.breakdown) breakdown.set(name, Node::real(value));
    return outcome;
  }

 private:
  Problem problem_;
  Proposal at_;
  RunParams run_;
};

}  // namespace

System function_system() {
  return {.name = "function",
          .doc = "Evaluates a test function at a point, to try searches on.",
          .fields = describe_sections<Sections>,
          .read = read_as<FunctionExperiment>};
}

}  // namespace orrery::experiments::search
