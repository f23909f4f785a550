// The table of a capacity search.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"
#include "tools/orrery/terminal.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

double number_or_0(const Node& node, std::string_view path) {
  const Node* value = node.at(path);
  return value != nullptr && value->is_number() ? value->as_number() : 0;
}

/// "1.92 s (at most 2 s)", with what the replications leave open.
std::string target_figure(const std::string& name, const Node& node) {
  const bool seconds = name.find("_s.") != std::string::npos;
  const auto shown = [&](const Node* value) {
    if (value == nullptr || !value->is_number()) return std::string("-");
    return seconds ? sim::humanise(value->as_number(), Unit::seconds) : fmt::format("{:.4f}", value->as_number());
  };
  std::string text = fmt::format("{} {}", name, shown(node.find("mean")));
  if (const Node* half = node.find("half_width"); half->is_number() && half->as_number() > 0)
    text += " +- " + shown(half);
  const Node* most = node.find("most");
  return text +
         fmt::format(" ({} {})", most != nullptr ? "<=" : ">=", shown(most != nullptr ? most : node.find("least")));
}

/// " (--set a=b --set c=d)"
std::string set_options(const Node& summary) {
  std::string text;
  for (const Node& one : summary.at("suggestion.set")->items())
    text += (text.empty() ? "" : " ") + ("--set " + one.as_string());
  return " (" + text + ")";
}

/// Whether a rate meets the targets: "yes", "no", or what keeps a longer run from doing so.
std::string verdict(const Node& probe) {
  if (!probe.find("meets")->as_boolean()) return "no";
  const std::string& load = probe.find("load")->as_string();
  return load == "steady" ? "yes" : load == "too_short" ? "too short" : load;
}

}  // namespace

std::string capacity_table(const Node& summary) {
  const std::string& status = summary.find("status")->as_string();
  const std::string& what = summary.find("arrivals")->as_string();
  std::string out;
  if (status == "ok") {
    out = fmt::format("capacity     {:.4g} {}/s meet the targets, {:.4g} do not\n",
                      number_or_0(summary, "bracket_per_s.meets"), what, number_or_0(summary, "bracket_per_s.fails"));
  } else if (status == "too_short") {
    out = fmt::format("capacity     at least {:.4g} {}/s; too short to say more: {}\n",
                      number_or_0(summary, "capacity_per_s"), what, summary.find("reason")->as_string());
  } else {
    out = fmt::format("capacity     none found: {}\n", summary.find("reason")->as_string());
  }
  if (const Node* text = summary.at("binds.text"))
    out += fmt::format("binding      {}: {}\n", target_name(summary), text->as_string());
  if (summary.find("suggestion") != nullptr)
    out += fmt::format("tried        {}: {:.4g} {}/s{}\n", summary.at("suggestion.text")->as_string(),
                       number_or_0(summary, "suggestion.capacity_per_s"), what, set_options(summary));
  out += fmt::format("workload     {:.4g} {}/s by itself\n", number_or_0(summary, "nominal_rate_per_s"), what);
  out += fmt::format("\n{:>12} {:<10} {:>5} {:>9}  {}\n", what + "/s", "meets", "runs", "of", "figures");
  for (const Node& probe : summary.find("probes")->items()) {
    std::string figures;
    for (const auto& [name, node] : probe.find("figures")->members())
      figures += (figures.empty() ? "" : ", ") + target_figure(name, node);
    out += fmt::format("{:>12.4g} {:<10} {:>5.0f} {:>9.0f}  {}{}\n", number_or_0(probe, "rate_per_s"), verdict(probe),
                       number_or_0(probe, "replications"), number_or_0(probe, "requests"), figures,
                       probe.find("certain")->as_boolean() ? "" : ", by the means only");
  }
  if (summary.at("at_capacity") != nullptr)
    out += fmt::format("\nat capacity  {:.5g} output tokens/s, {} per output token\n",
                       number_or_0(summary, "at_capacity.throughput.output_tokens_per_s"),
                       sim::humanise(number_or_0(summary, "at_capacity.energy_per_output_token_j"), Unit::joules));
  return out;
}

