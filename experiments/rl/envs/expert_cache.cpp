// Expert caches: the learner chooses which expert of a layer makes room in fast memory.
//
// An episode is a stretch of a router trace played through the slots of one layer, as `orrery experts cache` plays it
// (experts of a token are looked up together; those in use stay). The seed chooses layer, stretch and slots; of a
// generator it draws the trace. The learner sees of every expert that may go: requests since it was last asked for or
// loaded, those between the last two that asked for it, how often it was asked for, and how often of late (a request
// that lies 64 or 512 requests back counts 1/e). Counts are ln(1 + x). Experts that may not go are masked, and 0. All
// experts have the same entries, so that a learner may judge each by one rule (AgentSpec::per_choice). The reward of a
// step is what was loaded since the step before as a share of the misses of a rule in the same episode, negated: an
// episode's return is -1 where as many are missing. The figure `gain` is the share by which fewer are.
#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "experiments/experts/cache_trial.hpp"
#include "experiments/rl/envs/training_port.hpp"
#include "policies/experts/expert_history.hpp"
#include "traces/router/generator.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr const char* kOfExpert[] = {"age", "gap", "times", "recent", "recent_long"};
constexpr std::size_t kEntries = std::size(kOfExpert);
constexpr std::int64_t kMostDraws = std::int64_t{1} << 27;  ///< of an episode, which takes some 4 s

struct ExpertCacheEnvParams {
  std::string trace;
  traces::RouterGenerator generator;
  std::int64_t tokens = 256;
  std::vector<std::int64_t> slots{32};
  sim::Node rule;

  static constexpr auto fields() {
    using P = ExpertCacheEnvParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("trace", &P::trace, Unit::path, sim::any_value(),
                   "Router trace that episodes are parts of; empty: each is drawn by `generator`."),
        sim::field("generator", &P::generator,
                   "Generator of router traces, if there is no `trace`. An episode is one layer of `tokens` tokens, "
                   "whatever its own `tokens` and `layers` say."),
        sim::field("tokens", &P::tokens, Unit::tokens, sim::between(1, 1'000'000), "Tokens of an episode."),
        sim::field("slots", &P::slots, Unit::count, sim::between(1, traces::kMostExpertsOfLayer),
                   "Numbers of slots for experts of the layer, one of which the seed chooses for an episode."),
        sim::field("rule", &P::rule,
                   "Expert cache, as a policy block, whose misses are the unit of rewards and whose evictions are the "
                   "advice; default: lru."),
    };
  }
};

/// Slots that would hold every expert.
double slots_of_all(const policies::ExpertCacheSetup& setup) {
  if (setup.sizes.empty()) return static_cast<double>(setup.experts);
  return static_cast<double>(std::accumulate(setup.sizes.begin(), setup.sizes.end(), std::int64_t{0}));
}

class AskingExpertCache final : public policies::ExpertCache {
 public:
  AskingExpertCache(SharedPort port, const policies::ExpertCacheSetup& setup,
                    std::unique_ptr<policies::ExpertCache> rule)
      : port_(std::move(port)),
        rule_(std::move(rule)),
        near_(setup, 64, false),
        far_(setup, 512, false),
        share_(static_cast<double>(setup.slots) / slots_of_all(setup)) {
    port_->begin(expert_cache_spec(setup.experts));
  }

  void ask(const policies::ExpertRequest& request) override {
    near_.ask(request);
    far_.ask(request);
    if (rule_ != nullptr) rule_->ask(request);
  }
  void loaded(std::uint16_t expert) override {
    near_.loaded(expert);
    far_.loaded(expert);
    if (rule_ != nullptr) rule_->loaded(expert);
    port_->add_reward(-1);
  }
  std::uint16_t evict(std::span<const std::uint16_t> experts) override {
    const std::span<double> seen = port_->observation();
    const std::span<std::uint8_t> mask = port_->mask();
    std::fill(mask.begin(), mask.end(), std::uint8_t{0});
    std::fill(seen.begin(), seen.end(), 0.0);
    for (const std::uint16_t e : experts) {
      mask[e] = 1;
      const double of_it[kEntries] = {squeezed(far_.age(e)), squeezed(far_.gap(e)), squeezed(far_.times(e)),
                                      squeezed(near_.recent(e)), squeezed(far_.recent(e))};
      std::copy(std::begin(of_it), std::end(of_it), seen.begin() + static_cast<std::ptrdiff_t>(e * kEntries));
    }
    seen[mask.size() * kEntries] = share_;
    if (const std::span<double> advice = port_->advice(); rule_ != nullptr && !advice.empty())
      advice[0] = static_cast<double>(rule_->evict(experts));
    return static_cast<std::uint16_t>(port_->ask({})[0]);
  }

