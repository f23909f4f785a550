// Sweeps and searches: the same rows for any number of threads and however often interrupted.
#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "experiments/study/protocol.hpp"
#include "experiments/study/trials.hpp"
#include "study_support.hpp"

namespace orrery::experiments::study::test_explore {
namespace {

using namespace test;
using Catch::Contains;

std::string explored(const Study& study, const fs::path& out, bool search, std::size_t jobs) {
  const auto result = explore(study, {.search = search, .out = out, .jobs = jobs});
  CHECK_FALSE(result.interrupted);
  return dump(out);
}

TEST_CASE("a sweep: a row a point, the same for any number of threads", "[study]") {
  Scratch scratch;
  const Study study = read(scratch, small_study());
  const std::string one = explored(study, scratch / "one", false, 1);
  CHECK(explored(study, scratch / "two", false, 2) == one);
  CHECK(explored(study, scratch / "five", false, 5) == one);
  const BestPoints best = best_points(std::vector{scratch / "one"}, 10);
  CHECK(best.counts[0].points == 9);
  CHECK(best.counts[0].ok == 9);
  CHECK_FALSE(best.points.empty());
  // Nothing of the front is beaten by another point of it.
  for (const BestPoint& a : best.points)
    for (const BestPoint& b : best.points)
      CHECK_FALSE((a.objectives[0] < b.objectives[0] && a.objectives[1] < b.objectives[1]));
}

TEST_CASE("a search: the same rows for any number of threads, and over repeats", "[study]") {
  Scratch scratch;
  const std::string text =
      study_json(R"("parameters": [
      {"name": "budget", "path": "policies.batching.sarathi.token_budget", "range": [64, 2048], "type": "integer"},
      {"name": "rate", "path": "workload.rate_scale", "range": [0.5, 4], "scale": "log"}], )" +
                 kGoals + R"(, "search": {"budget": 12, "batch": 5, "repeats": 2}, "seeds": {"count": 2})");
  const Study study = read(scratch, text);
  const std::string one = explored(study, scratch / "one", true, 1);
  CHECK(explored(study, scratch / "three", true, 3) == one);
  StoreReader store(scratch / "one");
  std::int64_t rows = 0, second = 0;
  store.for_each([&](const PointRow& row) {
    ++rows;
    second += row.repeat == 1;
    CHECK(row.status == TrialStatus::ok);
  });
  CHECK(rows == 24);
  CHECK(second == 12);
}

/// Gives results one by one, those of the latest run first.
class Backwards final : public Executor {
 public:
  explicit Backwards(const Study& study) : study_(study) {}
  void start(std::span<const RunOrder> orders) override { out_.insert(out_.end(), orders.begin(), orders.end()); }
  std::vector<RunDone> wait() override {
    most = std::max(most, out_.size());
    const RunOrder order = out_.back();
    out_.pop_back();
    std::istringstream in(protocol_header(study_).dump() + "\n" + protocol_request(order.id, *order.run) + "\n");
    std::ostringstream out;
    evaluate_points(test_systems(), in, out);
    const std::string answer = out.str().substr(out.str().find('\n') + 1);
    return {{order.id, protocol_answer(sim::parse_json(answer, "answer"), study_.measures)}};
  }
  std::size_t most = 0;  ///< runs that were out at a time

 private:
  const Study& study_;
  std::vector<RunOrder> out_;
};

std::string search_with(const std::string& settings) {
  return study_json(R"("parameters": [
      {"name": "budget", "path": "policies.batching.sarathi.token_budget", "range": [64, 2048], "type": "integer"},
      {"name": "rate", "path": "workload.rate_scale", "range": [0.5, 4], "scale": "log"}], )" +
                    kGoals + R"(, "search": {"budget": 14, )" + settings + "}");
}

TEST_CASE("a search with points in flight: the same rows in whatever order runs end", "[study]") {
  Scratch scratch;
  for (const char* driver : {"tpe", "genetic"}) {
    INFO(driver);
    const std::string policy = R"({"policy": ")" + std::string(driver) + R"("})";
    const Study study = read(scratch, search_with(R"("batch": 1, "in_flight": 4, "driver": )" + policy));
    const std::string name = driver;
    const std::string one = explored(study, scratch / (name + "1"), true, 1);
    CHECK(explored(study, scratch / (name + "3"), true, 3) == one);
    Backwards backwards(study);
    (void)explore(study, {.search = true, .out = scratch / (name + "back"), .executor = &backwards});
    CHECK(dump(scratch / (name + "back")) == one);
    CHECK(backwards.most == 4);
    for (int first = 2; first < 12; first += 3) {
      const fs::path out = scratch / (name + "parts" + std::to_string(first));
      int allowed = first;  // of the times that it asks whether to stop; more each time, so that it ends
      std::int64_t runs = 0;
      for (bool done = false; !done; ++allowed) {
        std::atomic<int> asked = 0;
        const auto result =
            explore(study, {.search = true, .out = out, .jobs = 2, .stop = [&] { return ++asked > allowed; }});
        runs += result.runs;
        done = !result.interrupted;
      }
      CHECK(runs == 14);
      CHECK(dump(out) == one);
    }
  }
}

