// Proteus: a model is optimised by somebody who must not learn it.
//
// Decides how a graph is hidden: it is cut into N = ops / part_ops parts (proteus_parts.hpp), every part is shuffled
// among K sentinels (proteus_sentinels.hpp), all of them are optimised one by one by `inner`, and the owner puts the
// real ones together again. What that costs: fusion stops at the cuts (slowdown against `inner` on the whole graph),
// and the optimiser has (K+1) times the work. What it buys: whoever has all N (K+1) graphs finds the model among
//   (1 + (1 - specificity) K)^N
// combinations, specificity being the share of sentinels that can be told from real parts (0: none; then (1+K)^N).
// Source: Proteus (Gao et al., MLSys 2024) and its artifact. Left out: training and attacks of the classifier.
#include <algorithm>

#include "policies/placement/placement.hpp"
#include "policies/placement/proteus_parts.hpp"
#include "policies/placement/proteus_sentinels.hpp"
#include "sim/base/math.hpp"

namespace orrery::policies {
namespace {

using models::OpGraph;

struct ProteusParams {
  std::int64_t part_ops = 16, tries = 8, sentinels = 20;
  std::optional<std::int64_t> parts;
  double specificity = 0, foreign = 0.2;
  sim::Node inner;

  static constexpr auto fields() {
    using P = ProteusParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("part_ops", &P::part_ops, Unit::count, sim::at_least(1), "Average number of ops in a part."),
        sim::field("parts", &P::parts, Unit::count, sim::at_least(1), "Number of parts; null: follows from part_ops."),
        sim::field("tries", &P::tries, Unit::count, sim::between(1, 1000),
                   "Number of partitions drawn, of which the most balanced is kept."),
        sim::field("sentinels", &P::sentinels, Unit::count, sim::between(0, 1000),
                   "Number of sentinels (made-up graphs) per part, K in the paper."),
        sim::field("specificity", &P::specificity, Unit::ratio, sim::between(0, 1),
                   "Share of sentinels that an adversary rejects."),
        sim::field("foreign", &P::foreign, Unit::ratio, sim::between(0, 1),
                   "Share of a sentinel's ops whose kind the model does not have."),
        sim::field("inner", &P::inner,
                   "The optimiser, as a pass block {\"policy\": …}; none: parts come back unchanged."),
    };
  }
};

class ProteusPass final : public GraphPass {
 public:
  explicit ProteusPass(const ProteusParams& params) : params_(params) {
    if (!params.inner.is_object()) return;
    PassRegistry registry("pass");
    register_graph_passes(registry);
    sim::Faults faults;
    const PassRegistry::Choice choice = registry.parse_block(params.inner, "", faults);
    faults.throw_if_any();
    inner_ = choice.make();
  }

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    if (graph.op_count() == 0) return graph;
    const std::int64_t wanted = params_.parts.value_or(std::max<std::int64_t>(
        1, (static_cast<std::int64_t>(graph.op_count()) + params_.part_ops / 2) / params_.part_ops));
    const sim::RandomStream random(context.seed, "proteus");
    const std::vector<std::int32_t> part_of =
        proteus::partition(graph, wanted, params_.tries, random.child("partition"));
    const std::vector<models::Subgraph> parts = proteus::cut(graph, part_of);
    std::vector<OpGraph> optimised;
    for (const models::Subgraph& part : parts) optimised.push_back(optimise(part.graph, context));
    OpGraph rebuilt = proteus::assemble(graph, parts, optimised);
    tell_parts(graph, parts, report);
    tell_optimiser(graph, parts, context, random.child("sentinels"), report);
    tell_result(graph, rebuilt, context, report);
    return rebuilt;
  }

 private:
  OpGraph optimise(const OpGraph& graph, const PassContext& context) const {
    PassReport unheard;  // what the optimiser did to one part is nobody's figure
    return inner_ == nullptr ? graph : inner_->run(graph, context, unheard);
  }

  void tell_parts(const OpGraph& graph, const std::vector<models::Subgraph>& parts, PassReport& report) const {
    std::size_t least = graph.op_count(), most = 0, cuts = 0;
    for (const models::Subgraph& part : parts) {
      least = std::min(least, part.graph.op_count());
      most = std::max(most, part.graph.op_count());
      for (const models::TensorId input : part.inputs) cuts += graph.producer(input) ? 1 : 0;
    }
    const double k = static_cast<double>(params_.sentinels), n = static_cast<double>(parts.size());
    report.tell("parts", n);
    report.tell("smallest_part_ops", static_cast<double>(least));
    report.tell("largest_part_ops", static_cast<double>(most));
    report.tell("cut_uses", static_cast<double>(cuts));
    report.tell("log10_alternatives", n * sim::det_log10(1 + (1 - params_.specificity) * k));
    report.tell("log10_alternatives_no_adversary", n * sim::det_log10(1 + k));
  }

  /// Sends every part's sentinels through the optimiser too; its work is counted in ops that it is given.
  void tell_optimiser(const OpGraph& graph, const std::vector<models::Subgraph>& parts, const PassContext& context,
                      const sim::RandomStream& random, PassReport& report) const {
    const proteus::SentinelMaker maker(graph, params_.foreign);
    double given = static_cast<double>(graph.op_count()), unsound = 0;
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (std::int64_t k = 0; k < params_.sentinels; ++k) {
        const OpGraph sentinel = maker.make(parts[p], random.child(p).child(static_cast<std::uint64_t>(k)));
        given += static_cast<double>(sentinel.op_count());
        if (!models::verify(optimise(sentinel, context)).empty()) ++unsound;
      }
    report.tell("graphs_optimised", static_cast<double>(parts.size()) * static_cast<double>(params_.sentinels + 1));
    report.tell("optimiser_cost_ratio", given / static_cast<double>(graph.op_count()));
    report.tell("unsound_sentinels", unsound);
  }

  void tell_result(const OpGraph& graph, const OpGraph& rebuilt, const PassContext& context, PassReport& report) const {
    const OpGraph direct = optimise(graph, context);
    report.tell("kernels_before", kernels(graph));
    report.tell("kernels_whole", kernels(direct));
    report.tell("kernels", kernels(rebuilt));
    if (context.cost == nullptr) return;
    const double before = context.time_s(graph, context.typical), whole = context.time_s(direct, context.typical);
    const double now = context.time_s(rebuilt, context.typical);
    report.tell("time_before_s", before);
    report.tell("time_whole_s", whole);
    report.tell("time_s", now);
    report.tell("slowdown", whole > 0 ? now / whole : 1);
    report.tell("whole_gain", whole > 0 ? before / whole : 1);
  }

  static double kernels(const OpGraph& graph) {
    double count = 0;
    for (const models::OpId op : graph.ops()) count += models::launches_nothing(graph.op(op)) ? 0 : 1;
    return count;
  }

  ProteusParams params_;
  std::unique_ptr<GraphPass> inner_;
};

}  // namespace

void add_proteus(PassRegistry& registry) {
  registry.add<ProteusParams>("proteus", "Optimises a graph in parts hidden among sentinels (Proteus, MLSys 2024).",
                              [](const ProteusParams& params) { return std::make_unique<ProteusPass>(params); });
}

}  // namespace orrery::policies
