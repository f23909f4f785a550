#include "experiments/systems/launch/run.hpp"

#include <algorithm>

#include "hw/coupling/launch_program.hpp"
#include "policies/fusion/proximity.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::launch {
namespace {

constexpr double kPowerBin = 10e-6;  // s: finer than most kernels, coarse enough for a file

/// A platform with its prices, and the events that running on it took.
class Runner {
 public:
  Runner(const LaunchConfig& config, const hw::Platform& platform, const hw::Device& device)
      : config_(config),
        platform_(platform),
        scale_(tick_scale(config.run.tick_s)),
        limits_(hw::limits_of(platform, scale_)),
        device_(device) {}

  std::vector<hw::LaunchedKernel> kernels(const NamedModel& model, std::int64_t batch) const {
    const WorkloadParams& workload = config_.workload;
    return models::eager_kernels(model.shape, workload.attention, workload.dtype, batch, workload.tokens);
  }

  Point point(const NamedModel& model, std::int64_t batch, PointTrace* trace) {
    std::vector<hw::LaunchedKernel> launched = kernels(model, batch);
    Point point;
    point.batch = batch;
    PointTrace detail;
    point.stream = run(launched, hw::LaunchStyle::stream, 1, &detail);
    const sim::Duration bin = trace != nullptr ? scale_.duration(kPowerBin) : sim::Duration{};
    detail.energy = hw::launch_energy(platform_.name + "/gpu", device_.power.idle_w, *device_.model, launched,
                                      detail.timings, scale_, bin);
    for (const sim::EnergyLedger::Account& account : detail.energy.accounts()) {
      const double joules = static_cast<double>(account.pj) * 1e-12;
      (account.category == "idle"      ? point.idle_j
       : account.category == "compute" ? point.compute_j
                                       : point.memory_j) = joules;
    }
    point.graph = run(launched, hw::LaunchStyle::graph, 1, nullptr);
    point.fused = run(launched, hw::LaunchStyle::stream, config_.workload.chain, nullptr);
    point.proximity = proximity(launched, detail.program);
    point.capture_s = hw::capture_time(platform_, launched);
    if (trace != nullptr) {
      *trace = std::move(detail);
      trace->kernels = std::move(launched);
    }
    return point;
  }

  /// Fusion by proximity score, length by length. Forward passes synchronise nowhere, so no window is cut.
  std::vector<ProximityPoint> proximity(const std::vector<hw::LaunchedKernel>& launched,
                                        const std::vector<hw::Command>& program) {
    std::vector<std::string_view> names;
    for (const hw::LaunchedKernel& kernel : launched) names.push_back(kernel.name);
    const std::vector<std::uint32_t> kernels = policies::number_kernels(names);
    const ProximityParams& params = config_.workload.proximity;
    std::vector<ProximityPoint> points;
    for (const std::int64_t length : params.lengths) {
      const auto fusion = policies::proximity_fusion({kernels, {}}, length, params.threshold);
      const auto fused = hw::join_launches(platform_, program, launched, fusion.fused, length, scale_);
      hw::LaunchRun done = hw::run_launches(limits_, fused);
      events_ += done.events;
      points.push_back(
          {length, std::ssize(fusion.chains), fusion.launches, hw::analyse(fused, done.timings, scale_).il_s});
    }
    return points;
  }

  /// Whether the device is busy for longer than the thread, by the closed form.
  bool gpu_bound(const NamedModel& model, std::int64_t batch) const {
    const auto program =
        hw::build_program(platform_, *device_.model, kernels(model, batch), hw::LaunchStyle::stream, scale_);
    return hw::analyse(program, hw::single_stream(limits_, program), scale_).bound == hw::LaunchBound::gpu;
  }

  std::uint64_t events() const { return events_; }

 private:
  hw::LaunchFigures run(const std::vector<hw::LaunchedKernel>& launched, hw::LaunchStyle style, std::int64_t chain,
                        PointTrace* trace) {
    std::vector<hw::Command> program = hw::build_program(platform_, *device_.model, launched, style, scale_, chain);
    hw::LaunchRun done = hw::run_launches(limits_, program);
    events_ += done.events;
    const hw::LaunchFigures figures = hw::analyse(program, done.timings, scale_);
    if (trace != nullptr) {
      trace->program = std::move(program);
      trace->timings = std::move(done.timings);
    }
    return figures;
  }

  const LaunchConfig& config_;
  const hw::Platform& platform_;
  sim::TickScale scale_;
  hw::LaunchLimits limits_;
  const hw::Device& device_;
  std::uint64_t events_ = 0;
};

std::optional<std::int64_t> balance(const Runner& runner, const NamedModel& model, std::int64_t most) {
  if (!runner.gpu_bound(model, most)) return std::nullopt;
  std::int64_t low = 0;  // bound by the CPU, or nothing
  for (std::int64_t high = most;;) {
    if (high - low <= 1) return high;
    const std::int64_t middle = low + (high - low) / 2;
    (runner.gpu_bound(model, middle) ? high : low) = middle;
  }
}

/// The batch up to which TKLQT rose the most steeply.
std::optional<std::int64_t> tklqt_knee(const std::vector<Point>& points) {
  std::optional<std::int64_t> knee;
  double steepest = 1.5;  // past the knee TKLQT grows as the batch: 1
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double rise = sim::det_log(points[i].stream.tklqt_s / points[i - 1].stream.tklqt_s) /
                        sim::det_log(static_cast<double>(points[i].batch) / static_cast<double>(points[i - 1].batch));
    if (rise > steepest) {
      steepest = rise;
      knee = points[i].batch;
    }
  }
  return knee;
}

/// The batch at which IL leaves its level.
std::optional<std::int64_t> il_knee(const std::vector<Point>& points) {
  constexpr double kLevel = 1.05;
  for (const Point& point : points)
    if (point.stream.il_s > kLevel * points.front().stream.il_s) return point.batch;
  return std::nullopt;
}

}  // namespace

LaunchResult run_launch(const LaunchConfig& config, const std::function<void(const Progress&)>& progress) {
  LaunchResult result;
  const std::vector<std::int64_t>& batches = config.workload.batches;
  Progress done{.total = std::ssize(config.platforms) * std::ssize(config.models) * std::ssize(batches),
                .what = "passes"};
  for (std::size_t p = 0; p < config.platforms.size(); ++p) {
    Runner runner(config, config.platforms[p], config.devices[p]);
    for (std::size_t m = 0; m < config.models.size(); ++m) {
      Series series{.platform = p, .model = m};
      for (const std::int64_t batch : batches) {
        const bool shown = config.run.timeline.enabled && m == 0 && batch == config.run.timeline.batch;
        if (shown) result.traces.emplace_back();
        series.points.push_back(runner.point(config.models[m], batch, shown ? &result.traces.back() : nullptr));
        ++done.done;
        if (progress) progress(done);
      }
      series.crossover = {balance(runner, config.models[m], batches.back()), tklqt_knee(series.points),
                          il_knee(series.points)};
      result.series.push_back(std::move(series));
    }
    result.events += runner.events();
  }
  return result;
}

}  // namespace orrery::experiments::launch