std::string slo_table(const Node& summary) {
  std::string out = "attainment by rate and by scale of the targets\n\n" + fmt::format("{:>12}", "requests/s");
  for (const auto& [scale, value] : summary.find("by_rate")->items().front().find("attainment")->members())
    out += fmt::format("{:>9}", "x" + scale);
  out += '\n';
  for (const Node& row : summary.find("by_rate")->items()) {
    out += fmt::format("{:>12.4g}", number_or_0(row, "rate_per_s"));
    for (const auto& [scale, value] : row.find("attainment")->members())
      out += fmt::format("{:>9.4f}", value.as_number());
    const std::string& load = row.find("load")->as_string();
    if (load == "overloaded") out += "  overloaded: requests take longer and longer";
    if (load == "too_short") out += "  too short to say";
    out += '\n';
  }
  out += fmt::format("\ngreatest rate at which {:.4g} % attain them\n", 100 * number_or_0(summary, "target"));
  for (const Node& row : summary.find("by_scale")->items()) {
    const Node* rate = row.find("greatest_rate_per_s");
    out += fmt::format("{:>12} {}\n", fmt::format("x{:g}", number_or_0(row, "scale")),
                       rate->is_number() ? fmt::format("{:.4g} requests/s", rate->as_number()) : "none of these");
  }
  if (const Node* text = summary.at("binds.text"))
    out += fmt::format("\nbinding      {}: {}\n", target_name(summary), text->as_string());
  return out;
}

namespace {

/// "TP x PP x replicas" of equal ones, with lanes and expert groups where there are several; or the name of a mix.
std::string replicas_of(const Node& plan) {
  if (const Node* mix = plan.find("mix"); mix->is_string()) return mix->as_string();
  std::string text = fmt::format("{:.0f}x{:.0f}x{:.0f}", number_or_0(plan, "tensor_parallel"),
                                 number_or_0(plan, "pipeline_parallel"), number_or_0(plan, "replicas"));
  if (number_or_0(plan, "data_parallel") > 1) text += fmt::format(" dp{:.0f}", number_or_0(plan, "data_parallel"));
  if (number_or_0(plan, "expert_parallel") > 1) text += fmt::format(" ep{:.0f}", number_or_0(plan, "expert_parallel"));
  return text;
}

}  // namespace

namespace {

std::string counted(double number, const char* what) {
  return fmt::format("{:.0f} {}{}", number, what, number == 1 ? "" : "s");
}

/// Plans with a price, the cheapest first (for the workload where capacities are known, else by the token); nothing
/// where there are no prices.
std::string costs_table(const Node& summary) {
  std::vector<const Node*> priced;
  for (const Node& plan : summary.find("plans")->items())
    if (plan.find("cost_per_million_tokens")->is_number()) priced.push_back(&plan);
  if (priced.empty()) return "";
  const bool fleets = priced.front()->find("fleet_cost_per_hour")->is_number();
  const char* const by = fleets ? "fleet_cost_per_hour" : "cost_per_million_tokens";
  std::stable_sort(priced.begin(), priced.end(),
                   [by](const Node* a, const Node* b) { return number_or_0(*a, by) < number_or_0(*b, by); });
  const Node* named = summary.find("currency");
  const std::string currency = named != nullptr ? named->as_string() : "your currency";
  std::string out =
      fmt::format("\ncost in {} per million tokens\n\n  {:<20} {:>7} {:>10} {:>8} {:>8} {:>14}{}\n", currency, "part",
                  "devices", "replicas", "input", "output", "all on output", fleets ? "  for the whole workload" : "");
  const auto figure = [](const Node& plan, const char* key) {
    const Node* value = plan.find(key);
    return value->is_number() ? fmt::format("{:.4g}", value->as_number()) : std::string("-");
  };
  for (const Node* plan : priced) {
    out += fmt::format("  {:<20} {:>7.0f} {:>10} {:>8} {:>8} {:>14}", plan->find("part")->as_string(),
                       number_or_0(*plan, "devices"), replicas_of(*plan), figure(*plan, "cost_per_million_input"),
                       figure(*plan, "cost_per_million_output"), figure(*plan, "cost_per_million_tokens"));
    if (const Node* share = plan->find("energy_cost_share"); share->is_number())
      out += fmt::format("  ({:.1f} % of it energy)", 100 * share->as_number());
    if (const Node* cost = plan->find("fleet_cost_per_hour"); cost->is_number())
      out += fmt::format("  {}: {:.4g} an hour", counted(number_or_0(*plan, "fleet_devices"), "device"),
                         cost->as_number());
    if (plan->find("status")->as_string() != "ok") out += "  " + plan->find("status")->as_string();
    out += '\n';
  }
  const auto cheapest = std::find_if(priced.begin(), priced.end(), [by](const Node* plan) {
    return plan->find("status")->as_string() == "ok" && plan->find(by)->is_number();
  });
  if (cheapest != priced.end() && fleets)
    out += fmt::format("\ncheapest     {} {} at {:.4g} {} an hour take the workload\n",
                       number_or_0(**cheapest, "fleet_devices"), (*cheapest)->find("part")->as_string(),
                       number_or_0(**cheapest, "fleet_cost_per_hour"), currency);
  return out;
}

}  // namespace

