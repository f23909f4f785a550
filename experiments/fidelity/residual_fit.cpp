#include "experiments/fidelity/residual_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/fidelity/fidelity.hpp"
#include "sim/base/math.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::experiments {
namespace {

/// Rows of one kind of kernel as one library ran them.
struct Rows {
  hw::ResidualKind kind = hw::ResidualKind::gemm;
  std::string library;
  struct Piece {  ///< of one table
    std::string table, metric;
    std::size_t first = 0, count = 0, groups = 0;
  };
  std::vector<Piece> pieces;
  std::vector<hw::ResidualQuery> queries;
  std::vector<double> targets;  ///< log(measured / predicted)
  std::vector<int> folds;
};

int fold_of(const std::string& group) {
  return static_cast<int>(sim::hash_text(group) % static_cast<std::uint64_t>(kFolds));
}

Rows& rows_of(std::vector<Rows>& all, hw::ResidualKind kind, const std::string& library) {
  for (Rows& rows : all)
    if (rows.kind == kind && rows.library == library) return rows;
  all.push_back({kind, library, {}, {}, {}, {}});
  return all.back();
}

/// Adds what a table says of the part; `most` rows of a column, spread evenly.
void add_rows(const MeasuredTable& table, const TableKind& kind, const ResidualFitOptions& options,
              const PartShelf& parts, std::vector<Rows>& all) {
  Predictions out;
  kind.predict(table, parts, out);
  for (const Predictions::Column& column : out.columns()) {
    const std::size_t step =
        std::max<std::size_t>(1, (column.rows.size() + options.rows_per_table - 1) / options.rows_per_table);
    std::set<std::string> groups;
    Rows* rows = nullptr;
    for (std::size_t i = 0; i < column.rows.size(); i += step) {
      const Predictions::Row& row = column.rows[i];
      if (!row.learnable || row.learnable->part != options.device) continue;
      Rows& mine = rows_of(all, row.learnable->query.kind, row.learnable->library);
      if (rows != &mine) mine.pieces.push_back({table.name(), column.metric, mine.targets.size(), 0, 0});
      rows = &mine;
      const std::string group = kind.group_key(table, row.row);
      groups.insert(group);
      rows->queries.push_back(row.learnable->query);
      rows->targets.push_back(sim::det_log(row.measured / row.predicted));
      rows->folds.push_back(fold_of(group));
      ++rows->pieces.back().count;
      rows->pieces.back().groups = groups.size();
    }
  }
}

std::vector<Rows> load_rows(const ResidualFitOptions& options, const PartShelf& parts) {
  std::vector<Rows> all;
  for (const std::string& file : measured_files(options.data)) {
    const auto kinds = table_kinds();
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k->reads(file); });
    if (kind == kinds.end()) continue;
    // Only these kinds have rows that a residual can learn; runs of engines take longer to predict.
    if ((*kind)->name() != "gemm" && (*kind)->name() != "attention" && (*kind)->name() != "collectives") continue;
    add_rows(MeasuredTable::read(options.data, file, sim::Ragged::leave_out), **kind, options, parts, all);
  }
  return all;
}

/// |predicted / measured - 1| where log(measured / predicted) is `target` and the residual says `learned`.
double error_of(double target, double learned) {
  return std::abs(sim::det_exp(learned - target) - 1);
}

/// What trees that did not see a row's group say of it.
std::vector<double> held_out(const Rows& rows, const BoostOptions& options) {
  std::vector<double> learned(rows.targets.size());
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<hw::ResidualQuery> queries;
    std::vector<double> targets;
    for (std::size_t i = 0; i < rows.targets.size(); ++i) {
      if (rows.folds[i] == fold) continue;
      queries.push_back(rows.queries[i]);
      targets.push_back(rows.targets[i]);
    }
    const hw::TreeEnsemble trees = fit_trees(queries, targets, options);
    for (std::size_t i = 0; i < rows.targets.size(); ++i)
      if (rows.folds[i] == fold) learned[i] = trees.at(rows.queries[i].all());
  }
  return learned;
}

