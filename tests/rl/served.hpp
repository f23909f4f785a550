// A plain serving run beside what an environment plays.
#pragma once

#include "experiments/rl/envs/serving_env.hpp"
#include "experiments/systems/serving/system.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::rl::test {

/// Latencies in s of so many requests of a config, summed in the order of their ends; one that is turned away
/// counts 10.
inline double latencies(const std::string& file, const std::string& over, int requests,
                        const std::vector<std::string>& set) {
  sim::Node root = serving_config_of("", file, sim::parse_json(over, "test"));
  sim::assign(root, "workload.limit=" + std::to_string(requests));
  for (const std::string& one : set) sim::assign(root, one);
  sim::Faults faults;
  const ServingConfig config = read_serving_config(root, test_systems().registries(), faults);
  faults.throw_if_any();
  struct Sum final : RunObserver {
    sim::TickScale scale{1};
    double e2e = 0;
    void request_ended(const RequestRecord& record) override {
      e2e += record.status == "completed" ? scale.seconds(*record.finished - record.arrived) : 10;
    }
  } sum;
  sum.scale = tick_scale(config.run.tick_s);
  (void)ServingSetup(config).run(&sum);
  return sum.e2e;
}

}  // namespace orrery::experiments::rl::test
