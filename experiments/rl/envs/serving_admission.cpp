// Admission: the learner lets every request in, or turns it away.
//
// It sees how many replicas take requests, the least and the mean of their requests and queued tokens (as ln(1 + x)),
// the request's prompt and the predicted length of its answer, its priority, how many wait for a replica to come up,
// and when its first token would come as a share of the target (0 without one). Choices: 0 turn away, 1 let in.
#include <algorithm>
#include <limits>

#include "experiments/rl/envs/serving_env.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr double kLatest = 10;  // times the target; later is no worse

struct ServingAdmissionParams : ServingEnvParams {
  ServingAdmissionParams() { reward = ServingReward::slo; }
  static constexpr auto fields() { return sim::inherited<ServingAdmissionParams>(ServingEnvParams::fields()); }
};

class AskingAdmission final : public policies::AdmissionControl {
 public:
  AskingAdmission(SharedPort port, std::unique_ptr<policies::AdmissionControl> rule)
      : port_(std::move(port)), rule_(std::move(rule)) {}

  std::optional<std::string_view> reject(const policies::AdmissionView& view) override {
    if (!begun_) port_->begin(admission_spec());
    begun_ = true;
    double least_requests = 0, least_queued = 0, requests = 0, queued = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const auto of_requests = static_cast<double>(view.replicas[i].requests);
      const auto of_queued = static_cast<double>(view.replicas[i].queued_tokens);
      least_requests = i == 0 ? of_requests : std::min(least_requests, of_requests);
      least_queued = i == 0 ? of_queued : std::min(least_queued, of_queued);
      requests += of_requests;
      queued += of_queued;
    }
    const auto up = static_cast<double>(std::max<std::size_t>(1, view.replicas.size()));
    const double target_s = view.ttft_ps ? static_cast<double>(*view.ttft_ps) * 1e-12 : 0;
    const double seen[] = {static_cast<double>(view.replicas.size()),
                           squeezed(least_requests),
                           squeezed(requests / up),
                           squeezed(least_queued),
                           squeezed(queued / up),
                           squeezed(static_cast<double>(view.request.prefill_tokens)),
                           static_cast<double>(view.request.priority),
                           squeezed(static_cast<double>(view.parked)),
                           squeezed(static_cast<double>(view.request.predicted_tokens)),
                           target_s > 0 ? std::min(kLatest, policies::first_token_s(view).value_or(0) / target_s) : 0};
    std::copy(std::begin(seen), std::end(seen), port_->observation().begin());
    if (const std::span<double> advice = port_->advice(); rule_ != nullptr && !advice.empty())
      advice[0] = rule_->reject(view) ? 0 : 1;
    if (port_->ask(view.now)[0] != 0) return std::nullopt;
    return "turned_away";
  }

 private:
  SharedPort port_;
  std::unique_ptr<policies::AdmissionControl> rule_;
  bool begun_ = false;
};

}  // namespace

EnvSpec admission_spec() {
  const double endless = std::numeric_limits<double>::infinity();
  AgentSpec agent{.name = "admission", .action = ActionSpace::discrete(2)};
  for (const char* name :
       {"replicas", "least_requests", "mean_requests", "least_queued_tokens", "mean_queued_tokens", "prompt_tokens"})
    agent.observation.push_back({name, 0, endless});
  agent.observation.push_back({"priority", -endless, endless});
  agent.observation.push_back({"parked", 0, endless});
  agent.observation.push_back({"predicted_tokens", 0, endless});
  agent.observation.push_back({"first_token_share", 0, kLatest});
  return {.agents = {std::move(agent)}};
}

std::unique_ptr<policies::AdmissionControl> asking_admission(SharedPort port,
                                                             std::unique_ptr<policies::AdmissionControl> rule) {
  return std::make_unique<AskingAdmission>(std::move(port), std::move(rule));
}

void add_serving_admission_env(EnvRegistry& registry) {
  registry.add<ServingAdmissionParams>(
      "serving_admission", "Decides for every request of a serving run whether it is accepted.",
      [](const ServingAdmissionParams& params, const Systems& systems) {
        const auto spec = [](const ServingConfig& config) {
          EnvSpec shown = admission_spec();
          shown.rule = config.policies.admission.name;
          return shown;
        };
        return std::make_unique<ServingEnv>(
            "serving_admission", params, systems, spec, [](ServingConfig& config, const SharedPort& port) {
              config.policies.admission.name = "learner";
              config.policies.admission.make = [port, own = config.policies.admission.make] {
                return asking_admission(port, own());
              };
            });
      });
}

}  // namespace orrery::experiments::rl
