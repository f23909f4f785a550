#include "experiments/rl/core/agents.hpp"

#include <numeric>
#include <stdexcept>

namespace orrery::experiments::rl {
namespace {

class JointEnv final : public Env {
 public:
  explicit JointEnv(std::unique_ptr<Env> env) : env_(std::move(env)), spec_(env_->spec()) {
    AgentSpec joint{.name = "joint"};
    const bool box = spec_.agents[0].action.kind == ActionKind::box;
    joint.action.kind = box ? ActionKind::box : ActionKind::multi_discrete;
    for (const AgentSpec& agent : spec_.agents) {
      if ((agent.action.kind == ActionKind::box) != box)
        throw std::invalid_argument("agents with boxes and with choices cannot be joined");
      for (const ObservationEntry& entry : agent.observation)
        joint.observation.push_back({agent.name + "." + entry.name, entry.low, entry.high});
      joint.action.low.insert(joint.action.low.end(), agent.action.low.begin(), agent.action.low.end());
      joint.action.high.insert(joint.action.high.end(), agent.action.high.begin(), agent.action.high.end());
      for (std::size_t part = 0; part < agent.action.parts(); ++part) {
        if (!box) joint.action.choices.push_back(agent.action.choices[part]);
        joint.action.names.push_back(
            agent.name + (part < agent.action.names.size() ? "." + agent.action.names[part] : std::string()));
      }
    }
    spec_.agents = {std::move(joint)};
    spec_.shared_reward = true;
  }

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::uint64_t seed, TimeStep& out) override {
    env_->reset(seed, out);
    merge(out);
  }
  void step(std::span<const double> action, TimeStep& out) override {
    env_->step(action, out);
    merge(out);
  }

 private:
  static void merge(TimeStep& out) {
    const double sum = std::accumulate(out.rewards.begin(), out.rewards.end(), 0.0);
    out.rewards.assign(1, sum / static_cast<double>(out.rewards.size()));
  }
  std::unique_ptr<Env> env_;
  EnvSpec spec_;
};

class SplitEnv final : public Env {
 public:
  explicit SplitEnv(std::unique_ptr<Env> env) : env_(std::move(env)), spec_(env_->spec()) {
    if (spec_.agents.size() != 1 || spec_.agents[0].action.kind == ActionKind::box)
      throw std::invalid_argument("only the choices of a single agent can be split");
    const AgentSpec whole = spec_.agents[0];
    spec_.agents.clear();
    for (std::size_t part = 0; part < whole.action.parts(); ++part)
      spec_.agents.push_back(
          {.name = part < whole.action.names.size() ? whole.action.names[part] : "part" + std::to_string(part),
           .observation = whole.observation,
           .action = ActionSpace::discrete(whole.action.choices[part])});
    spec_.shared_reward = true;
  }

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::uint64_t seed, TimeStep& out) override {
    env_->reset(seed, inner_);
    copy(out);
  }
  void step(std::span<const double> action, TimeStep& out) override {
    env_->step(action, inner_);
    copy(out);
  }

 private:
  void copy(TimeStep& out) const {
    out = inner_;
    out.rewards.assign(spec_.agents.size(), inner_.rewards[0]);
    for (std::size_t i = 1; i < spec_.agents.size(); ++i)
      out.observation.insert(out.observation.end(), inner_.observation.begin(), inner_.observation.end());
  }
  std::unique_ptr<Env> env_;
  EnvSpec spec_;
  TimeStep inner_;
};

}  // namespace

std::unique_ptr<Env> regroup(std::unique_ptr<Env> env, Agents agents) {
  if (agents == Agents::joint) return std::make_unique<JointEnv>(std::move(env));
  if (agents == Agents::split) return std::make_unique<SplitEnv>(std::move(env));
  return env;
}

}  // namespace orrery::experiments::rl
