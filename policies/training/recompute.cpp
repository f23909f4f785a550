// Activation checkpointing: regions of the forward pass keep only what enters and leaves them, and run again when the
// backward pass comes to them (Chen et al., 2016).
//
// A region is all forward ops whose scope begins as the pattern says ("layer.*": a layer each), `every` of them
// together. Tensors that forward ops outside the region read, or the graph gives, stay; all others that the backward
// pass reads are made again, in one go, right before the first backward op that reads one. Dropout repeats its mask
// from its seed. With known sizes the pass looks at the peak (policies/memory/graph_buffers.hpp) and returns the graph
// as it was where recomputing would raise it.
#include <algorithm>
#include <map>

#include "models/autodiff/autodiff.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/memory/graph_buffers.hpp"
#include "policies/memory/remat.hpp"
#include "policies/training/regions.hpp"

namespace orrery::policies {
namespace {

using namespace models;

struct RecomputeParams {
  std::string scope = "layer.*";
  std::int64_t every = 1;

  static constexpr auto fields() {
    using P = RecomputeParams;
    return sim::FieldTable{
        sim::field("scope", &P::scope, sim::Unit::text, sim::any_value(),
                   "Prefix of the scopes of a region's ops, where '*' stands for one part between dots."),
        sim::field("every", &P::every, sim::Unit::count, sim::at_least(1),
                   "Number of consecutive regions that are joined into one."),
    };
  }
};

class Recomputer {
 public:
  Recomputer(const OpGraph& graph, std::vector<std::int32_t> region)
      : copy_(graph), region_(std::move(region)), wanted_(graph.op_count(), false), again_(graph.tensor_count()) {
    for (const OpId id : graph.ops())
      if (graph.op(id).phase == models::Phase::backward)
        for (const TensorId input : graph.op(id).inputs) want(input);
    std::int32_t regions = 0;
    for (const std::int32_t one : region_) regions = std::max(regions, one + 1);
    done_.assign(static_cast<std::size_t>(regions), false);
  }

  OpGraph run() {
    const OpGraph& graph = copy_.from();
    for (const OpId id : graph.ops()) {
      if (graph.op(id).phase != models::Phase::backward) {
        copy_.copy(id);
        continue;
      }
      for (const TensorId input : graph.op(id).inputs)
        if (const std::optional<OpId> maker = dropped(input)) recompute(region_[index(*maker)]);
      OpNode node = copy_.node(id);
      for (std::size_t slot = 0; slot < node.inputs.size(); ++slot)
        if (const auto& made = again_[index(graph.op(id).inputs[slot])]) node.inputs[slot] = *made;
      copy_.replace(id, std::move(node));
    }
    OpGraph done = copy_.finish();
    mark_saved(done);
    return done;
  }
  double ops_again = 0, regions_again = 0;

 private:
  /// The op that makes a tensor again; nothing where it stays.
  std::optional<OpId> dropped(TensorId id) const {
    const OpGraph& graph = copy_.from();
    const std::optional<OpId> maker = graph.producer(id);
    if (!maker || region_[index(*maker)] == kNoRegion || !repeatable(graph.op(*maker)) || graph.is_output(id))
      return std::nullopt;
    for (const OpId reader : graph.consumers(id))
      if (graph.op(reader).phase == models::Phase::optimizer ||
          (graph.op(reader).phase == models::Phase::forward && region_[index(reader)] != region_[index(*maker)]))
        return std::nullopt;
    return maker;
  }

  void want(TensorId id) {
    const std::optional<OpId> maker = dropped(id);
    if (!maker || wanted_[index(*maker)]) return;
    wanted_[index(*maker)] = true;
    for (const TensorId input : copy_.from().op(*maker).inputs) want(input);
  }

  void recompute(std::int32_t region) {
    if (done_[static_cast<std::size_t>(region)]) return;
    done_[static_cast<std::size_t>(region)] = true;
    regions_again += 1;
    const OpGraph& graph = copy_.from();
    for (const OpId id : graph.ops()) {
      if (region_[index(id)] != region || !wanted_[index(id)]) continue;
      OpNode node = copy_.node(id);
      for (std::size_t slot = 0; slot < node.inputs.size(); ++slot)
        if (const auto& made = again_[index(graph.op(id).inputs[slot])]) node.inputs[slot] = *made;
      node.phase = models::Phase::backward;
      const OpId added = copy_.add_again(id, std::move(node));
      const std::vector<TensorId>& old = graph.op(id).outputs;
      for (std::size_t i = 0; i < old.size(); ++i)
        if (dropped(old[i])) again_[index(old[i])] = copy_.to().op(added).outputs[i];
      ops_again += 1;
    }
  }

  GraphCopy copy_;
  std::vector<std::int32_t> region_;
  std::vector<bool> wanted_, done_;  ///< ops to run again, by index; regions that have been
  std::vector<std::optional<TensorId>> again_;
};

class RecomputePass final : public GraphPass {
 public:
  explicit RecomputePass(RecomputeParams params) : p_(std::move(params)) {}

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    if (std::ranges::none_of(graph.ops(), [&](OpId id) { return graph.op(id).phase == models::Phase::backward; }))
      throw GraphError("recompute: expected a training graph; run autodiff before");
    Recomputer recomputer(graph, forward_regions(graph, p_.scope, p_.every));
    OpGraph done = recomputer.run();
    report.tell("regions", recomputer.regions_again);
    report.tell("ops_again", recomputer.ops_again);
    if (recomputer.ops_again == 0) {
      report.notes.push_back("no forward op whose scope begins as '" + p_.scope +
                             "' makes what the backward pass reads");
      return graph;
    }
    if (!sizes_known(graph, context.typical)) return done;
    const GraphPeak before = graph_peak(graph, context.typical), after = graph_peak(done, context.typical);
    const bool kept = after.never_above(before);
    report.tell("live_before_bytes", static_cast<double>(before.live));
    report.tell("live_after_bytes", static_cast<double>(kept ? after.live : before.live));
    report.tell("applied", kept ? 1 : 0);
    if (!kept) report.notes.push_back("recomputing would raise the peak: the graph stays as it was");
    return kept ? std::move(done) : graph;
  }

 private:
  RecomputeParams p_;
};

}  // namespace

void add_recompute(PassRegistry& registry) {
  registry.add<RecomputeParams>("recompute", "Regions of the forward pass are recomputed in the backward pass.",
                                [](const RecomputeParams& params) { return std::make_unique<RecomputePass>(params); });
}

}  // namespace orrery::policies
