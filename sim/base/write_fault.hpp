// A file that could not be written in full: a full disk, a limit on file sizes. No fault of the input, and none of ours.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace orrery::sim {

struct WriteFault : std::runtime_error {
  /// `error`: errno after the write, where it is known; 0 where it is not.
  explicit WriteFault(const std::filesystem::path& path, int error = errno)
      : std::runtime_error(path.string() + ": could not be written in full" +
                           (error == 0 ? std::string() : ": " + std::string(std::strerror(error)))) {}
};

}  // namespace orrery::sim
