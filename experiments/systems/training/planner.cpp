#include "experiments/systems/training/planner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "experiments/systems/training/offload.hpp"
#include "experiments/systems/training/stage_division.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments::training {
namespace {

constexpr std::int64_t kMostMicroBatch = 64, kMostChunks = 8;
constexpr std::int64_t kScoredEvery = 1 << 15;  ///< plans that are scored between two reports of progress
constexpr std::size_t kMostKept = 1 << 16;      ///< scored plans that are kept before the worse half goes

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) all.push_back(d);
  return all;
}

/// Those of `all` that are asked for.
std::vector<std::int64_t> chosen(std::vector<std::int64_t> all, const std::vector<std::int64_t>& asked) {
  if (asked.empty()) return all;
  std::erase_if(all, [&](std::int64_t value) { return std::find(asked.begin(), asked.end(), value) == asked.end(); });
  return all;
}

template <class T>
std::vector<T> chosen_kinds(const std::vector<T>& asked, std::initializer_list<T> all) {
  return asked.empty() ? std::vector<T>(all) : asked;
}

class PlanSearch {
 public:
  PlanSearch(const TrainingConfig& config, const PlannerParams& params, const sim::RegistrySet& registries,
             const std::function<void(const Progress&)>& progress)
      : config_(config),
        params_(params),
        registries_(registries),
        progress_(progress),
        tables_(config.machine, config.model),
        table_(tables_.table()),
        shares_(shares_of(params, config.params.plan)) {}

  PlannerResult run() {
    result_.layers = table_.layers();
    std::vector<std::int64_t> counts = params_.devices;
    if (counts.empty()) counts.push_back(config_.machine.devices);
    for (const std::int64_t devices : counts) {
      if (devices > config_.machine.devices)
        ++result_.left_out["more devices than the machine has"];
      else if (devices < config_.machine.devices && !tables_.alike())
        ++result_.left_out["fewer devices than the machine has, which are unlike"];
      else
        plans_of(devices);
    }
    rank();
    if (!params_.explain.empty()) explain();
    return std::move(result_);
  }

 private:
  void plans_of(std::int64_t devices) {
    devices_ = devices;
    const std::int64_t node = std::min(devices, config_.machine.node_devices);
    PlanParams offloads = config_.params.plan;
    if (!shares_.empty()) offloads.set_host_shares(shares_);
    for (const auto& why : {machine_obstacle(config_.machine, devices), offload_obstacle(config_, offloads)})
      if (why) {
        ++result_.left_out[*why];
        return;
      }
    const std::vector<std::int64_t> contexts =
        params_.context_parallel.empty() ? std::vector<std::int64_t>{1} : params_.context_parallel;
    for (const std::int64_t tensor : chosen(divisors(devices), params_.tensor_parallel)) {
      if (tensor > node && params_.tensor_parallel.empty()) continue;  // across nodes where it is asked for
      for (const std::int64_t context : contexts) {
        if (devices % (tensor * context) != 0) {
          ++result_.left_out["ranks do not divide the devices"];
          continue;
        }
        Plan shared = as_configured();
        shared.tensor = tensor;
        shared.context = context;
        shared.sequence = tensor > 1 && table_.experts() > 0;
        if (table_.obstacle(shared.share())) {
          ++result_.left_out["ranks of tensor or context parallelism do not divide the model"];
          continue;
        }
        for (const std::int64_t pipeline : chosen(divisors(devices / tensor / context), params_.pipeline_parallel)) {
          shared.pipeline = pipeline;
          shared.data = devices / tensor / context / pipeline;
          if (tables_.obstacle(shared)) {
            ++result_.left_out["a stage has unlike devices"];
            continue;
          }
          if (pipeline > table_.layers())
            ++result_.left_out["more stages than layers"];
          else
            for (const std::int64_t experts :
                 chosen(divisors(std::max<std::int64_t>(1, table_.experts())), params_.expert_parallel)) {
              if (devices / pipeline % experts != 0) {
                ++result_.left_out["ranks of expert parallelism do not divide a stage's"];
                continue;
              }
              shared.experts = experts;
              copies(shared, pipeline);
            }
        }
      }
    }
  }

