// What each program asks, on a cluster where an answer of n tokens takes n seconds.
#include <filesystem>
#include <fstream>

#include "fake_port.hpp"

namespace test_programs {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

ProgramMetrics run(FakePort& port, const std::string& policy, const std::string& params, int instances = 1,
                   const std::string& how = "") {
  const auto load =
      load_of(programs(R"({"instances": )" + std::to_string(instances) + how + R"(, "does": {"policy": ")" + policy +
                       R"(", ")" + policy + "\": " + params + "}}"));
  port.run(*load);
  return load->finish();
}

/// Tokens at the head of both texts.
std::int64_t shared(const Sent& a, const Sent& b) {
  return policies::common_tokens(a.text, b.text);
}

}  // namespace

TEST_CASE("appl: futures overlap what is independent, the estimate is their ratio", "[theory]") {
  // 10 chains of 20 tokens: 20 s side by side, 200 s in a row; the estimate is 200 / 20.
  const std::string chains =
      R"("pattern": "self_consistency", "branches": 10, "thought": {"mean": 20, "cv": 0}, "spawn_time": "0 s"})";
  FakePort together, in_a_row;
  const ProgramMetrics futures = run(together, "appl", R"({"mode": "futures", )" + chains);
  const ProgramMetrics sequential = run(in_a_row, "appl", R"({"mode": "sequential", )" + chains);
  CHECK(futures.latency.mean() == 20 * kSecond);
  CHECK(sequential.latency.mean() == 200 * kSecond);
  CHECK(sequential.call_time.mean() == 200 * kSecond);
  CHECK(sequential.critical_path.mean() == 20 * kSecond);
  CHECK(futures.critical_path.mean() == 20 * kSecond);
  CHECK(together.most == 10);
  CHECK(in_a_row.most == 1);
  // The question is the same text for all chains, their answers are not.
  CHECK(shared(together.sent[0], together.sent[9]) == together.sent[0].prompt);
}

TEST_CASE("appl: skeleton, tree and summary have the shape they say", "[unit]") {
  FakePort skeleton;
  // Outline of 6 s, then 4 points of 20 s: 26 s; points hold the outline.
  const ProgramMetrics s = run(skeleton, "appl",
                               R"({"pattern": "skeleton", "branches": 4, "outline": {"mean": 6, "cv": 0},
                                   "thought": {"mean": 20, "cv": 0}, "spawn_time": "0 s"})");
  CHECK(s.calls == 5);
  CHECK(s.latency.mean() == 26 * kSecond);
  CHECK(shared(skeleton.sent[0], skeleton.sent[1]) == skeleton.sent[0].prompt + 6);
  // 3 thoughts and their ratings, then 2 kept states x 3 twice: 2 x (3 + 6 + 6) calls, 3 levels of 20 + 5 s.
  FakePort tree;
  const ProgramMetrics t =
      run(tree, "appl",
          R"({"pattern": "tree", "branches": 3, "keep": 2, "levels": 3, "rating": {"mean": 5, "cv": 0},
                                   "thought": {"mean": 20, "cv": 0}, "spawn_time": "0 s"})");
  CHECK(t.calls == 30);
  CHECK(t.latency.mean() == 75 * kSecond);
  // 9 pieces, 3 at a time: 9 + 3 + 1 calls in three rounds.
  FakePort summary;
  const ProgramMetrics m = run(summary, "appl",
                               R"({"pattern": "summary", "branches": 3, "pieces": 9, "thought": {"mean": 20, "cv": 0},
                                   "spawn_time": "0 s"})");
  CHECK(m.calls == 13);
  CHECK(m.latency.mean() == 60 * kSecond);
}