/// Ten requests at rates up to far too many; of those that arrive late the P90 of the TTFT is above a second.
std::string ending_study(const std::string& end, const std::string& objective) {
  return study_json(
      R"("parameters": [{"name": "rate", "path": "workload.rate_scale", "values": [0.5, 1, 50, 100, 200]}],
      "measures": {"ttft": "ttft_s.p90", "speed": "throughput.output_tokens_per_s"}, "objectives": [{)" +
      objective + R"(}], "limits": [{"value": "ttft", "most": 0.1)" + end + "}]");
}

std::vector<PointRow> rows_of(const fs::path& file) {
  std::vector<PointRow> rows;
  StoreReader(file).for_each([&](const PointRow& row) { rows.push_back(row); });
  return rows;
}

TEST_CASE("runs end on a limit: points that meet it are as ever, others are infeasible or beyond it", "[study]") {
  Scratch scratch;
  for (const char* objective : {R"("maximise": "speed")", R"("name": "o", "minimise": "rate")"}) {
    const bool known = std::string(objective).find("rate") != std::string::npos;  // without the run
    INFO(objective);
    const Study whole = read(scratch, ending_study("", objective));
    const std::string name = known ? "known" : "unknown";
    (void)explore(whole, {.out = scratch / (name + "whole")});
    const Study study = read(scratch, ending_study(R"(, "end_at": 1.5)", objective));
    const std::string one = explored(study, scratch / (name + "1"), false, 1);
    CHECK(explored(study, scratch / (name + "3"), false, 3) == one);
    Backwards backwards(study);  // another process is told of it too
    (void)explore(study, {.out = scratch / (name + "back"), .executor = &backwards});
    CHECK(dump(scratch / (name + "back")) == one);
    const auto rows = rows_of(scratch / (name + "1")), all = rows_of(scratch / (name + "whole"));
    REQUIRE(rows.size() == 5);
    int ended = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double ttft = number_of(all[i].cells[1]);
      CAPTURE(i, ttft);
      if (ttft <= 0.15 || rows[i].reason.empty()) {  // or beyond it, and not certain before the end
        CHECK(rows[i].cells == all[i].cells);
        continue;
      }
      ++ended;
      CHECK_THAT(rows[i].reason, Contains("ended: ttft_s.p90 is above 0.15 s whatever follows: ended after"));
      CHECK(number_of(rows[i].cells[1]) > 0.15);       // so far
      CHECK(std::isnan(number_of(rows[i].cells[2])));  // nobody knows
      CHECK(rows[i].status == (known ? TrialStatus::ok : TrialStatus::infeasible));
      if (known) CHECK(rows[i].violation > 0.5);  // (0.15 - 0.1) / 0.1
    }
    CHECK(ended >= 2);
    CHECK(explore(study, {.out = scratch / (name + "1")}).known == 5);
    // Runs of the one are not those of the other.
    const auto taken = explore(study, {.out = scratch / (name + "from"), .from = {scratch / (name + "whole")}});
    CHECK(taken.runs == 5);
    // Drivers hear how far beyond the limit a point was when it ended.
    StoreReader store(scratch / (name + "1"));
    for (const search::Trial& trial : read_trials(store, {}).trials) {
      REQUIRE(trial.result.judged());
      CHECK(trial.result.ok() == (trial.result.reason.empty() || known));
      if (!trial.result.reason.empty()) CHECK(trial.result.violation() > 0.5);
    }
  }
}

