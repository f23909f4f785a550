#include "experiments/fidelity/calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

/// A table in a fit: its training rows alone, and the whole with a mask of those.
struct FitTable {
  std::shared_ptr<const TableKind> kind;
  MeasuredTable whole, training;
  std::vector<char> in_training;
  std::string part;
};

bool contains(const std::vector<std::string>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Part of `kind` that a table stands for, by the notes of the catalog or by its name; empty for none.
std::string part_of(const PartShelf& parts, const std::string& kind, const std::string& stem) {
  for (const std::string& name : parts.names()) {
    const hw::CatalogNotes& notes = parts.notes(name);
    if (notes.kind != kind) continue;
    for (const auto& [table, library] : notes.tables)
      if (table == stem) return name;
  }
  return contains(parts.names(), stem) && parts.notes(stem).kind == kind ? stem : std::string();
}

/// The word of a table's path that catalog entries name: the stem of the file, or the folder of the GPU
/// (profiles/<gpu>/<model>/tp<k>/dense.csv).
std::string word_of_part(const std::string& file) {
  constexpr std::string_view kProfiles = "profiles/";
  if (file.starts_with(kProfiles))
    return file.substr(kProfiles.size(), file.find('/', kProfiles.size()) - kProfiles.size());
  const std::string base = file.substr(file.rfind('/') + 1);
  return base.substr(0, base.find('.'));
}

bool holds_out_rows(const CalibrationOptions& options) {
  return options.hold_out_shapes || !options.column.empty();
}

/// Whether a row of one of the fitted parts' tables is held out.
bool row_held_out(const MeasuredTable& table, const TableKind& kind, std::size_t row,
                  const CalibrationOptions& options) {
  if (options.hold_out_shapes && is_held_out(kind.shape_key(table, row))) return true;
  return !options.column.empty() && table.has(options.column) &&
         contains(options.values, table.text(row, options.column));
}

/// Training rows: those that are not held out, thinned evenly to at most `limit`.
std::vector<char> training_rows(const MeasuredTable& table, const TableKind& kind, const CalibrationOptions& options) {
  std::vector<char> mask(table.rows(), 0);
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (!row_held_out(table, kind, row, options)) rows.push_back(row);
  const std::size_t step =
      std::max<std::size_t>(1, (rows.size() + options.rows_per_table - 1) / options.rows_per_table);
  for (std::size_t i = 0; i < rows.size(); i += step) mask[rows[i]] = 1;
  return mask;
}

/// Parts whose tables are fitted: the device, or the others of its family when it is held out itself.
std::vector<std::string> fitted_parts(const PartShelf& parts, const CalibrationOptions& options) {
  if (!options.hold_out || options.device != *options.hold_out) return {options.device};
  std::vector<std::string> others;
  for (const std::string& name : parts.names())
    if (name != options.device && !parts.family(name).empty() && parts.family(name) == parts.family(options.device))
      others.push_back(name);
  return others;
}

std::vector<FitTable> load_tables(const CalibrationBlock& block, const std::vector<std::string>& names,
                                  const PartShelf& parts, const CalibrationOptions& options, bool training) {
  std::vector<FitTable> tables;
  for (const std::string& file : measured_files(options.data)) {
    for (std::unique_ptr<TableKind>& kind : table_kinds()) {
      if (!kind->reads(file)) continue;
      if (!contains(block.table_kinds, kind->name())) break;
      const std::string part = part_of(parts, block.part_kind, word_of_part(file));
      if (!contains(names, part)) break;
      FitTable table{std::move(kind), MeasuredTable::read(options.data, file), {}, {}, part};
      table.in_training =
          training ? training_rows(table.whole, *table.kind, options) : std::vector<char>(table.whole.rows());
      if (training) table.training = table.whole.subset(table.in_training);
      tables.push_back(std::move(table));
      break;
    }
  }
  return tables;
}

bool counts(const CalibrationBlock& block, const Predictions::Column& column) {
  return block.metrics.empty() || contains(block.metrics, column.metric);
}

bool counts(const CalibrationBlock& block, const Predictions::Row& row) {
  return block.regimes.empty() || std::any_of(row.regimes.begin(), row.regimes.end(),
                                              [&](std::string_view regime) { return contains(block.regimes, regime); });
}

/// Whether a table has a row that the block is fitted to.
bool contributes(const CalibrationBlock& block, const FitTable& table, const PartShelf& parts) {
  Predictions out;
  table.kind->predict(table.training, parts, out);
  const auto& columns = out.columns();
  return std::any_of(columns.begin(), columns.end(), [&](const Predictions::Column& column) {
    return counts(block, column) && std::any_of(column.rows.begin(), column.rows.end(),
                                                [&](const Predictions::Row& row) { return counts(block, row); });
  });
}

/// Predictions of all training rows, measured values beside them when asked for.
void predict_training(const CalibrationBlock& block, const std::vector<FitTable>& tables, const PartShelf& parts,
                      std::vector<double>& predicted, std::vector<double>* measured) {
  predicted.clear();
  for (const FitTable& table : tables) {
    Predictions out;
    table.kind->predict(table.training, parts, out);
    for (const Predictions::Column& column : out.columns()) {
      if (!counts(block, column)) continue;
      for (const Predictions::Row& row : column.rows) {
        if (!counts(block, row)) continue;
        predicted.push_back(row.predicted);
        if (measured != nullptr) measured->push_back(row.measured);
      }
    }
  }
}

enum class HeldOut : std::uint8_t { nothing, rows, whole };

/// Errors of the rows that were fitted and of those that were not.
void add_errors(const CalibrationBlock& block, const std::vector<FitTable>& tables, const PartShelf& parts,
                const CalibrationOptions& options, HeldOut held_out, std::vector<CalibrationResult::Error>& errors) {
  for (const FitTable& table : tables) {
    Predictions out;
    table.kind->predict(table.whole, parts, out);
    const std::vector<char>& fitted = table.in_training;
    std::vector<char> held(fitted.size(), 0);
    for (std::size_t row = 0; row < held.size(); ++row)
      if (held_out == HeldOut::whole ||
          (held_out == HeldOut::rows && row_held_out(table.whole, *table.kind, row, options)))
        held[row] = 1;
    for (Predictions::Column column : out.columns()) {
      if (!counts(block, column)) continue;
      std::erase_if(column.rows, [&](const Predictions::Row& row) { return !counts(block, row); });
      const auto add = [&](const char* role, const std::vector<char>& mask) {
        for (FidelityLine& line : fidelity_lines(table.whole, column, mask))
          if (line.covered > 0) errors.push_back({role, std::move(line)});
      };
      if (held_out != HeldOut::whole) add("fitted", fitted);
      if (held_out != HeldOut::nothing) add("held out", held);
    }
  }
}

/// With fewer rows than this for each constant, what it starts from (the part's own, its family's) counts as well.
constexpr std::size_t kRowsAConstant = 20;
constexpr double kFewRowsPrior = 0.12;

/// Note on where the constants of a block come from.
std::string provenance(const CalibrationResult::Block& block, const CalibrationOptions& options) {
  std::string held;
  if (options.hold_out_shapes) held = ", two fifths of the shapes held out";
  if (!options.column.empty()) held = fmt::format(", {} {} held out", options.column, fmt::join(options.values, ", "));
  return fmt::format("fitted by `orrery calibrate` to {} rows of {}{}: mean error {:.1f} %", block.rows,
                     fmt::join(block.tables, ", "), held, 100 * block.fit.mape);
}

void write_entry(const CalibrationResult& result, const CalibrationOptions& options, PartShelf& parts,
                 sim::Node& entry) {
  entry = parts.node(options.device);
  sim::Node* sources = entry.find("sources");
  if (sources == nullptr) sources = &entry.set("sources", sim::Node::object());
  for (const CalibrationResult::Block& block : result.blocks)
    sources->set(block.name + ".*", sim::Node::string(provenance(block, options)));
}

CalibrationResult::Block fit_block(const CalibrationBlock& block, const std::vector<FitTable>& tables,
                                   const std::vector<std::string>& names, const CalibrationOptions& options,
                                   PartShelf& parts) {
  CalibrationResult::Block out;
  out.name = block.name;
  for (const FitTable& table : tables) {
    if (contributes(block, table, parts)) out.tables.push_back(table.whole.name());
    if (!contains(out.fitted_parts, table.part)) out.fitted_parts.push_back(table.part);
  }
  for (const CalibrationBlock::Constant& c : block.constants)
    out.constants.push_back(
        {c.path, std::clamp(parts.get(out.fitted_parts.front(), c.path), c.min, c.max), c.min, c.max});
  std::vector<double> scratch, measured;
  predict_training(block, tables, parts, scratch, &measured);
  out.rows = measured.size();
  if (measured.empty())
    sim::throw_fault({tables.front().whole.name(), ""}, fmt::format("no row is of use to block '{}'", block.name),
                     "`orrery fidelity` says why rows are not covered");
  FitOptions how = options.fit;
  if (how.prior == 0 && measured.size() < kRowsAConstant * out.constants.size()) how.prior = kFewRowsPrior;
  const auto set_all = [&](std::span<const double> values, const std::vector<std::string>& targets) {
    for (const std::string& name : targets)
      for (std::size_t i = 0; i < values.size(); ++i) parts.set(name, block.constants[i].path, values[i]);
  };
  out.fit = fit(
      out.constants, measured,
      [&](std::span<const double> values, std::span<double> predicted) {
        set_all(values, out.fitted_parts);
        predict_training(block, tables, parts, scratch, nullptr);
        std::copy(scratch.begin(), scratch.end(), predicted.begin());
      },
      how);
  set_all(out.fit.values, names);
  return out;
}

void check_options(const CalibrationOptions& options, const PartShelf& parts) {
  sim::Faults faults;
  const auto check_part = [&](const std::string& name) {
    if (!contains(parts.names(), name))
      faults.add({"calibrate", ""}, fmt::format("unknown part '{}'", name), sim::name_hint(name, parts.names()));
  };
  check_part(options.device);
  if (options.hold_out) check_part(*options.hold_out);
  std::vector<std::string> known;
  for (const CalibrationBlock& block : calibration_blocks()) known.push_back(block.name);
  for (const std::string& name : options.blocks)
    if (!contains(known, name))
      faults.add({"calibrate", ""}, fmt::format("unknown block '{}'", name), sim::name_hint(name, known));
  faults.throw_if_any();
}

/// A fault where no table that is fitted has the column, or no row of them a value.
void check_column(const CalibrationOptions& options, const std::vector<std::string>& parts_fitted,
                  const PartShelf& parts) {
  std::set<std::string> columns;
  bool held = false;
  for (const CalibrationBlock& block : calibration_blocks()) {
    if (!options.blocks.empty() && !contains(options.blocks, block.name)) continue;
    for (const FitTable& table : load_tables(block, parts_fitted, parts, options, false)) {
      for (const std::string& column : table.whole.columns()) columns.insert(column);
      if (!table.whole.has(options.column)) continue;
      for (std::size_t row = 0; row < table.whole.rows() && !held; ++row)
        held = contains(options.values, table.whole.text(row, options.column));
    }
  }
  const std::vector<std::string> known(columns.begin(), columns.end());
  if (!known.empty() && !columns.contains(options.column))
    sim::throw_fault({"--holdout", ""},
                     fmt::format("no table of {} has a column '{}'", fmt::join(parts_fitted, ", "), options.column),
                     sim::name_hint(options.column, known));
  if (!known.empty() && !held)
    sim::throw_fault({"--holdout", ""}, fmt::format("no row of {} has {} {}", fmt::join(parts_fitted, ", "),
                                                    options.column, fmt::join(options.values, " or ")));
}

}  // namespace

