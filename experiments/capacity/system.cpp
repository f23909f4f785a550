#include "experiments/capacity/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/capacity/reason.hpp"
#include "experiments/capacity/search.hpp"
#include "experiments/capacity/serving_question.hpp"

namespace orrery::experiments {
namespace capacity {

using sim::Node;

CapacityParams read_capacity(const Node& root, const ServingConfig& config, sim::Faults& faults) {
  const Node node = section(root, "capacity");
  CapacityParams params = sim::parse_params<CapacityParams>(node, faults);
  if (!params.attainment && params.limits.empty()) {
    params.attainment = 0.99;
    if (!config.slo.ttft_s && !config.slo.tbt_s)
      faults.add(node.origin(), "expected a target: 'slo', or 'limits' here",
                 "e.g. \"slo\": {\"ttft\": \"2 s\"}, or \"limits\": [{\"metric\": \"tbt\", \"most\": \"100 ms\"}]");
  }
  if (params.min_rate && params.max_rate && *params.min_rate > *params.max_rate)
    faults.add(place_of(node, "min_rate"), "expected no more than max_rate");
  return params;
}

Node probe_node(const Probe& probe) {
  Node node = Node::object();
  node.set("rate_per_s", Node::real(probe.rate));
  node.set("rate_scale", Node::real(probe.rate_scale));
  node.set("meets", Node::boolean(probe.meets));
  node.set("certain", Node::boolean(probe.certain));
  node.set("replications", Node::integer(probe.replications));
  node.set("requests", Node::integer(probe.requests));
  node.set("load", Node::string(std::string(sim::to_string(probe.load))));
  node.set("spans", Node::real(probe.spans));
  Node& figures = node.set("figures", Node::object());
  for (const Criterion& criterion : probe.criteria) {
    Node& figure = figures.set(criterion.name, Node::object());
    const bool there = !std::isnan(criterion.mean);
    figure.set("mean", there ? Node::real(criterion.mean) : Node{});
    figure.set("half_width", there && probe.replications > 1 ? Node::real(criterion.half_width) : Node{});
    figure.set(criterion.at_least ? "least" : "most", Node::real(criterion.bound));
    figure.set("met", Node::boolean(criterion.met()));
  }
  return node;
}

namespace {

SearchBounds bounds_of(const CapacityParams& params, const Arrivals& arrivals, double horizon_s) {
  SearchBounds bounds;
  bounds.tolerance = params.tolerance;
  bounds.start = params.start_rate.value_or(arrivals.per_s);
  bounds.least =
      params.min_rate.value_or(std::max(bounds.start / 1024, static_cast<double>(arrivals.requests) / horizon_s));
  if (params.max_rate && !params.min_rate) bounds.least = std::min(bounds.least, *params.max_rate);
  bounds.most = std::max(params.max_rate.value_or(bounds.start * 1024), bounds.least);
  return bounds;
}

void write_probes(const std::filesystem::path& path, const std::vector<const Probe*>& probes) {
  std::string text =
      "rate_per_s,rate_scale,meets,certain,replications,requests,load,spans,figure,mean,half_width,bound\n";
  for (const Probe* probe : probes)
    for (const Criterion& c : probe->criteria)
      append(text, "{:.9g},{:.9g},{},{},{},{},{},{:.9g},{},{:.9g},{:.9g},{:.9g}\n", probe->rate, probe->rate_scale,
             probe->meets ? 1 : 0, probe->certain ? 1 : 0, probe->replications, probe->requests,
             sim::to_string(probe->load), probe->spans, c.name, c.mean, c.half_width, c.bound);
  write_text(path, text);
}

std::string failing(const Probe& probe) {
  std::string text;
  for (const Criterion& c : probe.criteria)
    if (!c.met())
      text += fmt::format("{}{} is {:.4g}, {} {:.4g} is wanted", text.empty() ? "" : "; ", c.name, c.mean,
                          c.at_least ? "at least" : "at most", c.bound);
  if (text.empty() && probe.load == LoadState::overloaded) text = "requests take longer and longer";
  return text;
}

/// "conversations" (of a program, what it is called) or "requests".
std::string arrivals_name(const ServingConfig& config) {
  return config.workload.program ? "programs" : "requests";
}

std::string too_short(const Probe& probe, const std::string& what) {
  return fmt::format(
      "at {:.4g} {}/s arrivals span {:.1f} mean times in system, {:.0f} are wanted{}: {}; the capacity "
      "is at least what is told",
      probe.rate, what, probe.spans, RunLength::kSpans,
      probe.spans >= RunLength::kSpans ? " without a growing queue" : "", probe.limit);
}

/// Status and reason: what ended the search.
void set_status(const Bracket& bracket, const std::map<double, Probe>& probes, const std::string& what, Node& root) {
  const auto set = [&](const char* status, std::string reason) {
    root.set("status", Node::string(status));
    if (!reason.empty()) root.set("reason", Node::string(std::move(reason)));
  };
  const Probe* fails = bracket.fails ? &probes.at(*bracket.fails) : nullptr;
  if (fails != nullptr && fails->meets && fails->load == LoadState::too_short)
    return set("too_short", too_short(*fails, what));
  if (!bracket.meets)
    return set("nothing_meets",
               fmt::format("not even {:.4g} {}/s meet the targets: {}", fails->rate, what, failing(*fails)));
  if (fails == nullptr)
    return set("bound_meets",
               fmt::format("even {:.4g} {}/s, the greatest rate tried, meet the targets", *bracket.meets, what));
  set("ok", "");
}

/// Status and figures of the answer; a search that found no end is a result too.
Node summary_of(const Bracket& bracket, const std::map<double, Probe>& probes, const Prober& prober,
                const std::string& what) {
  Node root = Node::object();
  const auto rate_or_null = [](const std::optional<double>& rate) { return rate ? Node::real(*rate) : Node{}; };
  set_status(bracket, probes, what, root);
  root.set("arrivals", Node::string(what));
  root.set("capacity_per_s", Node::real(bracket.meets.value_or(0)));
  Node& ends = root.set("bracket_per_s", Node::object());
  ends.set("meets", rate_or_null(bracket.meets));
  ends.set("fails", rate_or_null(bracket.fails));
  root.set("rate_scale", Node::real(bracket.meets.value_or(0) / prober.arrivals().per_s));
  root.set("nominal_rate_per_s", Node::real(prober.arrivals().per_s));
  std::int64_t uncertain = 0;
  Node list = Node::array();
  for (const auto& [rate, probe] : probes) {
    uncertain += probe.certain ? 0 : 1;
    list.push(probe_node(probe));
  }
  root.set("runs", Node::integer(prober.runs()));
  root.set("uncertain_probes", Node::integer(uncertain));
  root.set("probes", std::move(list));
  return root;
}

Node suggestion_node(const Suggestion& suggestion) {
  Node node = Node::object();
  Node& set = node.set("set", Node::array());
  for (const std::string& assignment : suggestion.change.assignments) set.push(Node::string(assignment));
  node.set("text", Node::string(suggestion.change.text));
  node.set("capacity_per_s", Node::real(suggestion.capacity_per_s));
  return node;
}

class CapacityExperiment final : public SetupQuestion {
 public:
  /// `root`: the serving config as it was read.
  CapacityExperiment(Node root, Systems systems, ServingConfig config, const CapacityParams& params)
      : SetupQuestion(std::move(config), "capacity", sim::write_params(params)),
        root_(std::move(root)),
        systems_(std::move(systems)),
        params_(params) {}

