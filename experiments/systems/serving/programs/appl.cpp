// appl: prompt programs with futures, after APPL (arXiv 2406.13161): a call gives a future, the program goes on, and
// waits where it uses the answer. What does not depend on each other runs side by side; with mode `sequential` every
// call ends before the next is sent, as in a program without futures. Both modes draw the same programs.
//
// Patterns: `self_consistency`: n chains of thought for one question, then a vote (no call). `skeleton`: an outline,
// then every point of it side by side. `tree`: tree of thoughts: each of `keep` states proposes n thoughts, each
// thought is rated by a call, the best `keep` go on, `levels` deep. `summary`: n pieces of a text, each summarised;
// then summaries of n at a time, up to one.
//
// summary.json: call_time_s is the time of all calls in a row, critical_path_s the longest chain of calls that need
// each other: their ratio in a sequential run is the speed-up that an estimate without contention promises.
#include <algorithm>
#include <numeric>

#include "experiments/systems/serving/programs/programs.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {

enum class ApplPattern : std::uint8_t { self_consistency, skeleton, tree, summary };
constexpr auto enum_names(ApplPattern) {
  using enum ApplPattern;
  return sim::names<ApplPattern>(
      {{"self_consistency", self_consistency}, {"skeleton", skeleton}, {"tree", tree}, {"summary", summary}});
}

enum class ApplMode : std::uint8_t { futures, sequential };
constexpr auto enum_names(ApplMode) {
  using enum ApplMode;
  return sim::names<ApplMode>({{"futures", futures}, {"sequential", sequential}});
}

namespace {

struct ApplParams {
  ApplPattern pattern = ApplPattern::self_consistency;
  ApplMode mode = ApplMode::futures;
  std::int64_t branches = 10, keep = 2, levels = 3, pieces = 32;
  std::int64_t instructions = 300;
  TokenLaw question{100, 0.5}, thought{150, 0.5}, outline{60, 0.3}, rating{5, 0}, piece{800, 0.3};
  double spawn_s = 0.0005;

  static constexpr auto fields() {
    using sim::field;
    using P = ApplParams;
    constexpr auto kMany = sim::between(1, 4096);
    return sim::FieldTable{
        field("pattern", &P::pattern, "What the program does."),
        field("mode", &P::mode, "Whether calls are futures, or each call ends before the next is sent."),
        field("branches", &P::branches, sim::Unit::count, kMany,
              "Number of chains, points, thoughts per state, or pieces per summary, by pattern."),
        field("keep", &P::keep, sim::Unit::count, kMany, "States of a tree that are kept at each level."),
        field("levels", &P::levels, sim::Unit::count, sim::between(1, 64), "Depth of a tree."),
        field("pieces", &P::pieces, sim::Unit::count, kMany, "Number of pieces of a text to be summarised."),
        field("instructions", &P::instructions, sim::Unit::tokens, sim::between(0, 1e6),
              "Tokens at the start of every prompt that all programs share."),
        field("question", &P::question, "Tokens of a question."),
        field("thought", &P::thought, "Tokens of a chain, a point, a thought or a summary."),
        field("outline", &P::outline, "Tokens of a skeleton."),
        field("rating", &P::rating, "Tokens of a rating."),
        field("piece", &P::piece, "Tokens of a piece of text."),
        field("spawn_time", &P::spawn_s, sim::Unit::seconds, sim::between(0, 10),
              "Time of the program between two calls that it sends.")};
  }
};

class Appl final : public Program {
 public:
  explicit Appl(const ApplParams& params) : params_(params) {}

  sim::Task<bool> run(sim::Engine& engine, Client& client) override {
    client.sequential = params_.mode == ApplMode::sequential;
    Dialogue question;
    question.append(Client::shared(0, params_.instructions));
    bool completed = false;
    switch (params_.pattern) {
      case ApplPattern::self_consistency:
        question.append(client.fresh(params_.question.draw(client.random)));
        completed = co_await self_consistency(engine, client, std::move(question));
        break;
      case ApplPattern::skeleton:
        question.append(client.fresh(params_.question.draw(client.random)));
        completed = co_await skeleton(engine, client, std::move(question));
        break;
      case ApplPattern::tree:
        question.append(client.fresh(params_.question.draw(client.random)));
        completed = co_await tree(engine, client, std::move(question));
        break;
      case ApplPattern::summary:
        completed = co_await summary(engine, client, std::move(question));
        break;
    }
    co_return completed;
  }

