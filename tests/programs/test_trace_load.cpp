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

}  // namespace test_trace_load