 private:
  Outcome answer(const RunSink& sink) const override {
    Prober prober(config_, setup_, params_);
    std::map<double, Probe> probes;
    std::vector<const Probe*> in_order;
    const auto meets = [&](double rate) {
      const Probe& probe = probes.emplace(rate, prober.at(rate)).first->second;
      in_order.push_back(&probe);
      if (sink.progress) sink.progress({std::ssize(in_order), {}, 0, "rates tried"});
      return probe.holds();
    };
    const Bracket bracket = highest_rate(bounds_of(params_, prober.arrivals(), horizon_s(config_)), meets);
    Outcome outcome;
    outcome.summary = summary_of(bracket, probes, prober, arrivals_name(config_));
    outcome.events = prober.events();
    if (bracket.meets) outcome.summary.set("at_capacity", at_capacity(probes.at(*bracket.meets)));
    if (bracket.fails) explain(probes.at(*bracket.fails), bracket.meets.value_or(0), outcome.summary);
    if (sink.folder) write_probes(*sink.folder / "probes.csv", in_order);
    return outcome;
  }

  /// The first replication once more, watched.
  Node at_capacity(const Probe& probe) const {
    const RunChange change{.rate_scale = probe.rate_scale, .requests = probe.requests};
    return summarise(run_watched(config_, setup_, nullptr, {}, change), tick_scale(config_.run.tick_s));
  }

  /// What binds at the least rate that fails, and a change that lifts it.
  void explain(const Probe& fails, double capacity_per_s, Node& summary) const {
    const Binding binding = binding_at(config_, setup_, params_, fails);
    if (binding.target.empty()) return;
    summary.set("binds", binding_node(binding));
    if (!params_.suggest) return;
    const std::vector<Change> changes = changes_for(binding.cause, config_.resolved);
    const double from = std::max(capacity_per_s, fails.rate / 1024);
    if (const auto better = suggest(root_, systems_, params_, changes, from))
      summary.set("suggestion", suggestion_node(*better));
  }

  Node root_;
  Systems systems_;
  CapacityParams params_;
};

}  // namespace
}  // namespace capacity

System capacity_system() {
  return {
      .name = "capacity",
      .doc = "Finds the highest request rate at which a serving system meets its targets.",
      .fields = describe_sections<capacity::CapacitySections>,
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        ServingConfig config = capacity::read_serving_part(root, {"capacity"}, systems, faults);
        const capacity::CapacityParams params = capacity::read_capacity(root, config, faults);
        faults.throw_if_any();
        sim::Node serving = root;
        serving.erase("capacity");
        return std::make_unique<capacity::CapacityExperiment>(std::move(serving), systems, std::move(config), params);
      }};
}

}  // namespace orrery::experiments
