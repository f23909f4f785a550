// Stores as text: tables for people, JSON, CSV.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/study/results.hpp"
#include "sim/base/csv.hpp"

namespace orrery::experiments::study {
namespace {

namespace fs = std::filesystem;
using search::TrialStatus;
using sim::Node;

constexpr std::size_t kMostRows = 40;  ///< of a table for people

std::string shown(const Cell& cell, sim::Unit unit) {
  if (const auto* real = std::get_if<double>(&cell)) return number_text(*real, unit);
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) {
    const auto value = static_cast<double>(*whole);
    if (sim::has_dimension(unit)) return sim::humanise(value, unit);
  }
  const std::string text = text_of(cell);
  return text.empty() ? "-" : text;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double above = sorted[std::min(below + 1, sorted.size() - 1)];
  return sorted[below] + (place - static_cast<double>(below)) * (above - sorted[below]);
}

/// Names of columns in the order in which stores first have them.
std::vector<Column> united(const std::vector<std::vector<Column>>& all) {
  std::vector<Column> names;
  for (const auto& columns : all)
    for (const Column& column : columns)
      if (std::none_of(names.begin(), names.end(), [&](const Column& known) { return known.name == column.name; }))
        names.push_back(column);
  return names;
}

Cell cell_of(const PointRow& row, const std::vector<Column>& columns, const std::string& name) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].name == name) return row.cells[i];
  return {};
}

Node node_of(const Cell& cell) {
  if (const auto* real = std::get_if<double>(&cell)) return Node::real(*real);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return Node::integer(*integer);
  const auto* text = std::get_if<std::string>(&cell);
  return text != nullptr ? Node::string(*text) : Node{};
}

Node row_node(const std::string& study, const PointRow& row, const std::vector<Column>& columns) {
  Node node = Node::object();
  node.set("study", Node::string(study));
  node.set("id", Node::integer(row.id));
  node.set("repeat", Node::integer(row.repeat));
  node.set("key", row.key.empty() ? Node{} : Node::string(row.key));
  node.set("fidelity", Node::real(row.fidelity));
  node.set("status", Node::string(std::string(sim::to_string(row.status))));
  node.set("reason", row.reason.empty() ? Node{} : Node::string(row.reason));
  node.set("violation", row.status == TrialStatus::ok ? Node::real(row.violation) : Node{});
  for (std::size_t i = 0; i < columns.size(); ++i) node.set(columns[i].name, node_of(row.cells[i]));
  return node;
}

/// Columns of the table: parameters, objectives, measures that are no objective by themselves.
std::vector<Column> shown_columns(const BestPoints& best) {
  std::vector<Column> all;
  for (const char* kind : {"parameter", "derived", "objective", "measure"})
    for (const Column& column : united(best.columns)) {
      if (column.kind != kind) continue;
      const auto same = [&](const Column& other) { return heading(other) == column.name; };
      if (column.kind != "measure" || std::none_of(all.begin(), all.end(), same)) all.push_back(column);
    }
  return all;
}

/// The table, heading first.
std::vector<std::vector<std::string>> rows_of(const BestPoints& best) {
  const bool several = best.files.size() > 1;
  const std::vector<Column> columns = shown_columns(best);
  std::vector<std::vector<std::string>> rows(1);
  if (several) rows[0].emplace_back("study");
  rows[0].emplace_back("point");
  for (const Column& column : columns) rows[0].push_back(heading(column));
  if (best.beyond) rows[0].emplace_back("violation");
  for (const BestPoint& point : best.points) {
    if (rows.size() > kMostRows) break;
    std::vector<std::string>& row = rows.emplace_back();
    if (several) row.push_back(best.studies[point.store]);
    row.push_back(fmt::format("{}", point.row.id));
    for (const Column& column : columns)
      row.push_back(shown(cell_of(point.row, best.columns[point.store], column.name),
                          unit_of(column, best.columns[point.store])));
    if (best.beyond) row.push_back(fmt::format("{:.4g}", point.row.violation));
  }
  return rows;
}

/// Places on a screen: characters, not bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// What the table shows.
std::string kind_text(const BestPoints& best) {
  if (best.beyond) return "no point meets every limit; those that break them least";
  if (best.objectives.size() > 1) return fmt::format("Pareto front, {} points", best.points.size());
  if (best.objectives.empty()) return "first points";
  return fmt::format("best by {} ({}d)", heading(best.objectives[0]), best.objectives[0].detail);
}

}  // namespace

