// How instances of programs are started, and what is booked of them.
#include <cmath>

#include "fake_port.hpp"

namespace test_program_load {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// A conversation of one turn: a prompt of 10 tokens, an answer of 3: 3 s.
constexpr const char* kOneCall =
    R"("does": {"policy": "conversation", "conversation": {"one_turn": 1, "message": {"mean": 10, "cv": 0}, "output": {"mean": 3, "cv": 0}}})";

}  // namespace

TEST_CASE("without clients and arrivals all instances start at 0", "[unit]") {
  FakePort port;
  const auto load = load_of(programs(std::string(R"({"instances": 5, )") + kOneCall + "}"));
  port.run(*load);
  CHECK(port.most == 5);
  CHECK(port.flushes == 1);  // sent together
  CHECK(port.engine.now().ticks == 3 * kSecond);
  const ProgramMetrics metrics = load->finish();
  CHECK(metrics.completed == 5);
  CHECK(metrics.calls == 5);
  CHECK(metrics.prompt_tokens == 50);
  CHECK(metrics.output_tokens == 15);
  CHECK(metrics.latency.mean() == 3 * kSecond);
  CHECK(port.sent[3].session == 3);
}

TEST_CASE("calls of one instant are sent together, once all else of it is through", "[unit]") {
  // Somebody acts at 0 a hundred times in a row.
  struct Busy final : sim::EventHandler {
    FakePort* port = nullptr;
    std::vector<std::size_t> sent;
    void on_event(std::uint64_t left) override {
      sent.push_back(port->sent.size());
      if (left > 0) port->engine.schedule_in({}, *this, left - 1);
    }
  } busy;
  FakePort port;
  busy.port = &port;
  const auto load = load_of(programs(std::string(R"({"instances": 5, )") + kOneCall + "}"));
  port.engine.schedule_in({}, busy, 100);
  port.run(*load);
  CHECK(port.flushes == 1);
  REQUIRE(busy.sent.size() == 101);
  CHECK(std::count(busy.sent.begin(), busy.sent.end(), 0U) == 101);  // none of the five before it is done
  CHECK(load->finish().completed == 5);
}

TEST_CASE("clients: as many at a time, thinking in between", "[unit]") {
  FakePort port;
  const auto load =
      load_of(programs(std::string(R"({"instances": 5, "clients": 2, "think_time": "1 s", )") + kOneCall + "}"));
  port.run(*load);
  CHECK(port.most == 2);
  std::vector<std::int64_t> starts;
  for (const Sent& sent : port.sent) starts.push_back(sent.at_s);
  CHECK(starts == std::vector<std::int64_t>{0, 0, 4, 4, 8});
  CHECK(load->finish().completed == 5);
}

TEST_CASE("arrivals start instances at their times", "[unit]") {
  FakePort port;
  const auto load = load_of(
      programs(std::string(R"({"instances": 3, "arrivals": {"policy": "fixed", "fixed": {"rate": "0.5 req/s"}}, )") +
               kOneCall + "}"));
  port.run(*load);
  std::vector<std::int64_t> starts;
  for (const Sent& sent : port.sent) starts.push_back(sent.at_s);
  CHECK(starts == std::vector<std::int64_t>{2, 4, 6});
}

