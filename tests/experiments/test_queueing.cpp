// The whole serving system against queueing theory: Poisson generator, static batching with one slot, a GPU as server.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "experiments/systems/serving/system.hpp"
#include "sim/statistics.hpp"
#include "tests/systems.hpp"

namespace test_queueing {

using namespace orrery;
using namespace orrery::experiments;

namespace {

/// Waits and service times of every request, in order of arrival (one server, first come first served).
class Waits final : public RunObserver {
 public:
  explicit Waits(std::int64_t batch) : waits(batch) {}
  void request_ended(const RequestRecord& r) override {
    const double service = static_cast<double>((*r.finished - *r.admitted).ticks) * 1e-12;
    waits.add(static_cast<double>((*r.admitted - r.arrived).ticks) * 1e-12);
    ++count;
    sum += service;
    squares += service * service;
  }
  sim::BatchMeans waits;
  std::int64_t count = 0;
  double sum = 0, squares = 0;
  double mean_service() const { return sum / static_cast<double>(count); }
  double mean_square() const { return squares / static_cast<double>(count); }
};

Waits serve(const std::string& lengths, double rate, std::int64_t requests) {
  sim::Faults faults;
  const std::string text =
      R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": )" +
      std::to_string(requests) + R"(,
      "arrivals": {"policy": "poisson", "poisson": {"rate": ")" +
      std::to_string(rate) + R"( 1/s"}}, "lengths": )" + lengths + R"(,
      "limits": {"total_max": 4096}}},
    "policies": {"batching": {"policy": "static", "static": {"max_sequences": 1, "reservation": "oracle"}}}})";
  const ServingConfig config = read_serving_config(sim::parse_json(text, "queue"), test_systems().registries(), faults);
  faults.throw_if_any();
  Waits waits(requests / 40);
  const ServingResult result = ServingSetup(config).run(&waits);
  CHECK(result.metrics.completed == requests);
  return waits;
}

/// 99.9 % interval of the run's own batch means; it must be tight, or the check says nothing.
void check_wait(const Waits& waits, double theory, double tightness) {
  CAPTURE(theory, waits.waits.mean(), waits.waits.half_width(), waits.mean_service());
  CHECK(waits.waits.batches() == 40);
  CHECK(std::fabs(waits.waits.mean() - theory) < waits.waits.half_width() * 3.29 / 1.96);
  CHECK(waits.waits.half_width() < tightness * theory);
}

}  // namespace

TEST_CASE("M/D/1: equal requests of one iteration each", "[theory]") {
  // One output token is one iteration, so every service takes the same time s; it does not depend on the rate.
  const std::string lengths = R"({"policy": "fixed", "fixed": {"prompt": 400, "output": 1}})";
  const double s = serve(lengths, 0.1, 200).mean_service();
  for (const double load : {0.5, 0.8}) {
    const Waits waits = serve(lengths, load / s, 80'000);
    CHECK(waits.mean_square() == Approx(s * s).epsilon(1e-9));  // deterministic indeed
    check_wait(waits, load / (1 - load) * s / 2, 0.1);
  }
}

TEST_CASE("M/M/1: geometric answers make service times exponential but for one iteration", "[theory]") {
  // A prompt token and a geometric number of output tokens of mean 200: each iteration takes about as long (the weights
  // dominate), so service is a geometric number of steps, an exponential in all but its grain of 1/200.
  const std::string lengths = R"({"policy": "geometric", "geometric": {"prompt_mean": 1, "output_mean": 200}})";
  const double s = serve(lengths, 0.01, 2000).mean_service();
  const double load = 0.6;
  const double rate = load / s;
  const Waits waits = serve(lengths, rate, 40'000);
  const double rho = rate * waits.mean_service();
  // Exponential: E[S^2] = 2 E[S]^2. Contexts make long answers a little slower a token, so it is a little above.
  CHECK(waits.mean_square() / (2 * waits.mean_service() * waits.mean_service()) == Approx(1).epsilon(0.05));
  check_wait(waits, rho / (1 - rho) * waits.mean_service(), 0.12);
  // And the exact formula for what the service times were (Pollaczek-Khinchine).
  check_wait(waits, rate * waits.mean_square() / (2 * (1 - rho)), 0.12);
}

}  // namespace test_queueing
