#include "experiments/tune/by_driver.hpp"

#include <numeric>

#include "experiments/search/search.hpp"
#include "experiments/search/unique.hpp"

namespace orrery::experiments::tune {

policies::slapo::TuneResult search_with_driver(const search::DriverRegistry::Choice& driver,
                                               const std::vector<std::vector<double>>& levels,
                                               const policies::slapo::Evaluate& evaluate, double best, bool shuffled,
                                               const sim::RandomStream& random) {
  search::Space space;
  sim::Faults faults;
  std::vector<std::vector<std::int64_t>> places;  // of a choice in the table's order
  std::int64_t budget = 1;
  for (std::size_t axis = 0; axis < levels.size(); ++axis) {
    std::vector<std::int64_t> order(levels[axis].size());
    std::iota(order.begin(), order.end(), 0);
    if (shuffled) {
      sim::RandomStream mixer = random.child("order").child(axis);
      mixer.shuffle(std::span(order));
    }
    search::Parameter parameter{.name = "axis" + std::to_string(axis), .kind = search::ParameterKind::ordinal};
    for (const std::int64_t place : order)
      parameter.choices.push_back({"", levels[axis][std::size_t(place)], false, {}});
    space.add(std::move(parameter), {}, {"tune", ""}, faults);
    budget *= std::ssize(order);
    places.push_back(std::move(order));
  }
  faults.throw_if_any();

  policies::slapo::TuneResult result;
  const auto look = [&](const search::Proposal& proposal) -> search::Evaluation {
    policies::slapo::GridPoint point;
    for (std::size_t axis = 0; axis < places.size(); ++axis)
      point.push_back(places[axis][std::size_t(proposal.point[axis])]);
    const std::optional<double> value = evaluate(point);
    ++result.evaluations;
    if (!value) {
      ++result.failures;
      return {.status = search::TrialStatus::infeasible};
    }
    if (!result.value || *value > *result.value) {
      result.value = value;
      result.evaluations_to_best = result.evaluations;
    }
    return {.objectives = {-*value}};
  };
  search::DriverSetup setup{.space = &space, .budget = budget, .random = random.child("driver")};
  search::UniqueDriver unique(driver.make(std::move(setup)), space, random.child("unique"));
  (void)search::run_search(unique, search::on_threads(look, 1),
                           {.budget = budget, .stop = [&] { return result.value && *result.value >= best; }});
  return result;
}

}  // namespace orrery::experiments::tune