 private:
  sim::Task<Future> spawn(sim::Engine& engine, Client& client, Call call) {
    co_await client.wait(engine, params_.spawn_s);
    Future future = co_await client.call(engine, std::move(call));
    co_return future;
  }

  static sim::Task<bool> answers(sim::Engine& engine, Client& client, std::vector<Future>& futures) {
    bool all = true;
    for (Future& future : futures) {
      const bool completed = co_await client.answer(engine, future);
      all = all && completed;
    }
    co_return all;
  }

  sim::Task<bool> self_consistency(sim::Engine& engine, Client& client, Dialogue question) {
    std::vector<Future> chains;
    for (std::int64_t i = 0; i < params_.branches; ++i) {
      Future chain = co_await spawn(engine, client, question.ask(params_.thought.draw(client.random)));
      chains.push_back(std::move(chain));
    }
    const bool completed = co_await answers(engine, client, chains);
    co_return completed;
  }

  sim::Task<bool> skeleton(sim::Engine& engine, Client& client, Dialogue question) {
    const bool outlined = co_await client.ask(engine, question, params_.outline.draw(client.random));
    if (!outlined) co_return false;
    std::vector<Future> points;
    for (std::int64_t i = 0; i < params_.branches; ++i) {
      Dialogue point = question;
      point.append(client.fresh(10));  // which point to expand
      Future future = co_await spawn(engine, client, point.ask(params_.thought.draw(client.random), 1));
      points.push_back(std::move(future));
    }
    const bool completed = co_await answers(engine, client, points);
    co_return completed;
  }

  sim::Task<bool> tree(sim::Engine& engine, Client& client, Dialogue question) {
    std::vector<Dialogue> states{std::move(question)};
    for (std::int64_t level = 0; level < params_.levels; ++level) {
      std::vector<Dialogue> next;
      std::vector<Future> thoughts, ratings;
      for (const Dialogue& state : states) {
        for (std::int64_t i = 0; i < params_.branches; ++i) {
          Future thought = co_await spawn(engine, client, state.ask(params_.thought.draw(client.random)));
          thoughts.push_back(std::move(thought));
          next.push_back(state);
        }
      }
      const bool thought = co_await answers(engine, client, thoughts);
      if (!thought) co_return false;
      for (std::size_t i = 0; i < next.size(); ++i) {
        next[i].append(thoughts[i].output());
        Dialogue rated = next[i];
        rated.append(Client::shared(1, 30));  // how to rate
        Future rating = co_await spawn(engine, client, rated.ask(params_.rating.draw(client.random), 1));
        ratings.push_back(std::move(rating));
      }
      const bool rated = co_await answers(engine, client, ratings);
      if (!rated) co_return false;
      client.random.shuffle(std::span(next));  // which are best is not the simulator's to know
      next.resize(std::min(next.size(), static_cast<std::size_t>(params_.keep)));
      states = std::move(next);
    }
    co_return true;
  }

  sim::Task<bool> summary(sim::Engine& engine, Client& client, Dialogue instructions) {
    std::vector<policies::TextSpan> texts;
    for (std::int64_t i = 0; i < params_.pieces; ++i) texts.push_back(client.fresh(params_.piece.draw(client.random)));
    std::size_t at_a_time = 1;  // pieces first, then summaries
    while (at_a_time == 1 || texts.size() > 1) {
      std::vector<Future> futures;
      for (std::size_t i = 0; i < texts.size(); i += at_a_time) {
        Dialogue prompt = instructions;
        for (std::size_t k = i; k < std::min(texts.size(), i + at_a_time); ++k) prompt.append(texts[k]);
        Future future = co_await spawn(engine, client, prompt.ask(params_.thought.draw(client.random)));
        futures.push_back(std::move(future));
      }
      const bool completed = co_await answers(engine, client, futures);
      if (!completed) co_return false;
      texts.clear();
      for (const Future& future : futures) texts.push_back(future.output());
      at_a_time = static_cast<std::size_t>(std::max<std::int64_t>(2, params_.branches));
    }
    co_return true;
  }

  ApplParams params_;
};

}  // namespace

void add_appl(ProgramRegistry& registry) {
  registry.add<ApplParams>("appl",
                           "Prompt programs with futures: self-consistency, skeleton, tree of thoughts, summaries.",
                           [](const ApplParams& params) { return std::make_unique<Appl>(params); });
}

}  // namespace orrery::experiments