  /// What is not searched over, as the config's plan has it.
  Plan as_configured() const {
    const PlanParams& p = config_.params.plan;
    Plan plan{.balanced = p.context_balanced,
              .exchange = p.context_exchange,
              .dispatch = p.expert_dispatch,
              .expert_nodes = p.expert_nodes};
    static_cast<GradientParams&>(plan) = p;
    static_cast<OffloadParams&>(plan) = p;
    return plan;
  }

  /// With and without sequence parallelism, where there can be either.
  std::vector<bool> token_sharing(const Plan& plan) const {
    std::vector<bool> all;
    if (plan.tensor == 1 || table_.experts() == 0) all.push_back(false);
    if (plan.tensor > 1 && config_.model.sequence % (plan.tensor * plan.context) == 0) all.push_back(true);
    return all;
  }

  void share_tokens(Plan& plan, bool sequence) const {
    plan.sequence = sequence;
    plan.async_tensor = sequence && config_.params.plan.async_tensor_parallel;
    plan.overlap_experts = plan.experts > 1 && config_.params.plan.overlap_experts;
  }

  void copies(Plan plan, std::int64_t pipeline) {
    plan.pipeline = pipeline;
    plan.data = devices_ / plan.tensor / plan.context / pipeline;
    const std::int64_t batch = config_.params.workload.global_batch;
    if (batch % plan.data != 0) {
      ++result_.left_out["copies do not divide the batch"];
      return;
    }
    for (const std::int64_t micro : chosen(divisors(batch / plan.data), params_.micro_batch)) {
      if (params_.micro_batch.empty() && micro > kMostMicroBatch) break;
      plan.micro_batch = micro;
      plan.micro_batches = batch / plan.data / micro;
      const std::int64_t layers = table_.layers() / pipeline;
      for (const std::int64_t chunks : chosen(divisors(layers), params_.interleave)) {
        if (chunks > kMostChunks && params_.interleave.empty()) break;
        if (chunks > 1 && (pipeline == 1 || plan.micro_batches % pipeline != 0)) continue;
        plan.chunks = chunks;
        choices(plan);
        if (tries_apart() && pipeline > 1 && chunks == 1) apart(plan);
      }
    }
  }

  void choices(Plan plan) {
    using enum Recompute;
    for (const bool sequence : token_sharing(plan)) {
      share_tokens(plan, sequence);
      for (const Recompute recompute : chosen_kinds(params_.recompute, {none, selective, full})) {
        plan.recompute = recompute;
        for (const Zero zero :
             chosen_kinds(params_.zero, {Zero::none, Zero::optimizer, Zero::gradients, Zero::weights})) {
          if (plan.copies() == 1 && zero != Zero::none) continue;
          plan.zero = zero;
          if (shares_.empty()) take(plan);
          for (const HostShares& share : shares_) {
            plan.set_host_shares({share});
            take(plan);
          }
        }
      }
    }
  }

  /// What may lie in the host's memory, every share with every other; none where only the plan's own may.
  static std::vector<HostShares> shares_of(const PlannerParams& params, const OffloadParams& plan) {
    std::vector<HostShares> all;
    const std::vector<double>* lists[] = {&params.offload_weights, &params.offload_gradients, &params.offload_optimizer,
                                          &params.offload_activations};
    if (std::ranges::all_of(lists, [](const auto* list) { return list->empty(); })) return all;
    const HostShares own = plan.host_shares(0);
    const auto asked = [](const std::vector<double>& list, double planned) {
      return list.empty() ? std::vector<double>{planned} : list;
    };
    for (const double weights : asked(params.offload_weights, own.weights))
      for (const double gradients : asked(params.offload_gradients, own.gradients))
        for (const double optimizer : asked(params.offload_optimizer, own.optimizer))
          for (const double activations : asked(params.offload_activations, own.activations))
            all.push_back({weights, gradients, optimizer, activations});
    return all;
  }

  /// Stages that differ run layers again where they must: not where that is ruled out.
  bool may_run_again() const {
    const auto& asked = params_.recompute;
    return asked.empty() || std::find(asked.begin(), asked.end(), Recompute::full) != asked.end();
  }
  /// How far a stage's layers may be from its share by speed: on unlike devices memory may ask for anything.
  std::int64_t reach() const { return tables_.alike() ? 3 : table_.layers(); }
  /// On unlike devices they differ whatever is asked.
  bool tries_apart() const { return !tables_.alike() || (params_.stages == PlanStages::apart && may_run_again()); }

