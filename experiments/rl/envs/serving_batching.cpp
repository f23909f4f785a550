// Batching: the learner chooses, whenever prompts wait or are under way, which of several policies makes the next
// batch.
//
// It sees, of the replica that asks, requests that wait, prefill and decode, the share of its blocks in use, how long
// the first one has waited, its prompt, and the tokens that decodes attend to (counts and tokens as ln(1 + x)). The
// choices are policy blocks as a config has them (one policy with several budgets, or several policies); with decodes
// alone nothing is asked and the first one decides, as it does where the chosen one gives nothing to do, so that it
// should be one that splits prompts. Each replica has its own set of them, asked when chosen only.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "experiments/rl/envs/serving_env.hpp"

namespace orrery::experiments::rl {
namespace {

struct ServingBatchingParams : ServingEnvParams {
  std::vector<sim::Node> choices;
  static constexpr auto fields() {
    return sim::joined(sim::inherited<ServingBatchingParams>(ServingEnvParams::fields()),
                       sim::FieldTable{sim::field("choices", &ServingBatchingParams::choices,
                                                  "Policies to choose from, as blocks of policies.batching, at least "
                                                  "two; empty: sarathi with budgets of 256, 512 and 2048.")});
  }
};

class AskingBatching final : public policies::Batching {
 public:
  AskingBatching(SharedPort port, std::vector<std::unique_ptr<policies::Batching>> choices)
      : port_(std::move(port)), choices_(std::move(choices)) {}

  void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
    if (view.waiting.empty() && view.prefilling.empty()) return choices_.front()->decide(view, out);
    if (!begun_) port_->begin(batching_spec(std::ssize(choices_)));
    begun_ = true;
    show(view);
    choices_[static_cast<std::size_t>(port_->ask(view.now)[0])]->decide(view, out);
    // A policy of whole prompts may not know what to do with a prompt that another has begun.
    const bool work = !out.items.empty() || !out.admit.empty() || (view.decoding > 0 && out.decode_rest);
    if (work || view.running.empty()) return;
    out.clear();
    choices_.front()->decide(view, out);
  }
  std::optional<std::string_view> reject(const policies::Sequence& seq, const policies::KvView& kv,
                                         const policies::ReplicaLimits& limits) const override {
    for (const auto& choice : choices_)
      if (const auto why = choice->reject(seq, kv, limits)) return why;
    return std::nullopt;
  }

 private:
  void show(const policies::BatchView& view) {
    double waited = 0, prompt = 0;
    if (!view.waiting.empty()) {
      const policies::Sequence& head = view[view.waiting.front()];
      waited = static_cast<double>((view.now - head.arrived).ticks * view.ps_per_tick) * 1e-12;
      prompt = static_cast<double>(head.prefill_tokens);
    }
    const auto blocks = static_cast<double>(std::max<std::int64_t>(1, view.kv.total_blocks()));
    const double seen[] = {squeezed(static_cast<double>(view.waiting.size())),
                           squeezed(static_cast<double>(view.prefilling.size())),
                           squeezed(static_cast<double>(view.decoding)),
                           std::clamp(1 - static_cast<double>(view.kv.available_blocks()) / blocks, 0.0, 1.0),
                           squeezed(waited),
                           squeezed(prompt),
                           squeezed(static_cast<double>(view.decode_context))};
    std::copy(std::begin(seen), std::end(seen), port_->observation().begin());
  }

  SharedPort port_;
  bool begun_ = false;
  std::vector<std::unique_ptr<policies::Batching>> choices_;
};

}  // namespace

EnvSpec batching_spec(std::int64_t choices) {
  const double endless = std::numeric_limits<double>::infinity();
  AgentSpec agent{.name = "batching", .action = ActionSpace::discrete(choices)};
  for (const char* name : {"waiting", "prefilling", "decoding"}) agent.observation.push_back({name, 0, endless});
  agent.observation.push_back({"kv_share", 0, 1});
  for (const char* name : {"head_waited_s", "head_prompt_tokens", "decode_context"})
    agent.observation.push_back({name, 0, endless});
  return {.agents = {std::move(agent)}};
}

std::unique_ptr<policies::Batching> asking_batching(SharedPort port,
                                                    std::vector<policies::BatchingRegistry::Choice> of) {
  std::vector<std::unique_ptr<policies::Batching>> made;
  for (const auto& choice : of) made.push_back(choice.make());
  return std::make_unique<AskingBatching>(std::move(port), std::move(made));
}

std::vector<policies::BatchingRegistry::Choice> batching_choices(const std::vector<sim::Node>& blocks,
                                                                 const policies::BatchingRegistry& registry) {
  if (blocks.size() == 1) throw std::invalid_argument("expected at least two choices");
  sim::Faults faults;
  std::vector<policies::BatchingRegistry::Choice> choices;
  for (const sim::Node& block : blocks) choices.push_back(registry.parse_block(block, "vllm_v1", faults));
  if (blocks.empty())
    for (const std::string budget : {"256", "512", "2048"}) {
      const sim::Node params = sim::parse_json(R"({"token_budget": )" + budget + "}", "default");
      choices.push_back(registry.prepare("sarathi", &params, {}, faults));
    }
  faults.throw_if_any();
  return choices;
}

void add_serving_batching_env(EnvRegistry& registry) {
  registry.add<ServingBatchingParams>(
      "serving_batching", "Chooses which of several batching policies makes the next batch of a serving run.",
      [](const ServingBatchingParams& params, const Systems& systems) {
        const auto choices = batching_choices(params.choices, systems.registry<policies::BatchingRegistry>());
        const auto spec = [n = std::ssize(choices)](const ServingConfig&) { return batching_spec(n); };
        return std::make_unique<ServingEnv>(
            "serving_batching", params, systems, spec, [choices](ServingConfig& config, const SharedPort& port) {
              for (ReplicaGroup& group : config.groups)
                group.batching.make = [port, choices] { return asking_batching(port, choices); };
            });
      });
}

}  // namespace orrery::experiments::rl
