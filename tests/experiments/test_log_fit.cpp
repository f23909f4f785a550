// Constants of an engine from a log of requests: what made a log is found again, and what says nothing is told.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "experiments/fidelity/log_fit.hpp"
#include "experiments/systems/serving/system.hpp"
#include "tests/systems.hpp"

namespace test_log_fit {

using namespace orrery;
using namespace orrery::experiments;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / "orrery_test_log_fit";
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

/// A rate at which few share a batch: with more of them errors jump with who does.
std::string config(const std::string& host) {
  return R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]},
    "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": 120, "arrivals": {"policy": "poisson", "poisson": {"rate": "2 /s"}},
      "lengths": {"policy": "log_normal", "log_normal": {"prompt_mean": 200, "prompt_cv": 1, "output_mean": 40,
        "output_cv": 0.5}}}},
    "policies": {"batching": {"policy": "vllm_v0"}}, "host": {"policy": "serial", "serial": )" +
         host + "}}";
}

class Logger final : public RunObserver {
 public:
  void request_ended(const RequestRecord& r) override {
    const auto s = [](sim::Time at) { return static_cast<double>(at.ticks) * 1e-12; };
    csv += fmt::format("{:.9f},{},{},{:.9f},{:.9f}\n", s(r.arrived), r.prompt_tokens, r.output_tokens,
                       s(*r.first_token), s(*r.finished));
  }
  std::string csv = "arrived_at,num_prefill_tokens,num_decode_tokens,first_token_at,last_token_at\n";
};

/// What a client logs of a run of the config.
std::string log_of(const std::string& text) {
  sim::Faults faults;
  const ServingConfig read =
      read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
  faults.throw_if_any();
  Logger logger;
  ServingSetup(read).run(&logger);
  return logger.csv;
}

LogFit fitted(const std::string& config, const std::string& log, std::vector<std::string> constants) {
  return fit_to_log({config, log, std::move(constants), {}}, test_systems());
}

std::string message(const std::function<void()>& act) {
  try {
    act();
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "no fault";
}

}  // namespace

TEST_CASE("the constants that made a log are found again", "[log_fit]") {
  const Folder folder;
  const std::string log = folder.write("log.csv", log_of(config(R"({"schedule": "3 ms", "request": "20 ms"})")));
  const std::string start = folder.write("my.json", config(R"({"schedule": "1 ms", "request": "5 ms"})"));
  const LogFit fit = fitted(start, log, {"host.serial.schedule", "host.serial.request"});
  REQUIRE(fit.constants.size() == 2);
  CHECK(fit.requests == 120);
  CHECK(fit.constants[0].fitted == Approx(3e-3).epsilon(0.01));
  CHECK(fit.constants[1].fitted == Approx(20e-3).epsilon(0.06));  // who shares a batch jumps with it
  CHECK(fit.constants[0].unit == "s");
  CHECK(fit.constants[1].was == Approx(5e-3));
  for (const LogFit::Constant& c : fit.constants) {
    CHECK(c.low <= c.fitted);
    CHECK(c.high >= c.fitted);
    CHECK(c.high - c.low < 0.25 * c.fitted);  // nothing but these two made the log
    CHECK_FALSE(c.at_bound);
  }
  // 15 of some 45 ms before the first token were not there, and 2 ms of every token.
  CHECK(fit.before.ttft_mean < -0.2);
  CHECK(std::abs(fit.after.ttft_mean) < 0.02);
  CHECK(std::abs(fit.last_third.tpot_mean) < 0.005);
  CHECK(fit.overrides.at("host.serial.schedule") != nullptr);
}

