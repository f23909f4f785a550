// tool_agent: an agent that calls tools, after ToolLLM (arXiv 2307.16789). A step is a call of the model (a thought and
// a tool's arguments) and the tool itself, whose observation joins the prompt.
//
// `react`: one chain; a dead end ends it. `dfsdt`: a tree searched depth first: from a dead end the agent goes back to
// the state before the step and tries a sibling, telling it what was tried; after `siblings` of them it goes back one
// state further; it gives up at the root, or past `most_calls`. All branches share the path above them, so a prefix
// cache helps as far as it keeps that path while tools run.
//
// ToolBench has 3.7 tool calls an instance and 4.0 reasoning traces (its README); how often a step is a dead end is not
// published and is a parameter. Whether an answer is right is out of scope: `passed` says that the search came to its
// end.
#include <algorithm>

#include "experiments/systems/serving/programs/programs.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {

enum class AgentSearch : std::uint8_t { react, dfsdt };
constexpr auto enum_names(AgentSearch) {
  using enum AgentSearch;
  return sim::names<AgentSearch>({{"react", react}, {"dfsdt", dfsdt}});
}

namespace {

struct ToolAgentParams {
  AgentSearch search = AgentSearch::react;
  double steps_mean = 4.0, dead_end = 0.2;
  std::int64_t siblings = 3, most_calls = 100;
  std::int64_t instructions = 600;
  TokenLaw tools{1200, 0.5}, question{60, 0.5}, output{80, 0.5}, observation{250, 1}, note{60, 0.3};
  TimeLaw tool_time{1, 1.5};

  static constexpr auto fields() {
    using sim::field;
    using P = ToolAgentParams;
    return sim::FieldTable{
        field("search", &P::search, "How the agent searches. `react`: one chain. `dfsdt`: a tree, depth first."),
        field("steps_mean", &P::steps_mean, sim::Unit::count, sim::between(1, 1000),
              "Mean number of good steps in a row that reach the answer (geometrically distributed)."),
        field("dead_end", &P::dead_end, sim::Unit::ratio, sim::between(0, 1), "Share of steps that lead nowhere."),
        field("siblings", &P::siblings, sim::Unit::count, sim::between(1, 1000),
              "Steps tried from one state before the agent goes back further."),
        field("most_calls", &P::most_calls, sim::Unit::count, sim::between(1, 100'000),
              "Model calls after which the agent gives up."),
        field("instructions", &P::instructions, sim::Unit::tokens, sim::between(0, 1e6),
              "Tokens at the start of every prompt that all agents share."),
        field("tools", &P::tools, "Tokens that describe an agent's tools."),
        field("question", &P::question, "Tokens of the question."),
        field("output", &P::output, "Tokens of a thought together with the arguments of a tool."),
        field("observation", &P::observation, "Tokens that a tool returns."),
        field("note", &P::note, "Tokens that describe a step tried before to its sibling."),
        field("tool_time", &P::tool_time, "Time that a tool takes.")};
  }
};

class ToolAgent final : public Program {
 public:
  explicit ToolAgent(const ToolAgentParams& params) : params_(params) {}

  sim::Task<bool> run(sim::Engine& engine, Client& client) override {
    sim::RandomStream& random = client.random;
    const std::int64_t needed = random.geometric(1 / params_.steps_mean);
    std::vector<Dialogue> path(1);  // the state at each depth
    std::vector<std::int64_t> tried(1, 0);
    path[0].append(Client::shared(0, params_.instructions));
    path[0].append(client.fresh(params_.tools.draw(random)));
    path[0].append(client.fresh(params_.question.draw(random)));
    std::int64_t calls = 0, back = 0;
    bool passed = false;
    while (calls < params_.most_calls) {
      Dialogue state = path.back();
      ++calls;
      const bool completed = co_await client.ask(engine, state, params_.output.draw(random));
      if (!completed) co_return false;
      if (std::ssize(path) > needed) {  // this was the answer
        passed = true;
        break;
      }
      co_await client.wait(engine, params_.tool_time.draw_s(random));
      client.tell("tool_calls", 1);
      state.append(client.fresh(params_.observation.draw(random)));
      if (!random.bernoulli(params_.dead_end)) {
        path.push_back(std::move(state));
        tried.push_back(0);
        continue;
      }
      if (params_.search == AgentSearch::react) break;
      ++back;
      while (!path.empty() && ++tried.back() >= params_.siblings) {
        path.pop_back();
        tried.pop_back();
      }
      if (path.empty()) break;
      path.back().append(client.fresh(params_.note.draw(random)));
    }
    client.tell("model_calls", static_cast<double>(calls));
    client.tell("steps_back", static_cast<double>(back));
    client.tell("passed", passed ? 1 : 0);
    co_return true;
  }

 private:
  ToolAgentParams params_;
};

}  // namespace

void add_tool_agent(ProgramRegistry& registry) {
  registry.add<ToolAgentParams>("tool_agent", "An agent with tools: a chain (ReAct) or a depth-first tree (DFSDT).",
                                [](const ToolAgentParams& params) { return std::make_unique<ToolAgent>(params); });
}

}  // namespace orrery::experiments
