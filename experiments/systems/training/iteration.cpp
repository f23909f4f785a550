#include "experiments/systems/training/iteration.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

#include "sim/engine.hpp"
#include "sim/task/executor.hpp"
#include "sim/task/graph.hpp"

namespace orrery::experiments::training {
namespace {

using policies::PassKind;
using policies::StageChunk;
using policies::StagePass;
using sim::TaskId;

/// End of summing a stage's gradients, which begins with its last backward pass, and of bringing them to the host. What
/// waits for the host does so while gathers and sums beside the pass go on.
double gradients_end_s(const StageCosts& stage, const Plan& plan, double backward_begin, double backward_end) {
  const bool sums = plan.copies() > 1 || plan.expert_copies() > 1;
  const bool to_host = stage.host_gradients_s > 0 && !stage.host_gradients_wait;
  hw::PerActivity beside{};
  if (sums && plan.overlap_gradients) beside[index(hw::Activity::collective)] = stage.gradients_s;
  if (to_host) beside[index(hw::Activity::to_host)] = stage.host_gradients_s;
  double end = backward_begin + beside_pass_s(stage, beside, backward_end - backward_begin);
  if (sums && !plan.overlap_gradients) end = std::max(end, backward_end + stage.gradients_s);
  if (stage.host_gradients_s > 0 && stage.host_gradients_wait)
    end += std::max(0.0, stage.host_gradients_s - stage.backward_waits_s());
  return end;
}

double pass_s(const ChunkCosts& chunk, PassKind kind) {
  switch (kind) {
    case PassKind::forward:
      return chunk.forward_s();
    case PassKind::backward:
      return chunk.backward_s();
    case PassKind::backward_input:
      return chunk.backward_input_s();
    case PassKind::backward_weight:
      return chunk.backward_weight_s();
  }
  return 0;
}

/// The task graph of a step.
class StepGraph {
 public:
  StepGraph(const StepCosts& costs, const policies::PipelineSchedule& schedule, sim::TickScale scale)
      : costs_(costs),
        schedule_(schedule),
        scale_(scale),
        view_{.devices = costs.plan.pipeline,
              .micro_batches = costs.plan.micro_batches,
              .chunks = costs.plan.chunks,
              .forward = costs.stages.front().chunks.front().forward_s(),
              .backward_input = pass_s(costs.stages.front().chunks.front(), PassKind::backward_input),
              .backward_weight = pass_s(costs.stages.front().chunks.front(), PassKind::backward_weight),
              .transfer = costs.messages.longest_s()},
        routes_(schedule.routes(view_)),
        order_(schedule.order(view_)) {}

  StepRun run() {
    build();
    sim::Engine engine;
    sim::TaskExecutor executor(engine, graph_);
    executor.run();
    StepRun out;
    out.events = engine.events();
    for (std::size_t i = 0; i < graph_.tasks(); ++i) {
      const sim::TaskRun& times = executor[TaskId{static_cast<std::uint32_t>(i)}];
      const Entry& entry = entries_[i];
      if (entry.message)
        out.messages.push_back({entry.stage, entry.to, entry.pass.micro_batch, entry.pass.kind == PassKind::forward,
                                times.start, times.finish});
      else
        out.passes.push_back({entry.stage, entry.pass, times.start, times.finish});
    }
    finish(out);
    return out;
  }

 private:
  struct Entry {
    bool message = false;
    std::int32_t stage = 0, to = 0;
    StagePass pass;
  };
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, PassKind>;

  const ChunkCosts& chunk(const StageChunk& at) const {
    return costs_.stages[static_cast<std::size_t>(at.device)].chunks[static_cast<std::size_t>(at.chunk)];
  }

  void build() {
    std::vector<sim::ResourceId> devices, forward_links, backward_links;
    for (std::int64_t s = 0; s < view_.devices; ++s) {
      devices.push_back(graph_.add_resource({.order = sim::TaskOrder::program}));
      forward_links.push_back(graph_.add_resource({}));
      backward_links.push_back(graph_.add_resource({}));
    }
    for (std::size_t s = 0; s < order_.size(); ++s)
      for (const StagePass& pass : order_[s]) {
        const auto stage = static_cast<std::int32_t>(s);
        const sim::Duration time = scale_.duration(pass_s(chunk({stage, pass.chunk}), pass.kind));
        tasks_[{stage, pass.chunk, pass.micro_batch, pass.kind}] = graph_.add({.duration = time, .on = {devices[s]}});
        entries_.push_back({.stage = stage, .pass = pass});
      }
    for (std::int32_t m = 0; m < view_.micro_batches; ++m) {
      const policies::PipelineRoute& route = routes_[static_cast<std::size_t>(schedule_.route_of(view_, m))];
      for (std::size_t hop = 0; hop < route.size(); ++hop) {
        const StageChunk at = route[hop];
        const TaskId forward = task(at, m, PassKind::forward);
        const bool halves = !tasks_.contains({at.device, at.chunk, m, PassKind::backward});
        const TaskId back = task(at, m, halves ? PassKind::backward_input : PassKind::backward);
        graph_.add_dependency(forward, back);
        if (halves) graph_.add_dependency(back, task(at, m, PassKind::backward_weight));
        if (hop + 1 == route.size()) continue;
        const StageChunk next = route[hop + 1];
        const bool next_halves = !tasks_.contains({next.device, next.chunk, m, PassKind::backward});
        send(forward, task(next, m, PassKind::forward), at, next, m, PassKind::forward,
             forward_links[static_cast<std::size_t>(at.device)]);
        send(task(next, m, next_halves ? PassKind::backward_input : PassKind::backward), back, next, at, m,
             PassKind::backward, backward_links[static_cast<std::size_t>(next.device)]);
      }
    }
  }

