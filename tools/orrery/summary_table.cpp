#include "tools/orrery/summary_table.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "sim/base/units.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

/// Number at "a.b" of a document, if there is one.
std::optional<double> number(const Node& root, std::string_view path) {
  const Node* node = root.at(path);
  return node != nullptr && node->is_number() ? std::optional(node->as_number()) : std::nullopt;
}

std::string infeasible(const Node& summary) {
  std::string out = "status       infeasible\n";
  if (const Node* reason = summary.find("reason")) out += fmt::format("reason       {}\n", reason->as_string());
  for (const char* key : {"needed_bytes", "available_bytes"})
    if (const auto value = number(summary, key))
      out += fmt::format("{:<12} {} ({:.0f} bytes)\n", key == std::string_view("needed_bytes") ? "needed" : "available",
                         sim::humanise(*value, Unit::bytes), *value);
  return out;
}

void line(std::string& out, std::string_view label, const std::string& text) {
  if (!text.empty()) out += fmt::format("{:<12} {}\n", label, text);
}

/// "12 arrived, 10 completed" from pairs of path and word.
template <std::size_t N>
std::string counts(const Node& summary, const std::array<std::pair<const char*, const char*>, N>& parts) {
  std::string text;
  for (const auto& [path, word] : parts)
    if (const auto value = number(summary, path))
      text += fmt::format("{}{:.0f} {}", text.empty() ? "" : ", ", *value, word);
  return text;
}

void latencies(std::string& out, const Node& summary) {
  out += fmt::format("\n{:<12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "latency", "mean", "p50", "p90", "p95",
                     "p99", "max");
  constexpr std::array kRows{std::pair{"ttft_s", "TTFT"}, std::pair{"tbt_s", "TBT"}, std::pair{"tpot_s", "TPOT"},
                             std::pair{"e2e_s", "E2E"}, std::pair{"queueing_s", "queueing"}};
  for (const auto& [key, label] : kRows) {
    if (summary.find(key) == nullptr) continue;
    out += fmt::format("{:<12}", label);
    for (const char* column : {"mean", "p50", "p90", "p95", "p99", "max"}) {
      const auto value = number(summary, fmt::format("{}.{}", key, column));
      out += fmt::format(" {:>10}", value ? sim::humanise(*value, Unit::seconds) : "-");
    }
    out += '\n';
  }
  out += '\n';
}

Unit unit_of(std::string_view key) {
  if (key.ends_with("_per_s")) return Unit::none;
  return key.ends_with("_s") ? Unit::seconds : key.ends_with("_bytes") ? Unit::bytes : Unit::none;
}

/// A figure in the unit that its key says, or that of its group does.
std::string plain(const Node& value, Unit unit) {
  if (!value.is_number()) return value.is_string() ? value.as_string() : value.dump();
  return unit == Unit::none ? fmt::format("{:.6g}", value.as_number()) : sim::humanise(value.as_number(), unit);
}

/// Of systems without requests: every figure, a line each, and those of one group side by side.
std::string figures_table(const Node& summary) {
  std::string out;
  for (const auto& [key, value] : summary.members()) {
    if (key == "status") continue;
    if (!value.is_object()) {
      line(out, key, plain(value, unit_of(key)));
      continue;
    }
    std::string group;
    for (const auto& [name, part] : value.members()) {
      if (part.is_object() || part.is_array()) continue;
      const Unit unit = unit_of(key) == Unit::none ? unit_of(name) : unit_of(key);
      group += fmt::format("{}{} {}", group.empty() ? "" : ", ", name, plain(part, unit));
    }
    line(out, key, group);
  }
  return out;
}

/// What an iteration keeps host and devices busy with, in each regime that occurred.
std::string host_text(const Node& host) {
  std::string out;
  for (const auto& [name, regime] : host.members()) {
    const auto each = [&](const char* key) {
      const double iterations = number(regime, "iterations").value_or(0);
      return sim::humanise(iterations > 0 ? number(regime, key).value_or(0) / iterations : 0, Unit::seconds);
    };
    out += fmt::format("{}{}: {}-bound (host {}, devices {}, TKLQT {} an iteration)", out.empty() ? "" : "; ", name,
                       regime.find("bound")->as_string(), each("host_s"), each("device_s"), each("tklqt_s"));
  }
  return out;
}

/// Experts that devices do not hold all of: how many were there, and what the others cost.
std::string experts_text(const Node& experts) {
  const auto value = [&](const char* key) { return number(experts, key).value_or(0); };
  const double longer = value("waited_s");
  return fmt::format(
      "{:.1f} % of the uses in device memory, {:.0f} copied, {:.0f} computed by the host; iterations "
      "{} {} in all than with all of them there",
      100 * value("hit_rate"), value("fetched") + value("prefetched"), value("on_host"),
      sim::humanise(std::abs(longer), Unit::seconds), longer < 0 ? "shorter" : "longer");
}

