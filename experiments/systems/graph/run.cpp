#include "experiments/systems/graph/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "experiments/systems/graph/launches.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::graph {
namespace {

using models::Bindings;
using models::OpGraph;

/// Draws the sizes of requests; every dimension has a stream of its own.
class SizeSource {
 public:
  SizeSource(const GraphConfig& config, const Bindings& fixed) : fixed_(fixed) {
    for (const Vary& entry : config.vary) {
      entries_.push_back(
          {entry, sim::RandomStream(static_cast<std::uint64_t>(config.run.seed), "sizes/" + entry.symbol.name()), {}});
      Entry& own = entries_.back();
      // Draws until there are so many different sizes, or no more seem to exist; no more than the range has, or than
      // requests will ask for.
      const VaryParams& params = entry.params;
      const std::int64_t wanted = std::min({params.distinct, (params.high - params.low) / params.step + 2,
                                            std::max<std::int64_t>(1, config.workload.requests)});
      std::set<std::int64_t> seen;
      for (std::int64_t tries = 64 * wanted; tries > 0 && std::ssize(own.pool) < wanted; --tries)
        if (const std::int64_t size = draw(own); seen.insert(size).second) own.pool.push_back(size);
    }
  }

  Bindings next(std::int64_t request) {
    Bindings sizes = fixed_;
    for (Entry& entry : entries_) {
      const VaryParams& params = entry.vary.params;
      std::int64_t size = 0;
      if (params.distribution == Spread::list)
        size = params.values[static_cast<std::size_t>(request) % params.values.size()];
      else if (entry.pool.empty())
        size = draw(entry);
      else if (request < std::ssize(entry.pool))  // each of them once, so that all are seen
        size = entry.pool[static_cast<std::size_t>(request)];
      else
        size = entry.pool[entry.random.below(entry.pool.size())];
      sizes.set(entry.vary.symbol, size);
    }
    return sizes;
  }

 private:
  struct Entry {
    Vary vary;
    sim::RandomStream random;
    std::vector<std::int64_t> pool;
  };

  static std::int64_t draw(Entry& entry) {
    const VaryParams& params = entry.vary.params;
    std::int64_t size = params.low;
    if (params.distribution == Spread::uniform) size = entry.random.integer(params.low, params.high);
    if (params.distribution == Spread::log_normal) {
      const double value = entry.random.log_normal(sim::det_log(params.median), params.sigma);
      size = static_cast<std::int64_t>(
          std::clamp(value, static_cast<double>(params.low), static_cast<double>(params.high)));
    }
    const std::int64_t rounded = (size + params.step - 1) / params.step * params.step;
    return params.distribution == Spread::fixed || rounded <= params.high
               ? rounded
               : std::max(params.low, params.high / params.step * params.step);
  }

  Bindings fixed_;
  std::vector<Entry> entries_;
};

/// Sizes to decide by: what is bound, and the middle of what varies.
Bindings typical_sizes(const GraphConfig& config) {
  Bindings sizes = config.bind;
  for (const Vary& entry : config.vary) {
    const VaryParams& params = entry.params;
    std::int64_t middle = params.low;
    if (params.distribution == Spread::uniform) middle = params.low + (params.high - params.low) / 2;
    if (params.distribution == Spread::log_normal)
      middle = static_cast<std::int64_t>(
          std::clamp(params.median, static_cast<double>(params.low), static_cast<double>(params.high)));
    if (params.distribution == Spread::list) middle = params.values[params.values.size() / 2];
    sizes.set(entry.symbol, middle);
  }
  if (config.workload.max_batch.enabled && !sizes.find(models::Symbol(config.workload.max_batch.symbol)))
    sizes.set(config.workload.max_batch.symbol, config.workload.max_batch.step);
  return sizes;
}

/// A request's launches, run: what repeats for equal sizes and an equal decision.
struct Timed {
  hw::LaunchFigures figures;
  sim::Duration length;
  double host_s = 0, decode_s = 0;
  std::vector<CommandDetail> details;
  std::vector<hw::Command> program;
  std::vector<hw::CommandTiming> timings;
};

class Runner {
 public:
  Runner(const GraphConfig& config, GraphResult& result)
      : config_(config),
        device_(*config.device),
        result_(result),
        scale_(tick_scale(config.run.tick_s)),
        planner_(config.planner.make()),
        execution_(config.execution.make()) {}

