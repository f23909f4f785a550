#include "experiments/fidelity/fidelity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

/// Folders of the reference data that hold measured tables.
constexpr std::array<std::string_view, 15> kFolders{"attention", "collectives", "edge",   "elementwise", "gemm",
                                                    "grouped",   "layers",      "moe",    "npu",         "pim",
                                                    "profiles",  "serving",     "stream", "systems",     "training"};
/// Most of its tables are figures of papers, which claim studies judge: only those that a kind reads are listed.
constexpr std::string_view kFigures = "systems";

constexpr int kDeepest = 6;  ///< folders below one of those: a link that leads back ends there

double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::unique_ptr<TableKind> kind_of(const std::string& file) {
  for (auto& kind : table_kinds())
    if (kind->reads(file)) return std::move(kind);
  return nullptr;
}

FidelityLine line_of(const MeasuredTable& table, const Predictions::Column& column, std::string regime,
                     std::vector<double> errors) {
  FidelityLine line{table.name(), column.metric, std::move(regime), errors.size(), errors.size(), {}, {}};
  line.errors = summarise_errors(std::move(errors));
  return line;
}

sim::Node number_or_null(double value, bool known) {
  return known && std::isfinite(value) ? sim::Node::real(value) : sim::Node{};
}

/// Columns of a table, one at least; rows that could not be read count as uncovered in each of them.
std::vector<Predictions::Column> predictions_of(const MeasuredTable& table, const PartShelf& parts) {
  Predictions predictions;
  if (const std::unique_ptr<TableKind> kind = kind_of(table.name())) {
    try {
      kind->predict(table, parts, predictions);
    } catch (const sim::ConfigError& error) {  // of the part, not of a row
      predictions = {};
      predictions.skip_all("time", table, error.faults().front().text());
    }
  } else {
    predictions.skip_all("time", table, "no model for tables of this kind yet");
  }
  std::vector<Predictions::Column> columns = predictions.columns();
  if (columns.empty()) columns.push_back({"time", {}, 0, {"no rows"}});
  for (Predictions::Column& column : columns) {
    if (table.left_out() == 0) continue;
    column.uncovered += table.left_out();
    column.reasons.emplace_back("other than the header's number of cells");
  }
  return columns;
}

}  // namespace

ErrorSummary summarise_errors(std::vector<double> errors) {
  ErrorSummary out;
  out.rows = errors.size();
  if (errors.empty()) return out;
  for (double& e : errors) {
    out.bias += e;
    e = std::abs(e);
    out.mape += e;
  }
  out.bias /= static_cast<double>(out.rows);
  out.mape /= static_cast<double>(out.rows);
  std::sort(errors.begin(), errors.end());
  out.median = percentile(errors, 0.5);
  out.p90 = percentile(errors, 0.9);
  return out;
}

std::vector<FidelityLine> fidelity_lines(const MeasuredTable& table, const Predictions::Column& column,
                                         std::span<const char> keep) {
  std::vector<double> all;
  std::vector<std::pair<std::string_view, std::vector<double>>> regimes;
  for (const Predictions::Row& row : column.rows) {
    if (!keep.empty() && keep[row.row] == 0) continue;
    const double error = row.predicted / row.measured - 1;
    all.push_back(error);
    for (const std::string_view regime : row.regimes) {
      auto at = std::find_if(regimes.begin(), regimes.end(), [&](const auto& r) { return r.first == regime; });
      if (at == regimes.end()) at = regimes.insert(regimes.end(), {regime, {}});
      at->second.push_back(error);
    }
  }
  std::vector<FidelityLine> lines{line_of(table, column, "all", std::move(all))};
  lines.front().rows += column.uncovered;
  lines.front().reason = fmt::format("{}", fmt::join(column.reasons, "; "));
  for (auto& [regime, errors] : regimes)
    lines.push_back(line_of(table, column, std::string(regime), std::move(errors)));
  return lines;
}

