#include "experiments/rl/core/learner.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace orrery::experiments::rl {
namespace {

/// Rows of one agent, copied out of the rows of all.
struct Rows {
  std::vector<double> observations;
  std::vector<std::uint8_t> masks;
  std::vector<double> advice;
  View view(std::size_t n) const { return {n, observations, masks, advice}; }
};

template <class T>
void slice(std::span<const T> rows, std::size_t n, std::size_t begin, std::size_t size, std::vector<T>& out) {
  out.clear();
  if (rows.empty()) return;
  const std::size_t width = rows.size() / n;
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = rows.subspan(i * width + begin, size);
    out.insert(out.end(), row.begin(), row.end());
  }
}

class IndependentLearners final : public Learner {
 public:
  IndependentLearners(const LearnerSetup& setup, const MakeLearner& make) : spec_(setup.spec) {
    for (const AgentSpec& agent : spec_.agents) {
      LearnerSetup own = setup;
      own.spec.agents = {agent};
      own.random = setup.random.child(members_.size());
      members_.push_back({make(own), {}});
    }
  }

  /// Members are alike and hear of the same ends: they all say the same.
  bool draws() const override { return members_.front().learner->draws(); }
  std::uint64_t draw(std::size_t env) override {
    std::uint64_t number = 0;
    for (Member& member : members_) number = member.learner->draw(env);
    return number;
  }

  void act(const View& view, Act how, std::span<double> actions) override {
    const std::size_t width = spec_.action_size();
    std::vector<double> own;
    for_each([&](Member& member, std::size_t, std::size_t observation, std::size_t action, std::size_t mask) {
      Rows& rows = member.before;
      take(view, member, observation, action, mask, rows);
      const std::size_t parts = spec(member).action.parts();
      own.resize(view.n * parts);
      member.learner->act(rows.view(view.n), how, own);
      for (std::size_t i = 0; i < view.n; ++i)
        for (std::size_t part = 0; part < parts; ++part) actions[i * width + action + part] = own[i * parts + part];
    });
  }

  void learn(const Experience& experience) override {
    const std::size_t n = experience.before.n;
    std::vector<double> actions, rewards;
    Rows before, after;
    for_each([&](Member& member, std::size_t agent, std::size_t observation, std::size_t action, std::size_t mask) {
      take(experience.before, member, observation, action, mask, before);
      take(experience.after, member, observation, action, mask, after);
      slice(experience.actions, n, action, spec(member).action.parts(), actions);
      slice(experience.rewards, n, agent, 1, rewards);
      member.learner->learn(
          {before.view(n), actions, rewards, experience.terminated, experience.truncated, after.view(n)});
    });
  }

  void state(Archive& archive) override {
    for (Member& member : members_) member.learner->state(archive);
  }

  /// Means over the agents.
  std::vector<std::pair<std::string, double>> figures() const override {
    auto sums = members_[0].learner->figures();
    for (std::size_t i = 1; i < members_.size(); ++i) {
      const auto others = members_[i].learner->figures();
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k].second += others[k].second;
    }
    for (auto& [name, value] : sums) value /= static_cast<double>(members_.size());
    return sums;
  }

 private:
  struct Member {
    std::unique_ptr<Learner> learner;
    Rows before;
  };

  const AgentSpec& spec(const Member& member) const {
    return spec_.agents[static_cast<std::size_t>(&member - members_.data())];
  }
  void take(const View& view, const Member& member, std::size_t observation, std::size_t action, std::size_t mask,
            Rows& out) const {
    slice(view.advice, view.n, action, spec(member).action.parts(), out.advice);
    slice(view.observations, view.n, observation, spec(member).observation.size(), out.observations);
    slice(view.masks, view.n, mask, spec(member).action.all_choices(), out.masks);
  }
  template <class Visit>
  void for_each(Visit visit) {
    std::size_t observation = 0, action = 0, mask = 0;
    for (std::size_t agent = 0; agent < members_.size(); ++agent) {
      visit(members_[agent], agent, observation, action, mask);
      observation += spec_.agents[agent].observation.size();
      action += spec_.agents[agent].action.parts();
      mask += spec_.agents[agent].action.all_choices();
    }
  }

  EnvSpec spec_;
  std::vector<Member> members_;
};

}  // namespace

std::unique_ptr<Learner> learner_per_agent(const LearnerSetup& setup, const MakeLearner& make) {
  if (setup.spec.agents.size() == 1) return make(setup);
  return std::make_unique<IndependentLearners>(setup, make);
}

void require_own_steps(const LearnerSetup& setup, const char* learner) {
  if (setup.logged)
    throw std::invalid_argument(fmt::format(
        "learner {} learns from steps of its own; from logged ones learn cloning, dqn, lin_ucb, sac and thompson",
        learner));
}

void require_rule(const LearnerSetup& setup, const char* learner) {
  if (setup.trains && !setup.logged && setup.spec.rule.empty())
    throw std::invalid_argument(fmt::format("learner {} imitates a rule, and the environment has none", learner));
}

void require_choices(const EnvSpec& spec, const char* learner) {
  for (const AgentSpec& agent : spec.agents)
    if (agent.action.kind == ActionKind::box)
      throw std::invalid_argument(
          fmt::format("learner {} makes choices, but the action of {} is numbers in a box", learner, agent.name));
}

}  // namespace orrery::experiments::rl
