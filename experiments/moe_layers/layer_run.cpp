#include "experiments/moe_layers/layer_times.hpp"
#include "sim/task/executor.hpp"

namespace orrery::experiments::moe_layers {
namespace {

using sim::TaskId;

/// Three queues, each worked off in the order in which its tasks were added.
class StackRun {
 public:
  explicit StackRun(bool separate_links) {
    const auto queue = [&] { return graph_.add_resource({.order = sim::TaskOrder::program}); };
    between_ = queue();
    inside_ = separate_links ? queue() : between_;
    compute_ = queue();
  }

  void attention(double seconds, double gradients_s) {
    const TaskId own = add(compute_, seconds, {last_});
    if (gradients_s > 0) last_sum_ = add(between_, gradients_s, {last_});
    last_ = own;
  }

  void experts(const ChunkTimes& times, std::int64_t chunks, double gradients_s) {
    // Tasks stand in a queue in the order in which they are added: the way there, gradients, the way back.
    std::vector<TaskId> gathered, made, ends;
    for (std::int64_t c = 0; c < chunks; ++c)
      gathered.push_back(add(inside_, times.gather_s, {add(between_, times.exchange_s, {last_})}));
    if (gradients_s > 0) last_sum_ = add(between_, gradients_s, {last_});
    for (const TaskId ready : gathered) made.push_back(add(compute_, times.product_s, {ready}));
    for (const TaskId product : made)
      ends.push_back(add(between_, times.exchange_s, {add(inside_, times.scatter_s, {product})}));
    last_ = graph_.add({.after = ends});
  }

  double run(double after_s) {
    add(between_, after_s, {last_, last_sum_});
    sim::Engine engine;
    sim::TaskExecutor executor(engine, graph_);
    executor.run();
    return scale_.seconds(executor.makespan());
  }

 private:
  TaskId add(sim::ResourceId on, double seconds, const std::vector<std::optional<TaskId>>& after) {
    std::vector<TaskId> known;
    for (const auto& one : after)
      if (one) known.push_back(*one);
    return graph_.add({.duration = scale_.duration(seconds), .on = {on}, .after = known});
  }

  sim::TickScale scale_;
  sim::TaskGraph graph_;
  sim::ResourceId between_, inside_, compute_;
  std::optional<TaskId> last_, last_sum_;
};

}  // namespace

double run_stack(const LayerPrices& prices, std::int64_t layers, const ScheduleParams& schedule,
                 const StackPlan& plan) {
  StackRun run(schedule.separate_links);
  for (std::int64_t k = 0; k < layers; ++k) {
    run.attention(prices.stack().attention_s, 0);
    run.experts(prices.chunk(plan.forward, false), plan.forward, 0);
  }
  for (std::size_t k = 0; k < plan.backward.size(); ++k) {
    run.experts(prices.chunk(plan.backward[k], true), plan.backward[k], plan.beside_exchange[k]);
    run.attention(2 * prices.stack().attention_s, plan.beside_attention[k]);
  }
  return run.run(plan.after_s);
}

}  // namespace orrery::experiments::moe_layers
