#include "experiments/answers/fits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/systems/experts/engines.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

/// A way to treat experts that are not on the GPU, and the cache that goes with it.
struct Way {
  const char *schedule, *cache;
};
constexpr Way kWays[] = {{"host", "static"}, {"fetch", "lru"}, {"hybrimoe", "static"}};
constexpr std::int64_t kSteps = 200, kSkipped = 40;  ///< of a drawn trace: enough to fill caches, and for a mean

const experts::Engine& engine_named(const std::string& name) {
  std::vector<std::string> known;
  for (const experts::Engine& engine : experts::kEngines) {
    if (engine.name == name) return engine;
    known.emplace_back(engine.name);
  }
  sim::throw_fault({"--engine", ""}, fmt::format("unknown engine '{}'", name), sim::name_hint(name, known));
}

std::string in_catalog(const std::string& name) {
  const bool file =
      name.find('/') != std::string::npos || name.find(':') != std::string::npos || name.ends_with(".json");
  return file ? name : "catalog:" + name;
}

Node config_of(const FitsParams& params, const experts::Engine& engine, const std::string& weights, const Way& way) {
  Node root = Node::object();
  root.set("system", Node::string("experts"));
  const auto set = [&](const std::string& path, const std::string& value) { sim::assign(root, path + "=" + value); };
  set("machine.part", params.part);
  set("machine.devices", std::to_string(params.devices));
  set("machine.link", params.link);
  set("machine.step_gap", fmt::format("{:g} ms", engine.step_gap_s * 1e3));
  if (!params.host.empty()) {
    set("machine.host.part", params.host);
    set("machine.host.sockets", std::to_string(params.sockets));
    set("machine.host.efficiency", fmt::format("{:g}", engine.efficiency));
    set("machine.host.layer_gap", fmt::format("{:g} us", engine.layer_gap_s * 1e6));
  }
  if (!params.storage.empty()) set("machine.storage", params.storage);
  if (!params.storage.empty() && params.host.empty()) set("policies.host_share", "0");  // no memory of it is known
  set("model.config", in_catalog(params.model));
  if (!weights.empty()) set("model.weight_format", weights);
  if (params.router.empty()) {
    set("workload.router.generator.tokens", std::to_string(kSteps * params.batch));
    set("workload.skip", std::to_string(kSkipped));
  } else {
    set("workload.router.trace", params.router);
  }
  set("workload.context", std::to_string(params.context));
  set("workload.batch", std::to_string(params.batch));
  set("policies.schedule.policy", way.schedule);
  set("policies.cache.policy", way.cache);
  return root;
}

/// The experiment of a config; faults name what was asked, not the config that was made of it.
std::unique_ptr<Experiment> read_row(const Systems& systems, const Node& config) {
  constexpr std::pair<std::string_view, const char*> kAsked[] = {{"/machine/part", "PART"},
                                                                 {"/machine/host/part", "--host"},
                                                                 {"/machine/link", "--link"},
                                                                 {"/machine/storage", "--storage"},
                                                                 {"/model/config", "MODEL"},
                                                                 {"/model/weight_format", "--weights"},
                                                                 {"/workload/router/trace", "--router"},
                                                                 {"/machine/devices", "--devices"},
                                                                 {"/workload/batch", "--batch"}};
  try {
    return read_experiment(systems, config);
  } catch (const sim::ConfigError& error) {
    std::vector<sim::Fault> faults = error.faults();
    for (sim::Fault& fault : faults)
      for (const auto& [pointer, option] : kAsked)
        if (fault.where.pointer == pointer) fault.where = {option, ""};
    throw sim::ConfigError(std::move(faults));
  }
}

double figure(const Node& summary, std::string_view path) {
  const Node* value = summary.at(path);
  return value != nullptr ? value->as_number() : 0;
}

}  // namespace

const FitsAnswer::Row* FitsAnswer::best() const {
  const Row* out = nullptr;
  for (const Row& row : rows)
    if (row.reason.empty() && (out == nullptr || row.tokens_per_s > out->tokens_per_s)) out = &row;
  return out;
}

