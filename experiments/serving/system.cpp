#include "experiments/serving/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "experiments/catalog.hpp"
#include "experiments/config_parts.hpp"
#include "experiments/serving/cluster.hpp"
#include "experiments/serving/files.hpp"
#include "experiments/serving/gpu_iteration.hpp"
#include "experiments/serving/layouts.hpp"
#include "experiments/serving/load.hpp"
#include "experiments/serving/tabulated_iteration.hpp"
#include "experiments/serving/workload.hpp"

namespace orrery::experiments {
namespace {

// How often progress is reported (and an interrupt noticed).
constexpr std::int64_t kRequestsEvery = 256;
constexpr std::int64_t kIterationsEvery = 4096;

/// Tells how far the run has come, now and then.
class ProgressObserver final : public RunObserver {
 public:
  ProgressObserver(RunObserver* next, const std::function<void(const Progress&)>& progress, const sim::Engine& engine,
                   std::optional<std::int64_t> total)
      : next_(next), progress_(progress), engine_(engine), total_(total) {}
  void request_ended(const RequestRecord& record) override {
    if (next_ != nullptr) next_->request_ended(record);
    if (++done_ % kRequestsEvery == 0) report();
  }
  void iterations_ended(const IterationRun& run) override {
    if (next_ != nullptr) next_->iterations_ended(run);
    if (++runs_ % kIterationsEvery == 0) report();
  }

 private:
  void report() const {
    if (progress_) progress_({done_, total_, engine_.scale().seconds(engine_.now())});
  }

  RunObserver* next_;
  const std::function<void(const Progress&)>& progress_;
  const sim::Engine& engine_;
  std::optional<std::int64_t> total_;
  std::int64_t done_ = 0, runs_ = 0;
};

}  // namespace

struct ServingSetup::State {
  ServingConfig config;
  std::string part_name;
  models::ModelConfig model;
  std::optional<models::Transformer> transformer;
  std::optional<Infeasible> infeasible;
  MachineFacts machine;
  policies::ReplicaLimits limits;
  policies::KvGeometry geometry;
  std::unique_ptr<IterationModel> exact_model;
  std::unique_ptr<TabulatedIteration> iteration_model;

