// BYOC: an accelerator for some operators of a graph, the host for the rest ("bring your own codegen").
//
// Decides which ops a target runs and in which regions: (1) targets in order of priority annotate what is not taken
// yet, patterns (chains of kinds whose inner tensors nobody else reads) before single kinds; (2) a pattern becomes one
// unit; (3) adjacent units of one target merge into regions where no path leaves a region and comes back; (4) a region
// becomes one op with `target` set (parameters are bound to it), between to_device and to_host ops; (5) optionally a
// region stays only where call + work + copies are faster than the host. Prices of an op: max(matrix FLOPs / rate +
// vector FLOPs / rate, bytes / bandwidth), plus `call` a launch on the host and once a region on a target. Source: BYOC
// (Chen et al., 2021), apache/tvm's partitioning passes. A target whose name a device of the machine has (PassContext::
// targets) is priced as that device, its call and its link. Left out: overlap (the run has it), quantisation to a
// target's type.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include "policies/base/graph_pass.hpp"
#include "policies/placement/byoc_partition.hpp"
#include "policies/placement/placement.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/random.hpp"

namespace orrery::policies {

enum class ByocMerge : std::uint8_t { none, adjacent };
constexpr auto enum_names(ByocMerge) {
  using enum ByocMerge;
  return sim::names<ByocMerge>({{"none", none}, {"adjacent", adjacent}});
}

enum class ByocAccept : std::uint8_t { all, cost };
constexpr auto enum_names(ByocAccept) {
  using enum ByocAccept;
  return sim::names<ByocAccept>({{"all", all}, {"cost", cost}});
}

namespace {

using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::TensorId;
using models::TensorRole;

struct RateParams {
  double matrix = 1e12, vector = 1e11, bandwidth = 1e11, call_s = 0;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("matrix", &RateParams::matrix, Unit::flop_per_s, sim::positive(),
                   "Compute rate of matrix products, convolutions and attention."),
        sim::field("vector", &RateParams::vector, Unit::flop_per_s, sim::positive(),
                   "Compute rate of everything else."),
        sim::field("bandwidth", &RateParams::bandwidth, Unit::bytes_per_s, sim::positive(), "Memory bandwidth."),
        sim::field("call", &RateParams::call_s, Unit::seconds, sim::at_least(0),
                   "Fixed time of each launch on the host, or of each region on a target."),
    };
  }

  double time_s(const models::OpWork& work) const {
    const auto number = [](const models::SymExpr& e) { return static_cast<double>(*e.constant()); };
    return std::max(number(work.matrix_flops) / matrix + number(work.vector_flops) / vector,
                    number(work.bytes()) / bandwidth);
  }
};

struct CopyLinkParams {
  double latency_s = 10e-6, bandwidth = 16e9;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("latency", &CopyLinkParams::latency_s, sim::Unit::seconds, sim::at_least(0),
                                      "Latency of a copy, whatever its size."),
                           sim::field("bandwidth", &CopyLinkParams::bandwidth, sim::Unit::bytes_per_s, sim::positive(),
                                      "Bandwidth of copies in either direction.")};
  }
};

struct ByocTargetParams {
  std::string name;
  std::int64_t priority = 10;
  sim::TextList ops, patterns;
  double share = 1;
  bool views = true;
  RateParams rates;
  CopyLinkParams link;

  static constexpr auto fields() {
    using P = ByocTargetParams;
    return sim::FieldTable{
        sim::required(sim::field("name", &P::name, "Name of the target, which the ops that it runs carry.")),
        sim::field("priority", &P::priority, sim::Unit::none, sim::any_value(),
                   "Priority for ops that several targets can run: the highest takes them first; ties go by the order "
                   "of the list."),
        sim::field("ops", &P::ops, "Op kinds that the target runs one by one."),
        sim::field("patterns", &P::patterns,
                   "Chains of op kinds that the target runs as one, such as \"conv2d+batch_norm+relu\". The first that "
                   "fits wins."),
        sim::field("share", &P::share, sim::Unit::ratio, sim::between(0, 1),
                   "Share of these ops that the target accepts, drawn by seed, as a library refuses some shapes and "
                   "layouts. A larger share accepts a superset."),
        sim::field("views", &P::views, "Whether views such as reshapes follow their operand to the target at no cost."),
        sim::field("rates", &P::rates, "Speed of the target."),
        sim::field("link", &P::link, "Link for copies between host and target."),
    };
  }
};

