// opus: business workflows whose tasks are done by the model, by tools or by people, after Opus (arXiv 2412.00573). A
// workflow is a row of stages; every stage has `alternatives`, each of a class with a time and a price; going from one
// alternative to the next has a price too. The path is chosen before the start over
//   weight = time + price_weight x price,
// as the shortest path through the layered graph, the cheapest next step each time (`greedy`), or at random. Tools and
// people are pools of servers (first come, first served), so what is planned without queues meets them.
//
// The paper gives no figures of time; nothing here is fitted. A task of the model is `parallel_calls` calls side by
// side.
#include <algorithm>

#include "experiments/systems/serving/programs/programs.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {

enum class PathChoice : std::uint8_t { shortest, greedy, random };
constexpr auto enum_names(PathChoice) {
  using enum PathChoice;
  return sim::names<PathChoice>({{"shortest", shortest}, {"greedy", greedy}, {"random", random}});
}

namespace {

struct OpusParams {
  PathChoice path = PathChoice::shortest;
  std::int64_t stages = 6, alternatives = 3, parallel_calls = 2, people = 10, tool_servers = 20;
  double people_share = 0.2, tool_share = 0.3, price_weight = 1;
  TimeLaw people_time{1800, 1}, tool_time{5, 1};
  double model_time_s = 10, people_price = 20, tool_price = 1, model_price = 2, step_price = 5;
  TokenLaw prompt{800, 0.7}, output{250, 0.7};

  static constexpr auto fields() {
    using sim::field;
    using P = OpusParams;
    constexpr auto kMany = sim::between(1, 10'000);
    constexpr auto kShare = sim::between(0, 1);
    constexpr auto kPrice = sim::between(0, 1e9);
    return sim::FieldTable{
        field("path", &P::path, "How the path through the alternatives is chosen."),
        field("stages", &P::stages, sim::Unit::count, kMany, "Number of tasks in a row."),
        field("alternatives", &P::alternatives, sim::Unit::count, kMany, "Number of alternatives for each task."),
        field("parallel_calls", &P::parallel_calls, sim::Unit::count, kMany,
              "Parallel calls of a task that the model does."),
        field("people", &P::people, sim::Unit::count, kMany, "People."),
        field("tool_servers", &P::tool_servers, sim::Unit::count, kMany, "Number of servers for tools."),
        field("people_share", &P::people_share, sim::Unit::ratio, kShare, "Share of alternatives that people do."),
        field("tool_share", &P::tool_share, sim::Unit::ratio, kShare,
              "Share of alternatives that tools do; the model does the rest."),
        field("price_weight", &P::price_weight, sim::Unit::none, kPrice,
              "Seconds that one unit of price counts as in the choice of a path."),
        field("people_time", &P::people_time, "Time that a person takes for a task."),
        field("tool_time", &P::tool_time, "Time that a tool takes for a task."),
        field("model_time", &P::model_time_s, sim::Unit::seconds, sim::between(0, 1e6),
              "Time of a task of the model as planned; the simulation decides how long it really takes."),
        field("people_price", &P::people_price, sim::Unit::none, kPrice, "Price of a task that a person does."),
        field("tool_price", &P::tool_price, sim::Unit::none, kPrice, "Price of a task that a tool does."),
        field("model_price", &P::model_price, sim::Unit::none, kPrice, "Price of a task that the model does."),
        field("step_price", &P::step_price, sim::Unit::none, kPrice,
              "Highest price of going from one alternative to the next (drawn uniformly from 0)."),
        field("prompt", &P::prompt, "Tokens of a call's prompt."),
        field("output", &P::output, "Tokens of a call's answer.")};
  }
};

class Opus final : public Program {
 public:
  explicit Opus(const OpusParams& params) : params_(params) {}

  void prepare(sim::Engine& engine) override {
    people_ = std::make_unique<sim::Server>(engine, "people", params_.people);
    tools_ = std::make_unique<sim::Server>(engine, "tools", params_.tool_servers);
  }

