// Mixtures: shares by hand, and what each policy must not do.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "policies/mixture/mixture.hpp"

namespace test_mixtures {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::unique_ptr<Mixture> make(const std::string& name, const std::string& params = "{}") {
  MixtureRegistry registry("mixture");
  register_mixtures(registry);
  const sim::Node node = sim::parse_json(params, "params.json");
  sim::Faults faults;
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// Two domains, one task, two parameters.
struct Two {
  std::vector<double> shares{0.5, 0.5}, fisher{1, 1}, losses{3, 1}, reference{1, 1};
  std::vector<std::vector<double>> domains{{1, 0}, {0, 1}}, tasks{{1, 0}}, task_losses{{4}};
  MixtureView view() const { return {0, shares, domains, tasks, fisher, losses, reference, task_losses}; }
};

}  // namespace

TEST_CASE("mixtures: the first round of DIDS is impact alone") {
  // Divergences 0 and (1 + 1) / 2: all impact is the first domain's. The kernel has 1/2 and 0: all is the second's.
  Two two;
  CHECK(make("dids")->shares(two.view()) == std::vector<double>{1, 0});
  CHECK(make("dids", R"({"impact": "kernel"})")->shares(two.view()) == std::vector<double>{0, 1});
  two.fisher = {0, 1};  // of what differs in the first parameter the output knows nothing: divergence 0 and 1/2
  CHECK(make("dids")->shares(two.view()) == std::vector<double>{1, 0});
}

TEST_CASE("mixtures: later rounds of DIDS divide by the present share and keep some of it") {
  Two two;
  two.shares = {0.8, 0.2};
  two.tasks = {{1, 0}, {0, 1}};  // each task is all of one domain's impact
  two.task_losses = {{4, 3}, {4, 3}};
  // Worth 1/2 each (times the gain): over shares 0.625 and 2.5, normalised 0.2 and 0.8; 0.2 old + 0.8 new.
  const std::vector<double> shares = make("dids")->shares(two.view());
  CHECK(shares[0] == Approx(0.2 * 0.8 + 0.8 * 0.2));
  CHECK(shares[1] == Approx(0.2 * 0.2 + 0.8 * 0.8));
  const std::vector<double> plain = make("dids", R"({"diminishing": false, "kept": 0})")->shares(two.view());
  CHECK(plain[0] == Approx(0.5));
}

TEST_CASE("mixtures: what a task may still gain is read off its losses") {
  std::vector<double> losses;
  for (int i = 0; i < 12; ++i) losses.push_back(2 * std::exp(-0.3 * i) + 1);
  CHECK(fitted_decay(losses, 20) == Approx(2 * std::exp(-0.3 * 20) + 1).epsilon(0.02));
  // A task that has stood still for long counts for nothing beside one that falls.
  Two two;
  two.tasks = {{1, 0}, {0, 1}};
  two.task_losses = {losses, std::vector<double>(12, 5)};
  const std::vector<double> shares = make("dids", R"({"kept": 0})")->shares(two.view());
  CHECK(shares[0] > 0.99);
}

TEST_CASE("mixtures: DoReMi follows excess loss, alignment the tasks' gradient") {
  const Two two;
  // Excess 2 and 0: e^2 to 1, a thousandth of even shares mixed in.
  const double first = std::exp(2) / (std::exp(2) + 1);
  CHECK(make("doremi")->shares(two.view())[0] == Approx(0.999 * first + 0.001 / 2));
  // Inner products 1 and 0, over the task's length 1, rate 1/2.
  const double aligned = std::exp(0.5) / (std::exp(0.5) + 1);
  CHECK(make("alignment")->shares(two.view())[0] == Approx(0.999 * aligned + 0.001 / 2));
  CHECK(make("uniform")->shares(two.view()) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("mixtures: shares are shares, whatever the gradients") {
  sim::RandomStream random(5, "mixtures");
  for (int trial = 0; trial < 200; ++trial) {
    const auto vectors = [&](std::size_t count) {
      std::vector<std::vector<double>> all(count, std::vector<double>(3));
      for (auto& one : all)
        for (double& value : one) value = random.normal() * (trial % 3 == 0 ? 0 : 1);
      return all;
    };
    const auto domains = vectors(4), tasks = vectors(2);
    std::vector<std::vector<double>> losses(2);
    for (auto& one : losses)
      for (int i = 0; i <= trial % 8; ++i) one.push_back(std::abs(random.normal()));
    const std::vector<double> shares = normalised({random.uniform(), random.uniform(), random.uniform(), 0}),
                              fisher{1, 0.5, 0}, own{1, 2, 3, 4}, reference{2, 1, 0, 4};
    for (const char* name : {"uniform", "dids", "doremi", "alignment"}) {
      const std::vector<double> next =
          make(name)->shares({trial % 8, shares, domains, tasks, fisher, own, reference, losses});
      CAPTURE(name, trial);
      CHECK(std::accumulate(next.begin(), next.end(), 0.0) == Approx(1));
      for (const double share : next) CHECK(share >= 0);
    }
  }
}

}  // namespace test_mixtures