bool is_held_out(std::string_view shape_key) {
  return sim::hash_text(shape_key) % 5 < 2;
}

CalibrationResult calibrate(const CalibrationOptions& options, PartShelf parts) {
  check_options(options, parts);
  const std::vector<std::string> trained = fitted_parts(parts, options);
  std::vector<std::string> targets = trained;
  if (options.hold_out && !contains(targets, *options.hold_out)) targets.push_back(*options.hold_out);
  CalibrationResult result;
  std::set<std::string> forgotten;
  if (!options.column.empty()) check_column(options, trained, parts);
  for (const CalibrationBlock& block : calibration_blocks()) {
    if (!options.blocks.empty() && !contains(options.blocks, block.name)) continue;
    if (block.own_part && options.hold_out) continue;
    const std::vector<FitTable> tables = load_tables(block, trained, parts, options, true);
    const auto useful = [&](const FitTable& table) { return contributes(block, table, parts); };
    if (tables.empty() || (options.blocks.empty() && std::none_of(tables.begin(), tables.end(), useful))) continue;
    // A device that is held out takes every constant of the block's object from its family, fitted here or not; once,
    // since blocks may share an object.
    const std::string& path = block.constants.front().path;
    if (options.hold_out && forgotten.insert(path.substr(0, path.find('.'))).second)
      parts.forget_own(*options.hold_out, path);
    result.blocks.push_back(fit_block(block, tables, targets, options, parts));
    add_errors(block, tables, parts, options, holds_out_rows(options) ? HeldOut::rows : HeldOut::nothing,
               result.errors);
    if (options.hold_out)
      add_errors(block, load_tables(block, {*options.hold_out}, parts, options, false), parts, options, HeldOut::whole,
                 result.errors);
  }
  if (result.blocks.empty())
    sim::throw_fault({"calibrate", ""},
                     fmt::format("no table in '{}' measures {}", options.data.string(), fmt::join(trained, ", ")),
                     "`tables` of a catalog entry names the files that stand for it");
  write_entry(result, options, parts, result.entry);
  return result;
}

