#include "sim/csv_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "sim/base/fault.hpp"
#include "sim/base/input_limits.hpp"

namespace orrery::sim {
namespace {

/// Cells of a line, without blanks around them; quotes keep commas together.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  for (std::string& cell : cells) {
    const std::size_t first = cell.find_first_not_of(" \t"), last = cell.find_last_not_of(" \t");
    cell = first == std::string::npos ? std::string() : cell.substr(first, last - first + 1);
  }
  return cells;
}

std::optional<double> number_of(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

CsvTable CsvTable::read(const std::filesystem::path& folder, const std::string& name, Ragged ragged) {
  CsvTable table = parse(read_whole(folder / name, "table"), name, ragged);
  table.root_ = folder;
  return table;
}

CsvTable CsvTable::parse(std::string_view text, const std::string& name, Ragged ragged) {
  CsvTable table;
  table.name_ = name;
  std::vector<Column*> order;
  Faults faults;
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.empty() || line == "\r" || line.front() == '#') continue;
    std::vector<std::string> cells = cells_of(line);
    if (order.empty()) {
      for (const std::string& cell : cells) {
        const auto [at, fresh] = table.columns_.try_emplace(cell);
        if (!fresh) faults.add({name, ""}, fmt::format("line {}: column '{}' stands twice", line_number, cell));
        order.push_back(&at->second);
      }
      continue;
    }
    if (cells.size() != order.size() && ragged == Ragged::leave_out) {
      ++table.left_out_;
      continue;
    }
    if (cells.size() != order.size()) {
      faults.add({name, ""}, fmt::format("line {}: expected {} cells as in the header, got {}", line_number,
                                         order.size(), cells.size()));
      continue;
    }
    for (std::size_t i = 0; i < cells.size(); ++i) order[i]->cells.push_back(std::move(cells[i]));
    table.lines_.push_back(line_number);
    ++table.rows_;
  }
  if (order.empty()) faults.add({name, ""}, "expected a header line with column names, found none");
  faults.throw_if_any();
  return table;
}

CsvTable CsvTable::subset(const std::vector<char>& keep) const {
  CsvTable out;
  out.name_ = name_;
  out.root_ = root_;
  for (const auto& [name, whole] : columns_) {
    Column& part = out.columns_[name];
    for (std::size_t row = 0; row < rows_; ++row)
      if (keep[row] != 0) part.cells.push_back(whole.cells[row]);
  }
  for (std::size_t row = 0; row < rows_; ++row)
    if (keep[row] != 0) out.lines_.push_back(lines_[row]);
  out.rows_ = out.lines_.size();
  return out;
}

std::string CsvTable::folder() const {
  const std::size_t slash = name_.rfind('/');
  return slash == std::string::npos ? std::string() : name_.substr(0, slash);
}

std::string CsvTable::stem() const {
  const std::size_t slash = name_.rfind('/');
  const std::string file = slash == std::string::npos ? name_ : name_.substr(slash + 1);
  return file.substr(0, file.find('.'));
}

const CsvTable::Column& CsvTable::column(std::string_view name) const {
  const auto found = columns_.find(name);
  if (found != columns_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [column, cells] : columns_) known.push_back(column);
  throw_fault({name_, ""}, fmt::format("expected a column '{}'", name), name_hint(std::string(name), std::move(known)));
}

const std::string& CsvTable::text(std::size_t row, std::string_view name) const {
  return column(name).cells.at(row);
}

const std::vector<double>& CsvTable::parsed(const Column& c) {
  if (!c.numbers) {
    auto values = std::make_unique<std::vector<double>>();
    values->reserve(c.cells.size());
    for (const std::string& cell : c.cells)
      values->push_back(number_of(cell).value_or(std::numeric_limits<double>::quiet_NaN()));
    c.numbers = std::move(values);
  }
  return *c.numbers;
}

void CsvTable::throw_cell(std::size_t row, std::string_view name, std::string_view expected) const {
  throw_fault({name_, ""}, fmt::format("line {}: expected {} in column '{}', got '{}'", lines_[row], expected, name,
                                       text(row, name)));
}

const std::vector<double>& CsvTable::numbers(std::string_view name) const {
  const std::vector<double>& values = parsed(column(name));
  const auto bad = std::find_if(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  if (bad != values.end()) throw_cell(static_cast<std::size_t>(bad - values.begin()), name, "a number");
  return values;
}

std::vector<std::string> CsvTable::columns() const {
  std::vector<std::string> names;
  for (const auto& [name, column] : columns_) names.push_back(name);
  return names;
}

double CsvTable::number(std::size_t row, std::string_view name) const {
  const double value = parsed(column(name)).at(row);
  if (std::isnan(value)) throw_cell(row, name, "a number");
  return value;
}

double CsvTable::positive(std::size_t row, std::string_view name) const {
  const double value = number(row, name);
  if (!(value > 0) || std::isinf(value)) throw_cell(row, name, "a number above 0");
  return value;
}

std::int64_t CsvTable::integer(std::size_t row, std::string_view name) const {
  const double value = number(row, name);
  if (value != std::floor(value) || std::abs(value) > 9e15) throw_cell(row, name, "a whole number");
  return static_cast<std::int64_t>(value);
}

std::int64_t CsvTable::count(std::size_t row, std::string_view name, std::int64_t least) const {
  const std::int64_t value = integer(row, name);
  if (value < least) throw_cell(row, name, fmt::format("at least {}", least));
  return value;
}

}  // namespace orrery::sim