TEST_CASE("conversation: each prompt begins with all that was said", "[unit]") {
  FakePort port;
  const ProgramMetrics metrics =
      run(port, "conversation",
          R"({"one_turn": 0, "turns_mean": 6, "think_median": "10 s", "think_sigma": 0, "system_prompt": 30,
              "message": {"mean": 7, "cv": 0}, "output": {"mean": 3, "cv": 0}})",
          20);
  CHECK(metrics.completed == 20);
  std::map<std::int64_t, std::vector<const Sent*>> sessions;
  for (const Sent& sent : port.sent) sessions[sent.session].push_back(&sent);
  for (const auto& [id, turns] : sessions) {
    CHECK(turns.size() >= 2);
    for (std::size_t k = 0; k < turns.size(); ++k) {
      CHECK(turns[k]->prompt == 30 + 7 + static_cast<std::int64_t>(k) * 10);
      CHECK(turns[k]->at_s == static_cast<std::int64_t>(k) * 13);
      if (k > 0) CHECK(shared(*turns[k - 1], *turns[k]) == turns[k - 1]->prompt + 3);
    }
  }
  CHECK(shared(*sessions[0][0], *sessions[1][0]) == 30);
}

TEST_CASE("conversation: turns and think times of BurstGPT", "[theory]") {
  // One turn in 36 %, mean 4.18; the geometric rest then puts the median at 2 or 3 and 75 % within 4 to 6.
  FakePort port;
  const ProgramMetrics metrics = run(port, "conversation", R"({"think_median": "0 s"})", 4000);
  std::vector<std::int64_t> turns;
  for (const ProgramRecord& record : metrics.records) turns.push_back(record.calls);
  std::sort(turns.begin(), turns.end());
  double mean = 0;
  for (const std::int64_t t : turns) mean += static_cast<double>(t) / 4000;
  CHECK(mean == Approx(4.18).epsilon(0.05));
  CHECK(static_cast<double>(std::count(turns.begin(), turns.end(), 1)) / 4000 == Approx(0.36).margin(0.025));
  CHECK(turns[2000] <= 3);
}

TEST_CASE("workflow_trace: the next stage when all of one have ended, deadlines by what is left", "[unit]") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("orrery-wf-" + std::to_string(::getpid()))).string();
  std::ofstream(path) << "trace,query,call_index,step,input_tokens,output_tokens\n"
                         "a,0,0,draft,100,10\na,0,1,revise,50,4\na,0,2,revise,50,6\na,0,3,judge,20,10\n"
                         "b,0,0,draft,100,10\nb,0,1,revise,50,5\nb,0,2,judge,20,10\n";
  FakePort port;
  const ProgramMetrics metrics =
      run(port, "workflow_trace",
          R"({"path": ")" + path + R"(", "slo": "50 s", "prompt_weight": 0, "shared_prompt": 0.5})", 9);
  std::filesystem::remove(path);
  CHECK(metrics.started == 2);  // as many as the file has
  CHECK(metrics.latency.max() == 26 * kSecond);
  REQUIRE(port.sent.size() == 7);
  std::vector<std::int64_t> starts;
  for (const Sent& sent : port.sent)
    if (sent.session == 0) starts.push_back(sent.at_s);
  CHECK(starts == std::vector<std::int64_t>{0, 10, 10, 16});
  // Mean tokens: draft 10, revise 5, judge 10. Of 50 s draft gets 10 / 25: 20 s.
  CHECK(port.sent[0].deadline_s == 20);
  CHECK(port.sent[0].kind == 0);
  // Of the 40 s left at 10, revise gets 5 / 15: 13.3 s.
  CHECK(port.sent[2].kind == 1);
  CHECK(port.sent[2].deadline_s == 23);
  CHECK(shared(port.sent[2], port.sent[3]) == 25);
  CHECK(metrics.figures.at("slo_met") == 2);
}