  sim::Task<bool> run(sim::Engine& engine, Client& client) override {
    const Graph graph = draw(client.random);
    const std::vector<std::size_t> path = choose(graph, client.random);
    double weight = 0;
    for (std::size_t s = 0; s < path.size(); ++s) {
      weight += graph.tasks[s][path[s]].weight;
      if (s > 0) weight += graph.step(s, path[s - 1], path[s]);
    }
    client.tell("path_weight", weight);
    for (std::size_t s = 0; s < path.size(); ++s) {
      const Task& task = graph.tasks[s][path[s]];
      bool done = true;
      if (task.who == Who::model) {
        done = co_await ask_model(engine, client);
      } else {
        sim::Server& servers = task.who == Who::people ? *people_ : *tools_;
        done = co_await client.use(engine, servers, task.time_s);
      }
      client.tell(task.who == Who::model ? "tasks_model" : task.who == Who::people ? "tasks_people" : "tasks_tool", 1);
      if (!done) co_return false;
    }
    co_return true;
  }

 private:
  enum class Who : std::uint8_t { model, tool, people };
  struct Task {
    Who who = Who::model;
    double time_s = 0, weight = 0;
  };
  struct Graph {
    std::vector<std::vector<Task>> tasks;  // by stage
    std::vector<double> steps;             // prices into stage s > 0, from each to each
    std::size_t width = 1;
    double step(std::size_t stage, std::size_t from, std::size_t to) const {
      return steps[((stage - 1) * width + from) * width + to];
    }
  };

  Graph draw(sim::RandomStream& random) const {
    Graph graph;
    graph.width = static_cast<std::size_t>(params_.alternatives);
    for (std::int64_t s = 0; s < params_.stages; ++s) {
      std::vector<Task>& stage = graph.tasks.emplace_back();
      for (std::int64_t a = 0; a < params_.alternatives; ++a) {
        Task& task = stage.emplace_back();
        const double point = random.uniform();
        double price = params_.model_price;
        task.time_s = params_.model_time_s;
        if (point < params_.people_share) {
          task.who = Who::people;
          task.time_s = params_.people_time.draw_s(random);
          price = params_.people_price;
        } else if (point < params_.people_share + params_.tool_share) {
          task.who = Who::tool;
          task.time_s = params_.tool_time.draw_s(random);
          price = params_.tool_price;
        }
        task.weight = task.time_s + params_.price_weight * price;
      }
      if (s > 0)
        for (std::size_t i = 0; i < graph.width * graph.width; ++i)
          graph.steps.push_back(params_.price_weight * params_.step_price * random.uniform());
    }
    return graph;
  }

  std::vector<std::size_t> choose(const Graph& graph, sim::RandomStream& random) const {
    const std::size_t stages = graph.tasks.size(), width = graph.width;
    std::vector<std::size_t> path(stages, 0);
    if (params_.path == PathChoice::random) {
      for (std::size_t& at : path) at = random.below(width);
      return path;
    }
    // Weight of the best way from each alternative to the end; greedy looks no further than the task itself.
    std::vector<std::vector<double>> onward(stages, std::vector<double>(width, 0));
    for (std::size_t s = stages; s-- > 0;)
      for (std::size_t a = 0; a < width; ++a) {
        double best = 0;
        if (s + 1 < stages && params_.path == PathChoice::shortest) {
          best = graph.step(s + 1, a, 0) + onward[s + 1][0];
          for (std::size_t b = 1; b < width; ++b) best = std::min(best, graph.step(s + 1, a, b) + onward[s + 1][b]);
        }
        onward[s][a] = graph.tasks[s][a].weight + best;
      }
    for (std::size_t s = 0; s < stages; ++s) {
      const auto cost = [&](std::size_t a) { return onward[s][a] + (s > 0 ? graph.step(s, path[s - 1], a) : 0); };
      for (std::size_t a = 1; a < width; ++a)
        if (cost(a) < cost(path[s])) path[s] = a;
    }
    return path;
  }

  sim::Task<bool> ask_model(sim::Engine& engine, Client& client) const {
    std::vector<Future> futures;
    for (std::int64_t i = 0; i < params_.parallel_calls; ++i) {
      Dialogue prompt;
      prompt.append(client.fresh(params_.prompt.draw(client.random)));
      Future future = co_await client.call(engine, prompt.ask(params_.output.draw(client.random)));
      futures.push_back(std::move(future));
    }
    bool all = true;
    for (Future& future : futures) {
      const bool completed = co_await client.answer(engine, future);
      all = all && completed;
    }
    co_return all;
  }

  OpusParams params_;
  std::unique_ptr<sim::Server> people_, tools_;
};

}  // namespace

void add_opus(ProgramRegistry& registry) {
  registry.add<OpusParams>("opus", "Workflows of tasks for the model, tools and people, along the shortest path.",
                           [](const OpusParams& params) { return std::make_unique<Opus>(params); });
}

}  // namespace orrery::experiments
