// The search: what it finds, what it evaluates, and that threads change nothing.
#include <cmath>
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
  std::vector<Proposal> propose(std::int64_t generation, const Archive&) override {
    std::vector<Proposal> all;
    for (const std::string& text : lists_[static_cast<std::size_t>(generation)]) all.push_back({.text = text});
    return all;
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

TEST_CASE("bounds come before the figure: the least beyond them wins, whatever it is worth", "[unit]") {
  // Shortest first has the least mean and the longest wait for the longest; longest first the reverse of the mean.
  const char* text = R"(, "search": {"generations": 1}, "starts": [],
    "baselines": {"fcfs": {"policies.batching.policy": "vllm_v1", "policies.batching.vllm_v1.max_num_seqs": 4}})";
  EvolveStudy s = study(text);
  s.objective.bounds = {{.figure = "ttft_s.max", .of = "fcfs", .at_most = 0.2}};
  s.bound_origins.resize(1);
  ListSource tight({List{"predicted_left", "-predicted_left", "order"}});
  const EvolveResult none = evolve(test_systems(), s, tight, {});
  REQUIRE(none.archive.size() == 3);
  INFO(none.archive[0].why);
  REQUIRE(none.archive.best());
  // Nobody meets a fifth: the best has the least of the last first token.
  double least = INFINITY;
  for (std::size_t i = 0; i < none.archive.size(); ++i) {
    CHECK(none.archive[i].violation > 0);
    least = std::min(least, none.archive[i].violation);
  }
  CHECK(none.archive[*none.archive.best()].violation == least);
  // By hand: the violation is the ratio of means over that of the bound, less 1.
  const auto mean = [&](const Figures& figures) { return *bounded_means(s, figures)[0]; };
  const Figures& fcfs = none.baselines[1].training;
  CHECK(none.archive[0].violation == Approx(mean(none.archive[0].figures) / (0.2 * mean(fcfs)) - 1));
  s.objective.bounds[0].at_most = 100;  // all meet it: the figure decides again
  ListSource loose({List{"predicted_left", "-predicted_left", "order"}});
  const EvolveResult all = evolve(test_systems(), s, loose, {});
  CHECK(all.best->name == "predicted_left");
  CHECK(all.archive[0].violation == 0);
  const std::string shown = result_text(s, all);
  CHECK_THAT(shown, Contains("ttft_s.max at most 100 of fcfs; ratios of means over runs"));
  const sim::Node node = result_node(s, all);
  CHECK(node.find("compared")->items()[0].find("bounds")->items()[0].find("training")->is_number());
}

TEST_CASE("only the best of a generation at the first runs go on to the others", "[unit]") {
  EvolveStudy s = study(R"(, "search": {"generations": 1, "first_runs": 1, "pass": 0.3})");
  ListSource source({List{"predicted_left", "-predicted_left", "order"}});
  const EvolveResult result = evolve(test_systems(), s, source, {});
  // 0.3 of three, rounded up: one. Runs: the base at 2 + 1, three at the first, one at the second, the best at 1 more.
  CHECK(result.runs == 3 + 3 + 1 + 1);
  CHECK(result.best->name == "predicted_left");
  CHECK(result.archive[0].figures.size() == 2);
  CHECK(result.archive[1].figures.size() == 1);
  CHECK_FALSE(result.archive[1].fitness);
  CHECK(result.archive[1].why == "not among the best at the first 1 runs");
  s.search.pass = 1;  // everybody: as without
  ListSource again({List{"predicted_left", "-predicted_left", "order"}});
  CHECK(evolve(test_systems(), s, again, {}).runs == 3 + 6 + 1);
}

TEST_CASE("islands breed by themselves until the best move on; parents are told", "[unit]") {
  const char* text = R"(, "names": ["predicted_left", "prompt_tokens", "order"],
    "genetic": {"population": 12, "islands": 3, "elite": 1, "migrate_every": 2, "migrants": 1, "parents": "PARENTS"},
    "search": {"generations": 5})";
  for (const char* parents : {"population", "niches"}) {
    std::string extra = text;
    extra.replace(extra.find("PARENTS"), 7, parents);
    const EvolveStudy s = study(extra);
    const std::string one = evolved(s, 1);
    const bool same = one == evolved(s, 2);
    CHECK(same);
    const auto source = genetic_source(s);
    const EvolveResult result = evolve(test_systems(), s, *source, {});
    std::set<std::int64_t> islands;
    std::int64_t visitors = 0;  // children of an entry of another island
    for (std::size_t i = 0; i < result.archive.size(); ++i) {
      const Candidate& c = result.archive[i];
      islands.insert(c.from.island);
      for (const std::size_t parent : c.from.parents) {
        REQUIRE(parent < i);
        CHECK(result.archive[parent].generation < c.generation);
        if (result.archive[parent].from.island == c.from.island) continue;
        ++visitors;
        CHECK(c.generation >= 2);  // nobody moves before the second generation is told
      }
    }
    CHECK(islands == std::set<std::int64_t>{0, 1, 2});
    CHECK(visitors > 0);
    REQUIRE_FALSE(result.lineage.empty());
    CHECK(result.lineage.front() == *result.archive.best());
    CHECK(result.archive[result.lineage.back()].from.parents.empty());
  }
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
  CHECK_THAT(with(R"(, "genetic": {"population": 6, "islands": 4})"), Contains("expected at most 3 islands"));
  CHECK_THAT(with(R"(, "genetic": {"parents": "niche"})"), Contains("did you mean 'niches'?"));
  CHECK_THAT(with(R"(, "search": {"first_runs": 2})"),
             Contains("/search/first_runs: expected fewer than the 2 training runs, got 2"));
  const auto bounded = [&](const std::string& bound) {
    return faults_of(study_text(), {R"(objective.bounds=[)" + bound + "]"});
  };
  CHECK_THAT(bounded(R"({"figure": "ttft_s.p99"})"), Contains("expected 'at_most' or 'at_least'"));
  CHECK_THAT(bounded(R"({"figure": "ttft_s.p99", "of": "bas", "at_most": 1})"),
             Contains("no baseline 'bas'") && Contains("did you mean 'base'?"));
  CHECK_THAT(bounded(R"({"at_most": 1})"), Contains("figure"));
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
  EvolveStudy bounded = study(R"(, "search": {"generations": 1})");
  bounded.objective.bounds = {{.figure = "ttft_s.p98", .at_most = 1}};
  bounded.bound_origins = {{"s.json", "/objective/bounds/0/figure"}};
  CHECK_THAT(fault(bounded), Contains("/objective/bounds/0/figure") && Contains("p98"));
  // A baseline that does not fit its device has no figure to be a ratio to.
  EvolveStudy large =
      study(R"(, "search": {"generations": 1}, "baselines": {"big": {"model.config": "catalog:llama-3.1-405b"}})");
  large.objective.bounds = {{.figure = "ttft_s.p99", .of = "big", .at_most = 1}};
  large.bound_origins = {{"s.json", "/objective/bounds/0/figure"}};
  CHECK_THAT(fault(large), Contains("s.json:/objective/bounds/0/figure: baseline 'big' has no such figure: "));
  CHECK_THAT(fault(study(R"(, "baselines": {"x": {"policies.batching.policy": "sfj"}})")),
             Contains("did you mean 'sjf'?"));
}

}  // namespace test_evolution
