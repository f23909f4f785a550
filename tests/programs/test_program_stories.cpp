// What instances of each program ask, in whole: the same draws in every build; and what ends them.
#include <fmt/format.h>

#include "fake_port.hpp"

namespace test_program_stories {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

ProgramMetrics play(FakePort& port, const std::string& policy, const std::string& params, int instances = 1) {
  const auto load = load_of(programs(R"({"instances": )" + std::to_string(instances) + R"(, "does": {"policy": ")" +
                                     policy + R"(", ")" + policy + "\": " + params + "}}"));
  port.run(*load);
  return load->finish();
}

/// Sums over all calls of a run: how many, tokens of prompts and answers, tokens at the head that each has in common
/// with the call before it, kinds, predictions, deadlines, when they were sent; then when the last instance ended, and
/// the figures told.
std::string story(const std::string& policy, const std::string& params, int instances) {
  FakePort port;
  const ProgramMetrics metrics = play(port, policy, params, instances);
  std::int64_t prompt = 0, output = 0, head = 0, kinds = 0, at = 0, predicted = 0, due = 0;
  for (std::size_t i = 0; i < port.sent.size(); ++i) {
    const Sent& sent = port.sent[i];
    prompt += sent.prompt;
    output += sent.output;
    kinds += sent.kind;
    predicted += sent.predicted;
    at += sent.at_s;
    due += sent.deadline_s;
    if (i > 0) head += policies::common_tokens(port.sent[i - 1].text, sent.text);
  }
  std::string text =
      fmt::format("{} calls {}>{} head {} kinds {} predicted {} due {} sent {} done {}", port.sent.size(), prompt,
                  output, head, kinds, predicted, due, at, port.engine.now().ticks / 1'000'000'000);
  for (const auto& [name, value] : metrics.figures) text += fmt::format(" {} {:.9g}", name, value);
  return text;
}

}  // namespace

TEST_CASE("programs draw the same calls in every build", "[golden]") {
  const auto [policy, params, instances, expected] = GENERATE(table<std::string, std::string, int, std::string>({
      {"appl", R"({"pattern": "self_consistency"})", 2,
       "20 calls 9550>2561 head 5700 kinds 0 predicted 0 due -20 sent 0 done 330004"},
      {"appl", R"({"pattern": "skeleton", "mode": "sequential"})", 2,
       "22 calls 11655>2746 head 7837 kinds 20 predicted 0 due -22 sent 12353 done 1482005"},
      {"appl", R"({"pattern": "tree", "branches": 4, "rating": {"mean": 9, "cv": 1}})", 2,
       "80 calls 56483>5812 head 44252 kinds 40 predicted 0 due -80 sent 26684 done 670012"},
      {"appl", R"({"pattern": "summary", "pieces": 11, "branches": 1})", 2,
       "46 calls 37197>6851 head 13500 kinds 0 predicted 0 due -46 sent 12217 done 1251006"},
      {"conversation", "{}", 6,
       "31 calls 40912>4867 head 21329 kinds 112 predicted 0 due -31 sent 264440 done 70763010 turns 31"},
      {"conversation", R"({"one_turn": 0.1, "turns_mean": 9, "most_context": 3000, "system_prompt": 40})", 6,
       "32 calls 33495>5491 head 12886 kinds 89 predicted 0 due -32 sent 54323 done 9557707 turns 32"},
      {"workflow_trace", R"({"drawn": 60, "slo": "3000 s", "shared_prompt": 0.3})", 60,
       "1150 calls 3254264>120602 head 684552 kinds 3726 predicted 120772 due 1953283 sent 773946 done 2346000 slo_met "
       "60"},
      {"tool_agent", "{}", 8,
       "25 calls 60399>2036 head 25009 kinds 0 predicted 0 due -25 sent 3425 done 663776 model_calls 25 passed 3 "
       "steps_back 0 tool_calls 22"},
      {"tool_agent", R"({"search": "dfsdt", "dead_end": 0.5, "siblings": 2})", 8,
       "23 calls 47233>1629 head 19270 kinds 0 predicted 0 due -23 sent 2341 done 448886 model_calls 23 passed 1 "
       "steps_back 17 tool_calls 22"},
      {"plan_and_budget", "{}", 4,
       "31 calls 55327>14932 head 20982 kinds 31 predicted 0 due -31 sent 48811 done 5206000 tokens_used 14103 "
       "tokens_wanted 14103"},
      {"plan_and_budget", R"({"schedule": "polynomial", "by_difficulty": true, "budget": 700})", 4,
       "31 calls 21459>3660 head 3025 kinds 31 predicted 0 due -31 sent 14943 done 952000 tokens_used 2831 "
       "tokens_wanted 14103"},
      {"opus", "{}", 4,
       "18 calls 15247>4336 head 0 kinds 0 predicted 0 due -18 sent 5782 done 1171878 path_weight 806.102115 "
       "tasks_model 9 tasks_people 1 tasks_tool 14"},
      {"opus", R"({"path": "greedy", "people": 1, "tool_servers": 1})", 4,
       "16 calls 13539>3898 head 0 kinds 0 predicted 0 due -16 sent 4622 done 1171878 path_weight 811.903442 "
       "tasks_model 8 tasks_people 1 tasks_tool 15"},
      {"opus", R"({"path": "random", "stages": 9, "price_weight": 3})", 4,
       "42 calls 35497>13501 head 0 kinds 0 predicted 0 due -42 sent 147222 done 9453374 path_weight 12894.241 "
       "tasks_model 21 tasks_people 4 tasks_tool 11"},
      {"tree_search", R"({"width": 9, "steps": 4})", 2,
       "72 calls 45969>7550 head 38920 kinds 0 predicted 0 due -72 sent 19134 done 769060 clusters_kept 1.4047619 "
       "kept_leaves 10.3333333 path_tokens 7061.33333 unique_tokens 2683"},
      {"tree_search", R"({"policy": "ets", "width": 12, "steps": 5, "step_most": 110, "temperature": 0.5})", 2,
       "120 calls 77007>10385 head 65310 kinds 0 predicted 0 due -120 sent 26400 done 550080 clusters_kept 1.48720238 "
       "ilp_open 0 kept_leaves 15.5 path_tokens 10645.25 unique_tokens 3141"},
  }));
  CAPTURE(policy, params);
  CHECK(story(policy, params, instances) == expected);
}

