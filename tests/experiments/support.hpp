// Scratch folders, small traces and configs, and the command itself, for tests of whole experiments.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery::experiments::test {

namespace fs = std::filesystem;

/// A folder that goes with the test.
class Scratch {
 public:
  Scratch() {
    static int count = 0;
    path_ = fs::temp_directory_path() / ("orrery-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    fs::create_directories(path_);
  }
  ~Scratch() { fs::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline std::string slurp(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

using Row = std::map<std::string, std::string>;

/// The rows of a CSV file, cells by the names of their columns.
inline std::vector<Row> read_csv(const fs::path& path) {
  std::ifstream file(path);
  const auto cells = [](const std::string& line) {
    std::vector<std::string> all(1);
    for (const char c : line) {
      if (c == ',') {
        all.emplace_back();
      } else {
        all.back() += c;
      }
    }
    return all;
  };
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = cells(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = cells(line);
    if (values.size() != header.size()) throw std::runtime_error(path.string() + ": not as many cells as columns");
    Row row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = values[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

/// A config of Llama-2-7B on an A100 with a trace beside it; `extra` are further members, each with a leading comma.
inline std::string small_config(const std::string& extra = "", const std::string& trace = "trace.csv") {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
  "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
  "model": {"config": "catalog:llama-2-7b"},
  "workload": {"trace": {"path": ")" +
         trace + R"(", "format": "orrery_csv"}})" + extra + "}";
}

/// Ten requests, two a second.
inline std::string small_trace() {
  std::string text = "arrived_s,prompt_tokens,output_tokens\n";
  for (int i = 0; i < 10; ++i)
    text += std::to_string(0.5 * i) + "," + std::to_string(100 + 50 * i) + "," + std::to_string(5 + i) + "\n";
  return text;
}

struct CommandResult {
  int exit_code = -1;
  std::string out, err;
};

/// Runs `orrery` with the given arguments (a shell line).
inline CommandResult command(const Scratch& scratch, const std::string& arguments, const std::string& before = {}) {
  CommandResult result;
  const fs::path err = scratch / "stderr.txt";
  const std::string line = "cd '" + (scratch / "").string() + "' && " + before + "'" ORRERY_COMMAND "' " + arguments +
                           " 2>'" + err.string() + "'";
  FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) result.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.err = slurp(err);
  return result;
}

}  // namespace orrery::experiments::test