std::string number_text(double value, sim::Unit unit) {
  constexpr double kLongest = 1e5;
  return sim::has_dimension(unit) || std::fabs(value) >= kLongest ? sim::humanise(value, unit)
                                                                  : fmt::format("{:.5g}", value);
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{}{:<{}}", i == 0 ? "" : "  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string spread_text(std::vector<double> values, sim::Unit unit) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  const std::string median = number_text(quantile(values, 0.5), unit);
  if (values.size() == 1) return median;
  return fmt::format("{} ({} … {})", median, number_text(quantile(values, 0.25), unit),
                     number_text(quantile(values, 0.75), unit));
}

std::string best_text(const BestPoints& best) {
  std::string text;
  for (std::size_t i = 0; i < best.files.size(); ++i) {
    const StoreCounts& counts = best.counts[i];
    text += fmt::format("{}: {} points, {} ok{}, {} infeasible, {} failed\n", best.studies[i], counts.points, counts.ok,
                        counts.over > 0 ? fmt::format(" ({} beyond a limit)", counts.over) : "", counts.infeasible,
                        counts.failed);
  }
  if (best.points.empty()) return text + "no point has a result\n";
  text += "\n" + kind_text(best) + "\n";
  text += table_text(rows_of(best));
  if (best.points.size() > kMostRows)
    text += fmt::format("and {} more: --json, or `orrery export`\n", best.points.size() - kMostRows);
  if (best.best_of_repeats.size() > 1) {
    std::vector<double> sorted = best.best_of_repeats;
    std::sort(sorted.begin(), sorted.end());
    const sim::Unit unit = unit_of(best.objectives[0], best.columns[0]);
    text += fmt::format("\nbest of {} searches: median {}, quartiles {} to {}\n", sorted.size(),
                        number_text(quantile(sorted, 0.5), unit), number_text(quantile(sorted, 0.25), unit),
                        number_text(quantile(sorted, 0.75), unit));
  }
  return text;
}

Node best_json(const BestPoints& best) {
  Node root = Node::object();
  Node stores = Node::array();
  for (std::size_t i = 0; i < best.files.size(); ++i) {
    Node store = Node::object();
    store.set("file", Node::string(best.files[i].string()));
    store.set("study", Node::string(best.studies[i]));
    store.set("points", Node::integer(best.counts[i].points));
    store.set("ok", Node::integer(best.counts[i].ok));
    store.set("beyond_limits", Node::integer(best.counts[i].over));
    store.set("infeasible", Node::integer(best.counts[i].infeasible));
    store.set("failed", Node::integer(best.counts[i].failed));
    stores.push(std::move(store));
  }
  root.set("stores", std::move(stores));
  Node objectives = Node::array();
  for (const Column& column : best.objectives) {
    Node objective = Node::object();
    objective.set(column.detail, Node::string(heading(column)));
    objectives.push(std::move(objective));
  }
  root.set("objectives", std::move(objectives));
  root.set("meet_limits", Node::boolean(!best.beyond));
  Node points = Node::array();
  for (const BestPoint& point : best.points)
    points.push(row_node(best.studies[point.store], point.row, best.columns[point.store]));
  root.set("best", std::move(points));
  return root;
}

void export_csv(std::span<const fs::path> files, std::ostream& out) {
  std::vector<std::vector<Column>> each;
  for (const fs::path& file : files) each.push_back(StoreReader(file).columns());
  const std::vector<Column> columns = united(each);
  out << "study,id,repeat,key,fidelity,status,reason,violation";
  for (const Column& column : columns) out << ',' << column.name;
  out << '\n';
  for (std::size_t f = 0; f < files.size(); ++f) {
    StoreReader store(files[f]);
    store.for_each([&](const PointRow& row) {
      out << sim::csv_cell(store.study()) << ',' << row.id << ',' << row.repeat << ',' << row.key << ','
          << fmt::format("{}", row.fidelity) << ',' << sim::to_string(row.status) << ',' << sim::csv_cell(row.reason)
          << ',' << text_of(number_cell(row.status == TrialStatus::ok ? row.violation : std::nan("")));
      for (const Column& column : columns) out << ',' << sim::csv_cell(text_of(cell_of(row, each[f], column.name)));
      out << '\n';
    });
  }
}

void export_jsonl(std::span<const fs::path> files, std::ostream& out) {
  for (const fs::path& file : files) {
    StoreReader store(file);
    store.for_each([&](const PointRow& row) { out << row_node(store.study(), row, store.columns()).dump() << '\n'; });
  }
}

}  // namespace orrery::experiments::study
