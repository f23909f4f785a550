// Expressions: formulas of studies and policies, sizes of graphs, candidates of `orrery evolve`.
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/evolve/evolve_study.hpp"
#include "models/sym/expr.hpp"
#include "sim/base/fault.hpp"
#include "sim/base/formula.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace orrery::fuzz {

void fuzz_formula(std::string_view input) {
  static const sim::FormulaNames names = [] {
    sim::FormulaNames all;
    for (const char* name : {"a", "b", "rate"}) (void)all.scalar(name);
    for (const char* name : {"s", "times"}) (void)all.series(name);
    return all;
  }();
  sim::Faults faults;
  const auto formula = sim::Formula::parse(input, names, {"input", "/formula"}, faults);
  require(formula.has_value() || !faults.empty(), "what is no formula has a fault");
  if (!formula) return;
  const std::array<double, 3> scalars{1.5, -2, 0};
  const std::array<double, 4> values{0, 1, 2, 1e300};
  const std::array<std::span<const double>, 2> series{values, values};
  std::vector<double> out;
  formula->series({scalars, series}, out);
  (void)formula->steps();
}

void fuzz_symbolic(std::string_view input) {
  const std::string text(input.substr(0, 200));  // names of dimensions are kept for good: memory grows with them
  try {
    const models::SymExpr expression = models::SymExpr::parse(text);
    const std::string written = expression.to_string();
    require(models::SymExpr::parse(written) == expression, "an expression is read as it was written");
  } catch (const std::invalid_argument&) {  // no expression, or one past 64 bits
  }
}

void fuzz_candidate(std::string_view input) {
  namespace evolving = experiments::evolve;
  static const evolving::EvolveStudy study =
      evolving::read_evolve_study(experiments::home_folder() / "experiments/studies/evolve_queue.json");
  evolving::Refusal refusal;
  const auto tree = evolving::read_candidate(study, std::string(input), refusal);
  if (!tree) return require(!refusal.why.empty(), "a candidate that is refused has a reason");
  const evolving::Tree simple = evolving::simplified(*tree);
  const std::string text = evolving::text_of(simple, study.names);
  const auto again = evolving::read_candidate(study, text, refusal);
  if (again) require(evolving::text_of(*again, study.names) == text, "a candidate is read as it was written");
}

}  // namespace orrery::fuzz
