// Tempo: layers that save less for the backward pass, and the choice whether that is worth its extra work.
//
// What is rewritten stands in policies/memory/tempo_rewrite.hpp. `apply` says how it is decided:
//   always  all layers (or the first `layers` of them)
//   fast    only where the device is not saturated at the largest batch: with t(b) the time of a step of the graph as
//           it is, at batches that double until memory ends, rewrite if t_n / t_(n-1) < saturation * b_n / b_(n-1) for
//           the last pair and the pair before, or where no more than two batches fit (AutoTempo-Fast)
//   smart   the number of layers with the best throughput at its own largest batch: none, half and all are compared,
//           and the better half is halved again (AutoTempo-Smart)
// The largest batch is the one whose parameters, inputs, state and planned activations fit the device. Source: Tempo
// and its autotempo code (docs/explain/tempo.md); 0.85 is its threshold, a parameter here. Left out: the polynomial
// that InplaceGelu evaluates costs what the plain gradient does. Where the sizes are known and the peak would rise, as
// in graphs too small to save anything, the graph stays as it was.
#include <algorithm>
#include <map>

#include "models/graph/liveness.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/memory/graph_buffers.hpp"
#include "policies/memory/tempo_curve.hpp"
#include "policies/memory/tempo_rewrite.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {

enum class TempoMode : std::uint8_t { always, fast, smart };
constexpr auto enum_names(TempoMode) {
  using enum TempoMode;
  return sim::names<TempoMode>({{"always", always}, {"fast", fast}, {"smart", smart}});
}

namespace {

using models::Bindings;
using models::OpGraph;

struct TempoParams {
  bool gelu = true, norm = true, attention = true;
  TempoMode apply = TempoMode::always;
  std::optional<std::int64_t> layers;
  double saturation = 0.85;
  std::string symbol = "batch", layer = "layer.";

  static constexpr auto fields() {
    using P = TempoParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("gelu", &P::gelu, "Whether to rewrite GELU."),
        sim::field("norm", &P::norm, "Whether to rewrite layer norm."),
        sim::field("attention", &P::attention, "Whether to rewrite the softmax, dropout and product of attention."),
        sim::field("apply", &P::apply,
                   "When to rewrite: always, fast (unless the device is saturated) or smart (as many layers as pay)."),
        sim::field("layers", &P::layers, Unit::layers, sim::at_least(0),
                   "Number of layers that `always` rewrites; null: all."),
        sim::field(
            "saturation", &P::saturation, Unit::ratio, sim::between(0, 2),
            "With `fast`: ratio of the growth in time to the growth in batch below which a device is not saturated."),
        sim::field("symbol", &P::symbol, Unit::text, sim::any_value(), "Symbolic dimension that is the batch."),
        sim::field("layer", &P::layer, Unit::text, sim::any_value(), "Prefix of the scope of a layer."),
    };
  }
};

/// A graph on a device at growing batches.
class Batches {
 public:
  Batches(const OpGraph& graph, const PassContext& context, const std::string& symbol)
      : graph_(graph), context_(context), symbol_(symbol) {}

  bool fits(std::int64_t batch) const {
    const Bindings at = sizes(batch);
    return models::liveness(graph_, at).persistent + graph_peak(graph_, at).planned <= context_.memory_bytes;
  }
  double time_s(std::int64_t batch) const { return context_.time_s(graph_, sizes(batch)); }

  std::vector<BatchPoint> curve() const {
    std::vector<BatchPoint> points;
    for (std::int64_t batch = 1; batch < (1 << 20) && fits(batch); batch *= 2)
      points.push_back({static_cast<double>(batch), time_s(batch)});
    return points;
  }

  /// Samples a second at the largest batch; 0 where none fits.
  double throughput() const {
    if (!fits(1)) return 0;
    std::int64_t low = 1, high = 2;
    while (high < (1 << 20) && fits(high)) low = std::exchange(high, high * 2);
    while (high - low > 1) (fits((low + high) / 2) ? low : high) = (low + high) / 2;
    return static_cast<double>(low) / time_s(low);
  }

 private:
  Bindings sizes(std::int64_t batch) const {
    Bindings at = context_.typical;
    at.set(symbol_, batch);
    return at;
  }

  const OpGraph& graph_;
  const PassContext& context_;
  const std::string& symbol_;
};

class Tempo final : public GraphPass {
 public:
  explicit Tempo(TempoParams params) : p_(std::move(params)) {}

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    if (p_.apply != TempoMode::always && (context.cost == nullptr || context.memory_bytes == 0))
      throw models::GraphError("tempo: 'fast' and 'smart' measure steps: they need a device with memory");
    std::int64_t layers = p_.layers.value_or(-1);
    if (p_.apply == TempoMode::fast) {
      const bool worth = should_rewrite(Batches(graph, context, p_.symbol).curve(), p_.saturation);
      layers = worth ? -1 : 0;
    }
    if (p_.apply == TempoMode::smart) layers = best_layers(graph, context);
    TempoCounts counts;
    OpGraph done = rewritten(graph, layers, counts);
    if (counts.all() > 0 && sizes_known(graph, context.typical) &&
        !graph_peak(done, context.typical).never_above(graph_peak(graph, context.typical))) {
      report.notes.push_back("rewriting would raise the peak: the graph stays as it was");
      done = graph;
      counts = {};
      layers = 0;
    }
    report.tell("gelus", static_cast<double>(counts.gelus));
    report.tell("norms", static_cast<double>(counts.norms));
    report.tell("attentions", static_cast<double>(counts.attentions));
    report.tell("applied", counts.all() > 0 ? 1 : 0);
    if (p_.apply == TempoMode::smart) report.tell("layers", static_cast<double>(layers));
    return done;
  }

 private:
  OpGraph rewritten(const OpGraph& graph, std::int64_t layers, TempoCounts& counts) const {
    const TempoRewrites how{p_.gelu, p_.norm, p_.attention, layers, p_.layer};
    return rewrite_saved_tensors(graph, how, counts);
  }

  std::int64_t best_layers(const OpGraph& graph, const PassContext& context) const {
    std::int64_t all = 0;
    for (const models::OpId id : graph.ops()) all = std::max(all, layer_of(graph.op(id).scope, p_.layer) + 1);
    std::map<std::int64_t, double> known;
    const auto throughput = [&](std::int64_t layers) {
      const auto [place, fresh] = known.try_emplace(layers, 0);
      if (fresh) {
        TempoCounts counts;
        const OpGraph candidate = rewritten(graph, layers, counts);
        place->second = Batches(candidate, context, p_.symbol).throughput();
      }
      return place->second;
    };
    std::int64_t low = 0, high = all;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (throughput(low) > throughput(high) ? high : low) = middle;
    }
    for (const std::int64_t layers : {low, high}) static_cast<void>(throughput(layers));
    const auto best =
        std::max_element(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return best == known.end() ? all : best->first;
  }

  TempoParams p_;
};

}  // namespace

bool should_rewrite(const std::vector<BatchPoint>& curve, double saturation) {
  const std::size_t n = curve.size();
  if (n <= 2) return true;
  const auto unsaturated = [&](std::size_t i) {
    return curve[i].time_s / curve[i - 1].time_s < saturation * curve[i].batch / curve[i - 1].batch;
  };
  return unsaturated(n - 1) && unsaturated(n - 2);
}

void add_tempo(PassRegistry& registry) {
  registry.add<TempoParams>("tempo", "Tempo: layers keep less for the backward pass (NeurIPS 2022).",
                            [](const TempoParams& params) { return std::make_unique<Tempo>(params); });
}

}  // namespace orrery::policies