  /// Stages that differ in layers and in what runs again.
  void apart(Plan plan) {
    for (const bool sequence : token_sharing(plan)) {
      share_tokens(plan, sequence);
      for (const Zero zero : chosen_kinds(params_.zero, {Zero::none, Zero::optimizer})) {
        if (plan.copies() == 1 && zero != Zero::none) continue;
        plan.zero = zero;
        const auto division = divide_stages(tables_, plan, table_.layers(), reach(),
                                            may_run_again() ? StageAgain::fewest_that_fit : StageAgain::none, shares_);
        const bool again =
            division && std::ranges::any_of(division->again, [](std::int64_t layers) { return layers > 0; });
        if (!division) {
          ++result_.left_out["no division among stages fits"];
          continue;
        }
        Plan own = plan;
        if (again) {
          own.recompute = Recompute::full;
          own.stage_recompute_layers = division->again;
        }
        if (!shares_.empty()) own.set_host_shares(division->shares);
        keep(score_stages(tables_, own, division->layers));
      }
    }
  }

  void take(const Plan& plan) { keep(scored_even(plan)); }

  ScoredPlan scored_even(const Plan& plan) {
    if (tables_.alike() && !plan.by_stage()) return score(table_, config_.machine, plan, table_.layers());
    ScoredPlan scored = score_stages(tables_, plan, even_division(plan));
    scored.layers.clear();
    return scored;
  }

  void keep(ScoredPlan scored) {
    const Plan& plan = scored.plan;
    if (++result_.evaluated % kScoredEvery == 0 && progress_)
      progress_({.done = result_.evaluated, .what = "plans scored"});
    if (scored.memory_bytes > scored.available_bytes) {
      const std::string reason = "more memory than a device has";
      ++result_.left_out[reason];
      const auto [nearest, first] = result_.nearest.try_emplace(reason, scored);
      if (!first && scored.memory_bytes < nearest->second.memory_bytes) nearest->second = std::move(scored);
      return;
    }
    if (config_.machine.host_memory && scored.host_bytes > *config_.machine.host_memory) {
      ++result_.left_out["more memory than a host has"];
      return;
    }
    kind("all", scored);
    for (const PlanRank rank : {PlanRank::time, PlanRank::memory, PlanRank::energy, PlanRank::cost})
      objective(rank, scored);
    if (plan.tensor == 1) kind("no tensor parallelism", scored);
    if (plan.pipeline == 1) kind("no pipeline", scored);
    if (plan.recompute == Recompute::none) kind("nothing run again", scored);
    if (plan.zero == Zero::none) kind("no ZeRO", scored);
    if (plan.chunks == 1) kind("no interleaving", scored);
    if ((params_.stages == PlanStages::apart || !tables_.alike()) && scored.layers.empty())
      kind("stages alike", scored);
    all_.push_back(std::move(scored));
    if (all_.size() >= 2 * kMostKept) cut(kMostKept);
  }

  static double figure(const ScoredPlan& plan, PlanRank rank) {
    switch (rank) {
      case PlanRank::time:
        return plan.step_s();
      case PlanRank::memory:
        return static_cast<double>(plan.memory_bytes);
      case PlanRank::energy:
        return plan.energy_j;
      case PlanRank::cost:
        return plan.device_s();
    }
    return 0;
  }

  static bool better_at(PlanRank rank, const ScoredPlan& a, const ScoredPlan& b) {
    const double at = figure(a, rank), bt = figure(b, rank);
    if (at != bt) return at < bt;
    if (a.step_s() != b.step_s()) return a.step_s() < b.step_s();
    return a.memory_bytes < b.memory_bytes;
  }
  bool better(const ScoredPlan& a, const ScoredPlan& b) const { return better_at(params_.rank, a, b); }

  void objective(PlanRank rank, const ScoredPlan& plan) {
    const std::string name(sim::to_string(rank));
    for (auto& [known, best] : result_.objectives)
      if (known == name) {
        if (better_at(rank, plan, best)) best = plan;
        return;
      }
    result_.objectives.emplace_back(name, plan);
  }

  void kind(const std::string& name, const ScoredPlan& plan) {
    for (auto& [known, best] : result_.kinds)
      if (known == name) {
        if (better(plan, best)) best = plan;
        return;
      }
    result_.kinds.emplace_back(name, plan);
  }

  void cut(std::size_t count) {
    std::stable_sort(all_.begin(), all_.end(), [&](const ScoredPlan& a, const ScoredPlan& b) { return better(a, b); });
    if (all_.size() > count) all_.resize(count);
  }

