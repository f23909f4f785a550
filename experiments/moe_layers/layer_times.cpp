#include "experiments/moe_layers/layer_times.hpp"

#include <algorithm>

namespace orrery::experiments::moe_layers {

LayerPrices::LayerPrices(const CostParams& costs, const Layer& layer, std::int64_t tensor)
    : costs_(costs), layer_(layer) {
  const auto tokens = static_cast<double>(layer.batch * layer.sequence), width = static_cast<double>(layer.width);
  const auto ranks = static_cast<double>(tensor);
  // Four projections, scores and their use, shared out over the ranks of tensor parallelism.
  const double work = tokens * (4 * width * width + 2 * static_cast<double>(layer.sequence) * width) / ranks;
  const double gathered = tokens * width;
  stack_.attention_s = costs.product.of(work) + costs.gather.of(gathered) + costs.scatter.of(gathered);
  stack_.all_reduce_start_s = costs.all_reduce.start_s;
  stack_.gradients_s = costs.all_reduce.each_s * 4 * width * width / ranks;
}

ChunkTimes LayerPrices::chunk(std::int64_t chunks, bool backward) const {
  // All wait for the node whose experts have most rows.
  const double rows = layer_.factor * layer_.imbalance * static_cast<double>(layer_.batch * layer_.sequence);
  const double elements = rows * static_cast<double>(layer_.width);
  const auto shared = static_cast<double>(layer_.shared_by);
  const double work = elements * static_cast<double>(layer_.inner) / shared * static_cast<double>(layer_.products);
  return {.exchange_s = costs_.exchange.of(elements / shared, chunks),
          .gather_s = costs_.gather.of(elements, chunks),
          .product_s = (backward ? 2 : 1) * costs_.product.of(work, chunks),
          .scatter_s = costs_.scatter.of(elements, chunks)};
}

double closed_form(const ChunkTimes& times, std::int64_t chunks, double summed_s, bool separate_links) {
  const auto r = static_cast<double>(chunks);
  const double once = times.exchange_s + times.gather_s, back = times.scatter_s + times.exchange_s;
  const double products = once + back + r * times.product_s;  // t2
  if (!separate_links) return std::max(r * (once + back) + summed_s, products);
  return std::max({2 * r * times.exchange_s + summed_s,                              // t1
                   products,                                                         // t2
                   2 * r * times.exchange_s + times.gather_s + times.scatter_s,      // t3
                   2 * times.exchange_s + r * (times.gather_s + times.scatter_s)});  // t4
}

double exchange_gap_s(const ChunkTimes& times, std::int64_t chunks, bool separate_links) {
  const double without = closed_form(times, chunks, 0, separate_links);
  const auto r = static_cast<double>(chunks);
  const double busy =
      separate_links ? 2 * r * times.exchange_s : r * (2 * times.exchange_s + times.gather_s + times.scatter_s);
  return std::max(0.0, without - busy);
}

namespace {

struct Degree {
  std::int64_t chunks = 1;
  double time_s = 0;
};

Degree best_degree(const LayerPrices& prices, const ScheduleParams& schedule, bool backward, double summed_s) {
  Degree best;
  for (const std::int64_t chunks : schedule.degrees) {
    const double time = closed_form(prices.chunk(chunks, backward), chunks, summed_s, schedule.separate_links);
    if (best.time_s == 0 || time < best.time_s) best = {chunks, time};
  }
  return best;
}

/// One number of chunks for both passes: the best for their sum.
std::int64_t common_degree(const LayerPrices& prices, const ScheduleParams& schedule) {
  Degree best;
  for (const std::int64_t chunks : schedule.degrees) {
    double time = 0;
    for (const bool backward : {false, true})
      time += closed_form(prices.chunk(chunks, backward), chunks, 0, schedule.separate_links);
    if (best.time_s == 0 || time < best.time_s) best = {chunks, time};
  }
  return best.chunks;
}

/// Gradients that wait to be summed, s without their start.
class Waiting {
 public:
  explicit Waiting(double start_s) : start_s_(start_s) {}
  void add(double gradients_s) { left_s_ += gradients_s; }
  /// As much as `room_s` holds, its start included.
  double take(double room_s) {
    const double payload = std::min(left_s_, room_s - start_s_);
    if (payload <= 0) return 0;
    left_s_ -= payload;
    return payload + start_s_;
  }
  double left_s() const { return left_s_; }
  double rest() { return left_s_ > 0 ? take(left_s_ + start_s_) : 0; }

 private:
  double start_s_ = 0, left_s_ = 0;
};

}  // namespace

namespace {

/// How much of what waits is summed in a layer's exchange: nothing; what its gap holds; what the attention after it has
/// no room for; all.
enum class Share : std::uint8_t { none, gap, excess, all };

/// What every layer of the stack does alike.
struct Habit {
  Share share = Share::none;
  Degree backward;  ///< without gradients
};

StackPlan plan_with(const LayerPrices& prices, std::int64_t layers, const ScheduleParams& schedule,
                    const Degree& forward, const Habit& habit) {
  const StackTimes& stack = prices.stack();
  const double attention = 2 * stack.attention_s, start = stack.all_reduce_start_s;
  const ChunkTimes times = prices.chunk(habit.backward.chunks, true);
  StackPlan plan{.forward = forward.chunks,
                 .closed_s = static_cast<double>(layers) * (stack.attention_s + forward.time_s)};
  Waiting waiting(start);
  for (std::int64_t k = 0; k < layers; ++k) {
    double room = 0;
    if (habit.share == Share::gap) room = exchange_gap_s(times, habit.backward.chunks, schedule.separate_links);
    if (habit.share == Share::excess) room = waiting.left_s() - std::max(0.0, attention - start) + start;
    if (habit.share == Share::all) room = waiting.left_s() + start;
    const double beside = waiting.take(room);
    plan.backward.push_back(habit.backward.chunks);
    plan.beside_exchange.push_back(beside);
    plan.beside_attention.push_back(schedule.gradients == Gradients::end ? 0 : waiting.take(attention));
    plan.closed_s += closed_form(times, habit.backward.chunks, beside, schedule.separate_links) + attention;
    waiting.add(stack.gradients_s);
  }
  plan.after_s = waiting.rest();
  plan.closed_s += plan.after_s;
  return plan;
}

}  // namespace

StackPlan plan_stack(const LayerPrices& prices, std::int64_t layers, const ScheduleParams& schedule) {
  std::vector<std::int64_t> degrees = schedule.degrees;
  if (!schedule.own_degrees) degrees = {common_degree(prices, schedule)};
  ScheduleParams own = schedule;
  own.degrees = degrees;
  const Degree forward = best_degree(prices, own, false, 0);
  const Degree backward = best_degree(prices, own, true, 0);
  StackPlan best = plan_with(prices, layers, own, forward, {Share::none, backward});
  if (schedule.gradients != Gradients::adaptive) return best;
  // Layers are alike, so all have one habit; more chunks leave smaller gaps.
  for (const std::int64_t chunks : degrees)
    for (const Share share : {Share::gap, Share::excess, Share::all}) {
      StackPlan other = plan_with(prices, layers, own, forward, {share, {chunks, 0}});
      if (other.closed_s < best.closed_s) best = std::move(other);
    }
  return best;
}

}  // namespace orrery::experiments::moe_layers
