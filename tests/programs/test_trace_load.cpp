// Requests of traces: texts, sessions, predictions, closed loops.
#include "fake_port.hpp"

namespace test_trace_load {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

class Records final : public traces::TraceSource {
 public:
  explicit Records(std::vector<traces::TraceRecord> records) : records_(std::move(records)) {}
  bool next(traces::TraceRecord& record) override {
    if (at_ == records_.size()) return false;
    record = records_[at_++];
    return true;
  }
  const traces::SkipCounts& skipped() const override { return skipped_; }
  traces::TraceColumns columns() const override { return {}; }

 private:
  std::vector<traces::TraceRecord> records_;
  std::size_t at_ = 0;
  traces::SkipCounts skipped_;
};

traces::TraceRecord record(std::int64_t at_s, std::int64_t prompt, std::int64_t output) {
  traces::TraceRecord r;
  r.arrival_ns = at_s * 1'000'000'000;
  r.prompt_tokens = prompt;
  r.output_tokens = output;
  return r;
}

}  // namespace

TEST_CASE("prefix blocks become text: equal ids are equal text", "[unit]") {
  traces::TraceRecord a = record(0, 1200, 2), b = record(1, 1500, 2), c = record(2, 100, 2);
  a.prefix_blocks = {7, 8, 9};
  b.prefix_blocks = {7, 8, 10};
  Records source({a, b, c});
  TraceLoad load(source, {}, Predictor(std::nullopt, 1), 512);
  FakePort port;
  port.run(load);
  REQUIRE(port.sent.size() == 3);
  CHECK(policies::common_tokens(port.sent[0].text, port.sent[1].text) == 1024);
  CHECK(port.sent[0].text.size() == 4);  // 512, 512, 176 and the answer
  CHECK(port.sent[0].text[2].tokens == 176);
  CHECK(port.sent[2].text.empty());  // no memory for what is like no other
}

TEST_CASE("sessions: a turn holds the turns before it, unless it is shorter", "[unit]") {
  std::vector<traces::TraceRecord> records{record(0, 100, 10), record(1, 50, 5), record(2, 150, 10), record(3, 80, 10)};
  for (const std::size_t i : {0U, 2U, 3U}) records[i].session = "a";
  records[1].session = "b";
  Records source(records);
  TraceLoad load(source, {}, Predictor(std::nullopt, 1));
  FakePort port;
  port.run(load);
  CHECK(port.sent[0].session == 0);
  CHECK(port.sent[1].session == 1);
  CHECK(policies::common_tokens(port.sent[0].text, port.sent[2].text) == 110);
  CHECK(policies::common_tokens(port.sent[2].text, port.sent[3].text) == 0);
  CHECK(policies::common_tokens(port.sent[0].text, port.sent[1].text) == 0);
}

TEST_CASE("clients send one after the other, whatever the arrivals", "[unit]") {
  std::vector<traces::TraceRecord> records;
  for (int i = 0; i < 6; ++i) records.push_back(record(1000 * i, 10, 2));
  Records source(records);
  WorkloadParams params;
  params.clients = 2;
  params.think_time_s = 1;
  TraceLoad load(source, params, Predictor(std::nullopt, 1));
  FakePort port;
  port.run(load);
  CHECK(port.most == 2);
  std::vector<std::int64_t> starts;
  for (const Sent& sent : port.sent) starts.push_back(sent.at_s);
  CHECK(starts == std::vector<std::int64_t>{0, 0, 3, 3, 6, 6});
  // More clients than requests, and rejections: it ends.
  Records again(records);
  params.clients = 50;
  TraceLoad many(again, params, Predictor(std::nullopt, 1));
  FakePort narrow(5);
  narrow.run(many);
  CHECK(narrow.sent.size() == 6);
}

TEST_CASE("predictions: the trace's, else a log-normal error with median 1", "[theory]") {
  std::vector<traces::TraceRecord> records(4001, record(0, 10, 100));
  records[0].predicted_tokens = 42;
  records[0].priority = 3;
  records[0].tenant = 2;
  Records source(records);
  TraceLoad load(source, {}, Predictor(PredictorParams{0.5}, 1));
  FakePort port;
  port.run(load);
  CHECK(port.sent[0].predicted == 42);
  CHECK(port.sent[0].priority == 3);
  CHECK(port.sent[0].tenant == 2);
  std::vector<std::int64_t> predicted;
  for (std::size_t i = 1; i < port.sent.size(); ++i) predicted.push_back(port.sent[i].predicted);
  std::sort(predicted.begin(), predicted.end());
  CHECK(predicted[2000] == Approx(100).epsilon(0.04));
  CHECK(predicted[3365] == Approx(164.9).epsilon(0.06));  // one deviation up: e^0.5
  // Sigma 0 is always right; without a predictor there is none.
  CHECK(Predictor(PredictorParams{0}, 1).predict(77) == 77);
  CHECK(Predictor(std::nullopt, 1).predict(77) == 0);
}

