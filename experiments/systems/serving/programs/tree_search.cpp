// tree_search: reasoning step by step along a tree of trajectories, with a reward model that says which go on.
//
// `rebase`: every leaf gets a share of `width` continuations by softmax(reward / temperature) (REBASE). `ets`: the
// leaves that ETS's integer program keeps (tree_choice.hpp) get the width, by REBASE again. Continuations of a step are
// calls side by side whose prompts are the whole path, so what trajectories share is a prefix of both.
//
// The trajectories are drawn: the reward of a step is sigmoid(q), q the parent's plus a normal step; a continuation
// says the same as one drawn before it in this round, whatever its parent, with probability `repeat`, which gives
// clusters of all sizes (the Chinese restaurant's; embeddings and their clustering are not modelled). Step and total
// lengths are the paper's: at most 256 and 1,024 tokens, lambda_c 1, lambda_s 1.5 / 1.4 / 1.45 at width 16 / 64 / 256.
// The reward model runs elsewhere and takes `score_time` a step.
//
// Figures: `unique_tokens`: tokens of the question and of all steps on the paths that a round continues, each once,
// mean over rounds (what a prefix cache must hold); `path_tokens`: the same, counted for every path (without sharing);
// `kept_leaves`, `clusters_kept` (share of the clusters), `ilp_open` (rounds in which the program was not solved to the
// end).
#include <algorithm>

#include "experiments/systems/serving/programs/programs.hpp"
#include "experiments/systems/serving/programs/tree_choice.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments {

enum class TreePolicy : std::uint8_t { rebase, ets };
constexpr auto enum_names(TreePolicy) {
  using enum TreePolicy;
  return sim::names<TreePolicy>({{"rebase", rebase}, {"ets", ets}});
}

namespace {

struct TreeSearchParams {
  TreePolicy policy = TreePolicy::rebase;
  std::int64_t width = 16, steps = 8, step_most = 256, instructions = 200, most_nodes = 2000;
  double temperature = 0.2, lambda_c = 1, lambda_s = 1.5;
  double reward_step = 1, repeat = 0.5, score_s = 0.02;
  TokenLaw question{150, 0.5}, step{100, 0.5};

  static constexpr auto fields() {
    using sim::field;
    using P = TreeSearchParams;
    return sim::FieldTable{
        field("policy", &P::policy,
              "Which leaves are continued. `rebase`: shares by reward. `ets`: those that an integer program keeps."),
        field("width", &P::width, sim::Unit::count, sim::between(1, 4096), "Continuations per step, over all leaves."),
        field("steps", &P::steps, sim::Unit::count, sim::between(1, 1000), "Number of steps of a trajectory."),
        field("step_most", &P::step_most, sim::Unit::tokens, sim::between(1, 1e6),
              "Most tokens of a step; longer ones are cut."),
        field("instructions", &P::instructions, sim::Unit::tokens, sim::between(0, 1e6),
              "Tokens at the start of every prompt that all searches share."),
        field("most_nodes", &P::most_nodes, sim::Unit::count, sim::between(1, 1e9),
              "Most branch-and-bound nodes per step (ets); beyond them the best choice found so far is taken."),
        field("temperature", &P::temperature, sim::Unit::none, sim::between(1e-3, 1e3),
              "Temperature of the softmax over rewards."),
        field("lambda_c", &P::lambda_c, sim::Unit::none, sim::between(0, 1e6),
              "Price of the tree's nodes in the objective (ets)."),
        field("lambda_s", &P::lambda_s, sim::Unit::none, sim::between(0, 1e6),
              "Value of the clusters that are kept in the objective (ets)."),
        field("reward_step", &P::reward_step, sim::Unit::none, sim::between(0, 100),
              "Standard deviation of a reward's logit from one step to the next."),
        field("repeat", &P::repeat, sim::Unit::ratio, sim::between(0, 1),
              "Probability that a continuation says the same as an earlier one of its round."),
        field("score_time", &P::score_s, sim::Unit::seconds, sim::between(0, 1e3),
              "Time of the reward model per step."),
        field("question", &P::question, "Tokens of a question."),
        field("step", &P::step, "Tokens of a step, before it is cut to step_most.")};
  }
};

class TreeSearch final : public Program {
 public:
  explicit TreeSearch(const TreeSearchParams& params) : params_(params) {}

  sim::Task<bool> run(sim::Engine& engine, Client& client) override {
    State state;
    state.tree.parent.push_back(-1);
    state.logit.push_back(0);
    state.path.emplace_back();
    state.path[0].append(Client::shared(0, params_.instructions));
    state.path[0].append(client.fresh(params_.question.draw(client.random)));
    state.tokens.push_back(state.path[0].tokens());
    state.tree.leaves.push_back(0);
    state.tree.clusters.push_back(0);
    std::vector<std::int64_t> counts{params_.width};
    for (std::int64_t step = 0; step < params_.steps; ++step) {
      if (step > 0) {
        co_await client.wait(engine, params_.score_s);
        counts = choose(state, client);
      }
      const bool completed = co_await extend(engine, client, state, counts);
      if (!completed) co_return false;
    }
    co_return true;
  }