  void run(const std::function<void(const Progress&)>& progress) {
    if (!runs_all(config_.model)) return;
    rewrite();
    Bindings fixed = config_.bind;
    if (config_.workload.max_batch.enabled && !find_max_batch(fixed)) return;
    SizeSource sizes(config_, fixed);
    Progress done{.total = config_.workload.requests, .what = "requests"};
    sim::Time free;
    for (std::int64_t i = 0; i < config_.workload.requests; ++i) {
      if (!serve(i, sizes.next(i), free)) return;
      ++done.done;
      if (progress && (i & 63) == 0) progress(done);
    }
    result_.end = free;
    const auto idles = [&](const std::string& name, const hw::Device& device) {
      result_.energy.draw(result_.energy.account(name, "idle"),
                          sim::energy_of(device.power.idle_w, free - sim::Time{}, scale_), sim::Time{}, free);
    };
    idles(device_.name, device_.device);
    for (const GraphTarget& target : device_.targets) idles(target.name, target.device);
  }

 private:
  policies::PassContext context_for(const Bindings& sizes) const {
    policies::PassContext context = pass_context(device_.device, sizes);
    context.launch_s = device_.call_s;
    for (const GraphTarget& target : device_.targets) context.targets.push_back(target.for_passes());
    context.seed = static_cast<std::uint64_t>(config_.run.seed);
    return context;
  }

  /// Passes ask for prices of kernels, so that memory with units is asked first whether it runs them at all.
  bool runs_all(const OpGraph& graph) {
    if (!device_.device.beside_host) return true;
    const auto obstacle = price(graph, typical_sizes(config_), device_).obstacle;
    if (!obstacle) return true;
    result_.status = "infeasible";
    result_.reason = *obstacle;
    return false;
  }

  void rewrite() {
    policies::PassContext context = context_for(typical_sizes(config_));
    SizeSource sizes(config_, context.typical);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(32, config_.workload.requests); ++i)
      context.seen.push_back(sizes.next(i));
    graph_ = config_.model;
    for (const ChosenPass& pass : config_.passes)
      if (!pass.per_size) graph_ = rewritten(pass, graph_, context, true);
    result_.ops = std::ssize(graph_.ops());
    result_.tensors = static_cast<std::int64_t>(graph_.tensor_count());
  }

  OpGraph rewritten(const ChosenPass& pass, const OpGraph& graph, const policies::PassContext& context, bool tell) {
    PassOutcome outcome;
    outcome.name = pass.name;
    OpGraph next = run_pass(pass, graph, context, {config_.file, "/policies/passes/order"}, outcome.report);
    if (tell) result_.passes.push_back(std::move(outcome));
    return next;
  }

  /// The graph that runs at given sizes: passes that run per size start from the one that is compiled for all. Their
  /// figures are told for the first sizes.
  const OpGraph& graph_at(const Bindings& sizes) {
    const auto per_size = [](const ChosenPass& pass) { return pass.per_size; };
    if (std::none_of(config_.passes.begin(), config_.passes.end(), per_size)) return graph_;
    const bool first = graphs_.empty();
    const auto [place, fresh] = graphs_.try_emplace(key(sizes));
    if (!fresh) return place->second;
    place->second = graph_;
    for (const ChosenPass& pass : config_.passes)
      if (pass.per_size) place->second = rewritten(pass, place->second, context_for(sizes), first);
    return place->second;
  }

  const MemoryFigures& memory(const Bindings& sizes) {
    const auto [place, fresh] = memory_.try_emplace(key(sizes));
    if (fresh) place->second = memory_of(graph_at(sizes), sizes, *planner_);
    return place->second;
  }

  bool fits(const Bindings& sizes) { return memory(sizes).peak() <= device_.device.memory_bytes; }

  void infeasible(const Bindings& sizes) {
    const MemoryFigures& needed = memory(sizes);
    result_.status = "infeasible";
    result_.needed_bytes = needed.peak();
    result_.available_bytes = device_.device.memory_bytes;
    result_.memory = needed;
    result_.reason = fmt::format("the graph needs {} bytes at its peak, {} has {}", needed.peak(), device_.name,
                                 device_.device.memory_bytes);
  }