std::string plans_table(const Node& summary) {
  const std::vector<Node>& plans = summary.find("plans")->items();
  const bool capacities =
      std::ranges::any_of(plans, [](const Node& plan) { return plan.find("capacity_per_s")->is_number(); });
  std::vector<Column> columns{{"", true},
                              {"part", true},
                              {"devices"},
                              {"replicas"},
                              {"batching", true, 4},
                              {"dtype", true, 6},
                              {"clock", false, 7},
                              {"E2E", false, 3},
                              {"TTFT P99", false, 1},
                              {"TBT P99", false, 1},
                              {"tokens/s", false, 2},
                              {"J/token", false, 5},
                              {"SLO"},
                              {"binds", true}};
  if (capacities) columns.insert(columns.end() - 1, {"capacity"});
  TextTable table(std::move(columns));
  std::string reasons;  // below the table, which they would make too wide
  const auto figure = [](const Node& plan, const char* key, Unit unit) {
    const Node* value = plan.find(key);
    return value->is_number() ? sim::humanise(value->as_number(), unit) : std::string("-");
  };
  for (const Node& plan : plans) {
    const Node* clock = plan.find("clock_hz");
    std::vector<std::string> cells{plan.find("pareto")->as_boolean() ? "*" : " ",
                                   plan.find("part")->as_string(),
                                   fmt::format("{:.0f}", number_or_0(plan, "devices")),
                                   replicas_of(plan),
                                   plan.find("batching")->as_string(),
                                   plan.find("dtype")->as_string(),
                                   clock->is_number() ? sim::humanise(clock->as_number(), Unit::hertz) : "highest"};
    const std::string& status = plan.find("status")->as_string();
    if (const Node* reason = plan.find("reason"); reason->is_string())
      reasons += fmt::format("{} x {} {}: {}: {}\n", cells[2], cells[1], cells[3], status, reason->as_string());
    if (!plan.find("e2e_s")->is_number()) {
      cells.resize(4);
      cells.push_back(status);
      table.add(std::move(cells));
      continue;
    }
    for (const auto& [key, unit] : {std::pair{"e2e_s", Unit::seconds},
                                    {"ttft_p99_s", Unit::seconds},
                                    {"tbt_p99_s", Unit::seconds},
                                    {"output_tokens_per_s", Unit::none},
                                    {"energy_per_output_token_j", Unit::joules},
                                    {"attainment", Unit::none}})
      cells.push_back(figure(plan, key, unit));
    if (capacities) cells.push_back(figure(plan, "capacity_per_s", Unit::none));
    const Node* binds = plan.find("binds");
    cells.push_back(status != "ok" ? status : binds->is_string() ? binds->as_string() : "-");
    table.add(std::move(cells));
  }
  return fmt::format("{:.0f} plans, {:.0f} feasible\n\n", number_or_0(summary, "plan_count"),
                     number_or_0(summary, "feasible")) +
         table.text(terminal_width()) + (reasons.empty() ? "" : "\n" + reasons) + "\n* on the Pareto front\n" +
         costs_table(summary);
}

}  // namespace orrery::tools
