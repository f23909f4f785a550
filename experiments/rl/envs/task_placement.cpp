// Placement: the tasks of a random graph come in order of their upward rank (HEFT), the learner says which of several
// unlike processors each runs on.
//
// Layered graphs as of Topcuoglu, Hariri and Wu (IEEE TPDS 13(3), 2002, section 5.1): of `tasks` tasks in layers of
// some sqrt(tasks), each task with one to three predecessors of the layer before; cost on a processor uniform on
// mean (1 ± heterogeneity / 2), means uniform on 1 … 20; an edge costs `communication` times a mean, uniform on 0 … 2
// of it, between processors and nothing within one. A task starts when its processor is free and its inputs are there
// (no insertion). It shows, processor by processor, when it is free, when this task would end there and what it costs
// there, as shares of the critical path's length; and how much is left. Every processor is judged alike
// (AgentSpec::per_choice), so that a policy serves any number of them. The reward is what the placement adds to the
// latest end over that length, negated. The figure `over_eft` is the makespan over that of always taking the earliest
// end, which is the rule that advises.
#include <algorithm>
#include <cmath>

#include "experiments/rl/core/env.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr std::size_t kOfProcessor = 3;  // entries

struct TaskPlacementParams {
  std::int64_t tasks = 20, processors = 3;
  double heterogeneity = 1, communication = 1;

  static constexpr auto fields() {
    using P = TaskPlacementParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("tasks", &P::tasks, Unit::count, sim::between(1, 100'000), "Tasks of an episode."),
        sim::field("processors", &P::processors, Unit::count, sim::between(2, 256), "Number of processors."),
        sim::field("heterogeneity", &P::heterogeneity, Unit::ratio, sim::between(0, 2),
                   "How much the costs of a task differ between processors; 0: not at all."),
        sim::field("communication", &P::communication, Unit::ratio, sim::between(0, 100),
                   "Cost of an edge relative to that of a task."),
    };
  }
};

/// A graph in topological order, with costs.
struct PlacementGraph {
  struct Edge {
    std::size_t from = 0;
    double cost = 0;
  };
  std::vector<std::vector<Edge>> inputs;   ///< by task
  std::vector<std::vector<double>> costs;  ///< by task and processor
  std::vector<std::size_t> order;          ///< by falling upward rank
  double critical = 1;                     ///< largest upward rank
};

PlacementGraph draw_graph(const TaskPlacementParams& params, sim::RandomStream random) {
  const auto n = static_cast<std::size_t>(params.tasks), width = static_cast<std::size_t>(std::max(1.0, std::sqrt(n)));
  PlacementGraph graph;
  graph.inputs.resize(n);
  std::vector<double> mean(n);
  for (std::size_t task = 0; task < n; ++task) {
    mean[task] = random.uniform(1, 20);
    std::vector<double> costs;
    for (std::int64_t p = 0; p < params.processors; ++p)
      costs.push_back(mean[task] * random.uniform(1 - params.heterogeneity / 2, 1 + params.heterogeneity / 2) + 1e-9);
    graph.costs.push_back(std::move(costs));
    const std::size_t layer = task / width;
    if (layer == 0) continue;
    for (std::int64_t i = random.integer(1, 3); i > 0; --i)
      graph.inputs[task].push_back(
          {(layer - 1) * width + random.below(width), mean[task] * params.communication * random.uniform(0, 2)});
  }
  std::vector<double> rank(n);
  for (std::size_t task = n; task-- > 0;) {
    double own = 0;
    for (const double cost : graph.costs[task]) own += cost / static_cast<double>(params.processors);
    rank[task] += own;
    for (const PlacementGraph::Edge& edge : graph.inputs[task])
      rank[edge.from] = std::max(rank[edge.from], edge.cost + rank[task]);
    graph.order.push_back(task);
  }
  std::reverse(graph.order.begin(), graph.order.end());
  std::stable_sort(graph.order.begin(), graph.order.end(), [&](auto a, auto b) { return rank[a] > rank[b]; });
  graph.critical = *std::max_element(rank.begin(), rank.end());
  return graph;
}

/// A schedule that grows in the graph's order.
class Placement {
 public:
  void reset(const PlacementGraph& graph, std::size_t processors) {
    graph_ = &graph;
    free_.assign(processors, 0);
    end_.assign(graph.order.size(), 0);
    where_.assign(graph.order.size(), 0);
    placed_ = 0;
    makespan_ = 0;
  }
  bool done() const { return placed_ == graph_->order.size(); }
  double free(std::size_t processor) const { return free_[processor]; }
  double makespan() const { return makespan_; }
  std::size_t placed() const { return placed_; }
  /// When the next task would end there.
  double end(std::size_t processor) const {
    const std::size_t task = graph_->order[placed_];
    double start = free_[processor];
    for (const PlacementGraph::Edge& edge : graph_->inputs[task])
      start = std::max(start, end_[edge.from] + (where_[edge.from] == processor ? 0 : edge.cost));
    return start + graph_->costs[task][processor];
  }
  /// Of the next task there.
  double cost(std::size_t processor) const { return graph_->costs[graph_->order[placed_]][processor]; }
  void place(std::size_t processor) {
    const std::size_t task = graph_->order[placed_];
    end_[task] = free_[processor] = end(processor);
    where_[task] = processor;
    makespan_ = std::max(makespan_, end_[task]);
    ++placed_;
  }
  std::size_t earliest() const {
    std::size_t best = 0;
    for (std::size_t p = 1; p < free_.size(); ++p)
      if (end(p) < end(best)) best = p;
    return best;
  }