hw::ResidualBlock fit_block(const Rows& rows, const BoostOptions& options, std::vector<ResidualFit::Table>& report) {
  hw::ResidualBlock block;
  block.kind = rows.kind;
  block.library = rows.library;
  block.rows = static_cast<std::int64_t>(rows.targets.size());
  block.seen.assign(hw::residual_sizes(rows.kind), {INFINITY, -INFINITY});
  for (const hw::ResidualQuery& query : rows.queries)
    for (std::size_t i = 0; i < query.sizes; ++i) {
      block.seen[i].first = std::min(block.seen[i].first, query.inputs[i]);
      block.seen[i].second = std::max(block.seen[i].second, query.inputs[i]);
    }
  block.trees = fit_trees(rows.queries, rows.targets, options);
  const std::vector<double> others = held_out(rows, options);
  for (const Rows::Piece& piece : rows.pieces) {
    block.tables.push_back(piece.table);
    ResidualFit::Table line{rows.kind, rows.library, piece.table, piece.metric, piece.count, piece.groups, 0, 0, 0};
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
      line.model += error_of(rows.targets[i], 0);
      line.fitted += error_of(rows.targets[i], block.trees.at(rows.queries[i].all()));
      line.held_out += error_of(rows.targets[i], others[i]);
    }
    block.mape += line.fitted, block.held_out += line.held_out;
    const auto count = static_cast<double>(piece.count);
    line.model /= count, line.fitted /= count, line.held_out /= count;
    report.push_back(std::move(line));
  }
  block.mape /= static_cast<double>(block.rows), block.held_out /= static_cast<double>(block.rows);
  return block;
}

}  // namespace

ResidualFit fit_residual(const ResidualFitOptions& options, const PartShelf& parts) {
  const std::vector<std::string> names = parts.names();
  if (std::find(names.begin(), names.end(), options.device) == names.end())
    sim::throw_fault({"calibrate", ""}, fmt::format("unknown part '{}'", options.device),
                     sim::name_hint(options.device, names));
  std::vector<Rows> all = load_rows(options, parts);
  ResidualFit out;
  std::erase_if(all, [&](const Rows& rows) {
    if (rows.targets.size() >= kFewestRows) return false;
    for (const Rows::Piece& piece : rows.pieces)
      out.notes.push_back(fmt::format("left out: {}, {} rows of '{}' where {} are needed", piece.table,
                                      rows.targets.size(), rows.library, kFewestRows));
    return true;
  });
  if (all.empty() && !out.notes.empty())
    sim::throw_fault(
        {"calibrate", ""},
        fmt::format("every table of {} has fewer than {} rows of one library", options.device, kFewestRows),
        out.notes.front());
  if (all.empty())
    sim::throw_fault({"calibrate", ""},
                     fmt::format("no table of products, attention or collectives in '{}' measures {}",
                                 options.data.string(), options.device),
                     "`tables` of a catalog entry names the files that stand for it");
  // The first block of a kind is what a run takes that names no library: an inference engine's kernels.
  const auto engines_first = [](const Rows& rows) {
    return std::pair(static_cast<int>(rows.kind), rows.library.starts_with("vllm") ? 0 : 1);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Rows& a, const Rows& b) { return engines_first(a) < engines_first(b); });
  out.residual.part = options.device;
  out.residual.model = hw::model_fingerprint(parts.find<hw::GpuParams>(options.device)->part);
  out.residual.doc = "Written by `orrery calibrate PART --residual`; hw/cost/residual.hpp says what it means.";
  for (const Rows& rows : all) out.residual.blocks.push_back(fit_block(rows, options.boost, out.tables));
  return out;
}

std::string residual_text(const ResidualFit& fit) {
  std::string text = fmt::format("{:<18} {:<48} {:>6} {:>7} {:>7} {:>7} {:>9}\n", "kernels", "table", "rows", "groups",
                                 "model", "fitted", "held out");
  for (const ResidualFit::Table& line : fit.tables)
    text += fmt::format("{:<18} {:<48} {:>6} {:>7} {:>6.1f}% {:>6.1f}% {:>8.1f}%\n", to_string(line.kind), line.name,
                        line.rows, line.groups, 100 * line.model, 100 * line.fitted, 100 * line.held_out);
  for (const std::string& note : fit.notes) text += note + "\n";
  return text + fmt::format(
                    "held out: rows of groups (weights of one size, heads of one model) that the trees had not "
                    "seen, in {} parts\n",
                    kFolds);
}

sim::Node residual_report(const ResidualFit& fit) {
  using sim::Node;
  Node tables = Node::array(), root = Node::object();
  for (const ResidualFit::Table& line : fit.tables) {
    Node node = Node::object();
    node.set("kernels", Node::string(std::string(to_string(line.kind))));
    node.set("library", Node::string(line.library));
    node.set("table", Node::string(line.name));
    node.set("metric", Node::string(line.metric));
    node.set("rows", Node::integer(static_cast<std::int64_t>(line.rows)));
    node.set("groups", Node::integer(static_cast<std::int64_t>(line.groups)));
    node.set("model", Node::real(line.model));
    node.set("fitted", Node::real(line.fitted));
    node.set("held_out", Node::real(line.held_out));
    tables.push(std::move(node));
  }
  root.set("part", Node::string(fit.residual.part));
  root.set("tables", std::move(tables));
  return root;
}

}  // namespace orrery::experiments