FitsAnswer ask_fits(const FitsParams& params, const Systems& systems) {
  const experts::Engine& engine = engine_named(params.engine);
  const std::vector<std::string> formats =
      params.weights.empty() ? std::vector<std::string>{"", "fp8", "int4"} : params.weights;
  FitsAnswer out;
  out.drive = !params.storage.empty();
  out.assumed =
      fmt::format("Assumed: overheads of {} (--engine){}.", engine.doc,
                  params.router.empty() ? "; experts are chosen as in one public model's traces (--router)" : "");
  for (const std::string& weights : formats)
    for (const Way& way : kWays) {
      if (params.host.empty() && std::string_view(way.schedule) != "fetch") continue;
      FitsAnswer::Row row{.weights = weights.empty() ? "published" : weights, .schedule = way.schedule};
      row.config = config_of(params, engine, weights, way);
      const auto experiment = read_row(systems, row.config);
      if (out.asked.empty())
        for (const auto& [name, text] : experiment->restated())
          if (name == "model" || name == "machine") out.asked += (out.asked.empty() ? "" : " on ") + text;
      const Node summary = experiment->run({}).summary;
      if (const Node* reason = summary.find("reason")) row.reason = reason->as_string();
      row.share = figure(summary, "share");
      row.tokens_per_s = figure(summary, "throughput.tokens_per_s");
      row.step_s = figure(summary, "step_s.total");
      row.dense_s = figure(summary, "step_s.dense");
      row.waited_s = figure(summary, "step_s.waited");
      row.gpu_bytes = figure(summary, "memory_bytes.gpu");
      row.host_bytes = figure(summary, "memory_bytes.host_experts");
      row.drive_s = figure(summary, "step_s.drive_busy");
      out.rows.push_back(std::move(row));
      // All experts on the GPU: the ways are the same. Nothing fits: neither does it another way.
      if (!out.rows.back().reason.empty() || out.rows.back().share == 1) break;
    }
  return out;
}

Node fits_node(const FitsAnswer& answer) {
  Node rows = Node::array();
  for (const FitsAnswer::Row& row : answer.rows) {
    Node one = Node::object();
    one.set("weights", Node::string(row.weights));
    one.set("schedule", Node::string(row.schedule));
    one.set("fits", Node::boolean(row.reason.empty()));
    if (!row.reason.empty()) one.set("reason", Node::string(row.reason));
    one.set("share", Node::real(row.share));
    one.set("tokens_per_s", Node::real(row.tokens_per_s));
    one.set("step_s", Node::real(row.step_s));
    one.set("waited_s", Node::real(row.waited_s));
    one.set("gpu_bytes", Node::real(row.gpu_bytes));
    one.set("host_bytes", Node::real(row.host_bytes));
    if (answer.drive) one.set("drive_s", Node::real(row.drive_s));
    one.set("config", row.config);
    rows.push(std::move(one));
  }
  Node node = Node::object();
  node.set("rows", std::move(rows));
  return node;
}

std::string fits_text(const FitsAnswer& answer) {
  std::string out = answer.asked + "\n\n";
  out += fmt::format("{:<12}{:>15}  {:<10}{:>10}{:>12}{:>10}{:>10}{:>12}{}\n", "weights", "experts on GPU", "others by",
                     "tokens/s", "ms a step", "dense", "waits", "host", answer.drive ? "     drive" : "");
  const FitsAnswer::Row* best = answer.best();
  for (const FitsAnswer::Row& row : answer.rows) {
    if (!row.reason.empty()) {
      out += fmt::format("{:<12}does not fit: {}\n", row.weights, row.reason);
      continue;
    }
    out += fmt::format(
        "{:<12}{:>13.1f} %  {:<10}{:>10.1f}{:>12.1f}{:>10.1f}{:>10.1f}{:>12}{}{}\n", row.weights, 100 * row.share,
        row.share == 1 ? "-" : row.schedule, row.tokens_per_s, 1e3 * row.step_s, 1e3 * row.dense_s, 1e3 * row.waited_s,
        row.host_bytes > 0 ? sim::humanise(row.host_bytes, sim::Unit::bytes) : "-",
        answer.drive ? fmt::format("{:>10.1f}", 1e3 * row.drive_s) : std::string(), &row == best ? "  best" : "");
  }
  if (best == nullptr) out += "\nNothing fits.\n";
  return out + "\n" + answer.assumed + "\n";
}

}  // namespace orrery::experiments