TEST_CASE("only runs that ended early are judged by figures of what has no result", "[study]") {
  Scratch scratch;
  // Llama-3-70B does not fit one device: its summary says how much it needs, which is no result.
  const Study study = read(scratch, study_json(R"("parameters": [
      {"name": "model", "path": "model.config", "values": ["catalog:llama-2-7b", "catalog:llama-3-70b"]},
      {"name": "price", "formula": "1"}],
      "measures": {"needed": "needed_bytes", "ttft": "ttft_s.p99"}, "objectives": [{"minimise": "price"}],
      "limits": [{"value": "ttft", "most": 100}])"));
  (void)explore(study, {.out = scratch / "s"});
  const auto rows = rows_of(scratch / "s");
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].status == TrialStatus::infeasible);
  CHECK(std::isnan(number_of(rows[1].cells[2])));
  CHECK_FALSE(read_trials(*std::make_unique<StoreReader>(scratch / "s"), {}).trials[1].result.judged());
  CHECK(best_points(std::vector{scratch / "s"}, 5).points.size() == 1);
}

TEST_CASE("whether a figure is missing does not depend on how many threads there are", "[study]") {
  Scratch scratch;
  // The first point has no such figure, the others do: the study is at fault only if none had it by then.
  const std::string text = study_json(R"("parameters": [
      {"name": "requests", "path": "workload.limit", "values": [1, 2, 3, 4]}], "measures": {"tpot": "tpot_s.mean"},
      "objectives": [{"minimise": "tpot"}], "search": {"budget": 4, "batch": 1, "in_flight": 4,
      "driver": {"policy": "grid"}})");
  std::set<std::string> told;
  for (const std::size_t jobs : {1, 2, 4}) {
    scratch.write("trace.csv", "arrived_s,prompt_tokens,output_tokens\n0,10,1\n1,10,5\n2,10,5\n3,10,5\n");
    const Study study = read_study(test_systems(), scratch.write("s.json", text), {});
    try {
      (void)explore(study, {.search = true, .out = scratch / ("jobs" + std::to_string(jobs)), .jobs = jobs});
      told.insert("all");
    } catch (const sim::ConfigError& error) {
      told.insert(error.faults().front().message);
    }
  }
  CHECK(told.size() == 1);
}

TEST_CASE("in_flight is part of a search only where it changes something", "[study]") {
  Scratch scratch;
  const auto store = [&](const char* settings) { return default_store(read(scratch, search_with(settings)), true); };
  CHECK(store(R"("batch": 4, "in_flight": 4)") == store(R"("batch": 4)"));
  CHECK(store(R"("batch": 4, "in_flight": 5)") != store(R"("batch": 4)"));
}

TEST_CASE("stopped after each number of runs and taken up again: the same rows, nothing run twice", "[study]") {
  Scratch scratch;
  const Study study = read(scratch, small_study());
  const std::string whole = explored(study, scratch / "whole", false, 1);
  for (int first = 2; first < 12; ++first) {
    const fs::path out = scratch / ("parts" + std::to_string(first));
    std::int64_t runs = 0;
    int allowed = first;  // of the times that it asks whether to stop; more each time, so that it ends
    for (bool done = false; !done; ++allowed) {
      int asked = 0;
      const auto result = explore(study, {.out = out, .jobs = 1, .stop = [&] { return ++asked > allowed; }});
      runs += result.runs;
      done = !result.interrupted;
    }
    CHECK(runs == 9);
    CHECK(dump(out) == whole);
  }
}

TEST_CASE("equal configs run once; seeds are averaged", "[study]") {
  Scratch scratch;
  const Study study = read(scratch, study_json(R"("parameters": [
      {"name": "unused", "path": "policies.batching.vllm_v0.max_sequences", "values": [64, 128]},
      {"name": "label", "values": ["a", "b"]}], "seeds": {"count": 3, "statistic": "median"}, )" +
                                               kGoals));
  const auto result = explore(study, {.out = scratch / "s", .jobs = 2});
  CHECK(result.points == 4);
  CHECK(result.runs == 3);  // a label, and a parameter of a policy that is not chosen, change nothing: three seeds
}

TEST_CASE("infeasible and refused points are rows with a reason", "[study]") {
  Scratch scratch;
  const Study study = read(scratch, study_json(R"("parameters": [
      {"name": "model", "path": "model.config", "values": ["catalog:llama-2-7b", "catalog:llama-3-70b", "catalog:none"]}], )" +
                                               kGoals));
  const auto result = explore(study, {.out = scratch / "s", .jobs = 2});
  CHECK(result.points == 3);
  CHECK(result.runs == 2);
  std::vector<PointRow> rows;
  StoreReader(scratch / "s").for_each([&](const PointRow& row) { rows.push_back(row); });
  CHECK(rows[0].status == TrialStatus::ok);
  CHECK(rows[1].status == TrialStatus::infeasible);
  CHECK_THAT(rows[1].reason, Contains("do not fit the memory"));
  CHECK(rows[2].status == TrialStatus::failed);
  CHECK_THAT(rows[2].reason, Contains("found no 'none'"));
  CHECK(rows[2].key.empty());
  // Taken up again, all three are known.
  CHECK(explore(study, {.out = scratch / "s"}).known == 3);
}