 private:
  struct State {
    SearchTree tree;
    std::vector<double> logit;         // by node
    std::vector<std::int64_t> tokens;  // of the node's own step
    std::vector<Dialogue> path;        // up to and with the node; emptied when the node has been passed
  };

  /// Continuations of each leaf.
  std::vector<std::int64_t> choose(const State& state, Client& client) const {
    const std::vector<std::int32_t>& leaves = state.tree.leaves;
    std::vector<double> rewards;
    for (const std::int32_t leaf : leaves)
      rewards.push_back(1 / (1 + sim::det_exp(-state.logit[static_cast<std::size_t>(leaf)])));
    std::vector<std::int64_t> counts = rebase_shares(rewards, params_.width, params_.temperature);
    std::vector<char> keep(leaves.size(), 0);
    for (std::size_t i = 0; i < leaves.size(); ++i) keep[i] = counts[i] > 0;
    if (params_.policy == TreePolicy::ets) {
      std::vector<double> shares;
      for (const std::int64_t count : counts)
        shares.push_back(static_cast<double>(count) / static_cast<double>(params_.width));
      const TreeChoice choice =
          choose_leaves(state.tree, shares, params_.lambda_c, params_.lambda_s, params_.most_nodes);
      keep = choice.keep;
      client.tell("ilp_open", choice.exact() ? 0 : 1);
      std::vector<double> kept;
      for (std::size_t i = 0; i < leaves.size(); ++i)
        if (keep[i] != 0) kept.push_back(rewards[i]);
      const std::vector<std::int64_t> again = rebase_shares(kept, params_.width, params_.temperature);
      std::size_t next = 0;
      for (std::size_t i = 0; i < leaves.size(); ++i) counts[i] = keep[i] != 0 ? again[next++] : 0;
    }
    report(state, counts, client);
    return counts;
  }

  void report(const State& state, const std::vector<std::int64_t>& counts, Client& client) const {
    const auto rounds = static_cast<double>(params_.steps - 1);
    std::vector<char> used(state.tree.parent.size(), 0);
    std::int64_t unique = 0, all = 0, kept = 0;
    std::vector<std::int32_t> clusters, covered;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      clusters.push_back(state.tree.clusters[i]);
      if (counts[i] == 0) continue;
      ++kept;
      covered.push_back(state.tree.clusters[i]);
      for (std::int32_t at = state.tree.leaves[i]; at >= 0; at = state.tree.parent[static_cast<std::size_t>(at)]) {
        const auto node = static_cast<std::size_t>(at);
        all += state.tokens[node];
        if (used[node] == 0) unique += state.tokens[node];
        used[node] = 1;
      }
    }
    const auto distinct = [](std::vector<std::int32_t>& ids) {
      std::sort(ids.begin(), ids.end());
      return static_cast<double>(std::unique(ids.begin(), ids.end()) - ids.begin());
    };
    client.tell("unique_tokens", static_cast<double>(unique) / rounds);
    client.tell("path_tokens", static_cast<double>(all) / rounds);
    client.tell("kept_leaves", static_cast<double>(kept) / rounds);
    client.tell("clusters_kept", distinct(covered) / distinct(clusters) / rounds);
  }

  /// Continues every leaf as often as `counts` says; the continuations are the next leaves.
  sim::Task<bool> extend(sim::Engine& engine, Client& client, State& state,
                         const std::vector<std::int64_t>& counts) const {
    std::vector<Future> futures;
    const std::vector<std::int32_t> old = state.tree.leaves;
    state.tree.leaves.clear();
    state.tree.clusters.clear();
    std::int32_t clusters = 0;
    for (std::size_t i = 0; i < old.size(); ++i) {
      const auto from = static_cast<std::size_t>(old[i]);
      for (std::int64_t c = 0; c < counts[i]; ++c) {
        const std::int64_t tokens = std::min(params_.step_most, params_.step.draw(client.random));
        Future future = co_await client.call(engine, state.path[from].ask(tokens));
        state.tree.leaves.push_back(static_cast<std::int32_t>(state.tree.parent.size()));
        state.tree.parent.push_back(old[i]);
        state.logit.push_back(state.logit[from] + params_.reward_step * client.random.normal());
        state.tokens.push_back(tokens);
        Dialogue path = state.path[from];
        path.append(future.output());
        state.path.push_back(std::move(path));
        const std::size_t before = state.tree.clusters.size();
        if (before > 0 && client.random.bernoulli(params_.repeat)) {
          state.tree.clusters.push_back(state.tree.clusters[client.random.below(before)]);
        } else {
          state.tree.clusters.push_back(clusters++);
        }
        futures.push_back(std::move(future));
      }
      state.path[from] = {};
    }
    bool all = true;
    for (Future& future : futures) {
      const bool completed = co_await client.answer(engine, future);
      all = all && completed;
    }
    co_return all;
  }

  TreeSearchParams params_;
};

}  // namespace

void add_tree_search(ProgramRegistry& registry) {
  registry.add<TreeSearchParams>("tree_search",
                                 "Reasoning along a tree of trajectories: REBASE, or ETS's choice of leaves.",
                                 [](const TreeSearchParams& params) { return std::make_unique<TreeSearch>(params); });
}

}  // namespace orrery::experiments