TEST_CASE("workflow_trace: drawn workflows have the means of the Text-to-SQL traces", "[theory]") {
  // 8,010 calls and 419 queries: 19.1 calls a query; 2 candidates each, of 10,790 and 672 tokens.
  FakePort port;
  const ProgramMetrics metrics = run(port, "workflow_trace", R"({"drawn": 400})", 1000);
  CHECK(metrics.started == 400);
  CHECK(static_cast<double>(metrics.calls) / 400 == Approx(19.1).epsilon(0.05));
  double prompt = 0, output = 0;
  std::int64_t candidates = 0;
  for (const Sent& sent : port.sent) {
    if (sent.kind != 2) continue;  // retrieve, extract_keywords, generate_candidate
    ++candidates;
    prompt += static_cast<double>(sent.prompt);
    output += static_cast<double>(sent.output);
  }
  CHECK(candidates == 800);
  CHECK(prompt / 800 == Approx(10'790).epsilon(0.03));
  CHECK(output / 800 == Approx(672).epsilon(0.04));
}

TEST_CASE("tool_agent: a chain ends at a dead end, a tree goes back and shares the path", "[prop]") {
  FakePort chain, tree, sure;
  const std::string params = R"("dead_end": 0.3, "steps_mean": 4, "tool_time": {"mean": "1 s", "cv": 0}})";
  const ProgramMetrics react = run(chain, "tool_agent", R"({"search": "react", )" + params, 300);
  const ProgramMetrics dfsdt = run(tree, "tool_agent", R"({"search": "dfsdt", )" + params, 300);
  CHECK(react.figures.at("passed") < dfsdt.figures.at("passed"));
  CHECK(react.figures.at("steps_back") == 0);
  CHECK(dfsdt.figures.at("steps_back") > 0);
  CHECK(dfsdt.calls > react.calls);
  // A chain passes with probability sum_k P(n = k) 0.7^k = 0.7 p / (1 - 0.7 (1 - p)), p = 1/4: 0.175 / 0.475.
  CHECK(react.figures.at("passed") / 300 == Approx(0.175 / 0.475).margin(0.09));
  // Without dead ends both are the same chain: needed + 1 calls, needed tools.
  const ProgramMetrics clean = run(sure, "tool_agent", R"({"search": "dfsdt", "dead_end": 0})", 50);
  CHECK(clean.figures.at("passed") == 50);
  CHECK(static_cast<double>(clean.calls) == clean.figures.at("tool_calls") + 50);
  // Every call of an instance begins with at least instructions, tools and question.
  for (const Sent& sent : sure.sent)
    for (const Sent& other : sure.sent)
      if (&sent != &other && sent.session == other.session) CHECK(shared(sent, other) > 600);
}

TEST_CASE("plan_and_budget: caps by schedule", "[theory]") {
  const auto used = [](const std::string& schedule) {
    FakePort port;
    const ProgramMetrics m = run(port, "plan_and_budget",
                                 R"({"schedule": ")" + schedule +
                                     R"(", "budget": 1000, "least": 1, "questions": {"mean": 4, "cv": 0},
                                        "thinking": {"mean": 1000, "cv": 0}})");
    std::vector<std::int64_t> tokens;
    for (const Sent& sent : port.sent)
      if (sent.kind == 1) tokens.push_back(sent.output);
    CHECK(m.completed == 1);
    return tokens;
  };
  using Tokens = std::vector<std::int64_t>;
  CHECK(used("none") == Tokens{1000, 1000, 1000, 1000});
  CHECK(used("global") == Tokens{1000, 1, 1, 1});
  CHECK(used("uniform") == Tokens{250, 250, 250, 250});
  CHECK(used("linear") == Tokens{400, 300, 200, 100});       // 4 3 2 1 of 10
  CHECK(used("polynomial") == Tokens{533, 300, 133, 33});    // 16 9 4 1 of 30
  CHECK(used("exponential") == Tokens{339, 271, 217, 173});  // 1 0.8 0.64 0.512 of 2.952
  CHECK(used("cosine") == Tokens{400, 341, 200, 59});        // 1 .8536 .5 .1464 of 2.5
}