  void rank() {
    cut(static_cast<std::size_t>(params_.run));
    sim::Faults faults;
    const auto& schedules = registries_.get<policies::ScheduleRegistry>();
    const auto plain = schedules.prepare("1f1b", nullptr, {}, faults).make();
    const auto chunked = schedules.prepare("interleaved", nullptr, {}, faults).make();
    const std::int64_t total = std::ssize(all_);
    for (std::int64_t i = 0; i < total; ++i) {
      ScoredPlan& plan = all_[static_cast<std::size_t>(i)];
      run_plan(plan, plan.plan.chunks > 1 ? *chunked : *plain);
      if (progress_) progress_({.done = i + 1, .total = total, .what = "plans run"});
    }
    cut(static_cast<std::size_t>(params_.show));
    result_.best = std::move(all_);
  }

  void run_plan(ScoredPlan& plan, const policies::PipelineSchedule& schedule) {
    if (pass_count(plan.plan) > kMostPasses) return;  // ranked by its closed form
    const StepRun run = run_step(costs_of(plan), schedule, tick_scale(config_.params.run.tick_s));
    plan.time_s = run.times.time_s;
    plan.times = run.times;
  }

  /// Scores and runs the plan that is asked about, whatever the space.
  void explain() {
    ExplainedPlan asked;
    std::optional<std::string> why;
    const PlanParams params = parse_plan(params_.explain, config_.params.plan);
    asked.plan.plan = make_plan(params, config_.machine.devices, config_.params.workload.global_batch, why);
    const Plan& plan = asked.plan.plan;
    if (!why) why = offload_obstacle(config_, params);
    if (!why) why = tables_.obstacle(plan);
    if (!why) why = table_.obstacle(plan.share());
    if (!why && plan.pipeline * plan.chunks > table_.layers())
      why = fmt::format("{} stages of {} chunks want as many layers, the model has {}", plan.pipeline, plan.chunks,
                        table_.layers());
    sim::Faults faults;
    const auto schedule = registries_.get<policies::ScheduleRegistry>()
                              .prepare(plan.chunks > 1 ? "interleaved" : "1f1b", nullptr, {}, faults)
                              .make();
    if (!why)
      why = schedule->obstacle({.devices = plan.pipeline, .micro_batches = plan.micro_batches, .chunks = plan.chunks});
    if (!why) {
      asked.plan = scored_even(Plan(plan));
      run_plan(asked.plan, *schedule);
      if (asked.plan.memory_bytes > asked.plan.available_bytes)
        why = fmt::format("its fullest stage needs {}, a device has {}",
                          sim::humanise(static_cast<double>(asked.plan.memory_bytes), sim::Unit::bytes),
                          sim::humanise(static_cast<double>(asked.plan.available_bytes), sim::Unit::bytes));
      else
        why = host_obstacle(config_.machine, asked.plan.host_bytes);
    }
    asked.reason = why.value_or("");
    result_.explained = std::move(asked);
  }

  std::vector<std::int64_t> even_division(const Plan& plan) const {
    std::vector<std::int64_t> layers;
    for (std::int64_t s = 0; s < plan.pipeline; ++s) layers.push_back(even_layers(table_.layers(), plan.pipeline, s));
    return layers;
  }

  StepCosts costs_of(const ScoredPlan& scored) {
    const Plan& plan = scored.plan;
    return tables_.step(plan, scored.layers.empty() ? even_division(plan) : scored.layers);
  }

  const TrainingConfig& config_;
  const PlannerParams& params_;
  const sim::RegistrySet& registries_;
  const std::function<void(const Progress&)>& progress_;
  StageTables tables_;
  CostTable& table_;  ///< of the first kind of devices: what it can share, all can
  std::vector<HostShares> shares_;
  PlannerResult result_;
  std::vector<ScoredPlan> all_;
  std::int64_t devices_ = 1;
};

/// Of a rank's messages in a step: every micro-batch crosses from chunk to chunk, there and back.
double messages_j(const Plan& plan, const StageMessages& messages) {
  if (plan.pipeline < 2) return 0;
  const auto chunks = static_cast<double>(plan.chunks);
  return 2 * static_cast<double>(plan.micro_batches) *
         (chunks * messages.through(plan.pipeline).energy_j + (chunks - 1) * messages.wrap.energy_j);
}

