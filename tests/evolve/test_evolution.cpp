// The search: what it finds, what it evaluates, and that threads change nothing.
#include <set>

#include "experiments/evolve/report.hpp"
#include "tests/evolve/study_file.hpp"
#include "tests/systems.hpp"

namespace test_evolution {

using namespace orrery;
using namespace orrery::experiments::evolve;
using namespace orrery::experiments::evolve::test;
using Catch::Contains;

namespace {

const std::string kSmall =
    R"(, "names": ["predicted_left", "prompt_tokens", "order"], "genetic": {"population": 10}, "search": {"generations": 4})";

using List = std::vector<std::string>;

/// Proposes what it is given, a list a generation.
class ListSource final : public Source {
 public:
  explicit ListSource(std::vector<List> lists) : lists_(std::move(lists)) {}
  std::vector<std::string> propose(std::int64_t generation, const Archive&) override {
    return lists_[static_cast<std::size_t>(generation)];
  }
  void told(std::span<const Verdict> verdicts, const Archive&) override {
    seen.insert(seen.end(), verdicts.begin(), verdicts.end());
  }
  std::vector<Verdict> seen;

 private:
  std::vector<List> lists_;
};

std::string evolved(const EvolveStudy& study, std::size_t jobs) {
  const auto source = genetic_source(study);
  const EvolveResult result = evolve(test_systems(), study, *source, {.jobs = jobs, .progress = {}});
  return result_node(study, result).dump(1) + candidates_csv(study, result);
}

std::string faults_of(const std::string& text, const std::vector<std::string>& assignments = {}) {
  const Scratch scratch;
  try {
    read_evolve_study(scratch.write("s.json", text), assignments);
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("expressions that simplify alike are evaluated once; refusals are counted by kind", "[unit]") {
  const EvolveStudy s = study(R"(, "names": ["order", "predicted_left"], "search": {"generations": 2},
    "limits": {"nodes": 5})");
  ListSource source(
      {List{"order", "order * 1", "predicted_left", "1 +", "waited_s", "order + 1 + 2 + 3 + predicted_left"},
       List{"1 + 2 * predicted_left - 0", "1 * predicted_left", "order - 0"}});
  const EvolveResult result = evolve(test_systems(), s, source, {});
  CHECK(result.archive.size() == 2);  // order, predicted_left
  CHECK(result.faulty == 1);
  CHECK(result.forbidden == 1);
  CHECK(result.too_large == 2);
  CHECK(source.seen.size() == 9);
  // Runs: the base at 2 + 1 scenarios, two expressions at 2, the best at 1 more.
  CHECK(result.runs == 8);
}

TEST_CASE("shortest first is found, and it does better where it was not trained", "[unit]") {
  // A batch that arrives at once, four at a time: mean time is least where the short ones go first.
  const EvolveStudy s = study(kSmall);
  const auto source = genetic_source(s);
  const EvolveResult result = evolve(test_systems(), s, *source, {});
  REQUIRE(result.best);
  const double base = *result.baselines[0].held_out[0].value, best = *result.best->held_out[0].value;
  CHECK(best < 0.95 * base);
  CHECK(result.generations.size() == 4);
  for (std::size_t i = 1; i < 4; ++i) CHECK(*result.generations[i].best <= *result.generations[i - 1].best);
  std::set<std::string> texts;
  for (std::size_t i = 0; i < result.archive.size(); ++i) texts.insert(result.archive[i].text);
  CHECK(texts.size() == result.archive.size());
  // Runs: base at 3 scenarios, each expression at 2, the best at 1 more.
  CHECK(result.runs == 3 + 2 * static_cast<std::int64_t>(result.archive.size()) + 1);
}

TEST_CASE("the same search on one thread and on three; another seed is another search", "[prop]") {
  const EvolveStudy s = study(kSmall);
  const std::string one = evolved(s, 1);
  const bool same = one == evolved(s, 3);
  CHECK(same);
  EvolveStudy other = study(kSmall);
  other.search.seed = 2;
  CHECK(one != evolved(other, 2));
}

TEST_CASE("more may be better", "[unit]") {
  EvolveStudy s = study(R"(, "search": {"generations": 1})");
  s.objective.goal = Goal::maximise;
  ListSource source({List{"predicted_left", "-predicted_left"}});
  const EvolveResult result = evolve(test_systems(), s, source, {});
  CHECK(result.best->name == "-predicted_left");  // the longest first keep everybody waiting
}

TEST_CASE("a candidate whose run takes too long has no fitness", "[unit]") {
  EvolveStudy s = study("", {"search.generations=1", "base.workload.generator.requests=600"});
  s.search.evaluation_limit_s = 1e-9;
  ListSource source({List{"predicted_left"}});
  const EvolveResult result = evolve(test_systems(), s, source, {});
  CHECK_FALSE(result.best);
  CHECK(result.archive[0].why == "took too long");
}

TEST_CASE("faults of a study, each with its place", "[unit]") {
  const auto with = [](const std::string& extra) { return faults_of(study_text(extra)); };
  CHECK_THAT(with(R"(, "naems": [])"), Contains("/naems") && Contains("did you mean 'names'?"));
  CHECK_THAT(with(R"(, "names": ["waited"])"), Contains("/names/0") && Contains("did you mean 'waited_s'?"));
  CHECK_THAT(with(R"(, "names": [])"), Contains("/names") && Contains("at least one name"));
  CHECK_THAT(with(R"(, "starts": ["order +"])"), Contains("/starts/0") && Contains("column 8"));
  CHECK_THAT(with(R"x(, "starts": ["abs(abs(order))"], "limits": {"depth": 2})x"), Contains("/starts/0"));
  CHECK_THAT(with(R"(, "genetic": {"crossover": 0.9, "point": 0.2})"), Contains("/genetic"));
  CHECK_THAT(with(R"(, "genetic": {"population": 2, "elite": 2})"), Contains("/genetic"));
  CHECK_THAT(with(R"(, "limits": {"nodes": 0})"), Contains("/limits/nodes"));
  CHECK_THAT(faults_of("{}"), Contains("/kind") && Contains("expected \"evolve\""));
  CHECK_THAT(faults_of(study_text(), {"path=policies.batching.expression.scor"}),
             Contains("/path") && Contains("did you mean 'policies.batching.expression.score'?"));
  CHECK_THAT(faults_of(study_text(), {"base.policies.batching.policy=sjf"}),
             Contains("policies.batching.policy") && Contains("\"sjf\""));
  CHECK_THAT(faults_of(study_text(), {"objective.goal=smaller"}), Contains("/objective/goal"));
  CHECK(faults_of(study_text()).empty());
}

TEST_CASE("faults that only a run shows", "[unit]") {
  const auto fault = [](const EvolveStudy& s) -> std::string {
    ListSource source({List{"order"}});
    try {
      evolve(test_systems(), s, source, {});
    } catch (const sim::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EvolveStudy s = study(R"(, "search": {"generations": 1})");
  s.objective.figure = "e2e_s.maen";
  CHECK_THAT(fault(s), Contains("/objective/figure") && Contains("did you mean 'mean'?"));
  CHECK_THAT(fault(study(R"(, "baselines": {"x": {"policies.batching.policy": "sfj"}})")),
             Contains("did you mean 'sjf'?"));
}

}  // namespace test_evolution
