// Programs of others: run to the end, or talked to line by line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace orrery::sim {

/// The program of that name on PATH (a name with a slash is the file itself); nothing if there is none.
std::optional<std::filesystem::path> find_program(const std::string& name);

/// Runs a program, its output dropped, and gives its exit code; nothing if it did not end within `seconds` (it is
/// killed then) or by itself. The first argument is the program's path.
std::optional<int> run_program(const std::vector<std::string>& arguments, double seconds);

/// A folder of its own below the system's temporary one, removed with everything in it at the end.
class TemporaryFolder {
 public:
  /// Throws std::runtime_error if there is no room for one.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A program that answers lines on its standard input with lines on its standard output; its errors go to ours. It is
/// told the end of its input when this goes, and killed, with what it started, if it does not end then.
class LineProcess {
 public:
  explicit LineProcess(const std::vector<std::string>& arguments);
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;
  /// False if the program is gone, or does not take it in that time.
  bool write(const std::string& line, double seconds = 60);
  /// The next line without its end; nothing if the program is gone or says nothing for `seconds`. Lines past kMostLine
  /// characters are dropped.
  std::optional<std::string> read(double seconds);
  /// Whether its output has ended.
  bool ended() const { return ended_; }
  /// Lines that were dropped.
  std::int64_t overlong() const { return overlong_; }

  static constexpr std::size_t kMostLine = 1U << 20;

 private:
  pid_t child_ = -1;
  int input_ = -1, output_ = -1;
  std::string buffer_;
  bool ended_ = false, dropping_ = false;
  std::int64_t overlong_ = 0;
};

}  // namespace orrery::sim
