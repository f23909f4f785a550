#include "experiments/systems/experts/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/figures.hpp"
#include "experiments/systems/experts/nested.hpp"
#include "experiments/systems/experts/ranks.hpp"
#include "experiments/systems/experts/run.hpp"

namespace orrery::experiments {
namespace experts {
namespace {

using sim::Node;

/// Bytes on a GPU and on the host, and the share of experts with a slot.
struct Memory {
  double share = 0;
  std::int64_t dense = 0, experts = 0, kv = 0, gpu = 0, host_experts = 0, host_slots = 0;
  std::string lacks;  ///< why it does not fit; empty: it does
};

class ExpertsExperiment final : public ConfigExperiment {
 public:
  ExpertsExperiment(const Node& root, const Systems& systems, sim::Faults& faults)
      : config_(read_config(root, *systems.registries(), faults)) {
    if (!faults.empty()) return;
    inputs_ = config_.inputs;
    seed_ = config_.sections.run.seed;
    resolved_ = resolved_config("experts", config_.sections);
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const Sections& s = config_.sections;
    if (s.machine.ranks > 1)
      return {{"model", config_.model.name},
              {"machine", fmt::format("{} ranks of {} {}", s.machine.ranks, s.machine.devices, config_.gpu->name)},
              {"step", step_text()},
              {"placement", s.policies.placement.name}};
    return {{"model", config_.model.name},
            {"machine", fmt::format("{} {}, host {}", s.machine.devices, config_.gpu->name,
                                    config_.host ? fmt::format("{} {}", s.machine.host.sockets, config_.host->name)
                                                 : std::string("that only keeps experts"))},
            {"step", step_text()},
            {"cache, schedule", fmt::format("{}, {}", s.policies.cache.name, s.policies.schedule.name)}};
  }

  Outcome run(const RunSink&) const override {
    ExpertsExperiment drawn(*this);
    draw_choices(drawn.config_);
    return drawn.play_out();
  }

 private:
  Outcome play_out() const {
    const Prices prices(config_);
    const Memory memory = fit(prices);
    Outcome outcome;
    Node& node = outcome.summary = Node::object();
    node.set("status", Node::string(memory.lacks.empty() ? "ok" : "infeasible"));
    if (!memory.lacks.empty()) node.set("reason", Node::string(memory.lacks));
    if (memory.lacks.empty() && config_.sections.machine.ranks > 1) {
      const std::int64_t parts = config_.sections.policies.exchange.in_turns ? 2 : 1;
      const Prices own(config_, parts);
      const RankTotals totals = play_ranks(config_, own);
      write_ranks(totals, node);
      const double ranks = static_cast<double>(config_.sections.machine.ranks * parts * totals.steps);
      write_energy(prices.idle_w(), totals.time_ps, totals.steps,
                   {{"dense", ranks * own.dense_j()}, {"experts", totals.experts_j}, {"exchange", totals.exchange_j}},
                   node);
    } else if (memory.lacks.empty()) {
      const auto slots =
          layer_slots(config_.expert_layers(), config_.trace.experts, memory.share, config_.sections.policies.spread);
      const std::optional<BitsParams>& bits = config_.sections.model.bits;
      const auto all = static_cast<double>(config_.expert_layers() * config_.trace.experts);
      const RunTotals totals =
          bits ? play_nested(config_, prices,
                             std::llround(memory.share * all * static_cast<double>(all_level_slots(*bits))))
               : play(config_, prices, slots, memory.host_slots);
      write_times(totals, bits ? std::nullopt : one_by_one(config_, slots), node);
      write_energy(prices.idle_w(), totals.time_ps, totals.steps,
                   {{"dense", static_cast<double>(totals.steps) * prices.dense_j()},
                    {"experts", totals.products.energy_j},
                    {"host", totals.host_j},
                    {"copies", totals.copies_j}},
                   node);
    }
    Node& bytes = node.set("memory_bytes", Node::object());
    bytes.set("gpu", Node::integer(memory.gpu));
    bytes.set("dense", Node::integer(memory.dense));
    bytes.set("experts", Node::integer(memory.experts));
    bytes.set("kv", Node::integer(memory.kv));
    bytes.set("host_experts", Node::integer(memory.host_experts));
    node.set("share", Node::real(memory.share));
    return outcome;
  }

