// Evolution of a policy's weights by CMA-ES (Heidrich-Meisner and Igel 2009, "Neuroevolution strategies for episodic
// reinforcement learning"): no gradients and no values, the return of whole episodes decides.
//
// A generation is `population` sets of weights; each plays `episodes` episodes, acting greedily, in whichever
// environment is free, and the mean return ranks them. The policy is the mean of the distribution. For few weights and
// returns that say much, such as the metric of a whole run: a network without hidden layers judges each choice by a
// weighted sum. Observations are scaled by what the first generation saw.
#include <algorithm>

#include "experiments/rl/core/action_head.hpp"
#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/core/reading.hpp"
#include "experiments/search/cma.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::rl {
namespace {

struct EvolutionParams {
  NetworkParams network{.hidden = {}};
  std::int64_t population = 0, episodes = 4;
  double sigma = 0.5;
  bool same_draws = false;

  static constexpr auto fields() {
    using P = EvolutionParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("network", &P::network, "Network of the policy."),
        sim::field(
            "population", &P::population, Unit::count, sim::between(0, 10'000),
            "Sets of weights per generation; 0: 4 + 3 ln(weights), rounded up to a multiple of the environments."),
        sim::field("episodes", &P::episodes, Unit::count, sim::between(1, 10'000),
                   "Episodes by which each set of weights is judged."),
        sim::field("sigma", &P::sigma, Unit::none, sim::positive(), "Initial standard deviation of a weight."),
        sim::field("same_draws", &P::same_draws,
                   "Whether all sets of weights of a generation play the same episodes, so that none is ranked by "
                   "luck."),
    };
  }
};

/// A set of weights under way: its draw, and what it got.
struct Candidate {
  VectorXd step;
  double sum = 0;
  std::int64_t begun = 0, ended = 0;
  void state(Archive& archive) {
    std::vector<double> numbers(step.data(), step.data() + step.size());
    archive(numbers, sum, begun, ended);
    step = Eigen::Map<const VectorXd>(numbers.data(), std::ssize(numbers));
  }
};

class Evolution final : public Learner {
 public:
  Evolution(const EvolutionParams& params, const LearnerSetup& setup)
      : params_(params),
        setup_(setup),
        reading_(setup.spec.agents[0]),
        head_(setup.spec.agents[0].action),
        normaliser_(reading_.inputs()),
        net_(reading_.inputs(), params.network, reading_.per_choice > 0 ? 1 : head_.outputs(),
             setup.random.child("network"), 0),
        whose_(setup.envs, kNobody),
        returns_(setup.envs, 0.0) {
    const auto weights = static_cast<double>(net_.parameters().size());
    std::size_t lambda = params.population > 0 ? static_cast<std::size_t>(params.population)
                                               : 4 + static_cast<std::size_t>(3 * sim::det_log(weights));
    if (params.population == 0) lambda = (lambda + setup.envs - 1) / setup.envs * setup.envs;
    cma_ = search::CmaDistribution(net_.parameters(), params.sigma, lambda);
    begin();
  }

  void act(const View& view, Act how, std::span<double> actions) override {
    const Eigen::Map<const MatrixXd> rows(view.observations.data(), reading_.width, static_cast<Index>(view.n));
    const std::size_t mask_width = view.masks.empty() ? 0 : head_.space().all_choices();
    const MatrixXd apart = reading_.apart(rows);
    if (how == Act::explore && generation_ == 0) normaliser_.add(apart);
    const MatrixXd seen = generation_ == 0 && how == Act::explore ? apart : normaliser_.apply(apart);
    std::vector<double> raw(head_.space().parts());
    for (std::size_t i = 0; i < view.n; ++i) {
      net_.parameters() = cma_.mean();
      if (how == Act::explore) {
        if (whose_[i] == kNobody) whose_[i] = next();
        if (whose_[i] != kSpare) net_.parameters() += cma_.sigma() * candidates_[whose_[i]].step;
      }
      const Index columns = seen.cols() / static_cast<Index>(view.n);
      const MatrixXd out = reading_.outputs(net_.forward(seen.middleCols(static_cast<Index>(i) * columns, columns)));
      head_.mode(out.data(), mask_width == 0 ? nullptr : view.masks.data() + i * mask_width, raw.data());
      head_.to_action(raw.data(), actions.data() + i * raw.size());
    }
  }