 private:
  const PlacementGraph* graph_ = nullptr;
  std::vector<double> free_, end_;
  std::vector<std::size_t> where_;
  std::size_t placed_ = 0;
  double makespan_ = 0;
};

class TaskPlacement final : public Env {
 public:
  explicit TaskPlacement(const TaskPlacementParams& params) : params_(params) {
    AgentSpec agent{.name = "placer", .action = ActionSpace::discrete(params.processors), .per_choice = kOfProcessor};
    const double endless = std::numeric_limits<double>::infinity();
    for (std::int64_t p = 0; p < params.processors; ++p)
      for (const char* name : {"free", "ends", "cost"})
        agent.observation.push_back({std::string(name) + "_" + std::to_string(p), 0, endless});
    agent.observation.push_back({"left", 0, 1});
    spec_ = {.agents = {std::move(agent)}, .info = {"over_eft"}, .rule = "earliest end"};
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    graph_ = draw_graph(params_, sim::RandomStream(seed, "rl/task_placement"));
    const auto processors = static_cast<std::size_t>(params_.processors);
    schedule_.reset(graph_, processors);
    while (!schedule_.done()) schedule_.place(schedule_.earliest());
    baseline_ = schedule_.makespan();
    schedule_.reset(graph_, processors);
    show(out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const double before = schedule_.makespan();
    schedule_.place(static_cast<std::size_t>(action[0]));
    show(out);
    out.rewards[0] = -(schedule_.makespan() - before) / graph_.critical;
    out.terminated = schedule_.done();
    if (out.terminated) out.info[0] = schedule_.makespan() / baseline_;
  }

 private:
  void show(TimeStep& out) const {
    clear_step(spec_, out);
    if (schedule_.done()) return;
    for (std::size_t p = 0; p < static_cast<std::size_t>(params_.processors); ++p) {
      const std::span<double> seen = std::span(out.observation).subspan(p * kOfProcessor, kOfProcessor);
      seen[0] = schedule_.free(p) / graph_.critical;
      seen[1] = schedule_.end(p) / graph_.critical;
      seen[2] = schedule_.cost(p) / graph_.critical;
    }
    out.advice[0] = static_cast<double>(schedule_.earliest());
    out.observation.back() = 1 - static_cast<double>(schedule_.placed()) / static_cast<double>(graph_.order.size());
  }

  TaskPlacementParams params_;
  EnvSpec spec_;
  PlacementGraph graph_;
  Placement schedule_;
  double baseline_ = 1;
};

}  // namespace

void add_task_placement_env(EnvRegistry& registry) {
  registry.add<TaskPlacementParams>(
      "task_placement", "Chooses which of several unlike processors every task of a graph runs on.",
      [](const TaskPlacementParams& params, const Systems&) { return std::make_unique<TaskPlacement>(params); });
}

}  // namespace orrery::experiments::rl