  std::string step_text() const {
    const WorkloadParams& w = config_.sections.workload;
    return w.chunk == 1 ? fmt::format("{} decodes", w.batch) : fmt::format("{} chunks of {} tokens", w.batch, w.chunk);
  }

  Memory fit(const Prices& prices) const {
    const Sections& s = config_.sections;
    const std::int64_t all = config_.expert_layers() * config_.trace.experts;
    const double room = (1 - s.machine.memory_margin) * static_cast<double>(config_.gpu->memory_bytes);
    Memory out{.dense = prices.dense_bytes(), .kv = prices.kv_bytes()};
    const double left = room - static_cast<double>(out.dense + out.kv);
    const double each = static_cast<double>(prices.layer_bytes()) / static_cast<double>(config_.trace.experts);
    const double fits = std::floor(std::max(0.0, left) / each);
    const bool ranks = s.machine.ranks > 1;  // each holds what is placed there
    const double slots = ranks              ? static_cast<double>(most_slots(config_))
                         : s.policies.share ? std::round(*s.policies.share * static_cast<double>(all))
                                            : std::min(fits, static_cast<double>(all));
    out.share = slots / static_cast<double>(all);
    out.experts = std::llround(slots * each);
    out.gpu = out.dense + out.kv + out.experts;
    const auto bytes = [](double b) { return sim::humanise(b, sim::Unit::bytes); };
    if (left < 0)
      out.lacks = fmt::format("weights without experts and keys need {}, the GPU has {} beside its margin",
                              bytes(static_cast<double>(out.dense + out.kv)), bytes(room));
    else if (slots > fits)
      out.lacks = fmt::format("a share of {:.3g} of the experts needs {}, the GPU has {} left of {}", out.share,
                              bytes(static_cast<double>(out.experts)), bytes(left), bytes(room));
    else if (!s.model.modules.empty() && slots < static_cast<double>(all))
      out.lacks = fmt::format("modules of unlike sizes all stay on the GPU and need {}, it has {} left of {}",
                              bytes(each * static_cast<double>(all)), bytes(left), bytes(room));
    else if (!s.model.bits) {
      const HostedExperts hosted =
          hosted_experts(config_, s.machine.host.sockets, slots < static_cast<double>(all) && !ranks ? all : 0,
                         prices.host_expert_bytes(), s.policies.host_share);
      out.host_slots = hosted.slots;
      out.host_experts = hosted.slots * prices.host_expert_bytes();
      out.lacks = hosted.lacks;
    }
    return out;
  }

  /// What devices draw idle all the time, and what their work takes beside.
  void write_energy(double idle_w, std::int64_t time_ps, std::int64_t steps,
                    const std::vector<std::pair<const char*, double>>& parts, Node& node) const {
    const WorkloadParams& w = config_.sections.workload;
    const double idle = idle_w * static_cast<double>(time_ps) * 1e-12;
    double total = idle;
    for (const auto& part : parts) total += part.second;
    Node& energy = node.set("energy_j", Node::object());
    energy.set("total", Node::real(total));
    energy.set("idle", Node::real(idle));
    for (const auto& [name, joules] : parts) energy.set(name, Node::real(joules));
    node.set("energy_per_token_j", ratio(total, static_cast<double>(w.batch * w.chunk * steps)));
  }