TEST_CASE("appl: a call that is rejected ends the program where it stands", "[unit]") {
  // 300 tokens of instructions, 100 of question; an outline of 60 and points of 150 behind it and 10 tokens; thoughts
  // of 150, rated in 5 tokens behind 30.
  const auto calls = [](const std::string& pattern, std::int64_t context) {
    FakePort port(context);
    const ProgramMetrics m =
        play(port, "appl",
             R"({"question": {"mean": 100, "cv": 0}, "thought": {"mean": 150, "cv": 0}, "outline": {"mean": 60,
                 "cv": 0}, "piece": {"mean": 200, "cv": 0}, "branches": 2, "keep": 1, "levels": 2, "pieces": 4,
                 "pattern": ")" +
                 pattern + "\"}");
    CHECK(m.completed + m.failed == 1);
    return fmt::format("{} {}", port.sent.size(), m.completed == 1 ? "done" : "failed");
  };
  CHECK(calls("self_consistency", 549) == "2 failed");
  CHECK(calls("self_consistency", 550) == "2 done");
  CHECK(calls("skeleton", 459) == "1 failed");
  CHECK(calls("skeleton", 460) == "3 failed");
  CHECK(calls("skeleton", 619) == "3 failed");
  CHECK(calls("skeleton", 620) == "3 done");  // 400 + 60 + 10 and 150
  CHECK(calls("tree", 549) == "2 failed");
  CHECK(calls("tree", 584) == "4 failed");
  CHECK(calls("tree", 699) == "6 failed");  // 400 + 150 + 30 and 5 fit, a second thought does not
  CHECK(calls("tree", 734) == "8 failed");
  CHECK(calls("tree", 735) == "8 done");
  CHECK(calls("summary", 649) == "4 failed");  // pieces of 200 behind 300, then two summaries of 150
  CHECK(calls("summary", 750) == "7 done");
}

TEST_CASE("appl: summaries take at least two at a time, up to one", "[unit]") {
  const auto prompts = [](const std::string& branches, const std::string& pieces) {
    FakePort port;
    play(port, "appl",
         R"({"pattern": "summary", "instructions": 0, "piece": {"mean": 200, "cv": 0}, "thought": {"mean": 10,
             "cv": 0}, "branches": )" +
             branches + R"(, "pieces": )" + pieces + "}");
    std::vector<std::int64_t> all;
    for (const Sent& sent : port.sent) all.push_back(sent.prompt);
    return all;
  };
  using Prompts = std::vector<std::int64_t>;
  CHECK(prompts("3", "1") == Prompts{200});
  CHECK(prompts("3", "3") == Prompts{200, 200, 200, 30});
  CHECK(prompts("3", "4") == Prompts{200, 200, 200, 200, 30, 10, 20});
  CHECK(prompts("1", "3") == Prompts{200, 200, 200, 20, 10, 20});
}

