#include "experiments/rl/looks.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::experiments::rl {
namespace {

constexpr std::size_t kMostLooks = 20'000;  // steps; a share of them is known to half a percent

/// An entry, and where it stands in a row: once, or once a choice.
struct Entry {
  std::string name;
  std::vector<std::size_t> columns;
};

std::vector<Entry> entries_of(const EnvSpec& spec) {
  std::vector<Entry> all;
  std::size_t begin = 0;
  for (const AgentSpec& agent : spec.agents) {
    const std::string front = spec.agents.size() > 1 ? agent.name + "." : "";
    const std::size_t each = agent.per_choice;
    const std::size_t choices = each > 0 ? static_cast<std::size_t>(agent.action.choices.at(0)) : 0;
    for (std::size_t i = 0; i < agent.observation.size(); ++i) {
      if (i >= each && i < each * choices) continue;  // that of another choice than the first
      Entry entry{front + agent.observation[i].name, {begin + i}};
      if (i < each) {
        for (std::size_t choice = 1; choice < choices; ++choice) entry.columns.push_back(begin + choice * each + i);
        std::string& name = entry.name;  // "requests_0": of each, the number of the first says nothing
        if (name.ends_with("_0")) name.resize(name.size() - 2);
        name += " of each";
      }
      all.push_back(std::move(entry));
    }
    begin += agent.observation.size();
  }
  return all;
}

double share_of_rows(std::span<const double> a, std::span<const double> b, std::size_t n, bool equal) {
  const std::size_t width = a.size() / n;
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i)
    count += std::ranges::equal(a.subspan(i * width, width), b.subspan(i * width, width)) == equal ? 1 : 0;
  return static_cast<double>(count) / static_cast<double>(n);
}

/// What the policy does at every row of `seen`, some at a time: a row may be many inputs of its network.
void decide(Learner& policy, const StepLog& log, std::span<const double> seen, std::span<double> out) {
  constexpr std::size_t kTogether = 256;
  const std::size_t width = log.spec().observation_size(), parts = log.spec().action_size(), n = out.size() / parts;
  for (std::size_t at = 0; at < n; at += kTogether) {
    const std::size_t some = std::min(kTogether, n - at);
    policy.act({some, seen.subspan(at * width, some * width), log.rows(at, some).before.masks}, Act::greedy,
               out.subspan(at * parts, some * parts));
  }
}

}  // namespace

Looks what_it_looks_at(Learner& policy, const StepLog& log, std::uint64_t seed) {
  const std::size_t n = std::min(log.size(), kMostLooks), width = log.spec().observation_size();
  const Experience steps = log.rows(0, n);
  std::vector<double> decided(n * log.spec().action_size()), again(decided.size());
  decide(policy, log, steps.before.observations, decided);
  Looks out{.agrees = share_of_rows(decided, steps.actions, n, true), .looks = {}};
  std::vector<std::size_t> order;
  sim::RandomStream random(seed, "rl/looks");
  std::vector<double> seen;
  for (const Entry& entry : entries_of(log.spec())) {
    const std::size_t choices = entry.columns.size();
    order.resize(n * choices);
    std::iota(order.begin(), order.end(), std::size_t{0});
    random.shuffle(std::span(order));
    const auto place = [&](std::size_t cell) { return cell / choices * width + entry.columns[cell % choices]; };
    seen.assign(steps.before.observations.begin(), steps.before.observations.end());
    for (std::size_t cell = 0; cell < order.size(); ++cell)
      seen[place(cell)] = steps.before.observations[place(order[cell])];
    decide(policy, log, seen, again);
    out.looks.push_back({entry.name, share_of_rows(decided, again, n, false)});
  }
  std::ranges::stable_sort(out.looks, [](const Look& a, const Look& b) { return a.changed > b.changed; });
  return out;
}

}  // namespace orrery::experiments::rl
