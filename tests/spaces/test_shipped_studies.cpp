// Studies that ship: each can be read, and a few points of each run.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "experiments/base/experiment.hpp"
#include "experiments/claims/figure.hpp"
#include "tests/study/study_support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::study::test_shipped_studies {
namespace {

using namespace test;

std::filesystem::path shipped(const std::string& name) {
  return home_folder() / "experiments/studies" / (name + ".json");
}

TEST_CASE("every study that ships can be read, and some of its points", "[study][spaces]") {
  std::set<std::string> names;
  for (const sim::ComponentInfo& study : study_components("study")) names.insert(study.name);
  for (const char* name : {"dram_controller", "dram_controller_sub", "space_gpu", "space_kv", "space_network",
                           "space_npu", "space_pim", "space_schedule", "space_serving", "space_training", "sweep_serving"})
    CHECK(names.count(name) == 1);
  for (const std::string& name : names) {
    INFO(name);
    const Study study = read_study(test_systems(), shipped(name));
    CHECK(study.space.size() >= 2);
    CHECK_FALSE(study.objectives.empty());
    CHECK_NOTHROW(check_experiments(study, sample_points(study, false, 20)));
  }
}

struct Few {
  std::int64_t ok = 0, others = 0;
  double best = 0;  ///< first objective, of points that meet the limits; NaN: none does
};

/// The first points that random search looks at.
Few look(const std::string& name, std::size_t points, const std::vector<std::string>& set = {}) {
  const Study study = read_study(test_systems(), shipped(name), set);
  Few few{.best = std::nan("")};
  for (const Point& point : sample_points(study, false, points)) {
    const Outcome outcome = read_experiment(test_systems(), study.config(point, 1, 1))->run({});
    std::vector<double> measured;
    for (const Measure& measure : study.measures) {
      const sim::Node* found = outcome.feasible() ? claims::find_figure(outcome.summary, measure.path).found : nullptr;
      measured.push_back(found != nullptr && found->is_number() ? found->as_number() : std::nan(""));
    }
    const search::Evaluation verdict = study.judge(point, measured);
    ++(verdict.ok() ? few.ok : few.others);
    if (verdict.feasible() && !(few.best <= verdict.objectives[0])) few.best = verdict.objectives[0];
  }
  return few;
}

TEST_CASE("a few points of each space run and have every figure that decides", "[study][spaces]") {
  for (const char* name : {"dram_controller", "space_gpu", "space_kv", "space_network", "space_npu", "space_pim",
                           "space_training", "space_schedule"}) {
    INFO(name);
    const std::vector<std::string> smaller = std::string(name) == "space_kv"
                                                 ? std::vector<std::string>{"base.workload.program.instances=10"}
                                                 : std::vector<std::string>{};
    const Few few = look(name, 8, smaller);
    CHECK(few.ok >= 4);
  }
  CHECK(look("space_serving", 12, {"base.workload.generator.requests=30"}).ok >= 3);  // many layouts do not fit
}

}  // namespace
}  // namespace orrery::experiments::study::test_shipped_studies