TEST_CASE("arrivals: at the rate that is asked for, those of one instant together, up to a limit", "[unit]") {
  std::vector<traces::TraceRecord> records;
  for (const std::int64_t at : {4, 4, 8, 8, 8, 12}) records.push_back(record(at, 10, 2));
  const auto starts = [&](double rate, std::optional<std::int64_t> limit, std::int64_t flushes) {
    Records source(records);
    WorkloadParams params;
    params.rate_scale = rate;
    params.limit = limit;
    TraceLoad load(source, params, Predictor(std::nullopt, 1));
    FakePort port;
    port.run(load);
    CHECK(port.flushes == flushes);
    std::vector<std::int64_t> all;
    for (const Sent& sent : port.sent) all.push_back(sent.at_s);
    return all;
  };
  using Starts = std::vector<std::int64_t>;
  CHECK(starts(1, std::nullopt, 3) == Starts{4, 4, 8, 8, 8, 12});
  CHECK(starts(2, std::nullopt, 3) == Starts{2, 2, 4, 4, 4, 6});
  CHECK(starts(1, 3, 2) == Starts{4, 4, 8});
  CHECK(starts(1, 6, 3).size() == 6);
  CHECK(starts(1, 9, 3).size() == 6);
  records.clear();
  CHECK(starts(1, std::nullopt, 0).empty());
}

TEST_CASE("clients: a limit holds, and what a run leaves unfinished brings nothing", "[unit]") {
  const std::vector<traces::TraceRecord> records(9, record(0, 10, 2));
  WorkloadParams params;
  params.clients = 3;
  params.limit = 4;
  Records source(records);
  TraceLoad load(source, params, Predictor(std::nullopt, 1));
  FakePort port;
  port.run(load);
  CHECK(port.sent.size() == 4);
  CHECK(port.engine.now().ticks == 4 * kSecond);
  Records again(records);
  TraceLoad cut(again, params, Predictor(std::nullopt, 1));
  FakePort stopped;
  stopped.run(cut, sim::Time{kSecond});
  REQUIRE(stopped.sent.size() == 3);
  Request request;
  cut.request_ended(request, "unfinished", std::nullopt);
  stopped.engine.run(sim::Time{kSecond + 1});
  CHECK(stopped.sent.size() == 3);
  cut.request_ended(request, "completed", std::nullopt);
  stopped.engine.run(sim::Time{kSecond + 2});
  CHECK(stopped.sent.size() == 4);
}

TEST_CASE("texts of blocks: what is past them is the request's own, and sessions are counted in turn", "[unit]") {
  std::vector<traces::TraceRecord> records{record(0, 25, 3), record(1, 20, 3), record(2, 7, 3), record(3, 25, 3)};
  for (traces::TraceRecord& r : records) r.prefix_blocks = {4, 5};
  records[1].session = "b";
  records[2].session = "c";
  records[3].session = "b";
  Records source(records);
  TraceLoad load(source, {}, Predictor(std::nullopt, 1), 10);
  FakePort port;
  port.run(load);
  REQUIRE(port.sent.size() == 4);
  const auto lengths = [&](std::size_t i) {
    std::vector<std::int64_t> all;
    for (const policies::TextSpan& span : port.sent[i].text) all.push_back(span.tokens);
    return all;
  };
  using Lengths = std::vector<std::int64_t>;
  CHECK(lengths(0) == Lengths{10, 10, 5, 3});
  CHECK(lengths(1) == Lengths{10, 10, 3});
  CHECK(lengths(2) == Lengths{7, 3});
  CHECK(port.sent[0].session == -1);
  CHECK(port.sent[1].session == 0);
  CHECK(port.sent[2].session == 1);
  CHECK(port.sent[3].session == 0);
  CHECK(policies::common_tokens(port.sent[0].text, port.sent[3].text) == 20);
  CHECK(policies::common_tokens(port.sent[0].text, port.sent[2].text) == 7);
}

TEST_CASE("sessions: a turn as long as all before it is another conversation, one longer is the next turn", "[unit]") {
  std::vector<traces::TraceRecord> records{record(0, 100, 10), record(1, 110, 5), record(2, 116, 5)};
  for (traces::TraceRecord& r : records) r.session = "a";
  Records source(records);
  TraceLoad load(source, {}, Predictor(std::nullopt, 1));
  FakePort port;
  port.run(load);
  CHECK(policies::common_tokens(port.sent[0].text, port.sent[1].text) == 0);
  // 110 and 5 of the turn before, and a token.
  CHECK(policies::common_tokens(port.sent[1].text, port.sent[2].text) == 115);
  REQUIRE(port.sent[2].text.size() == 4);
  CHECK(port.sent[2].text[2].tokens == 1);
  CHECK(port.sent[2].text[3].tokens == 5);
}

}  // namespace test_trace_load