 private:
  SharedPort port_;
  std::unique_ptr<policies::ExpertCache> rule_;
  policies::ExpertHistory near_, far_;
  double share_;
};

class ExpertCacheEnv final : public Env {
 public:
  ExpertCacheEnv(const ExpertCacheEnvParams& params, const Systems& systems) : params_(params) {
    if (params_.slots.empty()) throw std::invalid_argument("expected at least one number of 'slots'");
    sim::Faults faults;
    const auto& registry = systems.registry<policies::ExpertCacheRegistry>();
    rule_ = params.rule.is_object() ? registry.parse_block(params.rule, "lru", faults)
                                    : registry.prepare("lru", nullptr, {}, faults);
    faults.throw_if_any();
    read_or_check_trace();
    check_rule();
    spec_ = expert_cache_spec(params.trace.empty() ? params.generator.experts : trace_.experts);
    spec_.info = {"hit_rate", "gain"};
    spec_.rule = rule_.name;
  }
  ~ExpertCacheEnv() override { port_->stop(); }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    port_->stop();
    if (drawn_seed_ != seed) {  // learners whose episodes share draws ask for the same ones again
      drawn_seed_.reset();      // should this throw
      sim::RandomStream random(seed, "rl/expert_cache");
      draw_episode(random, seed);
      trial_ = {.slots = params_.slots[random.below(params_.slots.size())]};
      unit_ = static_cast<double>(std::max<std::int64_t>(1, play_layer(episode_, 0, rule_, trial_).misses));
      drawn_seed_ = seed;
    }
    policies::ExpertCacheRegistry::Choice learner;
    learner.make = [this](const policies::ExpertCacheSetup& setup) {
      return asking_expert_cache(port_, setup, rule_.make(setup));
    };
    port_->start([this, learner] { counts_ = play_layer(episode_, 0, learner, trial_); });
    advance(out);
    out.rewards[0] = paid_ = 0;  // nothing has been decided: the end pays for it
  }

  void step(std::span<const double> action, TimeStep& out) override {
    port_->act(action);
    advance(out);
  }

 private:
  void read_or_check_trace() {
    if (!params_.trace.empty()) {
      trace_ = traces::read_router_trace(params_.trace);
      if (trace_.tokens() < params_.tokens)
        throw std::invalid_argument("expected a trace of at least as many tokens as an episode has ('tokens')");
      return;
    }
    sim::Faults faults;
    traces::check_router_generator(sim::Node::object(), drawn(), faults);
    if (!faults.empty()) throw std::invalid_argument("generator: " + faults.all().front().message);
    if (params_.tokens * params_.generator.experts > kMostDraws)
      throw std::invalid_argument("expected at most 2^27 tokens times experts of an episode that is drawn");
  }
  /// The rule must say who goes whenever somebody comes, from what an episode shows.
  void check_rule() const {
    const bool drawn_trace = params_.trace.empty();
    const std::int64_t experts = drawn_trace ? params_.generator.experts : trace_.experts;
    const std::int64_t top_k = drawn_trace ? params_.generator.top_k : trace_.top_k;
    const std::vector<traces::ExpertId> some(static_cast<std::size_t>(top_k), 0);
    const bool scores =
        drawn_trace ? params_.generator.scores != traces::RouterScores::none : !trace_.layers.front().scores.empty();
    const policies::ExpertCacheSetup setup{.experts = experts,
                                           .slots = std::min(params_.slots.front(), experts),
                                           .top_k = top_k,
                                           .future = some,
                                           .scores = scores};
    std::unique_ptr<policies::ExpertCache> rule;
    try {
      rule = rule_.make(setup);
    } catch (const sim::ConfigError& error) {
      throw std::invalid_argument("rule: " + error.faults().front().message);
    }
    if (!rule->admits(0) || rule->bypasses())
      throw std::invalid_argument("expected a 'rule' that says who goes whenever an expert comes, got '" + rule_.name +
                                  "'");
  }

  traces::RouterGenerator drawn() const {
    traces::RouterGenerator generator = params_.generator;
    generator.tokens = params_.tokens;
    generator.layers = 1;
    return generator;
  }

  void draw_episode(sim::RandomStream& random, std::uint64_t seed) {
    if (params_.trace.empty()) {
      episode_ = traces::generate_router_trace(drawn(), seed);
      return;
    }
    const std::size_t layer = random.below(trace_.layers.size());
    const auto first =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(trace_.tokens() - params_.tokens + 1)));
    const traces::RouterLayer& from = trace_.layers[layer];
    const auto choices = trace_.choices(layer, first, first + params_.tokens);
    traces::RouterLayer part{.layer = from.layer, .choices = {choices.begin(), choices.end()}, .scores = {}};
    if (!from.scores.empty())
      part.scores.assign(from.scores.begin() + first * trace_.experts,
                         from.scores.begin() + (first + params_.tokens) * trace_.experts);
    episode_ = {.experts = trace_.experts, .top_k = trace_.top_k, .layers = {std::move(part)}};
  }

  void advance(TimeStep& out) {
    clear_step(spec_, out);
    out.terminated = !port_->go_on(out);
    out.rewards[0] = port_->reward() / unit_;
    paid_ -= out.rewards[0];
    if (!out.terminated) return;
    const double all = static_cast<double>(counts_.misses) / unit_;
    out.rewards[0] -= all - paid_;  // what came before the first decision, or found no slot
    out.info = {counts_.hit_rate(), 1 - all};
  }

  ExpertCacheEnvParams params_;
  policies::ExpertCacheRegistry::Choice rule_;
  traces::RouterTrace trace_, episode_;
  EnvSpec spec_;
  std::optional<std::uint64_t> drawn_seed_;  ///< of episode_, trial_ and unit_
  CacheTrial trial_;
  double unit_ = 1;  ///< misses of the rule in this episode
  double paid_ = 0;  ///< sum of rewards so far, negated
  policies::ExpertCounts counts_;
  std::shared_ptr<TrainingPort> port_ = std::make_shared<TrainingPort>();
};

}  // namespace

EnvSpec expert_cache_spec(std::int64_t experts) {
  const double endless = std::numeric_limits<double>::infinity();
  AgentSpec agent{.name = "cache", .action = ActionSpace::discrete(experts), .per_choice = kEntries};
  for (std::int64_t e = 0; e < experts; ++e)
    for (const char* name : kOfExpert)
      agent.observation.push_back({std::string(name) + "_" + std::to_string(e), 0, endless});
  agent.observation.push_back({"slots_share", 0, 1});
  return {.agents = {std::move(agent)}, .masked = true};
}

std::unique_ptr<policies::ExpertCache> asking_expert_cache(SharedPort port, const policies::ExpertCacheSetup& setup,
                                                           std::unique_ptr<policies::ExpertCache> rule) {
  return std::make_unique<AskingExpertCache>(std::move(port), setup, std::move(rule));
}

void add_expert_cache_env(EnvRegistry& registry) {
  registry.add<ExpertCacheEnvParams>(
      "expert_cache", "Chooses which expert of a mixture-of-experts layer makes room for another in fast memory.",
      [](const ExpertCacheEnvParams& params, const Systems& systems) {
        return std::make_unique<ExpertCacheEnv>(params, systems);
      });
}

}  // namespace orrery::experiments::rl
