#include "tools/orrery/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>

namespace orrery::tools {
namespace {

constexpr const char* kBold = "\033[1m";
constexpr const char* kRed = "\033[31m";
constexpr const char* kYellow = "\033[33m";
constexpr const char* kPlain = "\033[0m";

/// Characters that a text takes on the screen: UTF-8 bytes that begin one.
std::size_t shown_size(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool to_left) {
  const std::string blanks(width - std::min(width, shown_size(text)), ' ');
  return to_left ? text + blanks : blanks + text;
}

const char* colour_of(std::string_view line) {
  for (const std::string_view bad : {"status       infeasible", "status       unfinished", "status       stalled"})
    if (line.starts_with(bad)) return kRed;
  for (const std::string_view word : {"infeasible: ", "overloaded", "too_short", "too short to say", "MISSED"})
    if (line.find(word) != std::string_view::npos) return kYellow;
  return nullptr;
}

/// Where the label of a line ends: a few words before two blanks, at the line's beginning.
std::size_t label_size(std::string_view line) {
  constexpr std::size_t kLabel = 13;
  if (line.empty() || line.front() == ' ') return 0;
  const std::size_t end = line.find("  ");
  return end < kLabel ? end : 0;
}

}  // namespace

std::optional<std::size_t> terminal_width() {
  constexpr std::size_t kLeast = 40;
  if (isatty(STDOUT_FILENO) != 1) return std::nullopt;
  std::size_t columns = 0;
  if (const char* told = std::getenv("COLUMNS")) std::from_chars(told, told + std::strlen(told), columns);
  winsize size{};
  if (columns == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns == 0 ? std::nullopt : std::optional(std::max(columns, kLeast));
}

bool takes_colour(std::FILE* stream) {
  const char* const no = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  return isatty(fileno(stream)) == 1 && (no == nullptr || *no == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

std::string coloured_table(const std::string& table) {
  std::string out;
  for (std::size_t from = 0; from < table.size();) {
    const std::size_t end = std::min(table.find('\n', from), table.size());
    const std::string_view line(table.data() + from, end - from);
    if (const char* colour = colour_of(line)) {
      out += fmt::format("{}{}{}", colour, line, kPlain);
    } else if (const std::size_t label = label_size(line); label > 0) {
      out += fmt::format("{}{}{}{}", kBold, line.substr(0, label), kPlain, line.substr(label));
    } else {
      out += line;
    }
    if (end < table.size()) out += '\n';
    from = end + 1;
  }
  return out;
}

std::string coloured_fault(const std::string& fault) {
  const std::size_t place = fault.find(": ");
  if (place == std::string::npos) return fault;
  return fmt::format("{}{}{}{}", kRed, fault.substr(0, place + 1), kPlain, fault.substr(place + 1));
}

std::string TextTable::text(std::optional<std::size_t> width) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(shown_size(columns_[i].head));
    for (const std::vector<std::string>& row : rows_)
      if (row.size() == columns_.size()) widths[i] = std::max(widths[i], shown_size(row[i]));
  }
  std::vector<std::size_t> kept(columns_.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  std::vector<std::string> left_out;
  const auto needed = [&] {
    std::size_t sum = 0;
    for (const std::size_t i : kept) sum += widths[i] + 2;
    return sum;
  };
  while (width && needed() > *width) {
    const auto next = std::ranges::max_element(kept, {}, [&](std::size_t i) { return columns_[i].leaves; });
    if (next == kept.end() || columns_[*next].leaves == 0) break;
    left_out.push_back(columns_[*next].head);
    kept.erase(next);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (const std::size_t i : kept) {
      if (i >= cells.size()) break;
      const bool tail = i + 1 == cells.size();  // the last text of a short row, or of the last column
      out += (out.empty() ? "" : "  ") + (tail && (columns_[i].to_left || cells.size() < columns_.size())
                                              ? cells[i]
                                              : padded(cells[i], widths[i], columns_[i].to_left));
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  std::vector<std::string> heads;
  for (const Column& column : columns_) heads.push_back(column.head);
  std::string out = line(heads);
  for (const std::vector<std::string>& row : rows_) out += line(row);
  if (!left_out.empty()) out += fmt::format("(no room for {}; --json has all)\n", fmt::join(left_out, ", "));
  return out;
}

}  // namespace orrery::tools
