// conversation: turns of a chat. The prompt of a turn is all that was said before and a new message; between an answer
// and the next message the user thinks.
//
// Numbers of BurstGPT's conversations (arXiv 2401.17644v5, p. 4, and its third part): the median session has 2 turns,
// 75 % have at most 4, the mean is 4.18; think times have a median of 131 s and a P90 of 2,340 s, which a log-normal
// has with sigma = ln(2340 / 131) / 1.2816 = 2.249. Turns are drawn from a mixture: with `one_turn` a single turn, else
// 2 + a geometric number.
#include <algorithm>

#include "experiments/systems/serving/programs/programs.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments {
namespace {

struct ConversationParams {
  double one_turn = 0.36;
  double turns_mean = 4.18;
  double think_median_s = 131, think_sigma = 2.249;
  std::int64_t system_prompt = 0;
  TokenLaw message{120, 1}, output{220, 1};
  std::optional<std::int64_t> most_context;

  static constexpr auto fields() {
    using sim::field;
    using P = ConversationParams;
    return sim::FieldTable{field("one_turn", &P::one_turn, sim::Unit::ratio, sim::between(0, 1),
                                 "Share of sessions that have a single turn."),
                           field("turns_mean", &P::turns_mean, sim::Unit::count, sim::between(1, 1000),
                                 "Mean number of turns of a session."),
                           field("think_median", &P::think_median_s, sim::Unit::seconds, sim::between(0, 1e7),
                                 "Median time between an answer and the user's next message; 0: none."),
                           field("think_sigma", &P::think_sigma, sim::Unit::none, sim::between(0, 5),
                                 "Standard deviation of the logarithm of think times."),
                           field("system_prompt", &P::system_prompt, sim::Unit::tokens, sim::between(0, 1e6),
                                 "Tokens at the start of every prompt that all sessions share."),
                           field("message", &P::message, "Tokens of a message of the user."),
                           field("output", &P::output, "Tokens of an answer."),
                           field("most_context", &P::most_context, sim::Unit::tokens, sim::at_least(1),
                                 "Most tokens of a turn, prompt and answer; a session ends before a turn that would "
                                 "exceed it. null: no limit.")};
  }
};

class Conversation final : public Program {
 public:
  explicit Conversation(const ConversationParams& params) : params_(params) {}

  sim::Task<bool> run(sim::Engine& engine, Client& client) override {
    const std::int64_t turns = draw_turns(client.random);
    Dialogue dialogue;
    dialogue.append(Client::shared(0, params_.system_prompt));
    std::int64_t done = 0;
    for (; done < turns; ++done) {
      const std::int64_t message = params_.message.draw(client.random);
      const std::int64_t output = params_.output.draw(client.random);
      if (params_.most_context && dialogue.tokens() + message + output > *params_.most_context) break;
      if (done > 0 && params_.think_median_s > 0)
        co_await client.wait(engine,
                             params_.think_median_s * sim::det_exp(params_.think_sigma * client.random.normal()));
      dialogue.append(client.fresh(message));
      const bool completed = co_await client.ask(engine, dialogue, output, static_cast<std::int32_t>(done));
      if (!completed) co_return false;
    }
    client.tell("turns", static_cast<double>(done));
    co_return true;
  }

 private:
  /// one_turn: 1; else 2 + G with P(G = k) = (1 - p)^k p, whose mean makes the whole mean turns_mean.
  std::int64_t draw_turns(sim::RandomStream& random) const {
    if (params_.one_turn >= 1 || random.bernoulli(params_.one_turn)) return 1;
    const double more = (params_.turns_mean - params_.one_turn) / (1 - params_.one_turn) - 2;
    if (more <= 0) return 2;
    return 1 + random.geometric(1 / (more + 1));
  }

  ConversationParams params_;
};

}  // namespace

void add_conversation(ProgramRegistry& registry) {
  registry.add<ConversationParams>(
      "conversation", "Turns of a chat, each prompt holding all turns before, with think times.",
      [](const ConversationParams& params) { return std::make_unique<Conversation>(params); });
}

}  // namespace orrery::experiments
