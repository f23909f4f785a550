// Plans of a chain of tasks on a static design: sequential, dataflow, and the search over stages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hw/fpga/fpga.hpp"

namespace orrery::hw {
namespace {

class Planner {
 public:
  Planner(const FpgaDesign& design, const std::vector<FpgaTask>& tasks) : design_(design), tasks_(tasks) {}

  FpgaPlan sequential() const {
    FpgaPlan plan{FpgaMode::sequential, {}, 0, 0};
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const double spilled = spill(i);
      const double moved = static_cast<double>(tasks_[i].weight_bytes) + 2 * spilled;
      const std::int64_t cycles =
          up(static_cast<double>(tasks_[i].macs), all_macs()) + up(moved, design_.spill_port_bytes);
      add(plan, {i, i, true, cycles});
      plan.spilled_bytes += spilled;
    }
    return plan;
  }

  /// Task i runs on core i % cores: a windowed task starts with the one before it, any other when that has ended.
  FpgaPlan dataflow() const {
    FpgaPlan plan{FpgaMode::dataflow, {}, 0, 0};
    std::vector<std::int64_t> core_free(static_cast<std::size_t>(design_.cores), 0);
    std::int64_t before_start = 0, before_end = 0;
    std::size_t index = 0;
    for (const FpgaTask& task : tasks_) {
      std::int64_t& free = core_free[index % core_free.size()];
      const bool streams = task.windowed && index > 0 && design_.cores > 1;
      const std::int64_t ready = streams ? before_start + design_.fifo_cycles : before_end;
      const std::int64_t start = std::max(ready, free);
      const std::int64_t end = std::max(start + on_core(task), streams ? before_end + design_.fifo_cycles : 0);
      plan.stages.push_back({index, index, false, end - start});
      plan.cycles = std::max(plan.cycles, end);
      free = end;
      before_start = start;
      before_end = end;
      ++index;
    }
    return plan;
  }

  /// The shortest row of stages, by dynamic programming over how many tasks are done; nothing if a task has no stage.
  FpgaPlan staged() const {
    constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::max();
    const std::size_t count = tasks_.size();
    std::vector<std::int64_t> best(count + 1, kUnreached);
    std::vector<FpgaStage> stage(count + 1);
    best[0] = 0;
    for (std::size_t done = 0; done < count; ++done) {
      if (best[done] == kUnreached) continue;
      const std::int64_t change = done > 0 ? design_.switch_cycles : 0;
      const auto consider = [&](FpgaStage option) {
        const std::int64_t total = best[done] + change + option.cycles;
        if (total >= best[option.last + 1]) return;
        best[option.last + 1] = total;
        stage[option.last + 1] = option;
      };
      if (waits(done)) consider({done, done, true, split(tasks_[done])});
      const auto longest = std::min(count - done, static_cast<std::size_t>(design_.cores));
      std::int64_t slowest = 0;
      for (std::size_t length = 1; length <= longest; ++length) {
        const std::size_t last = done + length - 1;
        slowest = std::max(slowest, on_core(tasks_[last]));
        if (!waits(last)) continue;
        // Whole outputs may not lie between the cores of a pipeline: of three dense layers in a row the middle one
        // would have to go by input and by output at once.
        if (length > 2 && !all_windowed(done + 1, last)) continue;
        consider({done, last, false, slowest + design_.fifo_cycles * static_cast<std::int64_t>(length - 1)});
      }
    }
    FpgaPlan plan{FpgaMode::intar, {}, best[count], 0};
    if (best[count] == kUnreached) return plan;
    for (std::size_t done = count; done > 0; done = stage[done].first) plan.stages.push_back(stage[done]);
    std::reverse(plan.stages.begin(), plan.stages.end());
    return plan;
  }