  /// The largest size that fits, by doubling and bisection; false if none does.
  bool find_max_batch(Bindings& fixed) {
    const MaxBatchParams& params = config_.workload.max_batch;
    const models::Symbol symbol(params.symbol);
    Bindings sizes = typical_sizes(config_);
    const auto fits_at = [&](std::int64_t steps) {
      sizes.set(symbol, steps * params.step);
      return fits(sizes);
    };
    const std::int64_t most = std::max<std::int64_t>(1, params.limit / params.step);
    std::int64_t low = 0, high = 1;
    while (high <= most && fits_at(high)) {
      low = high;
      high *= 2;
    }
    high = std::min(high, most + 1);
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits_at(middle) ? low : high) = middle;
    }
    if (low == 0) {
      sizes.set(symbol, params.step);
      infeasible(sizes);
      return false;
    }
    result_.max_batch = low * params.step;
    fixed.set(symbol, result_.max_batch);
    return true;
  }

  const PricedGraph& priced(const Bindings& sizes) {
    const auto [place, fresh] = priced_.try_emplace(key(sizes));
    if (fresh) place->second = price(graph_at(sizes), sizes, device_);
    return place->second;
  }

  bool serve(std::int64_t number, const Bindings& request, sim::Time& free) {
    const PricedGraph& asked = priced(request);
    const policies::ExecutionView view{
        request,        std::ssize(asked.kernels), asked.instructions, asked.most_instructions, asked.dispatch_s,
        asked.capture_s};
    if (asked.obstacle) {
      result_.status = "infeasible";
      result_.reason = *asked.obstacle;
      return false;
    }
    if (number == 0) result_.startup_s = execution_->startup_s(view);
    const policies::ExecutionDecision decision = execution_->decide(view);
    const PricedGraph& graph = priced(decision.sizes);
    if (!fits(decision.sizes)) {
      infeasible(decision.sizes);
      return false;
    }
    if (graph.placed && (decision.style != hw::LaunchStyle::stream || decision.wait_each || decision.host_kernel_s)) {
      result_.status = "infeasible";
      result_.reason = "ops of the machine's targets are launched one by one: policies.execution must be eager";
      return false;
    }
    const Timed& timed = time(graph, decision);
    RequestRecord record;
    record.sizes = request;
    record.run_as = decision.sizes;
    record.arrived = config_.workload.interarrival_s > 0
                         ? sim::Time{} + scale_.duration(config_.workload.interarrival_s * static_cast<double>(number))
                         : free;
    record.started = std::max(free, record.arrived);
    record.stall = scale_.duration(decision.stall_s);
    record.compile_s = decision.compile_s;
    record.compiled = decision.compiled;
    record.finished = record.started + record.stall + timed.length;
    book(graph, timed, record, asked);
    result_.worst_stall_s = std::max(result_.worst_stall_s, decision.stall_s);
    result_.worst_kernel_compile_s = std::max(result_.worst_kernel_compile_s, decision.kernel_compile_s);
    free = record.finished;
    if (number == 0) result_.trace = {timed.details, timed.program, timed.timings, graph.kernels};
    result_.requests.push_back(std::move(record));
    return true;
  }

  const Timed& time(const PricedGraph& graph, const policies::ExecutionDecision& decision) {
    const auto [place, fresh] = timed_.try_emplace(
        std::tuple(key(graph.sizes), decision.style, decision.host_kernel_s.value_or(-1), decision.host_instruction_s));
    Timed& timed = place->second;
    if (!fresh) return timed;
    timed.program = graph.placed ? placed_program(graph_at(graph.sizes), graph, device_, scale_, timed.details)
                                 : program_of(graph_at(graph.sizes), graph, device_, decision, scale_, timed.details);
    if (timed.program.empty()) return timed;
    if (decision.wait_each || graph.placed) {
      hw::LaunchLimits limits = device_.limits;
      if (graph.placed) {  // each device runs a kernel at a time, each link a copy a direction
        limits.concurrent_kernels = 1 + std::ssize(device_.targets);
        limits.copy_engines = 2 * std::ssize(device_.targets);
      }
      hw::LaunchRun run = hw::run_launches(limits, timed.program);
      timed.timings = std::move(run.timings);
      result_.events += run.events;
    } else {
      timed.timings = hw::single_stream(device_.limits, timed.program);
      result_.events += timed.program.size();
    }
    timed.figures = hw::analyse(timed.program, timed.timings, scale_);
    sim::Time end;
    for (const hw::CommandTiming& timing : timed.timings) end = std::max({end, timing.end, timing.returned});
    timed.length = end - sim::Time{};
    timed.host_s = timed.figures.cpu_busy_s;
    timed.decode_s = decode_time(graph, device_, decision);
    if (timed_.size() > 1) {  // only the first request is drawn
      timed.details = {};
      timed.program = {};
      timed.timings = {};
    }
    return timed;
  }

  /// Adds a request to the sums.
  void book(const PricedGraph& graph, const Timed& timed, const RequestRecord& record, const PricedGraph& asked) {
    GraphResult& r = result_;
    r.latency.add((record.finished - record.arrived).ticks);
    r.stall.add(record.stall.ticks);
    const bool once = record.compile_s > 0;  // a stall of encoding comes with every request
    r.steady.add((record.finished - record.started).ticks - (once ? record.stall.ticks : 0));
    r.compile_s += record.compile_s;
    r.compiled += record.compiled;
    r.launches.launches += timed.figures.launches;
    r.launches.kernels += timed.figures.kernels;
    r.launches.tklqt_s += timed.figures.tklqt_s;
    r.launches.il_s += timed.figures.il_s;
    r.launches.gpu_busy_s += timed.figures.gpu_busy_s;
    r.host_s += timed.host_s;
    r.decode_s += timed.decode_s;
    r.read_bytes += graph.read_bytes;
    r.write_bytes += graph.write_bytes;
    r.flops += graph.flops;
    r.asked_flops += asked.flops;
    for (const models::GraphTransfer& transfer : graph.transfers) {
      r.transfer_s += device_.transfer_s(transfer);
      r.transfer_bytes += static_cast<double>(transfer.bytes);
    }
    const std::optional<std::int64_t> samples = record.sizes.find(models::Symbol(config_.workload.samples));
    r.samples += samples ? static_cast<double>(*samples) : 1;
    if (memory(graph.sizes).peak() > r.memory.peak()) r.memory = memory(graph.sizes);
    const sim::Time begin = record.started + record.stall;
    for (std::int32_t target = -1; target < static_cast<std::int32_t>(device_.targets.size()); ++target) {
      double compute_j = 0, memory_j = 0;
      for (const PricedKernel& kernel : graph.kernels) {
        if (kernel.target != target) continue;
        compute_j += kernel.cost.compute_energy_j;
        memory_j += kernel.cost.memory_energy_j;
      }
      const std::string& name = target < 0 ? device_.name : device_.targets[static_cast<std::size_t>(target)].name;
      r.energy.draw(r.energy.account(name, "compute"), sim::picojoules(compute_j), begin, record.finished);
      r.energy.draw(r.energy.account(name, "memory"), sim::picojoules(memory_j), begin, record.finished);
    }
  }

  using Key = std::vector<std::int64_t>;
  static Key key(const Bindings& sizes) {
    Key all;
    for (const auto& [symbol, value] : sizes.values()) all.push_back(value);
    return all;
  }

  const GraphConfig& config_;
  const GraphDevice& device_;
  GraphResult& result_;
  sim::TickScale scale_;
  std::unique_ptr<policies::MemoryPlanner> planner_;
  std::unique_ptr<policies::Execution> execution_;
  OpGraph graph_;                  // after the passes that run once
  std::map<Key, OpGraph> graphs_;  // after those that run per size
  std::map<Key, PricedGraph> priced_;
  std::map<Key, MemoryFigures> memory_;
  std::map<std::tuple<Key, hw::LaunchStyle, double, double>, Timed> timed_;
};

}  // namespace

GraphResult run_graph(const GraphConfig& config, const std::function<void(const Progress&)>& progress) {
  GraphResult result;
  Runner(config, result).run(progress);
  return result;
}

}  // namespace orrery::experiments::graph
