#include "traces/output_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sim/base/fault.hpp"

namespace orrery::traces {

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), partial_(path_ + ".partial"), file_(std::fopen(partial_.c_str(), "wb")) {
  if (file_ == nullptr) fail();
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(partial_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail();
}

void OutputFile::finish() {
  if (std::fflush(file_) != 0) fail();
  std::fclose(file_);
  file_ = nullptr;
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (!error) return;
  std::remove(partial_.c_str());
  sim::throw_fault({path_, ""}, fmt::format("cannot write the trace: {}", error.message()));
}

void OutputFile::fail() const {
  sim::throw_fault({path_, ""}, fmt::format("cannot write the trace: {}", std::strerror(errno)));
}

}  // namespace orrery::traces