  void write_ranks(const RankTotals& totals, Node& node) const {
    const WorkloadParams& w = config_.sections.workload;
    const MachineParams& m = config_.sections.machine;
    const auto steps = static_cast<double>(totals.steps);
    const double seconds = static_cast<double>(totals.time_ps) * 1e-12;
    const double tokens = static_cast<double>(w.batch * w.chunk) * steps;
    node.set("simulated_s", Node::real(seconds));
    node.set("steps", Node::integer(totals.steps));
    Node& throughput = node.set("throughput", Node::object());
    throughput.set("tokens_per_s", ratio(tokens, seconds));
    throughput.set("gpu_tokens_per_s", ratio(tokens, seconds * static_cast<double>(m.ranks * m.devices)));
    Node& step = node.set("step_s", Node::object());
    step.set("total", ratio(seconds, steps));
    step.set("dense", ratio(static_cast<double>(totals.dense_ps) * 1e-12, steps));
    step.set("gpu_experts", ratio(static_cast<double>(totals.experts_ps) * 1e-12, steps));
    step.set("exchange", ratio(static_cast<double>(totals.exchange_ps) * 1e-12, steps));
    Node& layer = node.set("layer_s", Node::object());
    layer.set("experts", distribution_figures(totals.layer_experts, 1e-12, kLatencyQuantiles));
    layer.set("exchange", distribution_figures(totals.layer_exchange, 1e-12, kLatencyQuantiles));
    node.set("imbalance", Node::real(totals.imbalance));
  }

  void write_times(const RunTotals& totals, const std::optional<policies::ExpertCounts>& alone, Node& node) const {
    const WorkloadParams& w = config_.sections.workload;
    const auto steps = static_cast<double>(totals.steps);
    const auto a_step = [&](std::int64_t ps) { return Node::real(static_cast<double>(ps) * 1e-12 / steps); };
    const auto tokens = static_cast<double>(w.batch * w.chunk);
    node.set("simulated_s", Node::real(static_cast<double>(totals.time_ps) * 1e-12));
    node.set("steps", Node::integer(totals.steps));
    Node& throughput = node.set("throughput", Node::object());
    throughput.set("tokens_per_s", ratio(tokens * steps, static_cast<double>(totals.time_ps) * 1e-12));
    Node& step = node.set("step_s", Node::object());
    step.set("total", a_step(totals.time_ps));
    step.set("dense", a_step(totals.dense_ps));
    step.set("gpu_experts", a_step(totals.products.time_ps));
    step.set("waited", a_step(totals.waited_ps));
    step.set("host_busy", a_step(totals.host_ps));
    step.set("link_busy", a_step(totals.link_ps));
    if (config_.storage) step.set("drive_busy", a_step(totals.drive_ps));
    Node& cache = node.set("cache", Node::object());
    cache.set("requests", Node::integer(totals.counts.requests));
    cache.set("misses", Node::integer(totals.counts.misses));
    cache.set("hit_rate", Node::real(totals.counts.hit_rate()));
    const auto [worst, best] = std::ranges::minmax(totals.layer_hit_rate);
    cache.set("one_by_one", alone ? Node::real(alone->hit_rate()) : Node());
    cache.set("worst_layer", Node::real(worst));
    cache.set("best_layer", Node::real(best));
    Node& experts = node.set("experts_a_step", Node::object());
    experts.set("gpu", ratio(static_cast<double>(totals.on_gpu), steps));
    experts.set("fetched", ratio(static_cast<double>(totals.fetched), steps));
    experts.set("host", ratio(static_cast<double>(totals.on_host), steps));
    if (config_.storage) experts.set("read", ratio(static_cast<double>(totals.read), steps));
    node.set("token_gap_s", distribution_figures(totals.token_gap, 1e-12, kLatencyQuantiles));
    const double layers = steps * static_cast<double>(config_.expert_layers());
    Node& work = node.set("experts_work", Node::object());
    work.set("flops_per_token", ratio(totals.flops, tokens * steps));
    work.set("weight_bytes_a_step", ratio(totals.weight_bytes, steps));
    work.set("products_a_layer", ratio(static_cast<double>(totals.groups), layers));
    work.set("tokens_a_product", ratio(static_cast<double>(totals.rows), static_cast<double>(totals.groups)));
    Node& ahead = node.set("prefetched", Node::object());
    ahead.set("copies", Node::integer(totals.prefetched));
    ahead.set("used", Node::integer(totals.prefetched_used));
  }

  Config config_;
};

}  // namespace
}  // namespace experts

System experts_system() {
  return {
      .name = "experts",
      .doc =
          "Mixture-of-experts inference with experts in several memories: caches, computation on the host, prefetch.",
      .fields = describe_sections<experts::Sections>,
      .read = read_as<experts::ExpertsExperiment>};
}

}  // namespace orrery::experiments
