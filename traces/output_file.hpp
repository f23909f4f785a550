// A file that is written under a temporary name and gets its own when all is there.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace orrery::traces {

class OutputFile {
 public:
  /// Throws sim::ConfigError that names `path` where it cannot be written; so do the others.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  /// Closes the file and gives it its name.
  void finish();

 private:
  [[noreturn]] void fail() const;
  std::string path_, partial_;
  std::FILE* file_;
};

}  // namespace orrery::traces