std::vector<std::string> measured_files(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    sim::throw_fault({folder.string(), ""}, "expected a folder with measured tables, found none");
  std::vector<std::string> files;
  for (const std::string_view part : kFolders) {
    const fs::path inside = folder / part;
    if (!fs::is_directory(inside, error)) continue;
    fs::recursive_directory_iterator at(inside, fs::directory_options::follow_directory_symlink, error);
    for (; !error && at != fs::end(at); at.increment(error)) {
      if (at.depth() >= kDeepest) at.disable_recursion_pending();
      std::error_code none;
      if (!at->is_regular_file(none) || at->path().extension() != ".csv") continue;  // by name: links are not resolved
      std::string file = (fs::path(part) / at->path().lexically_relative(inside)).generic_string();
      if (part != kFigures || kind_of(file)) files.push_back(std::move(file));
    }
    if (error) sim::throw_fault({inside.string(), ""}, "cannot be read: " + error.message());
  }
  if (files.empty())
    sim::throw_fault({folder.string(), ""},
                     fmt::format("expected tables in one of the folders {}, found none", fmt::join(kFolders, ", ")));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<FidelityLine> measure_fidelity(const fs::path& folder, const PartShelf& parts, const PointSink& points,
                                           const ResidualShelf* learned) {
  std::vector<FidelityLine> lines;
  for (const std::string& file : measured_files(folder)) {
    try {
      const MeasuredTable table = MeasuredTable::read(folder, file, sim::Ragged::leave_out);
      for (Predictions::Column& column : predictions_of(table, parts)) {
        if (learned != nullptr) learned->apply(parts, column);
        for (FidelityLine& line : fidelity_lines(table, column)) lines.push_back(std::move(line));
        if (points) points(table, column);
      }
    } catch (const sim::ConfigError& error) {
      lines.push_back({file, "time", "all", 0, 0, {}, error.faults().front().message});
    }
  }
  return lines;
}

PointSink points_as_csv(std::ostream& out) {
  out << "table,metric,row,measured,predicted,regimes\n";
  return [&out](const MeasuredTable& table, const Predictions::Column& column) {
    for (const Predictions::Row& row : column.rows)
      out << fmt::format("\"{}\",{},{},{:.9g},{:.9g},\"{}\"\n", table.name(), column.metric, row.row + 1, row.measured,
                         row.predicted, fmt::join(row.regimes, ";"));
  };
}

sim::Node fidelity_json(std::span<const FidelityLine> lines) {
  using sim::Node;
  Node tables = Node::array();
  for (const FidelityLine& line : lines) {
    const bool known = line.covered > 0;
    Node entry = Node::object();
    entry.set("table", Node::string(line.table));
    entry.set("metric", Node::string(line.metric));
    entry.set("regime", Node::string(line.regime));
    entry.set("rows", Node::integer(static_cast<std::int64_t>(line.rows)));
    entry.set("covered", Node::integer(static_cast<std::int64_t>(line.covered)));
    entry.set("mape", number_or_null(line.errors.mape, known));
    entry.set("median", number_or_null(line.errors.median, known));
    entry.set("p90", number_or_null(line.errors.p90, known));
    entry.set("bias", number_or_null(line.errors.bias, known));
    entry.set("reason", line.reason.empty() ? Node{} : Node::string(line.reason));
    tables.push(std::move(entry));
  }
  Node root = Node::object();
  root.set("tables", std::move(tables));
  return root;
}

std::string fidelity_text(std::span<const FidelityLine> lines) {
  std::string text = fmt::format("{:<48} {:<10} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7}\n", "table, regime", "metric",
                                 "rows", "covered", "MAPE", "median", "p90", "bias");
  for (const FidelityLine& line : lines) {
    const std::string name = line.regime == "all" ? line.table : "  " + line.regime;
    text += fmt::format("{:<48} {:<10} {:>7} {:>8}", name, line.metric, line.rows, line.covered);
    if (line.covered > 0)
      text += fmt::format(" {:>6.1f}% {:>6.1f}% {:>6.1f}% {:>+6.1f}%", 100 * line.errors.mape, 100 * line.errors.median,
                          100 * line.errors.p90, 100 * line.errors.bias);
    text += '\n';
    if (!line.reason.empty()) text += fmt::format("    not covered: {}\n", line.reason);
  }
  return text;
}

}  // namespace orrery::experiments
