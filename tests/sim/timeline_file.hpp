// A timeline in the temporary folder, gone with its test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace orrery::test {

class TimelineFile {
 public:
  TimelineFile() = default;
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;
  ~TimelineFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("orrery-timeline-" + std::to_string(::getpid()) + ".pftrace");
};

}  // namespace orrery::test