/// What a rank of each stage keeps in its host's memory.
std::vector<std::int64_t> host_bytes(const Plan& plan, const std::vector<const StageCosts*>& stages) {
  std::vector<std::int64_t> all;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const StageCosts& stage = *stages[static_cast<std::size_t>(s)];
    all.push_back(stage.host_bytes(most_kept(stage, plan, s, &ChunkCosts::host_bytes)));
  }
  return all;
}

}  // namespace

ScoredPlan score(CostTable& table, const TrainingMachine& machine, const Plan& plan, std::int64_t layers) {
  const ModelCosts& model = table.costs(plan.share());
  // Stages that are neither first nor last are alike where they have as many layers: an even partition has two lengths.
  struct Kind {
    std::int64_t layers = 0;
    bool first = false, last = false;
    StageCosts costs;
    std::int64_t stages = 0;
  };
  ScoredPlan scored{.plan = plan, .available_bytes = machine.device.memory_bytes, .devices = plan.ranks()};
  std::vector<Kind> kinds;
  kinds.reserve(4);
  std::vector<std::uint8_t> kind_of(static_cast<std::size_t>(plan.pipeline));
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const std::int64_t count = even_layers(layers, plan.pipeline, s);
    const bool first = s == 0, last = s == plan.pipeline - 1;
    std::size_t k = 0;
    while (k < kinds.size() && !(kinds[k].layers == count && kinds[k].first == first && kinds[k].last == last)) ++k;
    if (k == kinds.size()) {
      kinds.push_back({count, first, last, stage_costs(model, machine, plan, s, count)});
      // The first of a kind runs ahead the farthest.
      const StageCosts& costs = kinds.back().costs;
      const StageMemory memory = stage_memory(model, costs, plan, most_kept(costs, plan, s));
      scored.memory_bytes = std::max(scored.memory_bytes, memory.total());
    }
    kind_of[static_cast<std::size_t>(s)] = static_cast<std::uint8_t>(k);
    ++kinds[k].stages;
  }
  std::vector<const StageCosts*> stages;
  stages.reserve(kind_of.size());
  for (const std::uint8_t kind : kind_of) stages.push_back(&kinds[kind].costs);
  if (plan.host_shares(0).any()) scored.host_bytes = fullest_host(plan, machine.node_devices, host_bytes(plan, stages));
  const StageMessages messages = stage_messages(model, machine, plan);
  scored.times = closed_form(plan, messages, stages);
  scored.closed_s = scored.times.time_s;
  scored.energy_j = messages_j(plan, messages);
  for (const Kind& kind : kinds)
    scored.energy_j += static_cast<double>(kind.stages) * stage_energy(kind.costs, plan.micro_batches);
  scored.energy_j *= static_cast<double>(plan.stage_ranks());
  scored.energy_j += machine.device.power.idle_w * scored.closed_s * static_cast<double>(scored.devices);
  return scored;
}

ScoredPlan score_stages(StageTables& tables, const Plan& plan, const std::vector<std::int64_t>& layers) {
  ScoredPlan scored{.plan = plan, .layers = layers, .devices = plan.ranks()};
  const StepCosts costs = tables.step(plan, layers);
  scored.times = closed_form(costs);
  scored.closed_s = scored.times.time_s;
  scored.energy_j = messages_j(plan, costs.messages) * static_cast<double>(plan.stage_ranks());
  std::vector<const StageCosts*> stages;
  double fullest = -1;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
    const Plan own = plan.of_stage(s);
    const std::int64_t device = tables.machine(plan, s).device.memory_bytes;
    const std::int64_t memory =
        stage_memory(tables.table(plan, s).costs(own.share()), stage, own, most_kept(stage, own, s)).total();
    if (const double share = static_cast<double>(memory) / static_cast<double>(device); share > fullest) {
      fullest = share;
      scored.memory_bytes = memory;
      scored.available_bytes = device;
    }
    scored.energy_j += static_cast<double>(own.stage_ranks()) * stage_energy(stage, plan.micro_batches);
    stages.push_back(&stage);
  }
  scored.host_bytes = fullest_host(plan, tables.whole().node_devices, host_bytes(plan, stages));
  if (tables.alike())
    scored.energy_j += tables.whole().device.power.idle_w * scored.closed_s * static_cast<double>(scored.devices);
  else
    scored.energy_j += idle_j(tables.whole(), scored.closed_s);
  return scored;
}