  TaskId task(const StageChunk& at, std::int32_t micro_batch, PassKind kind) const {
    return tasks_.at({at.device, at.chunk, micro_batch, kind});
  }

  void send(TaskId from, TaskId to, const StageChunk& source, const StageChunk& target, std::int32_t micro_batch,
            PassKind kind, sim::ResourceId link) {
    if (source.device == target.device) {
      graph_.add_dependency(from, to);
      return;
    }
    const double time = costs_.messages.between(source.device, target.device).time_s;
    const TaskId message = graph_.add({.duration = scale_.duration(time), .on = {link}, .after = {from}});
    entries_.push_back(
        {.message = true, .stage = source.device, .to = target.device, .pass = {kind, micro_batch, source.chunk}});
    graph_.add_dependency(message, to);
  }

  /// Gradients and the optimizer, and what each part of the time went to.
  void finish(StepRun& out) const {
    const auto stages = static_cast<std::size_t>(view_.devices);
    std::vector<sim::Time> last_begin(stages), last_end(stages);
    out.busy_s.assign(stages, 0);
    for (const PassRun& run : out.passes) {
      const auto s = static_cast<std::size_t>(run.stage);
      out.busy_s[s] += scale_.seconds(run.end - run.start);
      if (run.end < last_end[s]) continue;
      last_end[s] = run.end;
      last_begin[s] = run.start;
    }
    sim::Time all;
    for (std::size_t s = 0; s < stages; ++s) {
      const StageCosts& stage = costs_.stages[s];
      const double end =
          gradients_end_s(stage, costs_.plan, scale_.seconds(last_begin[s]), scale_.seconds(last_end[s]));
      out.passes_end.push_back(last_end[s]);
      out.gradients_end.push_back(sim::Time{} + scale_.duration(end + stage.shared_s));
      all = std::max(all, out.gradients_end.back());
    }
    // Gradients are clipped by the norm of all of them, so every stage's step waits for the last sum.
    std::size_t slowest = 0;
    double tail = -1;
    for (std::size_t s = 0; s < stages; ++s) {
      const double own = costs_.stages[s].optimizer_s + costs_.stages[s].gathers_s;
      out.end.push_back(all + scale_.duration(own));
      if (own > tail) tail = own, slowest = s;
    }
    account(out, scale_.seconds(all), slowest);
    out.peak_kept_bytes = most(out, &ChunkCosts::kept_bytes);
    out.peak_host_bytes = most(out, &ChunkCosts::host_bytes);
  }

  void account(StepRun& out, double gradients_end, std::size_t slowest) const {
    StepTimes& times = out.times;
    const StageCosts& stage = costs_.stages[slowest];
    times.optimizer_s = stage.optimizer_s + stage.gathers_s;
    times.time_s = gradients_end + times.optimizer_s;
    // By the busiest stage: what it does, and what it waits.
    const auto busiest =
        static_cast<std::size_t>(std::max_element(out.busy_s.begin(), out.busy_s.end()) - out.busy_s.begin());
    const auto micro = static_cast<double>(view_.micro_batches);
    for (const ChunkCosts& chunk : costs_.stages[busiest].chunks) {
      times.recompute_s += micro * chunk.recompute_s();
      times.collective_s += micro * chunk.collective_s();
    }
    const double passes_end = scale_.seconds(*std::max_element(out.passes_end.begin(), out.passes_end.end()));
    times.bubble_s = std::max(0.0, passes_end - out.busy_s[busiest]);
    times.compute_s = out.busy_s[busiest] - times.collective_s - times.recompute_s;
    times.gradients_s = gradients_end - passes_end;
  }

  std::vector<std::int64_t> most(const StepRun& out, std::int64_t ChunkCosts::*of) const {
    std::vector<std::int64_t> peaks;
    for (const auto& stage : kept_over_time(costs_, out.passes, of)) {
      std::int64_t peak = 0;
      for (const KeptBytes& held : stage) peak = std::max(peak, held.bytes);
      peaks.push_back(peak);
    }
    return peaks;
  }