TEST_CASE("tool_agent: siblings, the calls that it may make, and what it is told of what was tried", "[unit]") {
  // All steps are dead ends: from the root so many siblings, then it gives up.
  const auto agent = [](const std::string& more) {
    FakePort port;
    const ProgramMetrics m = play(port, "tool_agent",
                                  R"({"dead_end": 1, "steps_mean": 900, "instructions": 0,
                                      "tools": {"mean": 100, "cv": 0}, "question": {"mean": 10, "cv": 0},
                                      "note": {"mean": 7, "cv": 0}, "tool_time": {"mean": "2 s", "cv": 0},
                                      "output": {"mean": 3, "cv": 0}, )" +
                                      more + "}");
    std::string text;
    for (const Sent& sent : port.sent) text += fmt::format("{}@{} ", sent.prompt, sent.at_s);
    CHECK(m.completed == 1);
    return text + fmt::format("back {} tools {} passed {}", m.figures.at("steps_back"), m.figures.at("tool_calls"),
                              m.figures.at("passed"));
  };
  CHECK(agent(R"("search": "dfsdt", "siblings": 1)") == "110@0 back 1 tools 1 passed 0");
  CHECK(agent(R"("search": "dfsdt", "siblings": 3)") == "110@0 117@5 124@10 back 3 tools 3 passed 0");
  CHECK(agent(R"("search": "dfsdt", "siblings": 9, "most_calls": 2)") == "110@0 117@5 back 2 tools 2 passed 0");
  CHECK(agent(R"("search": "react")") == "110@0 back 0 tools 1 passed 0");
}

TEST_CASE("tool_agent: a step that is needed leads to the next, and the call after the last one answers", "[unit]") {
  FakePort port;
  const ProgramMetrics m = play(port, "tool_agent",
                                R"({"dead_end": 0, "steps_mean": 1, "instructions": 5, "tools": {"mean": 100, "cv": 0},
                                    "question": {"mean": 10, "cv": 0}, "output": {"mean": 3, "cv": 0},
                                    "observation": {"mean": 20, "cv": 0}, "tool_time": {"mean": "2 s", "cv": 0}})");
  // One step: 115 tokens, then 3 said and 20 observed.
  REQUIRE(port.sent.size() == 2);
  CHECK(port.sent[0].prompt == 115);
  CHECK(port.sent[1].prompt == 115 + 3 + 20);
  CHECK(port.sent[1].at_s == 5);
  CHECK(m.figures.at("model_calls") == 2);
  CHECK(m.figures.at("passed") == 1);
  CHECK(m.wait_time.mean() == 2 * kSecond);
  CHECK(m.critical_path.mean() == 8 * kSecond);
}

TEST_CASE("conversation: it ends before a turn that would be too long", "[unit]") {
  // Messages of 10, answers of 5: turns have 15, 30, 45 … tokens with their answer.
  const auto turns = [](const std::string& context) {
    FakePort port;
    const ProgramMetrics m = play(port, "conversation",
                                  R"({"one_turn": 0, "turns_mean": 900, "think_median": "0 s", "message": {"mean": 10,
                                      "cv": 0}, "output": {"mean": 5, "cv": 0}, "most_context": )" +
                                      context + "}");
    CHECK(m.completed == 1);
    CHECK(m.figures.at("turns") == static_cast<double>(port.sent.size()));
    for (std::size_t i = 0; i < port.sent.size(); ++i) CHECK(port.sent[i].kind == static_cast<std::int32_t>(i));
    return port.sent.size();
  };
  CHECK(turns("14") == 0);
  CHECK(turns("15") == 1);
  CHECK(turns("44") == 2);
  CHECK(turns("45") == 3);
}

TEST_CASE("conversation: one turn, or at least two", "[unit]") {
  const auto calls = [](const std::string& params) {
    FakePort port;
    play(port, "conversation", R"({"think_median": "0 s", )" + params + "}", 50);
    return port.sent.size();
  };
  CHECK(calls(R"("one_turn": 1)") == 50);
  CHECK(calls(R"("one_turn": 0, "turns_mean": 2)") == 100);
  CHECK(calls(R"("one_turn": 0, "turns_mean": 1)") == 100);
}