TEST_CASE("a rejected call ends its instance as failed, and never hangs", "[unit]") {
  for (const char* policy : {"appl", "conversation", "opus", "plan_and_budget", "tool_agent", "tree_search"}) {
    FakePort port(5);  // nothing fits
    const auto load =
        load_of(programs(std::string(R"({"instances": 4, "clients": 1, "does": {"policy": ")") + policy + R"("}})"));
    port.run(*load);
    const ProgramMetrics metrics = load->finish();
    INFO(policy);
    CHECK(metrics.started == 4);
    CHECK(metrics.completed + metrics.failed == 4);
    CHECK(metrics.latency.count() == metrics.completed);
    if (std::string(policy) != "opus") CHECK(metrics.failed == 4);  // a workflow may need no call
  }
}

TEST_CASE("a run that is cut short leaves instances unfinished", "[unit]") {
  FakePort port;
  {
    const auto load = load_of(programs(std::string(R"({"instances": 4, "clients": 1, )") + kOneCall + "}"));
    port.run(*load, sim::Time{7 * kSecond});
    const ProgramMetrics metrics = load->finish();
    CHECK(metrics.started == 3);
    CHECK(metrics.completed == 2);
    CHECK_FALSE(metrics.records[2].finished);
  }  // the load goes before the engine: its processes end
}

TEST_CASE("an answer that takes longer than the timeout is given up, and the engine goes on with it", "[unit]") {
  // Answers of 3 s: given up after 2 s, waited for if there are 4 s. The call that was given up still ends at 3 s.
  FakePort impatient;
  const auto gives_up = load_of(programs(std::string(R"({"instances": 2, "timeout": "2 s", )") + kOneCall + "}"));
  impatient.run(*gives_up);
  const ProgramMetrics failed = gives_up->finish();
  CHECK(failed.failed == 2);
  CHECK(failed.completed == 0);
  CHECK(failed.records[0].finished->ticks == 2 * kSecond);
  CHECK(failed.figures.at("timeouts") == 2);
  CHECK(impatient.engine.now().ticks == 3 * kSecond);
  FakePort patient;
  const auto waits = load_of(programs(std::string(R"({"instances": 2, "timeout": "4 s", )") + kOneCall + "}"));
  patient.run(*waits);
  const ProgramMetrics completed = waits->finish();
  CHECK(completed.completed == 2);
  CHECK(completed.figures.count("timeouts") == 0);
  CHECK(completed.latency.mean() == 3 * kSecond);
}

TEST_CASE("how many instances: as the config says, as the program has, or a hundred", "[unit]") {
  const auto instances = [](const std::string& params) {
    const ProgramsParams read = programs(params);
    return instances_of(read, *read.does.make());
  };
  const std::string chat = R"("does": {"policy": "conversation"}})";
  const std::string drawn = R"("does": {"policy": "workflow_trace", "workflow_trace": {"drawn": 7}}})";
  CHECK(instances("{" + chat) == 100);
  CHECK(instances(R"({"instances": 5, )" + chat) == 5);
  CHECK(instances("{" + drawn) == 7);
  CHECK(instances(R"({"instances": 5, )" + drawn) == 5);
  CHECK(instances(R"({"instances": 9, )" + drawn) == 7);
}

TEST_CASE("programs: arrivals at another rate, instances before the warm-up, predictions of their own", "[unit]") {
  const ProgramsParams params =
      programs(std::string(R"({"instances": 4, "arrivals": {"policy": "fixed", "fixed": {"rate": "0.5 req/s"}}, )") +
               kOneCall + "}");
  FakePort port;
  ProgramLoad load(params, 1, 2.0, Predictor(PredictorParams{0}, 1), sim::Time{2 * kSecond});
  port.run(load);
  std::vector<std::int64_t> starts;
  for (const Sent& sent : port.sent) {
    starts.push_back(sent.at_s);
    CHECK(sent.predicted == 3);
  }
  CHECK(starts == std::vector<std::int64_t>{1, 2, 3, 4});
  const ProgramMetrics metrics = load.finish();
  CHECK(metrics.started == 4);
  CHECK(metrics.completed == 4);
  CHECK(metrics.latency.count() == 3);
  CHECK(metrics.call_time.sum() == 9 * kSecond);
  CHECK(metrics.critical_path.sum() == 9 * kSecond);
  CHECK(metrics.wait_time.sum() == 0);
  CHECK(metrics.records[3].id == 3);
  CHECK(metrics.records[3].started.ticks == 4 * kSecond);
  CHECK(metrics.records[3].finished->ticks == 7 * kSecond);
}

TEST_CASE("laws of tokens and times have the mean and the deviation that they say", "[theory]") {
  sim::RandomStream random(3, "laws");
  CHECK(TokenLaw{12.4, 0}.draw(random) == 12);
  CHECK(TokenLaw{1, 0}.draw(random) == 1);
  CHECK(TimeLaw{0, 3}.draw_s(random) == 0);
  CHECK(TimeLaw{2.5, 0}.draw_s(random) == 2.5);
  double tokens = 0, squares = 0, seconds = 0;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto drawn = static_cast<double>(TokenLaw{1000, 0.5}.draw(random));
    tokens += drawn / kDraws;
    squares += drawn * drawn / kDraws;
    seconds += TimeLaw{3, 1}.draw_s(random) / kDraws;
  }
  CHECK(tokens == Approx(1000).epsilon(0.015));
  CHECK(std::sqrt(squares - tokens * tokens) == Approx(500).epsilon(0.04));
  CHECK(seconds == Approx(3).epsilon(0.03));
}

TEST_CASE("faults of workload.program name their places", "[unit]") {
  const auto fault = [](const std::string& json) -> std::string {
    try {
      (void)programs(json);
    } catch (const sim::ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK_THAT(fault(R"({"instances": 3})"), Catch::Contains("does"));
  CHECK_THAT(fault(R"({"does": {"policy": "chat"}})"), Catch::Contains("unknown program policy 'chat'"));
  CHECK_THAT(fault(R"({"does": {"policy": "conversation"}, "clients": 2, "arrivals": {"policy": "poisson"}})"),
             Catch::Contains("test.json:/arrivals: expected either 'clients' or 'arrivals', got both"));
  CHECK_THAT(fault(R"({"does": {"policy": "conversation"}, "clients": 0})"), Catch::Contains("test.json:/clients"));
  CHECK_THAT(
      fault(
          R"({"does": {"policy": "conversation"}, "arrivals": {"policy": "poisson", "poisson": {"rate": "0 req/s"}}})"),
      Catch::Contains("/arrivals/poisson/rate"));
}

}  // namespace test_program_load
