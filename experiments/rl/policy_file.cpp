#include "experiments/rl/policy_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace orrery::experiments::rl {
namespace {

using sim::Node;

const std::string kIdentity = "a policy";

Node numbers(const std::vector<std::int64_t>& values) {
  Node node = Node::array();
  for (const std::int64_t value : values) node.push(Node::integer(value));
  return node;
}
Node numbers(const std::vector<double>& values) {
  Node node = Node::array();
  for (const double value : values) node.push(Node::real(value));
  return node;
}

/// Stands for the folder that orrery is in, so that a policy says the same wherever that is.
constexpr std::string_view kHome = "$ORRERY_HOME/";

std::string home() {
  return home_folder().lexically_normal().string() + "/";
}

/// An environment's parameters with each text changed by `change`.
template <class Change>
Node texts_changed(const Node& params, Change change) {
  if (!params.is_object()) return params;
  Node out = Node::object();
  for (const auto& [name, value] : params.members())
    out.set(name, value.is_string() ? Node::string(change(value.as_string())) : value);
  return out;
}
/// Files by their whole path, those that ship from kHome.
std::string written_path(const std::string& text) {
  std::error_code ignored;
  if (text.empty() || !std::filesystem::is_regular_file(text, ignored)) return text;
  const std::string whole = std::filesystem::absolute(text).lexically_normal().string();
  return whole.starts_with(home()) ? std::string(kHome) + whole.substr(home().size()) : whole;
}
std::string read_path(const std::string& text) {
  return text.starts_with(kHome) ? home() + text.substr(kHome.size()) : text;
}

/// A member that a policy's head has. Throws std::runtime_error where it has none.
const Node& member(const Node& node, const char* name) {
  const Node* found = node.is_object() ? node.find(name) : nullptr;
  if (found == nullptr) throw std::runtime_error(std::string("a policy without '") + name + "'");
  return *found;
}

/// What must agree of an agent: with entries for each choice, those of one and what is shared.
struct Shape {
  std::vector<std::string> entries;
  std::size_t per_choice = 0;
  ActionSpace action;

  explicit Shape(const AgentSpec& agent) : per_choice(agent.per_choice), action(agent.action) {
    const std::size_t own = per_choice * (per_choice > 0 ? static_cast<std::size_t>(action.choices.at(0)) : 0);
    for (std::size_t i = 0; i < agent.observation.size(); ++i)
      if (i < per_choice || i >= own) entries.push_back(agent.observation[i].name);
    if (per_choice > 0) action.choices.clear();  // any number of them
  }
};

}  // namespace

Node written_spec(const EnvSpec& spec) {
  Node node = Node::object();
  node.set("masked", Node::boolean(spec.masked));
  Node& agents = node.set("agents", Node::array());
  for (const AgentSpec& agent : spec.agents) {
    Node one = Node::object();
    one.set("name", Node::string(agent.name));
    one.set("per_choice", Node::integer(static_cast<std::int64_t>(agent.per_choice)));
    Node names = Node::array();
    for (const ObservationEntry& entry : agent.observation) names.push(Node::string(entry.name));
    one.set("observation", std::move(names));
    one.set("kind", Node::integer(static_cast<std::int64_t>(agent.action.kind)));
    one.set("choices", numbers(agent.action.choices));
    one.set("low", numbers(agent.action.low));
    one.set("high", numbers(agent.action.high));
    agents.push(std::move(one));
  }
  return node;
}

EnvSpec read_spec(const Node& node) {
  const auto doubles = [](const Node& list) {
    std::vector<double> all;
    for (const Node& item : list.items()) all.push_back(item.as_number());
    return all;
  };
  EnvSpec spec{.masked = member(node, "masked").as_boolean()};
  for (const Node& one : member(node, "agents").items()) {
    AgentSpec agent{.name = member(one, "name").as_string()};
    agent.per_choice = static_cast<std::size_t>(member(one, "per_choice").as_integer());
    for (const Node& name : member(one, "observation").items()) agent.observation.push_back({name.as_string()});
    agent.action.kind = static_cast<ActionKind>(member(one, "kind").as_integer());
    for (const Node& item : member(one, "choices").items()) agent.action.choices.push_back(item.as_integer());
    agent.action.low = doubles(member(one, "low"));
    agent.action.high = doubles(member(one, "high"));
    spec.agents.push_back(std::move(agent));
  }
  return spec;
}

