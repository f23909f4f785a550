// For tests of what reads input: a folder of files, a variable of the environment, the text of a fault.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "sim/base/fault.hpp"

namespace orrery::test {

/// A folder of its own that goes with the test.
class Scratch {
 public:
  Scratch()
      : path_(std::filesystem::temp_directory_path() /
              ("orrery-scratch-" + std::to_string(counter()++) + "-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  static int& counter() {
    static int value = 0;
    return value;
  }
  std::filesystem::path path_;
};

/// A variable of the environment, as it was again at the end.
class Variable {
 public:
  /// Unset, until it is set.
  explicit Variable(const char* name) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    ::unsetenv(name);
  }
  Variable(const char* name, const std::string& value) : Variable(name) { set(value); }
  ~Variable() {
    if (was_set_)
      ::setenv(name_, before_.c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  void set(const std::string& value) const { ::setenv(name_, value.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

/// What a ConfigError says.
inline std::string fault_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

}  // namespace orrery::test
