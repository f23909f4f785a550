// Tables that a run writes as it goes: large pieces to the file, times exact to the tick.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "sim/base/units.hpp"

namespace orrery::experiments {

/// A text file written in large pieces. Throws sim::WriteFault when it cannot be.
class BufferedFile {
 public:
  explicit BufferedFile(std::filesystem::path path);
  std::string& buffer() { return buffer_; }
  /// To be called after each line.
  void line_done() {
    if (buffer_.size() > (1U << 18)) flush();
  }
  /// Appends another file as it is.
  void append(const std::filesystem::path& other);
  void close();

 private:
  void flush();
  std::filesystem::path path_;
  std::ofstream file_;
  std::string buffer_;
};

void append_formatted(std::string& out, fmt::string_view format, fmt::format_args args);
/// fmt::format to the end of a text.
template <class... Args>
void append(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  append_formatted(out, format, fmt::make_format_args(args...));
}

/// Appends a time in seconds, exactly: as many decimals as there are, at most twelve.
void append_seconds(std::string& out, sim::Time time, const sim::TickScale& scale);

/// Whole nanoseconds of a time, for timelines.
std::int64_t nanoseconds(sim::Time time, const sim::TickScale& scale);

}  // namespace orrery::experiments