/// What the machine's network made iterations wait, and the jobs beside the service.
std::string network_text(const Node& network) {
  std::string out = fmt::format("iterations lasted {} longer, in all, than alone",
                                sim::humanise(number(network, "waited_s").value_or(0), Unit::seconds));
  if (const Node* jobs = network.at("jobs.by_name"))
    for (const auto& [name, job] : jobs->members())
      out += fmt::format("; {}: {:.6g} repetitions of {}", name, number(job, "repetitions").value_or(0),
                         figure(job, "time_s.mean", Unit::seconds));
  return out;
}

}  // namespace

std::string target_name(const Node& summary) {
  const std::string& target = summary.at("binds.target")->as_string();
  return target == "ttft" ? "TTFT" : target == "tbt" ? "TBT" : target;
}

double number_at(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  return value != nullptr && value->is_number() ? value->as_number() : 0;
}

std::string figure(const Node& node, std::string_view path, sim::Unit unit) {
  const Node* value = node.at(path);
  return value != nullptr && value->is_number() ? sim::humanise(value->as_number(), unit) : "-";
}

std::string summary_table(const Node& summary) {
  const Node* status = summary.find("status");
  if (status != nullptr && status->is_string() && status->as_string() == "infeasible") return infeasible(summary);
  if (summary.find("links") != nullptr) return network_table(summary);
  if (summary.find("capacity_per_s") != nullptr) return capacity_table(summary);
  if (summary.find("by_scale") != nullptr) return slo_table(summary);
  if (summary.find("plan_count") != nullptr) return plans_table(summary);
  if (summary.find("platforms") != nullptr) return launch_table(summary);
  if (summary.find("compile_s") != nullptr) return graph_table(summary);
  if (summary.find("critical_path") != nullptr) return tasks_table(summary);
  if (summary.find("breakdown_s") != nullptr) return training_table(summary);
  if (summary.find("training_plans") != nullptr) return training_plans_table(summary);
  if (summary.find("time_share") != nullptr) return job_table(summary);
  if (summary.find("learner") != nullptr) return rl_table(summary);
  if (summary.find("requests") == nullptr) return figures_table(summary);
  std::string out;
  constexpr std::array kRequests{std::pair{"requests.arrived", "arrived"}, std::pair{"requests.completed", "completed"},
                                 std::pair{"requests.rejected", "rejected"},
                                 std::pair{"requests.preempted", "preempted"},
                                 std::pair{"requests.unfinished", "unfinished"}};
  line(out, "requests", counts(summary, kRequests));
  if (const auto simulated = number(summary, "simulated_s"))
    line(out, "simulated", fmt::format("{:.6g} s", *simulated));
  latencies(out, summary);
  const auto value = [&](const char* path) { return number(summary, path).value_or(std::nan("")); };
  line(out, "throughput",
       fmt::format("{:.4g} requests/s, {:.5g} output tokens/s, {:.5g} tokens/s", value("throughput.requests_per_s"),
                   value("throughput.output_tokens_per_s"), value("throughput.total_tokens_per_s")));
  line(out, "SLO",
       fmt::format("{:.2f} % attained, goodput {:.4g} requests/s", 100 * value("slo.attainment"),
                   value("slo.goodput_per_s")));
  if (const Node* text = summary.at("binds.text"); text != nullptr && text->is_string())
    line(out, "binding",
         fmt::format("{}, missed by {:.1f} %: {}", target_name(summary), 100 * value("binds.missed"),
                     text->as_string()));
  line(out, "utilisation",
       fmt::format("busy {:.1f} %, MFU {:.1f} %, MBU {:.1f} %", 100 * value("utilisation.busy"),
                   100 * value("utilisation.mfu"), 100 * value("utilisation.mbu")));
  if (const Node* host = summary.find("host")) line(out, "host", host_text(*host));
  if (const Node* experts = summary.find("expert_memory")) line(out, "experts", experts_text(*experts));
  if (const Node* network = summary.find("network")) line(out, "network", network_text(*network));
  line(out, "energy",
       fmt::format("{} (idle {}, compute {}, memory {}, network {}), {} per output token",
                   sim::humanise(value("energy_j.total"), Unit::joules),
                   sim::humanise(value("energy_j.idle"), Unit::joules),
                   sim::humanise(value("energy_j.compute"), Unit::joules),
                   sim::humanise(value("energy_j.memory"), Unit::joules),
                   sim::humanise(value("energy_j.network"), Unit::joules),
                   sim::humanise(value("energy_per_output_token_j"), Unit::joules)));
  line(out, "memory",
       fmt::format("peak {} a device: weights {}, KV cache {} at most",
                   sim::humanise(value("memory_bytes.peak"), Unit::bytes),
                   sim::humanise(value("memory_bytes.weights"), Unit::bytes),
                   sim::humanise(value("memory_bytes.kv_peak"), Unit::bytes)));
  return out;
}

}  // namespace orrery::tools
