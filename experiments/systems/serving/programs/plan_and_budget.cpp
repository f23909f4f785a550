// plan_and_budget: reasoning as a plan and a chain of sub-questions, each with a cap on its tokens, after
// Plan-and-Budget (arXiv 2505.16122). A sub-question would take as many tokens as it likes (a log-normal draw); the
// schedule cuts it.
//
// Schedules: `none`; `global`: one budget for all, used up in order; `uniform`, `linear`, `polynomial`, `exponential`,
// `cosine`: the budget split over the m sub-questions by weights that fall from the first to the last:
//   linear m - i, polynomial (m - i)^power, exponential decay^i, cosine (1 + cos(pi i / m)) / 2, i = 0 … m - 1,
// each times the sub-question's estimated difficulty where `by_difficulty` is set (its wish, off by a log-normal
// error). What a cut answer is worth is not modelled; `tokens_wanted` over `tokens_used` says how much was cut.
#include <algorithm>

#include "experiments/systems/serving/programs/programs.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/math.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments {

enum class BudgetSchedule : std::uint8_t { none, global, uniform, linear, polynomial, exponential, cosine };
constexpr auto enum_names(BudgetSchedule) {
  using enum BudgetSchedule;
  return sim::names<BudgetSchedule>({{"none", none},
                                     {"global", global},
                                     {"uniform", uniform},
                                     {"linear", linear},
                                     {"polynomial", polynomial},
                                     {"exponential", exponential},
                                     {"cosine", cosine}});
}

namespace {

struct PlanAndBudgetParams {
  BudgetSchedule schedule = BudgetSchedule::none;
  std::int64_t budget = 2000, least = 16;
  double power = 2, decay = 0.8;
  bool by_difficulty = false;
  double difficulty_error = 0.3;
  TokenLaw questions{5, 0.3}, question{150, 0.5}, plan{120, 0.3}, thinking{600, 0.8}, final_answer{80, 0.3};

  static constexpr auto fields() {
    using sim::field;
    using P = PlanAndBudgetParams;
    return sim::FieldTable{
        field("schedule", &P::schedule, "How the budget is divided among the sub-questions."),
        field("budget", &P::budget, sim::Unit::tokens, sim::between(1, 1e8),
              "Tokens for all sub-questions of a query."),
        field("least", &P::least, sim::Unit::tokens, sim::between(1, 1e6), "Lowest cap of a sub-question."),
        field("power", &P::power, sim::Unit::none, sim::between(0, 20), "Exponent of the polynomial schedule."),
        field("decay", &P::decay, sim::Unit::ratio, sim::between(0.01, 1),
              "Factor of the exponential schedule from one sub-question to the next."),
        field("by_difficulty", &P::by_difficulty,
              "Whether weights are multiplied by the estimated difficulty of the sub-question."),
        field("difficulty_error", &P::difficulty_error, sim::Unit::none, sim::between(0, 5),
              "Standard deviation of the logarithm of the estimated difficulty."),
        field("questions", &P::questions, "Number of sub-questions of a query."),
        field("question", &P::question, "Tokens of a query."),
        field("plan", &P::plan, "Tokens of the plan."),
        field("thinking", &P::thinking, "Tokens that a sub-question would take without a cap."),
        field("final_answer", &P::final_answer, "Tokens of the final answer.")};
  }
};

class PlanAndBudget final : public Program {
 public:
  explicit PlanAndBudget(const PlanAndBudgetParams& params) : params_(params) {}

  sim::Task<bool> run(sim::Engine& engine, Client& client) override {
    sim::RandomStream& random = client.random;
    const std::int64_t questions = params_.questions.draw(random);
    std::vector<std::int64_t> wishes;
    std::vector<double> difficulty;
    for (std::int64_t i = 0; i < questions; ++i) {
      wishes.push_back(params_.thinking.draw(random));
      difficulty.push_back(static_cast<double>(wishes.back()) *
                           sim::det_exp(params_.difficulty_error * random.normal()));
    }
    const std::vector<std::int64_t> tokens = cut(wishes, difficulty);
    Dialogue dialogue;
    dialogue.append(client.fresh(params_.question.draw(random)));
    bool completed = co_await client.ask(engine, dialogue, params_.plan.draw(random));
    for (std::size_t i = 0; completed && i < tokens.size(); ++i) {
      client.tell("tokens_wanted", static_cast<double>(wishes[i]));
      client.tell("tokens_used", static_cast<double>(tokens[i]));
      dialogue.append(client.fresh(20));  // the sub-question
      completed = co_await client.ask(engine, dialogue, tokens[i], 1);
    }
    if (!completed) co_return false;
    completed = co_await client.ask(engine, dialogue, params_.final_answer.draw(random), 2);
    co_return completed;
  }

 private:
  double weight(std::size_t i, std::size_t m) const {
    const auto left = static_cast<double>(m - i);
    switch (params_.schedule) {
      case BudgetSchedule::linear:
        return left;
      case BudgetSchedule::polynomial:
        return sim::det_pow(left, params_.power);
      case BudgetSchedule::exponential:
        return sim::det_pow(params_.decay, static_cast<double>(i));
      case BudgetSchedule::cosine:
        // cos(x) = sin(x + pi / 2)
        return (1 + sim::det_sin(3.141592653589793 * (static_cast<double>(i) / static_cast<double>(m) + 0.5))) / 2;
      default:
        return 1;
    }
  }

  std::vector<std::int64_t> cut(const std::vector<std::int64_t>& wishes, const std::vector<double>& difficulty) const {
    std::vector<std::int64_t> tokens = wishes;
    const std::size_t m = wishes.size();
    if (params_.schedule == BudgetSchedule::none) return tokens;
    if (params_.schedule == BudgetSchedule::global) {
      std::int64_t left = params_.budget;
      for (std::int64_t& t : tokens) {
        t = std::min(t, std::max(params_.least, left));
        left -= t;
      }
      return tokens;
    }
    std::vector<double> weights(m);
    double sum = 0;
    for (std::size_t i = 0; i < m; ++i) sum += weights[i] = weight(i, m) * (params_.by_difficulty ? difficulty[i] : 1);
    for (std::size_t i = 0; i < m; ++i) {
      const std::int64_t cap = traces::to_tokens(static_cast<double>(params_.budget) * weights[i] / sum);
      tokens[i] = std::min(tokens[i], std::max(params_.least, cap));
    }
    return tokens;
  }

  PlanAndBudgetParams params_;
};

}  // namespace

void add_plan_and_budget(ProgramRegistry& registry) {
  registry.add<PlanAndBudgetParams>(
      "plan_and_budget", "A plan, then sub-questions whose tokens are capped by a schedule.",
      [](const PlanAndBudgetParams& params) { return std::make_unique<PlanAndBudget>(params); });
}

}  // namespace orrery::experiments
