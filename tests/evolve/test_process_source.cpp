// Programs that propose: good ones, and those that say nonsense, too much, too late, or nothing any more.
#include <chrono>

#include "experiments/evolve/process_source.hpp"
#include "policies/expression_subjects.hpp"
#include "tests/evolve/study_file.hpp"
#include "tests/systems.hpp"

namespace test_process_source {

using namespace orrery;
using namespace orrery::experiments::evolve;
using namespace orrery::experiments::evolve::test;

namespace {

/// Two generations, one run a candidate.
EvolveStudy two(const std::string& extra = "") {
  return study(extra, {"search.generations=2", "training.seeds=[1]"});
}

struct Told {
  EvolveResult result;
  ProposerCounts counts;
};

Told with_proposer(const EvolveStudy& study, const std::string& command) {
  ProcessSource source(study, command);
  Told told;
  told.result = evolve(test_systems(), study, source, {});
  told.counts = source.counts();
  return told;
}

/// A shell program that reads the problem, then answers every line with `answer`.
std::string answering(const std::string& answer) {
  return "read problem; while read line; do " + answer + "; done";
}

}  // namespace

TEST_CASE("a proposer that answers: its expressions are evaluated, it is told what they gave", "[unit]") {
  const Scratch scratch;
  const auto log = scratch / "log.txt";
  const Told told =
      with_proposer(two(), "read -r p; printf '%s\\n' \"$p\" > '" + log.string() +
                               "'; while read -r l; do printf '%s\\n' \"$l\" >> '" + log.string() +
                               R"('; echo '{"candidates": ["predicted_left", "order - 0", "nonsense("]}'; done)");
  CHECK(told.counts.answers == 2);
  CHECK(told.result.archive.size() == 2);
  CHECK(told.result.faulty == 2);
  CHECK(told.result.best->name == "predicted_left");
  CHECK(told.result.notes.empty());
  std::istringstream lines(experiments::test::slurp(log));
  std::string line;
  std::vector<sim::Node> messages;
  while (std::getline(lines, line)) messages.push_back(sim::parse_json(line, "log"));
  REQUIRE(messages.size() == 4);
  CHECK(messages[0].find("type")->as_string() == "problem");
  CHECK(messages[0].find("fields")->items().size() == policies::expression_subjects()[0].names.size());
  CHECK(messages[0].at("limits.nodes")->as_integer() == 25);
  CHECK(messages[1].find("type")->as_string() == "propose");
  CHECK(messages[1].find("results")->items().empty());
  CHECK(messages[2].find("generation")->as_integer() == 1);
  const auto& results = messages[2].find("results")->items();
  REQUIRE(results.size() == 3);
  CHECK(results[0].find("figure")->as_number() == told.result.archive[0].fitness);
  CHECK(results[1].find("expression")->as_string() == "order");
  CHECK(results[2].find("figure")->is_null());
  CHECK(results[2].find("why")->is_string());
  CHECK(messages[3].find("type")->as_string() == "end");
  CHECK(messages[3].at("best.expression")->as_string() == "predicted_left");
}

TEST_CASE("garbage before an answer is counted and passed over", "[unit]") {
  const Told told = with_proposer(
      two(),
      answering(
          R"(echo hello; echo '[1]'; echo '{"generation": 7, "candidates": []}'; echo '{"candidates": [1, null, "order"]}')"));
  CHECK(told.counts.garbage == 4);
  CHECK(told.counts.stale == 2);
  CHECK(told.counts.no_text == 4);
  CHECK(told.counts.answers == 2);
  CHECK(told.result.archive.size() == 1);
  CHECK(told.result.notes.size() == 3);
}

TEST_CASE("lines without an end, endless garbage and too many candidates are bounded", "[unit]") {
  const EvolveStudy s = two(R"(, "proposer": {"candidates": 2, "limit": "20 s"})");
  const Told endless = with_proposer(s, "yes garbage");
  CHECK(endless.counts.garbage == 2000);
  CHECK(endless.result.archive.size() == 0);
  CHECK_FALSE(endless.result.best);
  const Told overlong = with_proposer(
      s, answering(R"(head -c 3000000 /dev/zero | tr '\0' x; echo; echo '{"candidates": ["order", "1", "2"]}')"));
  CHECK(overlong.counts.overlong == 2);
  CHECK(overlong.counts.surplus == 2);
  CHECK(overlong.result.archive.size() == 2);
}

TEST_CASE("a proposer that is late costs a generation each time, and is ended", "[unit]") {
  const auto start = std::chrono::steady_clock::now();
  const Told told = with_proposer(two(R"(, "proposer": {"limit": "50 ms"})"), "sleep 1000; true");
  CHECK(told.counts.late == 2);
  CHECK(told.result.generations.size() == 2);
  CHECK_FALSE(told.result.best);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));  // and not 1000
}

TEST_CASE("a proposer that ends, ends the search with what there is", "[unit]") {
  const Told told = with_proposer(study("", {"search.generations=50", "training.seeds=[1]"}),
                                  R"(read p; read l; echo '{"candidates": ["order"]}'; exit 3)");
  CHECK(told.counts.gone);
  CHECK(told.result.generations.size() == 2);
  CHECK(told.result.best->name == "order");
  CHECK(told.result.notes.size() == 1);
}

TEST_CASE("a proposer that cannot start is a fault", "[unit]") {
  CHECK_THROWS_WITH(
      with_proposer(two(), "/no/such/program 2> /dev/null"),
      "--proposer: expected a program that proposes: '/no/such/program 2> /dev/null' ended before its first "
      "answer");
}

TEST_CASE("a proposer that never reads does not hold the search up", "[unit]") {
  const Told told = with_proposer(two(), R"(for i in 1 2 3; do echo '{"candidates": ["order"]}'; done; sleep 1000)");
  CHECK(told.counts.answers == 2);
}

}  // namespace test_process_source