  void divide_memory();
  std::unique_ptr<IterationModel> layout_model() const;
};

/// One mode for each of the config's layouts.
std::unique_ptr<IterationModel> ServingSetup::State::layout_model() const {
  std::vector<LayoutIteration::Mode> modes;
  for (const LayoutParams& layout : config.layouts.modes) {
    models::Transformer t = models::build_transformer(model, config.model.dtype, layout.tensor_parallel);
    auto ranks = std::make_unique<GpuIterationModel>(t, config.gpu, config.cost.make(config.gpu));
    modes.push_back({layout, std::move(t), std::move(ranks)});
  }
  const std::int64_t hidden = model.hidden_size * hw::bytes_of(config.model.dtype);
  return std::make_unique<LayoutIteration>(std::move(modes), config.gpu.link, hidden, config.layouts.host_bandwidth);
}

void ServingSetup::State::divide_memory() {
  const hw::GpuParams& gpu = config.gpu;
  const std::int64_t devices = config.machine.devices.front().count;
  const std::int64_t tp = config.replica.tensor_parallel.value_or(devices);
  machine.devices = devices;
  machine.active_devices = tp;
  machine.peak_flops = hw::matrix_peak(gpu, config.model.dtype);
  machine.peak_bytes_per_s = gpu.memory_bandwidth;
  machine.idle_watts = gpu.power.idle_w;
  for (const LayoutParams& layout : config.layouts.modes) {
    if (const auto obstacle = layout_obstacle(model, layout, devices)) {
      infeasible = Infeasible{*obstacle};
      return;
    }
  }
  if (config.layouts.modes.empty() && tp > devices) {
    infeasible =
        Infeasible{fmt::format("tensor parallelism of {} needs as many devices, the machine has {}", tp, devices)};
    return;
  }
  const auto obstacle = config.layouts.modes.empty() ? models::tp_obstacle(model, tp) : std::nullopt;
  if (obstacle) {
    infeasible = Infeasible{*obstacle};
    return;
  }
  limits = {config.replica.max_context.value_or(model.max_position_embeddings),
            static_cast<std::int32_t>(model.layers)};
  if (config.layouts.modes.empty()) {
    transformer = models::build_transformer(model, config.model.dtype, tp);
    machine.weight_bytes = models::weight_bytes(*transformer);
    geometry.bytes_per_token = models::kv_bytes_per_token(*transformer);
  } else {
    const LayoutMemory memory = layout_memory(model, config.model.dtype, config.layouts.modes);
    machine.active_devices = memory.devices;
    machine.weight_bytes = memory.weight_bytes;
    geometry.bytes_per_token = memory.kv_bytes_per_token;
    limits.tier_tokens = static_cast<std::int64_t>(config.layouts.host_memory) / memory.kv_bytes_per_token;
  }
  const auto usable =
      static_cast<std::int64_t>(static_cast<double>(gpu.memory_bytes) * (1 - config.replica.memory_margin));
  geometry.bytes_available = usable - machine.weight_bytes;
  // Whole blocks decide what fits: what a request at the context limit takes in an empty cache without end, and whether
  // the cache there is has as many.
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;
  const auto endless = config.kvcache.make({geometry.bytes_per_token, kEndless});
  const policies::Sequence longest{};
  if (!endless->reserve({0}, longest, limits.max_context) ||
      config.kvcache.make(geometry)->total_blocks() < endless->held_blocks({0})) {
    infeasible =
        Infeasible{fmt::format("weights and the KV cache of one request of {} tokens do not fit the memory of {} "
                               "(of {}, a share of {} is kept free)",
                               limits.max_context, part_name,
                               sim::humanise(static_cast<double>(gpu.memory_bytes), sim::Unit::bytes),
                               config.replica.memory_margin),
                   machine.weight_bytes + endless->used_bytes(), usable};
    return;
  }
  if (config.layouts.modes.empty()) {
    exact_model = std::make_unique<GpuIterationModel>(*transformer, gpu, config.cost.make(gpu));
  } else {
    exact_model = layout_model();
  }
  iteration_model = std::make_unique<TabulatedIteration>(*exact_model, limits.layers);
}

ServingSetup::ServingSetup(const ServingConfig& config) : state_(std::make_unique<State>()) {
  state_->config = config;
  state_->part_name = config.part_file.stem().string();
  state_->model = models::load_model(config.model_file.string(), home_folder() / "models/catalog");
  state_->divide_memory();
}
ServingSetup::~ServingSetup() = default;
ServingSetup::ServingSetup(ServingSetup&&) noexcept = default;
ServingSetup& ServingSetup::operator=(ServingSetup&&) noexcept = default;

const std::optional<Infeasible>& ServingSetup::infeasible() const {
  return state_->infeasible;
}
std::int64_t ServingSetup::model_positions() const {
  return state_->model.max_position_embeddings;
}
const MachineFacts& ServingSetup::machine() const {
  return state_->machine;
}

ServingResult ServingSetup::run(RunObserver* observer, const std::function<void(const Progress&)>& progress,
                                std::int64_t replication) const {
  const ServingConfig& config = state_->config;
  if (state_->infeasible) throw std::logic_error("run() of a design that does not fit");
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  const auto seed = static_cast<std::uint64_t>(config.run.seed + replication);
  sim::Engine engine(seed, scale);
  const auto source = open_workload(config, seed);

  ServingResult result;
  result.machine = state_->machine;
  ServingMetrics& metrics = result.metrics;
  metrics.ps_per_tick = scale.ps_per_tick();
  metrics.warmup = sim::Time{0} + scale.duration(config.run.warmup_s);
  if (config.slo.ttft_s) metrics.slo.ttft = scale.duration(*config.slo.ttft_s);
  if (config.slo.tbt_s) metrics.slo.tbt_ps = static_cast<std::int64_t>(std::ceil(*config.slo.tbt_s * 1e12));
  ProgressObserver watched(observer, progress, engine, progress ? expected_requests(config) : std::nullopt);

  TraceLoad load(*source, config.workload);
  Cluster cluster(engine, metrics, observer != nullptr || progress ? &watched : nullptr, load);
  const auto picoseconds = [](double seconds) { return static_cast<std::int64_t>(std::ceil(seconds * 1e12)); };
  const SerialHostTime host(picoseconds(config.replica.iteration_overhead_s),
                            picoseconds(config.replica.sequence_overhead_s));
  ReplicaParts parts;
  parts.model = state_->iteration_model.get();
  parts.host = &host;
  parts.batching = config.batching.make();
  parts.kv = config.kvcache.make(state_->geometry);
  parts.limits = state_->limits;
  parts.leap = config.run.leap;
  std::optional<HostStore> store;
  if (state_->limits.tier_tokens > 0)
    parts.tier = &store.emplace(engine, state_->geometry.bytes_per_token, state_->limits.tier_tokens,
                                config.layouts.host_bandwidth);
  result.machine.kv_capacity_bytes = state_->geometry.bytes_available;
  cluster.add(std::move(parts));
  cluster.start();
  engine.run(config.run.until_s ? sim::Time{0} + scale.duration(*config.run.until_s) : sim::kNever);
  cluster.finish();
  result.end = engine.now();
  result.simulated_s = scale.seconds(result.end);
  result.events = engine.events();
  result.free_blocks = cluster.replica(0).kv().free_blocks();
  result.total_blocks = cluster.replica(0).kv().total_blocks();
  result.skipped = source->skipped();
  return result;
}

namespace {

std::optional<sim::TimelineOptions> wanted_timeline(const TimelineParams& params) {
  if (!params.enabled) return {};
  return timeline_options(params.begin_s, params.end_s, params.counter_interval_s);
}

class ServingExperiment final : public Experiment {
 public:
  /// Reads the first request too, so that a trace that cannot be used is found before anything is written.
  explicit ServingExperiment(ServingConfig config) : config_(std::move(config)), setup_(config_) {
    traces::TraceRecord first;
    (void)open_workload(config_, static_cast<std::uint64_t>(config_.run.seed))->next(first);
  }