  const StepCosts& costs_;
  const policies::PipelineSchedule& schedule_;
  sim::TickScale scale_;
  policies::ScheduleView view_;
  std::vector<policies::PipelineRoute> routes_;
  policies::ScheduleOrder order_;
  sim::TaskGraph graph_;
  std::map<Key, TaskId> tasks_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<std::vector<KeptBytes>> kept_over_time(const StepCosts& costs, const std::vector<PassRun>& passes,
                                                   std::int64_t ChunkCosts::*of) {
  std::vector<std::vector<KeptBytes>> stages(costs.stages.size());  // changes, then sums
  for (const PassRun& run : passes) {
    const auto s = static_cast<std::size_t>(run.stage);
    const std::int64_t bytes = costs.stages[s].chunks[static_cast<std::size_t>(run.pass.chunk)].*of;
    if (run.pass.kind == PassKind::forward) stages[s].push_back({run.start, bytes});
    if (run.pass.kind == PassKind::backward || run.pass.kind == PassKind::backward_weight)
      stages[s].push_back({run.end, -bytes});
  }
  for (auto& own : stages) {
    std::stable_sort(own.begin(), own.end(), [](const KeptBytes& a, const KeptBytes& b) {
      return std::tuple(a.at, a.bytes) < std::tuple(b.at, b.bytes);  // what ends makes room first
    });
    std::int64_t now = 0;
    for (KeptBytes& change : own) change.bytes = now += change.bytes;
  }
  return stages;
}

StepTimes closed_form(const Plan& plan, const StageMessages& messages, std::span<const StageCosts* const> stages_at) {
  StepTimes times;
  const auto micro = static_cast<double>(plan.micro_batches), chunks = static_cast<double>(plan.chunks);
  const std::size_t stages = stages_at.size();
  std::vector<double> forward(stages, 0), whole(stages, 0);
  double after = 0, before = 0;  // of a micro-batch through the stages on either side, there and back
  for (std::size_t s = 0; s < stages; ++s) {
    if (s > 0 && stages_at[s] == stages_at[s - 1]) {
      forward[s] = forward[s - 1];
      whole[s] = whole[s - 1];
    } else {
      forward[s] = stages_at[s]->forward_s();
      whole[s] = forward[s] + stages_at[s]->backward_s();
    }
    after += whole[s];
  }
  // A stage is reached through those before it, does its passes, and waits for the first gradient from those after it,
  // less what it runs ahead meanwhile; the stage that ends last decides.
  double slowest = 0, fill = 0, hops_before = 0, hops_after = 2 * messages.through(std::ssize(stages_at)).time_s;
  std::size_t busiest = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    after -= whole[s];
    const double later = static_cast<double>(stages - 1 - s);
    const double ahead = std::min(later, micro - 1);
    const double waits = std::max(0.0, after + hops_after - ahead * forward[s]);
    const double idle = (before + waits) / chunks + hops_before;
    const double own = micro * whole[s];
    double total = own + idle;
    // A stage has so many micro-batches under way, each of which goes through all later stages and back.
    if (chunks == 1) {
      const double rounds = std::ceil(micro / (later + 1)), round = whole[s] + after + hops_after;
      total = std::max(total, before + hops_before + rounds * round);
    }
    if (total > slowest + fill) slowest = own, fill = total - own, busiest = s;
    before += whole[s];
    if (s + 1 == stages) break;
    const double hop = 2 * messages.hop(static_cast<std::int64_t>(s)).time_s;
    hops_before += hop;
    hops_after -= hop;
  }
  const StageCosts& stage = *stages_at[busiest];
  for (const ChunkCosts& chunk : stage.chunks) {
    times.recompute_s += micro * chunk.recompute_s();
    times.collective_s += micro * chunk.collective_s();
  }
  times.bubble_s = fill;
  times.compute_s = slowest - times.collective_s - times.recompute_s;
  double passes = slowest + fill, gradients = 0, tail = 0;
  const StageCosts* before_this = nullptr;
  for (const StageCosts* own : stages_at) {
    if (own == before_this) continue;
    before_this = own;
    const double last = own->chunks.front().backward_s();
    gradients = std::max(gradients, gradients_end_s(*own, plan, passes - last, passes) - passes + own->shared_s);
    tail = std::max(tail, own->optimizer_s + own->gathers_s);
  }
  times.gradients_s = gradients;
  times.optimizer_s = tail;
  times.time_s = passes + gradients + tail;
  return times;
}

StepTimes closed_form(const StepCosts& costs) {
  std::vector<const StageCosts*> stages;
  for (const StageCosts& stage : costs.stages) stages.push_back(&stage);
  return closed_form(costs.plan, costs.messages, stages);
}

StepRun run_step(const StepCosts& costs, const policies::PipelineSchedule& schedule, sim::TickScale scale) {
  return StepGraph(costs, schedule, scale).run();
}

}  // namespace orrery::experiments::training