namespace {

/// What offload_text writes; nothing where it is not that.
std::optional<OffloadParams> parse_offload(const std::string& text) {
  OffloadParams out;
  if (text.ends_with('+')) return std::nullopt;
  std::istringstream kinds(text);
  for (std::string kind; std::getline(kinds, kind, '+');) {
    const auto* const letter = std::ranges::find_if(
        kOffloadFields, [&](const auto& known) { return !kind.empty() && known.letter == kind.front(); });
    if (letter == std::end(kOffloadFields) || !(out.*letter->of).empty() || kind.back() == '|') return std::nullopt;
    std::istringstream shares(kind.substr(1));
    for (std::string share; std::getline(shares, share, '|');) {
      const auto value = sim::parse_quantity(share, sim::Unit::none);
      if (!value || *value < 0 || *value > 1) return std::nullopt;
      (out.*letter->of).push_back(*value);
    }
    if ((out.*letter->of).empty()) return std::nullopt;
  }
  return out;
}

}  // namespace

std::string offload_text(const OffloadParams& offload) {
  std::string text;
  for (const auto& [letter, name, of] : kOffloadFields)
    if (any_share(offload.*of))
      text += fmt::format("{}{}{:g}", text.empty() ? "" : "+", letter, fmt::join(offload.*of, "|"));
  return text;
}

PlanParams parse_plan(const std::string& text, const PlanParams& others) {
  const auto fail = [&](const char* what) {
    throw std::invalid_argument(fmt::format("expected {} in the plan '{}'", what, text));
  };
  std::istringstream words(text);
  std::string tensor, stages, copies, micro, sequence, recompute, zero, offload, more;
  words >> tensor >> stages >> copies >> micro >> sequence >> recompute >> zero >> offload;
  if (zero.empty() || (words >> more))
    fail(
        "seven words (tensor, stages, copies, micro-batch, yes or no, what runs again, ZeRO), or an eighth for what "
        "lies in host memory,");
  const auto number = [&](const std::string& word, const char* what) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > (1 << 20)) fail(what);
    return value;
  };
  PlanParams params = others;
  params.stage_tensor_parallel.clear();
  params.stage_recompute_layers.clear();
  const std::size_t shared = tensor.find('c');
  params.tensor_parallel = number(tensor.substr(0, shared), "ranks of tensor parallelism");
  params.context_parallel =
      shared == std::string::npos ? 1 : number(tensor.substr(shared + 1), "ranks of context parallelism behind the c");
  const std::size_t chunks = stages.find('x');
  params.pipeline_parallel = number(stages.substr(0, chunks), "stages, and chunks behind an x,");
  params.interleave = chunks == std::string::npos ? 1 : number(stages.substr(chunks + 1), "chunks behind the x");
  const std::size_t experts = copies.find('e');
  params.data_parallel = number(copies.substr(0, experts), "copies");
  params.expert_parallel =
      experts == std::string::npos ? 1 : number(copies.substr(experts + 1), "ranks that share experts behind the e");
  params.micro_batch = number(micro, "sequences of a micro-batch");
  if (sequence != "yes" && sequence != "no") fail("yes or no for sequence parallelism");
  params.sequence_parallel = sequence == "yes";
  params.async_tensor_parallel = params.sequence_parallel && others.async_tensor_parallel;
  params.overlap_experts = others.overlap_experts;
  const auto again = sim::value_named<Recompute>(recompute);
  if (!again) fail("none, selective, by_op or full for what runs again");
  params.recompute = *again;
  const auto shares = sim::value_named<Zero>(zero);
  if (!shares) fail("none, optimizer, gradients or weights for ZeRO");
  params.zero = *shares;
  static_cast<OffloadParams&>(params) = {};
  if (!offload.empty()) {
    const auto parsed = parse_offload(offload);
    if (!parsed) fail("shares up to 1 behind a, o, g or w, such as a0.5+o0.25|1, for what lies in host memory");
    static_cast<OffloadParams&>(params) = *parsed;
  }
  return params;
}

PlannerResult find_plans(const TrainingConfig& config, const PlannerParams& params, const sim::RegistrySet& registries,
                         const std::function<void(const Progress&)>& progress) {
  return PlanSearch(config, params, registries, progress).run();
}

}  // namespace orrery::experiments::training
