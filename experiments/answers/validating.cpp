#include "experiments/answers/validating.hpp"

#include <algorithm>
#include <filesystem>

#include "experiments/base/experiment.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/claims/runner.hpp"
#include "experiments/evolve/evaluator.hpp"
#include "experiments/study/explore.hpp"
#include "hw/parts/catalog.hpp"

namespace orrery::experiments {
namespace {

constexpr std::size_t kMostSwept = 1000;  ///< points of a sweep that are read
constexpr std::size_t kMostDrawn = 200;   ///< of a space that has none

/// Whether a file says that it is a part of the catalog ("gpu", "npu", …), as `orrery calibrate` writes them.
bool is_part(const std::string& file) {
  const sim::Node node = sim::read_config(file);
  const sim::Node* kind = node.is_object() ? node.find("kind") : nullptr;
  if (kind == nullptr || !kind->is_string()) return false;
  const auto& kinds = hw::part_kinds();
  return std::any_of(kinds.begin(), kinds.end(), [&](const hw::PartKind& k) { return k.name == kind->as_string(); });
}

/// A study and every experiment that it makes.
void validate_study(const Systems& systems, const std::string& file, const std::vector<std::string>& assignments) {
  claims::check_experiments(systems, claims::read_study(file, assignments));
}

/// A study and the experiments of its sweep, or of some points of its space where it has none.
void validate_points(const Systems& systems, const std::string& file, const std::vector<std::string>& assignments) {
  const study::Study study = study::read_study(systems, file, assignments);
  const bool swept = !study.sweep.empty();
  (void)study::check_explorable(study, !swept);
  study::check_experiments(study, study::sample_points(study, swept, swept ? kMostSwept : kMostDrawn));
}

}  // namespace

void validate_file(const Systems& systems, const std::string& file, const std::vector<std::string>& assignments) {
  if (claims::is_claim_study(std::filesystem::path(file))) {
    validate_study(systems, file, assignments);
  } else if (study::is_study(file)) {
    validate_points(systems, file, assignments);
  } else if (document_kind(sim::read_json(file)) == "evolve") {
    evolve::check_experiments(systems, evolve::read_evolve_study(file, assignments));
  } else if (is_part(file)) {
    (void)hw::read_any_part(file);
  } else {
    (void)read_experiment(systems, file, assignments);
  }
}

}  // namespace orrery::experiments