  void learn(const Experience& experience) override {
    for (std::size_t i = 0; i < experience.before.n; ++i) {
      returns_[i] += experience.rewards[i];
      if (experience.terminated[i] == 0 && experience.truncated[i] == 0) continue;
      const double got = std::exchange(returns_[i], 0.0);
      const std::size_t who = std::exchange(whose_[i], kNobody);
      if (who >= candidates_.size()) continue;  // a spare episode: the generation had none left
      candidates_[who].sum += got;
      ++candidates_[who].ended;
    }
    const auto done = [&](const Candidate& one) { return one.ended == params_.episodes; };
    if (std::all_of(candidates_.begin(), candidates_.end(), done)) improve();
  }

  void state(Archive& archive) override {
    std::vector<std::uint64_t> whose(whose_.begin(), whose_.end());
    archive(normaliser_, cma_, candidates_, whose, returns_, generation_, best_);
    whose_.assign(whose.begin(), whose.end());
  }
  void policy(Archive& archive) override { archive(normaliser_, cma_, generation_); }
  bool draws() const override { return params_.same_draws; }
  std::uint64_t draw(std::size_t env) override {
    whose_[env] = next();
    const std::int64_t begun = whose_[env] < candidates_.size() ? candidates_[whose_[env]].begun : params_.episodes;
    return static_cast<std::uint64_t>(generation_ * params_.episodes + begun - 1);
  }
  std::vector<std::pair<std::string, double>> figures() const override {
    return {{"generation", static_cast<double>(generation_)}, {"sigma", cma_.sigma()}, {"best_of_generation", best_}};
  }

 private:
  static constexpr std::size_t kNobody = SIZE_MAX, kSpare = SIZE_MAX - 1;

  void begin() {
    candidates_.assign(cma_.lambda(), {});
    sim::RandomStream random = setup_.random.child("generation").child(static_cast<std::uint64_t>(generation_));
    for (Candidate& one : candidates_) one.step = cma_.draw(random);
    for (std::size_t& who : whose_)
      if (who != kNobody) who = kSpare;  // episodes under way were of the last generation
  }
  /// Who plays the next episode: candidates by turns.
  std::size_t next() {
    std::size_t least = kSpare;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].begun < params_.episodes &&
          (least == kSpare || candidates_[i].begun < candidates_[least].begun))
        least = i;
    if (least != kSpare) ++candidates_[least].begun;
    return least;
  }
  void improve() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.sum > b.sum; });
    best_ = candidates_[0].sum / static_cast<double>(params_.episodes);
    std::vector<VectorXd> steps;
    for (Candidate& one : candidates_) steps.push_back(std::move(one.step));
    cma_.learn(steps, VectorXd::Ones(cma_.mean().size()));
    ++generation_;
    begin();
  }

  EvolutionParams params_;
  LearnerSetup setup_;
  Reading reading_;
  ActionHead head_;
  Normaliser normaliser_;
  Mlp net_;
  search::CmaDistribution cma_{VectorXd::Zero(1), 1, 2};
  std::vector<Candidate> candidates_;
  std::vector<std::size_t> whose_;  ///< of each environment: a place among the candidates
  std::vector<double> returns_;     ///< of each environment's episode so far
  std::int64_t generation_ = 0;
  double best_ = 0;
};

}  // namespace

void add_evolution_learner(LearnerRegistry& registry) {
  registry.add<EvolutionParams>(
      "evolution", "Evolves the weights of a policy by CMA-ES on the return of whole episodes.",
      [](const EvolutionParams& p, const LearnerSetup& setup) {
        require_own_steps(setup, "evolution");
        return learner_per_agent(setup, [&p](const LearnerSetup& own) { return std::make_unique<Evolution>(p, own); });
      });
}

}  // namespace orrery::experiments::rl
