// Times of a transformer layer with experts in training: attention, then tokens to their experts' nodes (all-to-all
// between nodes), to all ranks that share an expert (all-gather inside a node), products, and the same back
// (reduce-scatter, all-to-all), cut into chunks so that the three resources overlap; gradients of attention are summed
// between nodes.
//
// After FSMoE (ASPLOS'25, arXiv 2501.10714): linear costs, the closed forms of its cases, its sizes, those of the
// solver that it ships.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::moe_layers {

/// start + size x each. Seconds; size: elements of a message, multiplications of products.
struct LinearCost {
  double start_s = 0, each_s = 0;
  double of(double size, std::int64_t chunks = 1) const {
    return start_s + each_s * size / static_cast<double>(chunks);
  }
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kTime = sim::between(0, 1e3);
    return sim::FieldTable{
        sim::required(
            sim::field("start", &LinearCost::start_s, Unit::seconds, kTime, "Fixed time of each message or product.")),
        sim::required(sim::field("each", &LinearCost::each_s, Unit::seconds, kTime,
                                 "Time per element; for products, per multiplication and its addition."))};
  }
};

struct CostParams {
  LinearCost exchange, gather, scatter, product, all_reduce;
  static constexpr auto fields() {
    using C = CostParams;
    return sim::FieldTable{
        sim::required(sim::field("exchange", &C::exchange, "All-to-all between nodes.")),
        sim::required(sim::field("gather", &C::gather, "All-gather inside a node.")),
        sim::required(sim::field("scatter", &C::scatter, "Reduce-scatter inside a node.")),
        sim::required(sim::field("product", &C::product, "Products of experts and of attention.")),
        sim::required(sim::field("all_reduce", &C::all_reduce, "All-reduce of gradients between nodes."))};
  }
};

/// A layer's sizes.
struct Layer {
  std::int64_t batch = 1, sequence = 1024, width = 2048, inner = 8192, products = 2, shared_by = 8;
  double factor = 1.2;   ///< rows of experts for each token
  double imbalance = 1;  ///< rows of the busiest node's experts over the mean
};

/// Of a layer, by the number of chunks.
struct ChunkTimes {
  double exchange_s = 0, gather_s = 0, product_s = 0, scatter_s = 0;
};

enum class Gradients : std::uint8_t { end, attention, adaptive };
constexpr auto enum_names(Gradients) {
  using enum Gradients;
  return sim::names<Gradients>({{"end", end}, {"attention", attention}, {"adaptive", adaptive}});
}

/// How a stack of layers is run.
struct ScheduleParams {
  std::string name;
  bool separate_links = true, own_degrees = true;
  Gradients gradients = Gradients::adaptive;
  std::vector<std::int64_t> degrees{1, 2, 4, 8};
  static constexpr auto fields() {
    using sim::Unit;
    using S = ScheduleParams;
    return sim::FieldTable{
        sim::required(sim::field("name", &S::name, "Name of the schedule.")),
        sim::field(
            "separate_links", &S::separate_links,
            "Whether gathers inside a node overlap with the exchange between nodes; if not, both share one queue."),
        sim::field(
            "own_degrees", &S::own_degrees,
            "Whether forward and backward pass each have their own number of chunks; if not, both have the same."),
        sim::field("gradients", &S::gradients,
                   "When gradients are reduced: after the backward pass; overlapping with the attention of earlier "
                   "layers; or also in the gaps of the exchange, as far as that shortens the whole (FSMoE)."),
        sim::field("degrees", &S::degrees, Unit::count, sim::between(1, 1024), "Numbers of chunks to try.")};
  }
};

struct StackTimes {
  double attention_s = 0;         ///< of a layer's forward pass; the backward pass takes twice as long
  double all_reduce_start_s = 0;  ///< of each sum of gradients
  double gradients_s = 0;         ///< of a layer's, without that start
};

/// Prices of a layer.
class LayerPrices {
 public:
  LayerPrices(const CostParams& costs, const Layer& layer, std::int64_t tensor);
  /// The backward pass has twice the products.
  ChunkTimes chunk(std::int64_t chunks, bool backward) const;
  const StackTimes& stack() const { return stack_; }

 private:
  CostParams costs_;
  Layer layer_;
  StackTimes stack_;
};

/// The longest of FSMoE's cases: exchange and a sum of gradients of `summed_s` between its halves (t1), products (t2),
/// exchange with a gather and a scatter that nothing hides (t3), gathers and scatters (t4). One queue for both links:
/// the longer of all messages and of products between the first and the last ones. A lower bound of the events; equal
/// to them where a gather takes what a scatter takes.
double closed_form(const ChunkTimes& times, std::int64_t chunks, double summed_s, bool separate_links);

/// Time in which the link between nodes has nothing to do between the halves of the exchange.
double exchange_gap_s(const ChunkTimes& times, std::int64_t chunks, bool separate_links);

/// What a schedule decides for a stack of equal layers.
struct StackPlan {
  std::int64_t forward = 1;
  std::vector<std::int64_t> backward;    ///< chunks, by layer in the order of the backward pass
  std::vector<double> beside_exchange;   ///< seconds of gradients (with their start) summed in the layer's exchange
  std::vector<double> beside_attention;  ///< … beside its attention
  double after_s = 0;                    ///< … after all
  double closed_s = 0;                   ///< forward and backward pass
};

StackPlan plan_stack(const LayerPrices& prices, std::int64_t layers, const ScheduleParams& schedule);

/// The same event by event: tasks in the order of their queues.
double run_stack(const LayerPrices& prices, std::int64_t layers, const ScheduleParams& schedule, const StackPlan& plan);

}  // namespace orrery::experiments::moe_layers