TEST_CASE("a measure that no run has ends the study with its place; the rows are kept", "[study]") {
  Scratch scratch;
  const std::string goals = R"("measures": {"t": "ttft_s.p98"}, "objectives": [{"minimise": "t"}])";
  const Study study = read(scratch, study_json(kParameters + ", " + goals));
  try {
    (void)explore(study, {.out = scratch / "s"});
    FAIL("expected a fault");
  } catch (const sim::ConfigError& error) {
    CHECK_THAT(error.faults().front().text(),
               Contains("s.json:/measures/t: no run has this figure: 'ttft_s' of summary.json has no 'p98'"));
  }
  CHECK(best_points(std::vector{scratch / "s"}, 3).counts[0].failed == 9);
  // One that decides nothing is a note.
  const Study noted = read(
      scratch,
      study_json(kParameters + R"(, "measures": {"t": "ttft_s.p99", "u": "none"}, "objectives": [{"minimise": "t"}])"));
  const auto result = explore(noted, {.out = scratch / "n"});
  REQUIRE(result.notes.size() == 1);
  CHECK_THAT(result.notes[0], Contains("measure 'u': no run has this figure: summary.json has no 'none'"));
}

TEST_CASE("an input that has changed since is refused", "[study]") {
  Scratch scratch;
  const Study study = read(scratch, small_study());
  (void)explore(study, {.out = scratch / "s"});
  scratch.write("trace.csv", small_trace() + "9,10,10\n");
  try {
    (void)explore(study, {.out = scratch / "s"});
    FAIL("expected a fault");
  } catch (const sim::ConfigError& error) {
    CHECK_THAT(error.faults().front().text(), Contains("trace.csv: has changed since the store was begun"));
  }
}

TEST_CASE("limits: points beyond them are not among the best", "[study]") {
  Scratch scratch;
  const std::string goals = R"("measures": {"ttft": "ttft_s.p99"}, "objectives": [{"maximise": "rate"}],
                               "limits": [{"name": "slo", "value": "rate", "most": 1}])";
  const Study study = read(scratch, study_json(kParameters + ", " + goals));
  (void)explore(study, {.out = scratch / "s"});
  const BestPoints best = best_points(std::vector{scratch / "s"}, 1);
  CHECK(best.counts[0].over == 3);  // those of rate 2
  REQUIRE(best.points.size() == 1);
  CHECK(best.points[0].objectives[0] == -1);
}

TEST_CASE("worker pools do every piece once, batch after batch", "[study]") {
  WorkerPool pool(4);
  for (std::size_t n : {0, 1, 3, 1000, 7}) {
    std::vector<std::atomic<int>> done(n);
    pool.for_each(n, [&](std::size_t i) { ++done[i]; });
    for (const auto& count : done) REQUIRE(count == 1);
  }
}

TEST_CASE("worker pools do pieces that are handed on, and those of for_each ahead of them", "[study]") {
  for (const std::size_t jobs : {1, 3}) {
    INFO(jobs);
    std::atomic<int> done = 0;
    std::atomic<bool> open = jobs == 1;  // with one thread the owner does them, and must not wait for itself
    {
      WorkerPool pool(jobs);
      std::vector<std::function<void()>> pieces;
      for (int i = 0; i < 20; ++i)
        pieces.emplace_back([&] {
          while (!open) std::this_thread::yield();
          ++done;
        });
      pool.submit(std::move(pieces));
      std::atomic<int> ahead = 0;
      pool.for_each(50, [&](std::size_t) { ++ahead; });  // all threads are at pieces that wait
      CHECK(ahead == 50);
      CHECK(done == 0);
      open = true;
      pool.wait_until([&] { return done >= 5; });
      CHECK(done >= 5);
      if (jobs == 1) CHECK(done == 5);  // no piece that nobody waits for
    }
    const int at_end = done;
    CHECK(at_end <= 20);
    CHECK(at_end == done);  // what had not begun is dropped, and no thread is left
  }
}

}  // namespace
}  // namespace orrery::experiments::study::test_explore