TEST_CASE("what changes nothing is told and not written", "[log_fit]") {
  const Folder folder;
  const std::string log = folder.write("log.csv", log_of(config(R"({"schedule": "3 ms"})")));
  const std::string start =
      folder.write("my.json", config(R"({"schedule": "1 ms", "graph_launch": "1 us", "graph_tokens": 0})"));
  const LogFit fit = fitted(start, log, {"host.serial.schedule", "host.serial.graph_launch"});
  CHECK_FALSE(fit.constants[0].idle);
  CHECK(fit.constants[1].idle);
  CHECK(fit.overrides.at("host.serial.graph_launch") == nullptr);
  CHECK_THAT(log_fit_text(fit), Catch::Contains("changes nothing of this run"));
}

TEST_CASE("a benchmark's JSON is a log, its last line where there are several", "[log_fit]") {
  const Folder folder;
  const auto json = [](double gap, std::size_t requests) {
    std::string lens, ttfts, gaps, starts;
    for (std::size_t i = 0; i < requests; ++i) {
      const char* comma = i == 0 ? "" : ", ";
      lens += fmt::format("{}{}", comma, 3);
      ttfts += fmt::format("{}{}", comma, i == 0 ? 0.0 : 0.5);
      gaps += fmt::format("{}[{}, {}]", comma, gap, gap);
      starts += fmt::format("{}{}", comma, 1000.0 + static_cast<double>(requests - i));
    }
    return fmt::format(
        R"({{"input_lens": [{}], "output_lens": [{}], "ttfts": [{}], "itls": [{}], "start_times": [{}]}})", lens, lens,
        ttfts, gaps, starts);
  };
  const RequestLog log = read_request_log(folder.write("a.jsonl", json(0.1, 40) + "\n" + json(0.25, 41) + "\n"));
  CHECK(log.requests.size() == 40);  // the first failed: no first token
  CHECK(log.failed == 1);
  CHECK(log.requests.front().arrived_s == 0);
  CHECK(log.requests.back().arrived_s == 39);  // sorted by the time of sending
  CHECK(log.requests.front().last_token_s == Approx(0.5 + 2 * 0.25));
  CHECK(message([&] {
          read_request_log(folder.write("b.json", R"({"input_lens": [1]})"));
        }).find("expected an array 'output_lens', one number a request") != std::string::npos);
  CHECK(message([&] {
          read_request_log(folder.write("c.json", R"({"input_lens": [1], "output_lens": [1, 2], "ttfts": [1],
            "itls": [[]], "start_times": [0]})"));
        }).find("expected as many numbers as 'ttfts' has, 1, got 2") != std::string::npos);
  CHECK(message([&] {
          read_request_log(folder.write("d.json", json(0.1, 12)));
        }).find("expected at least 30 requests that were answered, got 11") != std::string::npos);
  CHECK(message([&] { read_request_log((folder.path / "none.json").string()); }).find("cannot be read") !=
        std::string::npos);
}

TEST_CASE("constants that are none are told", "[log_fit][errors]") {
  const Folder folder;
  const std::string log = folder.write("log.csv", log_of(config(R"({"schedule": "3 ms"})")));
  const std::string start = folder.write("my.json", config(R"({"schedule": "1 ms"})"));
  const auto fault = [&](std::vector<std::string> constants) {
    return message([&] { fitted(start, log, std::move(constants)); });
  };
  CHECK(fault({}) == "--constant: expected 1 to 3 constants, got 0");
  CHECK(fault({"a", "b", "c", "d"}) == "--constant: expected 1 to 3 constants, got 4");
  CHECK(fault({"host.serial.shedule"}).find("'host.serial.shedule' is no number of this config") != std::string::npos);
  CHECK(fault({"host.serial"}).find("is no number of this config") != std::string::npos);
  CHECK(fault({"host.serial.request"}).find("leaves no range to search") != std::string::npos);
  CHECK(fault({"host.serial.request=5"}) == "--constant: expected PATH=MIN:MAX, got 'host.serial.request=5'");
  CHECK(fault({"host.serial.request=5:1"}) == "--constant: expected PATH=MIN:MAX, got 'host.serial.request=5:1'");
}

}  // namespace test_log_fit