std::string spaces_differ(const EnvSpec& trained, const EnvSpec& here) {
  if (trained.agents.size() != here.agents.size())
    return fmt::format("{} agents, this run has {}", trained.agents.size(), here.agents.size());
  for (std::size_t a = 0; a < here.agents.size(); ++a) {
    const Shape then(trained.agents[a]), now(here.agents[a]);
    const auto differs =
        std::mismatch(then.entries.begin(), then.entries.end(), now.entries.begin(), now.entries.end());
    if (then.per_choice != now.per_choice || differs.first != then.entries.end() || differs.second != now.entries.end())
      return fmt::format("it reads '{}' where this run shows '{}'",
                         differs.first != then.entries.end() ? *differs.first : "nothing",
                         differs.second != now.entries.end() ? *differs.second : "nothing");
    if (then.action.kind != now.action.kind || then.action.choices != now.action.choices ||
        then.action.low != now.action.low || then.action.high != now.action.high)
      return then.action.choices.size() == 1 && now.action.choices.size() == 1
                 ? fmt::format("it has {} choices, this run {}", then.action.choices[0], now.action.choices[0])
                 : std::string("its actions are others");
  }
  return "";
}

void write_policy(const std::filesystem::path& path, const PolicyFile& policy) {
  Node head = Node::object();
  head.set("env", Node::string(policy.env));
  head.set("env_params", texts_changed(policy.env_params, written_path));
  head.set("learner", policy.learner);
  head.set("regrouped", Node::boolean(policy.regrouped));
  head.set("spec", written_spec(policy.spec));
  head.set("seed", Node::integer(policy.seed));
  head.set("steps", Node::integer(policy.steps));
  head.set("eval_return", Node::real(policy.eval_return));
  std::string text = head.dump(), bytes = policy.bytes;
  Archive archive;
  archive(text, bytes);
  write_checkpoint(path, kIdentity, archive);
}

PolicyFile read_policy(const std::filesystem::path& path) {
  PolicyFile policy{.path = path};
  const sim::Origin here{path.string(), ""};
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    sim::throw_fault(here, "expected a policy of `orrery train` (seed-N.policy), found no file");
  if (!is_checkpoint(path, "")) sim::throw_fault(here, "expected a policy of `orrery train`, found something else");
  if (!is_checkpoint(path, kIdentity))
    sim::throw_fault(here, "expected a policy, found the checkpoint of a training",
                     "the seed-N.policy beside it is one");
  try {
    Archive archive = read_checkpoint(path, kIdentity);
    std::string text;
    archive(text, policy.bytes);
    archive.finish();
    const Node head = sim::parse_json(text, path.string());
    policy.env = member(head, "env").as_string();
    policy.env_params = texts_changed(member(head, "env_params"), read_path);
    policy.learner = member(head, "learner");
    policy.regrouped = member(head, "regrouped").as_boolean();
    policy.spec = read_spec(member(head, "spec"));
    policy.seed = member(head, "seed").as_integer();
    policy.steps = member(head, "steps").as_integer();
    policy.eval_return = member(head, "eval_return").as_number();
  } catch (const sim::ConfigError&) {
    throw;
  } catch (const std::runtime_error&) {
    sim::throw_fault({path.string(), ""}, "the policy is not whole");
  }
  return policy;
}

std::unique_ptr<Learner> learner_of(const PolicyFile& policy, const EnvSpec& spec, const LearnerRegistry& learners) {
  if (const std::string other = spaces_differ(policy.spec, spec); !other.empty())
    sim::throw_fault({policy.path.string(), ""}, "the policy was trained on other spaces: " + other,
                     "`orrery train` makes one for this run");
  sim::Faults faults;
  const LearnerRegistry::Choice choice = learners.parse_block(policy.learner, "", faults);
  faults.throw_if_any();
  try {
    std::unique_ptr<Learner> learner = choice.make(
        {.spec = spec, .envs = 1, .steps = 1, .random = sim::RandomStream(1, "rl/policy"), .trains = false});
    Archive archive(policy.bytes);
    learner->policy(archive);
    archive.finish();
    return learner;
  } catch (const std::runtime_error&) {
    sim::throw_fault({policy.path.string(), ""}, "the policy is not whole: its networks have other shapes");
  }
}

}  // namespace orrery::experiments::rl