 private:
  static std::int64_t up(double work, double rate) { return static_cast<std::int64_t>(std::ceil(work / rate)); }
  double all_macs() const { return static_cast<double>(design_.cores) * static_cast<double>(design_.macs_per_core); }
  /// Bytes of a task's output that the stage buffer cannot hold; the last output leaves the chip in every mode.
  double spill(std::size_t task) const {
    if (task + 1 >= tasks_.size() || tasks_[task].output_bytes <= design_.stage_buffer_bytes) return 0;
    return static_cast<double>(tasks_[task].output_bytes);
  }
  bool waits(std::size_t task) const { return spill(task) == 0; }
  bool all_windowed(std::size_t first, std::size_t last) const {
    for (std::size_t i = first; i <= last; ++i)
      if (!tasks_[i].windowed) return false;
    return true;
  }
  std::int64_t on_core(const FpgaTask& task) const {
    return std::max(up(static_cast<double>(task.macs), static_cast<double>(design_.macs_per_core)),
                    up(static_cast<double>(task.weight_bytes), design_.weight_port_bytes));
  }
  std::int64_t split(const FpgaTask& task) const {
    return std::max(
        up(static_cast<double>(task.macs), all_macs()),
        up(static_cast<double>(task.weight_bytes), design_.weight_port_bytes * static_cast<double>(design_.cores)));
  }
  static void add(FpgaPlan& plan, FpgaStage stage) {
    plan.stages.push_back(stage);
    plan.cycles += stage.cycles;
  }

  const FpgaDesign& design_;
  const std::vector<FpgaTask>& tasks_;
};

std::string misfit(const FpgaParams& fpga, const FpgaResources& used) {
  const double free = 1 - fpga.shell_share;
  const double dsp = static_cast<double>(fpga.dsp) * free, lut = static_cast<double>(fpga.lut) * free;
  const double memory =
      free * (static_cast<double>(fpga.bram18) + static_cast<double>(fpga.uram) * kUramBytes / kBram18Bytes);
  if (used.dsp > dsp) return fmt::format("{:.0f} DSP slices needed, {:.0f} free", used.dsp, dsp);
  if (used.lut > lut) return fmt::format("{:.0f} look-up tables needed, {:.0f} free", used.lut, lut);
  if (used.bram18 > memory)
    return fmt::format("buffers of {:.0f} block RAMs needed, {:.0f} free (Ultra RAM included)", used.bram18, memory);
  return {};
}

}  // namespace

std::variant<FpgaPlan, FpgaDoesNotFit> plan_fpga(const FpgaParams& fpga, const FpgaDesign& design,
                                                 const std::vector<FpgaTask>& tasks, FpgaMode mode) {
  if (design.cores < 1 || design.macs_per_core < 1 || !(design.weight_port_bytes > 0) || !(design.spill_port_bytes > 0))
    return FpgaDoesNotFit{"a design has at least one core, one multiply-add a core and ports of some width"};
  const double port = design.weight_port_bytes * static_cast<double>(design.cores) * fpga.clock_hz;
  if (std::max(port, design.spill_port_bytes * fpga.clock_hz) > fpga.memory_bandwidth)
    return FpgaDoesNotFit{
        fmt::format("ports of {:.1f} GB/s on a memory of {:.1f} GB/s", port * 1e-9, fpga.memory_bandwidth * 1e-9)};
  const std::string reason = misfit(fpga, resources_of(fpga, design, tasks, mode));
  if (!reason.empty()) return FpgaDoesNotFit{reason};
  const Planner planner(design, tasks);
  switch (mode) {
    case FpgaMode::sequential:
      return planner.sequential();
    case FpgaMode::dataflow:
      return planner.dataflow();
    case FpgaMode::intar:
      break;
  }
  FpgaPlan best = planner.staged();
  if (FpgaPlan plan = planner.sequential(); plan.cycles < best.cycles) best = std::move(plan);
  if (FpgaPlan plan = planner.dataflow();
      plan.cycles < best.cycles && misfit(fpga, resources_of(fpga, design, tasks, FpgaMode::dataflow)).empty())
    best = std::move(plan);
  return best;
}

}  // namespace orrery::hw
