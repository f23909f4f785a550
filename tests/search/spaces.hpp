// Small spaces and evaluations for tests of searches.
#pragma once

#include "experiments/search/search.hpp"

namespace orrery::experiments::search::test {

inline const sim::Origin kHere{"test", ""};

inline Choice choice(std::string label, double number, bool text = false) {
  return {std::move(label), number, text, {}};
}

inline Parameter real(std::string name, double low, double high, bool log = false) {
  return {.name = std::move(name), .kind = ParameterKind::real, .low = low, .high = high, .log = log};
}

inline Parameter integer(std::string name, double low, double high, bool log = false) {
  return {.name = std::move(name), .kind = ParameterKind::integer, .low = low, .high = high, .log = log};
}

inline Parameter ordinal(std::string name, const std::vector<double>& values) {
  Parameter parameter{.name = std::move(name), .kind = ParameterKind::ordinal};
  for (const double value : values)
    parameter.choices.push_back(choice(sim::format_quantity(value, sim::Unit::none), value));
  return parameter;
}

inline Parameter categorical(std::string name, const std::vector<std::string>& labels) {
  Parameter parameter{.name = std::move(name), .kind = ParameterKind::categorical};
  for (const std::string& label : labels)
    parameter.choices.push_back(choice(label, double(parameter.choices.size()), true));
  return parameter;
}

/// Adds a parameter that must be right.
inline void add(Space& space, Parameter parameter, std::string_view when = {}) {
  sim::Faults faults;
  space.add(std::move(parameter), when, kHere, faults);
  faults.throw_if_any();
}

inline void constrain(Space& space, std::string_view formula) {
  sim::Faults faults;
  space.constrain(formula, kHere, faults);
  faults.throw_if_any();
}

/// The points of trials, a line each.
inline std::string trace_of(const Space& space, const std::vector<Trial>& trials) {
  std::string text;
  for (const Trial& trial : trials) text += space.text(trial.proposal.point) + "\n";
  return text;
}

/// Objectives are least where the limit forbids: six reals in [0, 1] of which each must be 0.9 or more, which random
/// points are once in 10^6. The first two objectives are least at 5.4 and 5.4^2 then.
inline Space corner_space() {
  Space space;
  for (int i = 0; i < 6; ++i) add(space, real("x" + std::to_string(i), 0, 1));
  return space;
}
inline Evaluation in_corner(const Proposal& p, std::size_t objectives) {
  double sum = 0, over = 0;
  for (const double x : p.point) {
    sum += x;
    over += std::max(0.0, 0.9 - x);
  }
  Evaluation at{.objectives = {sum, sum * sum, sum + p.point[0]}, .margins = {over}};
  at.objectives.resize(objectives);
  return at;
}

/// policy in {fcfs, sarathi}; budget in {256, 512, 1024} for sarathi alone; rate in [0.5, 8]; tp in 1 … 4 with
/// tp * rate <= 16.
inline Space mixed_space() {
  Space space;
  add(space, categorical("policy", {"fcfs", "sarathi"}));
  add(space, ordinal("budget", {256, 512, 1024}), "policy == \"sarathi\"");
  add(space, real("rate", 0.5, 8, true));
  add(space, integer("tp", 1, 4));
  constrain(space, "tp * rate <= 16");
  return space;
}

/// A driver of the registry by its name with parameters as JSON.
inline std::unique_ptr<Driver> make_driver(const std::string& name, DriverSetup setup,
                                           const std::string& params = "{}") {
  DriverRegistry registry("driver");
  register_drivers(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare(name, &node, kHere, faults);
  faults.throw_if_any();
  return choice.make(std::move(setup));
}

}  // namespace orrery::experiments::search::test