struct ByocParams {
  std::vector<ByocTargetParams> targets;
  std::optional<RateParams> host;
  ByocMerge merge = ByocMerge::adjacent;
  ByocAccept accept = ByocAccept::all;
  bool trim = true;

  static constexpr auto fields() {
    using P = ByocParams;
    return sim::FieldTable{
        sim::field("targets", &P::targets, "Accelerators besides the host; none: the graph stays as it is."),
        sim::field("host", &P::host,
                   "Speed of the host; null: the host is the run's device, priced by its cost model."),
        sim::field("merge", &P::merge,
                   "How regions form. none: each supported op is a region; adjacent: neighbouring ones are merged."),
        sim::field("accept", &P::accept,
                   "Which regions are offloaded. all: every one; cost: those that are faster than the host."),
        sim::field("trim", &P::trim, "With accept cost: whether a region first gives back ops that do not pay."),
    };
  }
};

OpKind kind_named(const std::string& name, const std::string& place) {
  const std::optional<OpKind> kind = models::op_kind_of(name);
  if (kind && *kind != OpKind::fused && *kind != OpKind::branch && *kind != OpKind::loop) return *kind;
  sim::throw_fault({{}, place}, fmt::format("expected a kind of op that is one kernel, got '{}'", name),
                   sim::name_hint(name, op_kind_names()));
}

/// A target's table: kinds that it takes one by one, and chains.
struct Table {
  std::vector<OpKind> ops;
  std::vector<std::vector<OpKind>> patterns;
};

Table read_table(const ByocTargetParams& target, std::size_t place) {
  Table table;
  for (const std::string& name : target.ops.items)
    table.ops.push_back(kind_named(name, fmt::format("/byoc/targets/{}/ops", place)));
  for (const std::string& pattern : target.patterns.items) {
    std::vector<OpKind>& chain = table.patterns.emplace_back();
    for (const std::string& name : split(pattern, '+'))
      chain.push_back(kind_named(name, fmt::format("/byoc/targets/{}/patterns", place)));
  }
  return table;
}

/// Units of a graph: which ops move as a whole, and which target can run them.
struct Annotation {
  std::vector<std::int32_t> unit;    ///< of each op
  std::vector<std::int32_t> target;  ///< of each unit; -1: none
  std::int64_t composites = 0;
};