TEST_CASE("plan_and_budget: nothing is asked after a call that failed", "[unit]") {
  // 100 tokens of question, 10 of plan; sub-questions of 20 tokens with caps of 400, 300, 200 and 100. Where 500 tokens
  // fit, the first (130 + 400) is rejected; the second (150 + 300) would fit. Where 600 do, the first is answered, and
  // the second (130 + 400 + 20 + 300) is not.
  const auto calls = [](std::int64_t context) {
    FakePort port(context);
    const ProgramMetrics m = run(port, "plan_and_budget",
                                 R"({"schedule": "linear", "budget": 1000, "least": 1,
                                     "questions": {"mean": 4, "cv": 0}, "question": {"mean": 100, "cv": 0},
                                     "plan": {"mean": 10, "cv": 0}, "thinking": {"mean": 1000, "cv": 0},
                                     "final_answer": {"mean": 5, "cv": 0}})");
    CHECK(m.completed + m.failed == 1);
    std::vector<std::int64_t> kinds;
    for (const Sent& sent : port.sent) kinds.push_back(sent.kind);
    CHECK(m.completed == (kinds.back() == 2 ? 1 : 0));
    return kinds;
  };
  using Kinds = std::vector<std::int64_t>;
  CHECK(calls(50) == Kinds{0});
  CHECK(calls(500) == Kinds{0, 1});
  CHECK(calls(600) == Kinds{0, 1, 1});
  CHECK(calls(10'000) == Kinds{0, 1, 1, 1, 1, 2});
}

TEST_CASE("opus: the shortest path is no worse than others, and people queue", "[prop]") {
  const auto weight = [](const std::string& path) {
    FakePort port;
    return run(port, "opus", R"({"path": ")" + path + "\"}", 200).figures.at("path_weight");
  };
  const double shortest = weight("shortest");
  CHECK(shortest < weight("greedy"));
  CHECK(weight("greedy") < weight("random"));
  // All by people, one of them, 100 s a task: the last of 5 workflows of 2 tasks ends after 10 tasks.
  FakePort port;
  const ProgramMetrics metrics = run(port, "opus",
                                     R"({"people_share": 1, "tool_share": 0, "people": 1, "stages": 2,
                                         "people_time": {"mean": "100 s", "cv": 0}})",
                                     5);
  CHECK(metrics.latency.max() == 1000 * kSecond);
  CHECK(metrics.calls == 0);
}

TEST_CASE("tree_search: width continuations a step; ets keeps fewer tokens", "[prop]") {
  FakePort all, fewer;
  const ProgramMetrics rebase = run(all, "tree_search", R"({"policy": "rebase", "width": 16, "steps": 5})", 20);
  const ProgramMetrics ets = run(fewer, "tree_search", R"({"policy": "ets", "width": 16, "steps": 5})", 20);
  CHECK(rebase.calls == 20 * 16 * 5);
  CHECK(ets.calls == 20 * 16 * 5);
  CHECK(ets.figures.at("unique_tokens") < rebase.figures.at("unique_tokens"));
  CHECK(rebase.figures.at("unique_tokens") < rebase.figures.at("path_tokens"));
  CHECK(ets.figures.at("ilp_open") == 0);
  // A search of one node does not always prove its choice. A tree of two steps makes one choice, which is open or not.
  double open = 0;
  for (const char* width : {"8", "16", "32", "64"}) {
    FakePort hasty;
    const ProgramMetrics one = run(
        hasty, "tree_search", R"({"policy": "ets", "steps": 2, "most_nodes": 1, "width": )" + std::string(width) + "}");
    CHECK((one.figures.at("ilp_open") == 0 || one.figures.at("ilp_open") == 1));
    open += one.figures.at("ilp_open");
  }
  CHECK(open > 0);
  // Children of one path share all of it.
  CHECK(shared(all.sent[0], all.sent[1]) == all.sent[0].prompt);
}

}  // namespace test_programs
