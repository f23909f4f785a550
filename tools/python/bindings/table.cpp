// Tables that runs write, as columns. A column of whole numbers is int64, one of numbers float64 (an empty cell is
// NaN), any other is an array of str.
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "sim/base/fault.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {
namespace {

using Cells = std::vector<std::string_view>;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) sim::throw_fault({path.string(), ""}, "expected a table, found none");
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

/// Cuts the next cell off a line; quotes keep commas together, and are left away.
std::string_view next_cell(std::string_view& line) {
  const bool quoted = line.starts_with('"');
  const std::size_t from = quoted ? 1 : 0;
  std::size_t end = quoted ? line.find('"', 1) : line.find(',');
  if (end == std::string_view::npos) end = line.size();
  const std::string_view cell = line.substr(from, end - from);
  const std::size_t comma = line.find(',', end);
  line = comma == std::string_view::npos ? std::string_view{} : line.substr(comma + 1);
  return cell;
}

template <class T>
std::optional<std::vector<T>> numbers(const Cells& cells) {
  std::vector<T> values;
  values.reserve(cells.size());
  for (const std::string_view cell : cells) {
    T value{};
    if (cell.empty()) {
      if constexpr (std::is_integral_v<T>) return std::nullopt;
      values.push_back(std::numeric_limits<T>::quiet_NaN());
      continue;
    }
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size()) return std::nullopt;
    values.push_back(value);
  }
  return values;
}

py::object column(const Cells& cells) {
  if (auto whole = numbers<std::int64_t>(cells)) return to_array(*std::move(whole));
  if (auto real = numbers<double>(cells)) return to_array(*std::move(real));
  std::map<std::string_view, py::str> known;  // few values stand in many rows
  py::array array(py::dtype("O"), static_cast<py::ssize_t>(cells.size()));
  auto* out = static_cast<PyObject**>(array.mutable_data());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    auto it = known.find(cells[i]);
    if (it == known.end()) it = known.emplace(cells[i], py::str(cells[i].data(), cells[i].size())).first;
    Py_XDECREF(out[i]);  // numpy fills with None
    out[i] = it->second.inc_ref().ptr();
  }
  return array;
}

/// Columns by name, in the order of the file.
py::dict read_table(const std::string& path) {
  const std::string text = read_text(path);
  std::string_view rest = text;
  std::vector<std::string> names;
  std::vector<Cells> columns;
  const auto next_line = [&] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  };
  for (std::string_view header = next_line(); !header.empty();) names.emplace_back(next_cell(header));
  columns.resize(names.size());
  while (!rest.empty()) {
    std::string_view line = next_line();
    if (line.empty()) continue;
    for (Cells& cells : columns) cells.push_back(next_cell(line));
  }
  py::dict table;
  for (std::size_t i = 0; i < names.size(); ++i) table[py::str(names[i])] = column(columns[i]);
  return table;
}

}  // namespace

void bind_tables(py::module_& module) {
  module.def("read_table", &read_table, py::arg("path"), "Columns of a CSV file: a dict of arrays by name.");
}

}  // namespace orrery::python
