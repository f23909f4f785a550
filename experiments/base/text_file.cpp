#include "experiments/base/text_file.hpp"

#include <iterator>
#include <stdexcept>

#include "sim/base/write_fault.hpp"

namespace orrery::experiments {

BufferedFile::BufferedFile(std::filesystem::path path) : path_(std::move(path)), file_(path_, std::ios::binary) {
  if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path_.string()));
}

void BufferedFile::flush() {
  file_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
  if (!file_) throw sim::WriteFault(path_);
}

void BufferedFile::append(const std::filesystem::path& other) {
  flush();
  file_ << std::ifstream(other, std::ios::binary).rdbuf();
}

void BufferedFile::close() {
  flush();
  file_.close();
}

void append_formatted(std::string& out, fmt::string_view format, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(out), format, args);
}

void append_seconds(std::string& out, sim::Time time, const sim::TickScale& scale) {
  constexpr std::int64_t kPerSecond = 1'000'000'000'000;
  const __int128 ps = static_cast<__int128>(time.ticks) * scale.ps_per_tick();
  const auto whole = static_cast<std::int64_t>(ps / kPerSecond);
  auto part = static_cast<std::int64_t>(ps % kPerSecond);
  append(out, "{}", whole);
  if (part == 0) return;
  const std::size_t dot = out.size();
  append(out, ".{:012}", part);
  while (out.size() > dot && out.back() == '0') out.pop_back();
}

std::int64_t nanoseconds(sim::Time time, const sim::TickScale& scale) {
  return static_cast<std::int64_t>(static_cast<__int128>(time.ticks) * scale.ps_per_tick() / 1000);
}

}  // namespace orrery::experiments
