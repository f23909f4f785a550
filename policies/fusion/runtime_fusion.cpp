// Runtime fusion: segments of the op stream, closed by DVM's eager rules, for sizes that come often enough.
//
// Decides: ops are taken in the order of execution. A segment ends before an op that is not supported (opaque, control
// flow, communication, element types other than `types`), before a product (which starts the next segment), before an
// op over another number of elements, before one that reads an alias (slice, expand) of what the segment made, and
// after a reduction. Element counts are compared as values, which static fusion cannot do. Kernels are compiled for the
// sizes that were seen at least `sightings` times (`symbolic`: one kernel serves all sizes, so all sightings count);
// until then nothing is fused. Tells `sizes`, `compiled_sizes` and `compiled_share` (of the requests seen). Source: DVM
// (arXiv 2603.24239; mindspore-ai/dvm, docs/pytorch.md, section 4.2). Left out: splitting a graph of sizes into
// several graphs; the sizes seen most often decide.
#include <algorithm>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/finish.hpp"
#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/loops.hpp"

namespace orrery::policies {
namespace {

struct RuntimeFusionParams {
  std::int64_t sightings = 1, max_ops = 64;
  bool symbolic = false;
  sim::TextList types{{"fp32", "fp16", "bf16", "boolean", "int32"}};

  static constexpr auto fields() {
    using R = RuntimeFusionParams;
    return sim::FieldTable{
        sim::field("sightings", &R::sightings, sim::Unit::none, sim::at_least(1),
                   "How often sizes must have been seen before kernels are compiled for them."),
        sim::field("max_ops", &R::max_ops, sim::Unit::none, sim::at_least(1), "Most ops in a segment."),
        sim::field("symbolic", &R::symbolic, "Whether one kernel serves all sizes."),
        sim::field("types", &R::types, "Element types that the compiler supports.")};
  }
};

/// Sizes seen, how often, and which come most often (of equals the last).
struct Sightings {
  std::vector<std::pair<models::Bindings, std::int64_t>> sizes;
  models::Bindings most;
  std::int64_t most_count = 0, total = 0;

  explicit Sightings(const PassContext& context) {
    std::vector<models::Bindings> seen = context.seen;
    if (seen.empty()) seen.push_back(context.typical);
    total = static_cast<std::int64_t>(seen.size());
    for (const models::Bindings& one : seen) {
      const auto found = std::ranges::find(sizes, one, &std::pair<models::Bindings, std::int64_t>::first);
      std::int64_t& count = found != sizes.end() ? found->second : sizes.emplace_back(one, 0).second;
      if (++count < most_count) continue;
      most_count = count;
      most = one;
    }
  }
};

class SegmentRules {
 public:
  SegmentRules(const models::OpGraph& graph, const LaunchGraph& launches, const models::Bindings& sizes,
               const RuntimeFusionParams& params, const std::vector<models::ElementType>& types)
      : graph_(graph),
        launches_(launches),
        params_(params),
        types_(types),
        domains_(graph, &sizes),
        loops_(loops_of(graph, launches, domains_)) {}

  UnitGroups run() {
    UnitGroups groups(launches_.size(), -1);
    for (std::size_t unit = 0; unit < launches_.size(); ++unit) {
      const Loop& loop = loops_[unit];
      if (!supported(unit)) {
        open_ = false;
        continue;
      }
      if (!open_ || loop.role == LoopRole::product || loop.domain != domain_ || full(unit) || !same(unit) ||
          reads_alias(unit))
        start(unit);
      groups[unit] = static_cast<std::int32_t>(first_);
      if (loop.role == LoopRole::row) open_ = false;
    }
    return groups;
  }

 private:
  bool supported(std::size_t unit) const {
    const models::OpNode& op = graph_.op(launches_.ops[unit]);
    if (loops_[unit].role == LoopRole::none) return false;
    return std::ranges::all_of(op.outputs, [&](models::TensorId id) {
      return std::ranges::find(types_, graph_.tensor(id).type) != types_.end();
    });
  }
  bool full(std::size_t unit) const { return unit - first_ >= static_cast<std::size_t>(params_.max_ops); }
  bool same(std::size_t unit) const {
    return same_place(graph_.op(launches_.ops[first_]), graph_.op(launches_.ops[unit]));
  }
  bool reads_alias(std::size_t unit) const {
    return std::ranges::any_of(launches_.in(unit), [&](const LaunchEdge& edge) {
      return !edge.plain && static_cast<std::size_t>(edge.from) >= first_;
    });
  }
  void start(std::size_t unit) {
    open_ = true;
    first_ = unit;
    domain_ = loops_[unit].domain;
  }

  const models::OpGraph& graph_;
  const LaunchGraph& launches_;
  const RuntimeFusionParams& params_;
  const std::vector<models::ElementType>& types_;
  Domains domains_;
  std::vector<Loop> loops_;
  bool open_ = false;
  std::size_t first_ = 0;
  std::int32_t domain_ = -1;
};

class RuntimeFusion final : public GraphPass {
 public:
  explicit RuntimeFusion(const RuntimeFusionParams& params) : params_(params) {
    sim::Faults faults;
    for (const std::string& name : params.types.items) {
      const auto type = sim::value_named<models::ElementType>(name);
      if (type)
        types_.push_back(*type);
      else
        faults.add({"runtime_fusion", "/types"}, "unknown element type '" + name + "'");
    }
    faults.throw_if_any();
  }

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const Sightings seen(context);
    std::int64_t compiled = 0, served = 0;
    for (const auto& [sizes, count] : seen.sizes) {
      if ((params_.symbolic ? seen.total : count) < params_.sightings) continue;
      ++compiled;
      served += count;
    }
    report.tell("sizes", static_cast<double>(seen.sizes.size()));
    report.tell("compiled_sizes", static_cast<double>(compiled));
    report.tell("compiled_share", static_cast<double>(served) / static_cast<double>(seen.total));
    const LaunchGraph launches = launch_graph(graph);
    UnitGroups groups(launches.size(), -1);
    if (compiled > 0) groups = SegmentRules(graph, launches, seen.most, params_, types_).run();
    return finish_groups(graph, launches, std::move(groups), context, report);
  }

 private:
  RuntimeFusionParams params_;
  std::vector<models::ElementType> types_;
};

}  // namespace

void add_runtime_fusion(PassRegistry& registry) {
  registry.add<RuntimeFusionParams>(
      "runtime_fusion", "Segments of the op stream become kernels, for sizes that were seen often enough (DVM).",
      [](const RuntimeFusionParams& params) { return std::make_unique<RuntimeFusion>(params); });
}

}  // namespace orrery::policies