class ByocPass final : public GraphPass {
 public:
  explicit ByocPass(const ByocParams& params) : params_(params) {
    for (std::size_t i = 0; i < params.targets.size(); ++i) {
      tables_.push_back(read_table(params.targets[i], i));
      order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return params.targets[a].priority > params.targets[b].priority;
    });
  }

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    if (params_.targets.empty()) return graph;
    const Annotation annotation = annotate(graph, context);
    const byoc::Problem problem = problem_of(graph, annotation, context);
    byoc::Regions regions = byoc::offload_each(problem);
    if (params_.merge == ByocMerge::adjacent) regions = byoc::merge_adjacent(problem, std::move(regions));
    const std::int64_t offered = byoc::price(problem, regions).regions;
    if (params_.accept == ByocAccept::cost) regions = byoc::accept_by_cost(problem, std::move(regions), params_.trim);
    tell(graph, annotation, problem, regions, offered, report);
    return with_copies(in_regions(graph, annotation, regions));
  }

 private:
  /// Whether a target takes these ops, which its table names.
  bool takes(std::size_t target, const OpGraph& graph, std::span<const OpId> ops, const PassContext& context) const {
    if (const PassTarget* part = context.target(params_.targets[target].name))
      if (!std::ranges::all_of(ops, [&](OpId op) { return part->runs(graph, op, context.typical); })) return false;
    const OpId first = ops.front();
    const double share = params_.targets[target].share;
    if (share >= 1) return true;
    sim::RandomStream draw(context.seed, "byoc/" + params_.targets[target].name);
    return draw.child(models::index(first)).uniform() < share;
  }

  Annotation annotate(const OpGraph& graph, const PassContext& context) const {
    const std::size_t n = graph.op_count();
    std::vector<std::int32_t> target(n, -1), head(n);
    Annotation result;
    for (std::size_t i = 0; i < n; ++i) head[i] = static_cast<std::int32_t>(i);
    for (const std::size_t t : order_) {
      for (const std::vector<OpKind>& pattern : tables_[t].patterns)
        for (const OpId first : graph.ops()) {
          const std::vector<OpId> chain = match_chain(graph, first, pattern);
          const auto taken = [&](OpId op) { return target[models::index(op)] >= 0; };
          if (chain.empty() || std::any_of(chain.begin(), chain.end(), taken) || !takes(t, graph, chain, context))
            continue;
          result.composites += chain.size() > 1 ? 1 : 0;
          for (const OpId op : chain) {
            target[models::index(op)] = static_cast<std::int32_t>(t);
            head[models::index(op)] = static_cast<std::int32_t>(models::index(first));
          }
        }
      for (const OpId op : graph.ops()) {
        const std::vector<OpKind>& kinds = tables_[t].ops;
        const bool known = std::find(kinds.begin(), kinds.end(), graph.op(op).kind) != kinds.end();
        if (known && target[models::index(op)] < 0 && takes(t, graph, std::span(&op, 1), context))
          target[models::index(op)] = static_cast<std::int32_t>(t);
      }
    }
    // A view depends on one op, so it can always join what makes its operand.
    for (const OpId op : graph.ops()) {
      if (models::info(graph.op(op).kind).pattern != models::Pattern::view) continue;
      const std::optional<OpId> maker = graph.producer(graph.op(op).inputs.front());
      if (!maker || target[models::index(op)] >= 0) continue;
      const std::int32_t follows = target[models::index(*maker)];
      if (follows < 0 || !params_.targets[static_cast<std::size_t>(follows)].views) continue;
      target[models::index(op)] = follows;
      head[models::index(op)] = head[models::index(*maker)];
    }
    number_units(head, target, result);
    return result;
  }

  static void number_units(const std::vector<std::int32_t>& head, const std::vector<std::int32_t>& target,
                           Annotation& result) {
    std::vector<std::int32_t> number(head.size(), -1);
    for (std::size_t i = 0; i < head.size(); ++i) {
      std::int32_t& unit = number[static_cast<std::size_t>(head[i])];
      if (unit < 0) {
        unit = static_cast<std::int32_t>(result.target.size());
        result.target.push_back(target[i]);
      }
      result.unit.push_back(unit);
    }
  }

  /// The machine's device by the name of a target; null: the target is what its rates say.
  const PassTarget* part_of(std::int32_t target, const PassContext& context) const {
    return target < 0 ? nullptr : context.target(params_.targets[static_cast<std::size_t>(target)].name);
  }

  /// What each unit is to its target: by rates the work of one kernel where it is a composite, by the machine's device
  /// all kernels in it.
  std::vector<double> target_times(const OpGraph& graph, const Annotation& a, const PassContext& context) const {
    std::vector<double> times(a.target.size(), 0.0);
    models::Grouping composites(graph.op_count(), -1);
    for (const OpId op : graph.ops())
      if (a.target[unit(a, op)] >= 0) composites[models::index(op)] = a.unit[models::index(op)];
    const OpGraph fused = models::fuse_groups(graph, composites);
    std::unordered_map<std::string, OpId> by_tensor;  // outputs keep their names
    for (const OpId op : graph.ops())
      for (const TensorId output : graph.op(op).outputs) by_tensor.emplace(graph.tensor(output).name, op);
    for (const OpId op : graph.ops())
      if (const PassTarget* part = part_of(a.target[unit(a, op)], context))
        times[unit(a, op)] += part->work(graph, op, context.typical).time_s;
    for (const OpId op : fused.ops()) {
      if (fused.op(op).outputs.empty()) continue;
      const OpId old = by_tensor.at(fused.tensor(fused.op(op).outputs.front()).name);
      const std::int32_t target = a.target[unit(a, old)];
      if (target >= 0 && part_of(target, context) == nullptr)
        times[unit(a, old)] =
            params_.targets[static_cast<std::size_t>(target)].rates.time_s(models::work(fused, op, context.typical));
    }
    return times;
  }

  byoc::Problem problem_of(const OpGraph& graph, const Annotation& a, const PassContext& context) const {
    byoc::Problem problem;
    problem.units.resize(a.target.size());
    const std::vector<double> on_target = target_times(graph, a, context);
    for (std::size_t i = 0; i < a.target.size(); ++i) {
      problem.units[i].target = a.target[i];
      problem.units[i].target_s = on_target[i];
    }
    for (const OpId op : graph.ops()) problem.units[unit(a, op)].host_s += host_time(graph, op, context);
    for (const ByocTargetParams& target : params_.targets) {
      const PassTarget* part = context.target(target.name);
      problem.targets.push_back(part != nullptr
                                    ? byoc::Target{part->call_s, part->copy_latency_s, part->copy_bandwidth}
                                    : byoc::Target{target.rates.call_s, target.link.latency_s, target.link.bandwidth});
    }
    for (const TensorId id : graph.tensors()) {
      const TensorRole role = graph.tensor(id).role;
      if (role != TensorRole::activation && role != TensorRole::input) continue;  // bound to the region
      byoc::Value value;
      if (const std::optional<OpId> maker = graph.producer(id)) value.maker = a.unit[models::index(*maker)];
      for (const OpId reader : graph.consumers(id)) value.readers.push_back(a.unit[models::index(reader)]);
      value.result = graph.is_output(id);
      value.bytes = models::bytes_of(graph, id, context.typical);
      problem.values.push_back(std::move(value));
    }
    return problem;
  }

  double host_time(const OpGraph& graph, OpId op, const PassContext& context) const {
    if (!params_.host) return context.time_s(graph, op, context.typical);
    if (models::launches_nothing(graph.op(op))) return 0;
    return params_.host->time_s(models::work(graph, op, context.typical)) + params_.host->call_s;
  }

  void tell(const OpGraph& graph, const Annotation& a, const byoc::Problem& problem, const byoc::Regions& regions,
            std::int64_t offered, PassReport& report) const {
    const byoc::Price now = byoc::price(problem, regions);
    const byoc::Price host = byoc::price(problem, byoc::Regions(regions.size(), -1));
    std::int64_t supported = 0, moved = 0, kernels = 0;
    for (const OpId op : graph.ops()) {
      if (models::launches_nothing(graph.op(op))) continue;
      ++kernels;
      supported += a.target[unit(a, op)] >= 0 ? 1 : 0;
      moved += regions[unit(a, op)] >= 0 ? 1 : 0;
    }
    report.tell("supported_share", kernels > 0 ? static_cast<double>(supported) / static_cast<double>(kernels) : 0);
    report.tell("offloaded_ops", static_cast<double>(moved));
    report.tell("composites", static_cast<double>(a.composites));
    report.tell("regions", static_cast<double>(now.regions));
    report.tell("rejected_regions", static_cast<double>(offered - now.regions));
    report.tell("transfers", static_cast<double>(now.transfers));
    report.tell("transfer_bytes", static_cast<double>(now.bytes));
    report.tell("latency_s", now.latency_s);
    report.tell("host_latency_s", host.latency_s);
  }

  /// Every region one op with its target set.
  OpGraph in_regions(const OpGraph& graph, const Annotation& a, const byoc::Regions& regions) const {
    models::GraphCopy copy(graph);
    models::Grouping groups(graph.op_count(), -1);
    for (const OpId op : graph.ops()) {
      const OpId now = copy.copy(op);
      const std::size_t own = unit(a, op);
      if (regions[own] < 0) continue;
      groups[models::index(op)] = regions[own];
      copy.to().annotate(now).target = params_.targets[static_cast<std::size_t>(a.target[own])].name;
    }
    return models::fuse_groups(copy.finish(), groups);
  }

  OpGraph with_copies(const OpGraph& graph) const {
    models::GraphCopy copy(graph);
    const auto move = [&](OpKind kind, TensorId tensor, const models::OpNode& as) {
      models::OpNode node;
      node.kind = kind;
      const bool up = kind == OpKind::to_device;
      node.name = fmt::format("{}.{}", copy.to().tensor(tensor).name, up ? "to_" + as.target : "to_host");
      if (up) node.name += "." + as.name;
      node.inputs = {tensor};
      node.scope = as.scope;
      node.phase = as.phase;
      node.target = as.target;
      node.op_class = hw::OpClass::copy;
      models::Tensor moved = copy.to().tensor(tensor);
      moved.name = node.name;
      moved.role = TensorRole::activation;
      const OpId added = copy.to().add(std::move(node), {moved});
      return copy.to().op(added).outputs.front();
    };
    for (const OpId op : graph.ops()) {
      if (!is_ours(graph.op(op).target)) {
        copy.copy(op);
        continue;
      }
      models::OpNode node = copy.node(op);
      std::vector<std::pair<TensorId, TensorId>> moved;
      for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
        TensorId& input = node.inputs[slot];
        const TensorRole role = copy.to().tensor(input).role;
        if (role != TensorRole::activation && role != TensorRole::input) continue;
        const auto known = std::find_if(moved.begin(), moved.end(), [&](const auto& m) { return m.first == input; });
        if (known == moved.end()) {
          const TensorId there = move(OpKind::to_device, input, graph.op(op));
          moved.emplace_back(input, there);
          input = there;
        } else {
          input = known->second;
        }
      }
      std::vector<models::Tensor> outputs;
      for (const TensorId output : graph.op(op).outputs) outputs.push_back(graph.tensor(output));
      const OpId added = copy.to().add(std::move(node), std::move(outputs));
      for (std::size_t i = 0; i < graph.op(op).outputs.size(); ++i) {
        const TensorId old = graph.op(op).outputs[i];
        const TensorId now = copy.to().op(added).outputs[i];
        const bool used = !graph.consumers(old).empty() || graph.is_output(old);
        copy.put(old, used ? move(OpKind::to_host, now, graph.op(op)) : now);
      }
    }
    return copy.finish();
  }

  bool is_ours(const std::string& target) const {
    return std::any_of(params_.targets.begin(), params_.targets.end(),
                       [&](const ByocTargetParams& t) { return t.name == target; });
  }

  static std::size_t unit(const Annotation& a, OpId op) { return static_cast<std::size_t>(a.unit[models::index(op)]); }

  ByocParams params_;
  std::vector<Table> tables_;
  std::vector<std::size_t> order_;  ///< of targets, by priority
};

}  // namespace

void add_byoc(PassRegistry& registry) {
  registry.add<ByocParams>("byoc", "Regions of supported ops run on accelerators, with copies at their borders (BYOC).",
                           [](const ByocParams& params) { return std::make_unique<ByocPass>(params); });
}

}  // namespace orrery::policies
