// Clocks: the learner chooses the clock of a replica's devices for each batch (DVFS).
//
// It sees requests that wait, decodes, new tokens of prompts and what decodes attend to (as ln(1 + x)), and the present
// clock as a share of the highest. The config's devices need `clocks`. Beside the requests' worth, a step costs
// `joule` for every joule of the iteration beyond idle power: what a learner saves by going slow. With `relative` there
// is one reward, at the end, in which `energy` weighs the energy of the whole run.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "experiments/rl/envs/serving_env.hpp"

namespace orrery::experiments::rl {
namespace {

struct ServingClockParams : ServingEnvParams {
  double joule = 0.01;
  static constexpr auto fields() {
    return sim::joined(
        sim::inherited<ServingClockParams>(ServingEnvParams::fields()),
        sim::FieldTable{sim::field("joule", &ServingClockParams::joule, sim::Unit::none, sim::at_least(0),
                                   "Price of a joule in the reward; if `relative` is set, `energy` replaces it.")});
  }
};

class AskingClock final : public policies::ClockPolicy {
 public:
  AskingClock(SharedPort port, double joule) : port_(std::move(port)), joule_(joule) {}

  std::int32_t choose(const policies::ClockView& view) override {
    if (!begun_) port_->begin(clock_spec(std::ssize(view.clocks_hz)));
    begun_ = true;
    const double highest = view.clocks_hz.front();
    const double seen[] = {
        squeezed(static_cast<double>(view.batch.waiting.size())), squeezed(static_cast<double>(view.next.decodes)),
        squeezed(static_cast<double>(view.next.chunk_tokens)), squeezed(static_cast<double>(view.next.decode_context)),
        view.clocks_hz[static_cast<std::size_t>(view.clock)] / highest};
    std::copy(std::begin(seen), std::end(seen), port_->observation().begin());
    const auto clock = static_cast<std::int32_t>(port_->ask(view.batch.now)[0]);
    if (joule_ > 0)
      port_->add_reward(-joule_ * static_cast<double>(view.pricer->price(view.next, clock).energy_pj) * 1e-12);
    return clock;
  }
  bool holds() const override { return false; }

 private:
  SharedPort port_;
  bool begun_ = false;
  double joule_;
};

/// Of the config's devices. Throws std::invalid_argument unless all have equally many, at least two.
std::int64_t clocks_of(const ServingConfig& config) {
  std::size_t clocks = 0;
  for (const DeviceGroup& group : config.machine.devices) {
    if (clocks > 0 && group.clocks_hz.size() != clocks)
      throw std::invalid_argument("expected equally many clocks of every group of devices");
    clocks = group.clocks_hz.size();
  }
  if (clocks < 2) throw std::invalid_argument("expected at least two 'clocks' of machine.devices to choose from");
  return static_cast<std::int64_t>(clocks);
}

}  // namespace

EnvSpec clock_spec(std::int64_t clocks) {
  const double endless = std::numeric_limits<double>::infinity();
  AgentSpec agent{.name = "clock", .action = ActionSpace::discrete(clocks)};
  for (const char* name : {"waiting", "decodes", "chunk_tokens", "decode_context"})
    agent.observation.push_back({name, 0, endless});
  agent.observation.push_back({"clock_share", 0, 1});
  return {.agents = {std::move(agent)}};
}

std::unique_ptr<policies::ClockPolicy> asking_clock(SharedPort port, double joule) {
  return std::make_unique<AskingClock>(std::move(port), joule);
}

void add_serving_clock_env(EnvRegistry& registry) {
  registry.add<ServingClockParams>(
      "serving_clock", "Chooses the clock for every batch of a serving run.",
      [](const ServingClockParams& params, const Systems& systems) {
        const auto spec = [](const ServingConfig& config) { return clock_spec(clocks_of(config)); };
        return std::make_unique<ServingEnv>("serving_clock", params, systems, spec,
                                            [joule = params.joule](ServingConfig& config, const SharedPort& port) {
                                              config.policies.power.name = "learner";
                                              config.policies.power.make = [port, joule] {
                                                return asking_clock(port, joule);
                                              };
                                            });
      });
}

}  // namespace orrery::experiments::rl
