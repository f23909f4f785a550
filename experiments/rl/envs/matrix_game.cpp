// Matrix games: two players choose at once, a table pays. The hard cases of cooperation in the smallest form.
//
// An episode is `rounds` rounds; each player sees what both chose in the round before (one-hot, zeros at first).
// - climbing: shared; 11 is reached only by both changing at once past -30 (Claus and Boutilier, "The dynamics of
//   reinforcement learning in cooperative multiagent systems", AAAI 1998, which gives climbing and penalty, k = -100
//   there and a parameter here)
// - penalty: shared; two best corners that must not be mixed
// - matching: shared; 1 for the same choice, else 0
// - dilemma: own rewards; the prisoner's dilemma with 3, 0, 5, 1
#include <array>

#include "experiments/rl/core/env.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments::rl {
namespace {

enum class Game : std::uint8_t { climbing, penalty, matching, dilemma };
constexpr auto enum_names(Game) {
  using enum Game;
  return sim::names<Game>({{"climbing", climbing}, {"penalty", penalty}, {"matching", matching}, {"dilemma", dilemma}});
}

struct MatrixGameParams {
  Game game = Game::climbing;
  double penalty = -100;
  std::int64_t rounds = 1;

  static constexpr auto fields() {
    using P = MatrixGameParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("game", &P::game, "Payoff table of the game."),
        sim::field("penalty", &P::penalty, Unit::none, sim::any_value(),
                   "Payoff of the wrong corners in the game `penalty`."),
        sim::field("rounds", &P::rounds, Unit::count, sim::between(1, 1e6), "Rounds of an episode."),
    };
  }
};

using Table = std::vector<std::vector<double>>;  // of the first player: its choice, then the other's

Table table_of(const MatrixGameParams& params) {
  const double k = params.penalty;
  switch (params.game) {
    case Game::climbing:
      return {{11, -30, 0}, {-30, 7, 6}, {0, 0, 5}};
    case Game::penalty:
      return {{10, 0, k}, {0, 2, 0}, {k, 0, 10}};
    case Game::matching:
      return {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    case Game::dilemma:
      return {{3, 0}, {5, 1}};
  }
  return {};
}

class MatrixGame final : public Env {
 public:
  explicit MatrixGame(const MatrixGameParams& params) : params_(params), table_(table_of(params)) {
    for (const char* name : {"row", "column"}) {
      AgentSpec agent{.name = name, .action = ActionSpace::discrete(choices())};
      for (const char* who : {"own", "other"})
        for (std::int64_t i = 0; i < choices(); ++i) agent.observation.push_back({who + std::to_string(i), 0, 1});
      spec_.agents.push_back(std::move(agent));
    }
    spec_.shared_reward = params.game != Game::dilemma;
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t, TimeStep& out) override {
    round_ = 0;
    clear_step(spec_, out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const auto n = static_cast<std::size_t>(choices());
    const std::array<std::size_t, 2> chosen{static_cast<std::size_t>(action[0]), static_cast<std::size_t>(action[1])};
    clear_step(spec_, out);
    for (std::size_t player = 0; player < 2; ++player) {
      out.observation[2 * n * player + chosen[player]] = 1;
      out.observation[2 * n * player + n + chosen[1 - player]] = 1;
    }
    out.rewards[0] = table_[chosen[0]][chosen[1]];
    out.rewards[1] = spec_.shared_reward ? out.rewards[0] : table_[chosen[1]][chosen[0]];
    out.terminated = ++round_ >= params_.rounds;
  }

 private:
  std::int64_t choices() const { return static_cast<std::int64_t>(table_.size()); }

  MatrixGameParams params_;
  Table table_;
  EnvSpec spec_;
  std::int64_t round_ = 0;
};

}  // namespace

void add_matrix_game_env(EnvRegistry& registry) {
  registry.add<MatrixGameParams>(
      "matrix_game", "Two players choose at the same time, and a table gives the payoff.",
      [](const MatrixGameParams& params, const Systems&) { return std::make_unique<MatrixGame>(params); });
}

}  // namespace orrery::experiments::rl