std::string calibration_text(const CalibrationResult& result) {
  std::string text;
  for (const CalibrationResult::Block& block : result.blocks) {
    text += fmt::format("{}: {} rows of {}, {} rounds, mean error {:.1f} %\n", block.name, block.rows,
                        fmt::join(block.tables, ", "), block.fit.rounds, 100 * block.fit.mape);
    for (std::size_t i = 0; i < block.constants.size(); ++i)
      text += fmt::format("  {:<36} {:>12.5g}  was {:>12.5g}{}\n", block.constants[i].path, block.fit.values[i],
                          block.constants[i].start, block.fit.at_bound[i] ? "  at a bound of the search" : "");
  }
  for (const std::string& note : result.notes) text += note + "\n";
  for (const char* role : {"before", "fitted", "held out"}) {
    std::vector<FidelityLine> lines;
    for (const CalibrationResult::Error& error : result.errors)
      if (error.role == role) lines.push_back(error.line);
    if (!lines.empty())
      text += fmt::format("\n{}\n{}",
                          role == std::string_view("before") ? "all rows before the fit" : fmt::format("{} rows", role),
                          fidelity_text(lines));
  }
  return text;
}

sim::Node calibration_json(const CalibrationResult& result) {
  using sim::Node;
  Node blocks = Node::array();
  for (const CalibrationResult::Block& block : result.blocks) {
    Node constants = Node::object();
    for (std::size_t i = 0; i < block.constants.size(); ++i)
      constants.set(block.constants[i].path, Node::real(block.fit.values[i]));
    Node node = Node::object();
    node.set("name", Node::string(block.name));
    node.set("rows", Node::integer(static_cast<std::int64_t>(block.rows)));
    node.set("mape", Node::real(block.fit.mape));
    node.set("constants", std::move(constants));
    blocks.push(std::move(node));
  }
  std::vector<FidelityLine> lines;
  for (const CalibrationResult::Error& error : result.errors) lines.push_back(error.line);
  Node root = fidelity_json(lines);
  Node* tables = root.find("tables");
  for (std::size_t i = 0; i < result.errors.size(); ++i)
    tables->items()[i].set("role", Node::string(result.errors[i].role));
  root.set("blocks", std::move(blocks));
  Node notes = Node::array();
  for (const std::string& note : result.notes) notes.push(Node::string(note));
  root.set("notes", std::move(notes));
  return root;
}

}  // namespace orrery::experiments
