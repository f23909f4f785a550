// Queueing theory against processes and resources. Services have mean 1 s; rates are customers a second.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "sim/resources.hpp"
#include "sim/statistics.hpp"
#include "sim/when.hpp"

namespace test_process_theory {

using namespace orrery::sim;

namespace {

using Draw = std::function<double(RandomStream&)>;

double exponential(RandomStream& random) {
  return random.exponential(1);
}
/// Squared coefficient of variation 1/shape.
Draw gamma_of_shape(double shape) {
  return [shape](RandomStream& random) { return random.gamma(shape, 1 / shape); };
}

/// Samples with their sum in ticks.
struct Responses {
  BatchMeans seconds{10'000};
  __int128 ticks = 0;
  void add(const Engine& engine, Duration d) {
    seconds.add(engine.scale().seconds(d));
    ticks += d.ticks;
  }
};

/// The mean must lie in its 99.9 % interval around `theory`: 3.29 / 1.96 of the 95 % one. The interval itself must be
/// tight, or the check says nothing.
void check_mean(const BatchMeans& samples, double theory) {
  CAPTURE(theory, samples.mean(), samples.half_width(), samples.batches());
  CHECK(samples.batches() >= 20);
  CHECK(std::fabs(samples.mean() - theory) < samples.half_width() * 3.29 / 1.96);
  CHECK(samples.half_width() < 0.08 * theory);
}

Process customer(Engine& engine, Server& server, Duration service, std::int64_t priority, Responses& responses) {
  const Time arrived = engine.now();
  co_await server.use(service, priority);
  responses.add(engine, engine.now() - arrived);
}

/// Poisson arrivals of `rate`; each is a process of its own.
Process source(Engine& engine, Server& server, double rate, Draw draw, std::int64_t priority, int customers,
               Responses& responses) {
  const std::string name = std::to_string(priority);
  RandomStream gaps = engine.stream("gaps" + name), services = engine.stream("services" + name);
  for (int i = 0; i < customers; ++i) {
    co_await engine.delay(engine.scale().duration(gaps.exponential(1 / rate)));
    const Duration service = engine.scale().duration(draw(services));
    engine.processes().spawn("customer", customer(engine, server, service, priority, responses));
  }
}

/// Little's law, exactly: a run from empty to empty has as many customer-ticks in the station as in the responses.
void check_little(const Server& server, __int128 response_ticks) {
  const ServerStatistics statistics = server.statistics();
  CHECK((statistics.busy_ticks + statistics.queued_ticks == response_ticks));
}

void check_open(double rate, std::int64_t servers, Draw draw, double response) {
  Engine engine(5);
  Server server(engine, "server", servers);
  Responses responses;
  engine.processes().spawn("source", source(engine, server, rate, std::move(draw), 0, 400'000, responses));
  engine.run();
  check_mean(responses.seconds, response);
  check_little(server, responses.ticks);
}

/// Probability that a customer of M/M/c waits, offered load a = rate (services of 1 s).
double erlang_c(int c, double a) {
  double term = 1, sum = 0;  // a^k / k!
  for (int k = 0; k < c; ++k) {
    sum += term;
    term *= a / (k + 1);
  }
  const double all_busy = term / (1 - a / c);
  return all_busy / (sum + all_busy);
}

}  // namespace

TEST_CASE("M/M/1 and M/M/c respond as Erlang says", "[theory][process]") {
  check_open(0.7, 1, exponential, 1 / (1 - 0.7));
  CHECK(erlang_c(1, 0.7) == Approx(0.7));
  CHECK(erlang_c(2, 1.0) == Approx(1.0 / 3));
  check_open(2.4, 3, exponential, 1 + erlang_c(3, 2.4) / (3 - 2.4));
  check_open(7.0, 10, exponential, 1 + erlang_c(10, 7.0) / (10 - 7.0));
}

TEST_CASE("M/G/1 responds as Pollaczek and Khinchine say", "[theory][process]") {
  // Wait = rate E[S^2] / (2 (1 - rho)), E[S^2] = 1 + scv.
  check_open(0.7, 1, gamma_of_shape(0.5), 1 + 0.7 * 3 / (2 * 0.3));   // scv 2
  check_open(0.7, 1, gamma_of_shape(4), 1 + 0.7 * 1.25 / (2 * 0.3));  // scv 1/4
  check_open(
      0.7, 1, [](RandomStream&) { return 1.0; }, 1 + 0.7 / (2 * 0.3));
}

TEST_CASE("priorities respond as Cobham says, with and without preemption", "[theory][process]") {
  const std::vector<double> rates{0.2, 0.3, 0.25};
  for (const Discipline discipline : {Discipline::priority, Discipline::preempt_resume}) {
    Engine engine(6);
    Server server(engine, "server", 1, discipline);
    std::vector<Responses> responses(rates.size());
    for (std::size_t k = 0; k < rates.size(); ++k)
      engine.processes().spawn("source", source(engine, server, rates[k], exponential, static_cast<std::int64_t>(k),
                                                static_cast<int>(rates[k] * 1'600'000), responses[k]));
    engine.run();
    // Exponential services of 1 s: the mean residual work of a class of rate r is r E[S^2] / 2 = r.
    double below = 0, all = 0;
    for (const double rate : rates) all += rate;
    for (std::size_t k = 0; k < rates.size(); ++k) {
      const double upto = below + rates[k];
      const double theory = discipline == Discipline::priority ? 1 + all / ((1 - below) * (1 - upto))
                                                               : 1 / (1 - below) + upto / ((1 - below) * (1 - upto));
      CAPTURE(k, static_cast<int>(discipline));
      check_mean(responses[k].seconds, theory);
      below = upto;
    }
    check_little(server, responses[0].ticks + responses[1].ticks + responses[2].ticks);
  }
}

namespace {

struct Shares {
  BatchMeans response{10'000}, small{2'000}, large{2'000};
  __int128 ticks = 0;
};

Process sharer(Engine& engine, ProcessorSharing& shared, Duration work, std::int64_t weight, Shares& shares) {
  const Time arrived = engine.now();
  co_await shared.use(work, weight);
  const Duration response = engine.now() - arrived;
  shares.ticks += response.ticks;
  shares.response.add(engine.scale().seconds(response));
  const double slowdown = static_cast<double>(response.ticks) / static_cast<double>(work.ticks);
  if (work < engine.scale().duration(0.5)) shares.small.add(slowdown);
  if (work > engine.scale().duration(2)) shares.large.add(slowdown);
}

/// M/G/1 (or M/G/c, capped at a server a job) under processor sharing.
void simulate_sharing(double rate, double servers, const Draw& draw, Shares& shares) {
  Engine engine(8);
  ProcessorSharing shared(engine, "shared", servers, 1);
  const auto arrivals = [&](Engine& e) -> Process {
    RandomStream gaps = e.stream("gaps"), services = e.stream("services");
    for (int i = 0; i < 400'000; ++i) {
      co_await e.delay(e.scale().duration(gaps.exponential(1 / rate)));
      e.processes().spawn("job", sharer(e, shared, e.scale().duration(draw(services)), 1, shares));
    }
  };
  engine.processes().spawn("source", arrivals(engine));
  engine.run();
  const SharingStatistics statistics = shared.statistics();
  CHECK((statistics.job_ticks == shares.ticks));  // Little's law, exactly
  CHECK(statistics.served == 400'000);
}

}  // namespace

TEST_CASE("processor sharing does not see the distribution of work", "[theory][process]") {
  // Mean response x / (1 - rho) for a job of work x, whatever the distribution: the slowdown is the same for all.
  constexpr double kLoad = 0.7;
  for (const double shape : {0.5, 1.0, 4.0}) {
    CAPTURE(shape);
    Shares shares;
    simulate_sharing(kLoad, 1, gamma_of_shape(shape), shares);
    check_mean(shares.response, 1 / (1 - kLoad));
    check_mean(shares.small, 1 / (1 - kLoad));
    if (shape <= 1) check_mean(shares.large, 1 / (1 - kLoad));  // else there are too few
  }
}

TEST_CASE("sharing with a cap is M/M/c, and blind to the distribution too", "[theory][process]") {
  const double theory = 1 + erlang_c(3, 2.4) / (3 - 2.4);
  for (const double shape : {1.0, 0.5}) {
    CAPTURE(shape);
    Shares shares;
    simulate_sharing(2.4, 3, gamma_of_shape(shape), shares);
    check_mean(shares.response, theory);
  }
}

TEST_CASE("a repair shop follows its birth-death chain", "[theory][process]") {
  constexpr int kMachines = 10, kRepairers = 2;
  constexpr double kUp = 8;  // mean time to failure; repairs take 1 s
  Engine engine(9);
  Server shop(engine, "shop", kRepairers);
  Responses repairs;
  const auto machine = [&](Engine& e, int id) -> Process {
    RandomStream random = e.stream("machine" + std::to_string(id));
    for (int i = 0; i < 40'000; ++i) {
      co_await e.delay(e.scale().duration(random.exponential(kUp)));
      const Time failed = e.now();
      co_await shop.use(e.scale().duration(random.exponential(1)));
      repairs.add(e, e.now() - failed);
    }
  };
  for (int id = 0; id < kMachines; ++id) engine.processes().spawn("machine", machine(engine, id));
  engine.run();
  // k machines down: failures at (M - k) / up, repairs at min(k, R). Time down = mean down / throughput.
  double p = 1, sum = 0, down = 0, throughput = 0;
  for (int k = 0; k <= kMachines; ++k) {
    sum += p;
    down += k * p;
    throughput += p * (kMachines - k) / kUp;
    p *= (kMachines - k) / kUp / std::min(k + 1, kRepairers);
  }
  CHECK(sum > 1);
  check_mean(repairs.seconds, down / throughput);
}

TEST_CASE("a closed network cycles as mean value analysis says", "[theory][process]") {
  constexpr int kCustomers = 6;
  const std::vector<double> demands{1.0, 0.6, 0.8};  // mean service at each station, one visit each
  constexpr double kThink = 2;
  Engine engine(10);
  Server a(engine, "a"), b(engine, "b");
  ProcessorSharing c(engine, "c");  // exponential: product form holds for both disciplines
  BatchMeans cycles(10'000);
  const auto walk = [&](Engine& e, int id) -> Process {
    RandomStream random = e.stream("customer" + std::to_string(id));
    const auto draw = [&](double mean) { return e.scale().duration(random.exponential(mean)); };
    for (int i = 0; i < 60'000; ++i) {
      const Time start = e.now();
      co_await e.delay(draw(kThink));
      co_await a.use(draw(demands[0]));
      co_await b.use(draw(demands[1]));
      co_await c.use(draw(demands[2]));
      cycles.add(e.scale().seconds(e.now() - start));
    }
  };
  for (int id = 0; id < kCustomers; ++id) engine.processes().spawn("customer", walk(engine, id));
  engine.run();
  std::vector<double> queue(demands.size(), 0.0);  // mean number at each station
  double cycle = 0;
  for (int n = 1; n <= kCustomers; ++n) {
    cycle = kThink;
    for (std::size_t i = 0; i < demands.size(); ++i) cycle += demands[i] * (1 + queue[i]);
    for (std::size_t i = 0; i < demands.size(); ++i) queue[i] = n / cycle * demands[i] * (1 + queue[i]);
  }
  check_mean(cycles, cycle);
}

}  // namespace test_process_theory