  const sim::Node& resolved() const override { return config_.resolved; }
  std::int64_t seed() const override { return config_.run.seed; }

  std::vector<std::filesystem::path> inputs() const override {
    std::vector<std::filesystem::path> files{config_.part_file, config_.model_file};
    sim::Node root = config_.resolved;
    sim::for_each_path(serving_fields(), root, [&](sim::Node& path) {
      const std::filesystem::path file = path.as_string();
      if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
    });
    return files;
  }

  sim::Node identity() const override {
    sim::Node root = config_.resolved;
    sim::for_each_path(serving_fields(), root, [](sim::Node& path) { path = sim::Node::string("an input"); });
    root.set("part", sim::write_params(config_.gpu));  // the file may build on others
    return root;
  }

  Outcome run(const RunSink& sink) const override {
    try {
      return run_in_range(sink);
    } catch (const std::overflow_error& error) {
      sim::throw_fault({config_.file, ""}, error.what());
    }
  }

 private:
  /// Throws std::overflow_error for a time past the reach of the tick.
  Outcome run_in_range(const RunSink& sink) const {
    Outcome outcome;
    if (setup_.infeasible()) {
      outcome.summary = summarise(*setup_.infeasible());
      return outcome;
    }
    const sim::TickScale scale = tick_scale(config_.run.tick_s);
    const MachineFacts& machine = setup_.machine();
    std::optional<ServingFiles> files;
    if (sink.folder) {
      const double idle = machine.idle_watts * static_cast<double>(machine.devices);
      files.emplace(*sink.folder,
                    FileFacts{scale, scale.duration(config_.run.series_interval_s),
                              wanted_timeline(config_.run.timeline), config_.run.timeline.iterations, idle});
    }
    const ServingResult result = setup_.run(files ? &*files : nullptr, sink.progress);
    outcome.summary = summarise(result, scale);
    outcome.events = result.events;
    if (config_.run.replications > 1) replicate(scale, sink, outcome);
    if (config_.replica.max_context > setup_.model_positions())
      outcome.notes.push_back(
          fmt::format("replica.max_context is above the {} positions of the model", setup_.model_positions()));
    if (!hw::has_matrix_units(config_.gpu, config_.model.dtype))
      outcome.notes.push_back("the part has no matrix units for model.dtype: products run at the 16-bit rate");
    if (result.skipped.total() > 0)
      outcome.notes.push_back(fmt::format("lines of the trace that were skipped: {}", result.skipped.text()));
    if (files) {
      files->finish(result.end);
      if (files->timeline_truncated())
        outcome.notes.push_back(
            fmt::format("timeline.pftrace shows the first {} of {} iterations (run.timeline.iterations)",
                        files->timeline_iterations(), result.metrics.iterations));
      write_energy(*sink.folder / "energy.csv", result.metrics, machine, config_.part_file.stem().string(),
                   result.simulated_s);
      write_distributions(*sink.folder / "distributions.csv", result.metrics);
    }
    return outcome;
  }

  /// The further replications, without files.
  void replicate(const sim::TickScale& scale, const RunSink& sink, Outcome& outcome) const {
    std::vector<sim::Node> summaries{outcome.summary};
    for (std::int64_t i = 1; i < config_.run.replications; ++i) {
      const ServingResult result = setup_.run(nullptr, sink.progress, i);
      summaries.push_back(summarise(result, scale));
      outcome.events += result.events;
    }
    outcome.summary.set("replications", summarise_replications(summaries));
  }

  ServingConfig config_;
  ServingSetup setup_;
};

}  // namespace

System serving_system() {
  System system;
  system.name = "serving";
  system.doc = "Serves a language model to a stream of requests on one group of devices.";
  system.fields = serving_fields();
  system.read = [](const sim::Node& root, sim::Faults& faults) -> std::unique_ptr<Experiment> {
    ServingConfig config = read_serving_config(root, faults);
    faults.throw_if_any();
    return std::make_unique<ServingExperiment>(std::move(config));
  };
  return system;
}

}  // namespace orrery::experiments