TEST_CASE("opus: with nothing drawn but who does a task, the cheapest way is the cheapest task each time", "[unit]") {
  // Of 60 alternatives some are people (30 s + 20), some tools (5 s + 1), some the model (10 s + 2), times the weight
  // of a price.
  const auto told = [](const std::string& weight, const std::string& more = "") {
    FakePort port;
    const ProgramMetrics m = play(port, "opus",
                                  R"({"alternatives": 60, "stages": 4, "step_price": 0, "people_time": {"mean": "30 s",
                                      "cv": 0}, "tool_time": {"mean": "5 s", "cv": 0}, "price_weight": )" +
                                      weight + more + "}");
    std::string text;
    for (const auto& [name, value] : m.figures) text += fmt::format("{} {} ", name, value);
    return text + fmt::format("calls {} end {}", m.calls, m.latency.mean() / kSecond);
  };
  CHECK(told("1") == "path_weight 24 tasks_tool 4 calls 0 end 20");
  CHECK(told("7", R"(, "path": "greedy")") == "path_weight 48 tasks_tool 4 calls 0 end 20");
  // Where a tool is dear the model does it: two calls at once.
  CHECK(told("1", R"(, "tool_price": 8, "output": {"mean": 6, "cv": 0}, "prompt": {"mean": 9, "cv": 0})") ==
        "path_weight 48 tasks_model 4 calls 8 end 24");
  CHECK(told("1", R"(, "tool_price": 900, "model_time": "900 s")") == "path_weight 200 tasks_people 4 calls 0 end 120");
}

TEST_CASE("opus: a task whose call is rejected is the last", "[unit]") {
  FakePort port(10);
  const ProgramMetrics m = play(port, "opus", R"({"people_share": 0, "tool_share": 0, "parallel_calls": 3})");
  CHECK(m.failed == 1);
  CHECK(port.sent.size() == 3);
  CHECK(m.figures.at("tasks_model") == 1);
}

TEST_CASE("tree_search: a step whose call is rejected is the last; prompts are the whole path", "[unit]") {
  const std::string params = R"({"width": 3, "steps": 4, "instructions": 100, "question": {"mean": 50, "cv": 0},
      "step": {"mean": 40, "cv": 0}, "step_most": 30, "score_time": "2 s"})";
  FakePort all;
  const ProgramMetrics m = play(all, "tree_search", params);
  REQUIRE(all.sent.size() == 12);
  for (std::size_t i = 0; i < all.sent.size(); ++i) {
    CHECK(all.sent[i].output == 30);
    CHECK(all.sent[i].prompt == 150 + 30 * static_cast<std::int64_t>(i / 3));
    CHECK(all.sent[i].at_s == 32 * static_cast<std::int64_t>(i / 3));
  }
  CHECK(m.wait_time.mean() == 6 * kSecond);
  // On a path of s steps: 150 + 30 s. Three paths of it are continued, or fewer.
  CHECK(m.figures.at("kept_leaves") <= 3);
  CHECK(m.figures.at("path_tokens") <= 3 * (150 + 60));
  CHECK(m.figures.at("path_tokens") >= 150 + 60);
  FakePort cut(230);
  const ProgramMetrics c = play(cut, "tree_search", params);
  CHECK(c.failed == 1);
  CHECK(cut.sent.size() == 9);  // 150 + 30 + 30 and 30 are too many
}

TEST_CASE("tree_search: rebase keeps paths by their reward, all of them where it is even", "[unit]") {
  FakePort port;
  const ProgramMetrics m = play(port, "tree_search",
                                R"({"width": 4, "steps": 3, "reward_step": 0, "repeat": 0, "instructions": 0,
                                    "question": {"mean": 50, "cv": 0}, "step": {"mean": 10, "cv": 0}})");
  // Four equal leaves, each in a cluster of its own: one continuation each. Unique: 50 + 4 x 10 after the first step,
  // 50 + 8 x 10 after the second; by path 4 x 60 and 4 x 70.
  CHECK(m.figures.at("kept_leaves") == 4);
  CHECK(m.figures.at("clusters_kept") == 1);
  CHECK(m.figures.at("unique_tokens") == Approx((90 + 130) / 2.0));
  CHECK(m.figures.at("path_tokens") == Approx((240 + 280) / 2.0));
}

}  // namespace test_program_stories
