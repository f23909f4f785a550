// A cluster on paper: every request takes as many seconds as it has output tokens, whatever else runs; prompts past the
// context limit are rejected at once.
#pragma once

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "experiments/systems/serving/load/program_load.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test {

inline constexpr std::int64_t kSecond = 1'000'000'000'000;  // ticks of 1 ps

struct Sent {
  std::int64_t at_s = 0, prompt = 0, output = 0, session = -1, predicted = 0, deadline_s = -1;
  std::int32_t kind = 0, priority = 0, tenant = 0;
  policies::Text text;
};

class FakePort final : public RequestPort, public sim::EventHandler {
 public:
  explicit FakePort(std::int64_t context = 1'000'000) : context_(context) {}
  /// Runs a load to its end.
  void run(Load& to_run, sim::Time until = sim::kNever) {
    load = &to_run;
    load->start(engine, *this);
    engine.run(until);
  }
  Request& make_request() override {
    Request& request = pool.make();
    request.id = next_id++;
    request.arrived = engine.now();
    return request;
  }
  void send(Request& request) override {
    sent.push_back(
        {engine.now().ticks / kSecond, request.prompt_tokens, request.output_tokens, request.session,
         request.predicted_tokens,
         request.deadline_ticks == std::numeric_limits<std::int64_t>::max() ? -1 : request.deadline_ticks / kSecond,
         request.kind, request.priority, request.tenant, request.text});
    ++running;
    most = std::max(most, running);
    if (request.prompt_tokens + request.output_tokens > context_) {
      end(request, "rejected:context_exceeded", std::nullopt);
      return;
    }
    in_service.push_back(&request);
    engine.schedule_in({request.output_tokens * kSecond}, *this, in_service.size() - 1);
  }
  void flush() override { ++flushes; }
  void on_event(std::uint64_t index) override { end(*in_service[index], "completed", engine.now()); }

  sim::Engine engine;
  Load* load = nullptr;
  RequestPool pool;
  std::deque<Request*> in_service;
  std::vector<Sent> sent;
  std::int64_t next_id = 0, running = 0, most = 0, flushes = 0;

 private:
  void end(Request& request, std::string_view status, std::optional<sim::Time> finished) {
    --running;
    load->request_ended(request, status, finished);
    pool.recycle(request);
  }
  std::int64_t context_;
};

/// `workload.program` from JSON text; throws its faults.
inline ProgramsParams programs(const std::string& json) {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(json, "test.json");
  auto params = sim::parse_params<ProgramsParams>(node, *test_systems().registries(), faults);
  check_programs(node, params, faults);
  faults.throw_if_any();
  return params;
}

inline std::unique_ptr<ProgramLoad> load_of(const ProgramsParams& config, std::uint64_t seed = 1) {
  return std::make_unique<ProgramLoad>(config, seed, 1.0, Predictor(std::nullopt, seed), sim::Time{0});
}

}  // namespace orrery::experiments::test
