#include "sim/base/input_limits.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "sim/base/fault.hpp"
#include "sim/base/units.hpp"

namespace orrery::sim {
namespace {

constexpr const char* kInputLimit = "ORRERY_INPUT_LIMIT";

}  // namespace

std::int64_t most_input_bytes() {
  constexpr std::int64_t kDefault = std::int64_t{512} << 20;
  const char* const told = std::getenv(kInputLimit);
  if (told == nullptr || *told == '\0') return kDefault;
  const auto bytes = parse_quantity(told, Unit::bytes);
  if (!bytes || *bytes < 1 || *bytes > 1e18)
    throw_fault({kInputLimit, ""}, fmt::format("expected a size such as \"4 GiB\", got \"{}\"", told));
  return static_cast<std::int64_t>(*bytes);
}

std::int64_t most_json_values() {
  constexpr std::int64_t kBytesOfValue = 128;  // of the limit; where it is kept a value takes some 200
  return most_input_bytes() / kBytesOfValue;
}

std::string read_all(std::istream& in, const std::string& name) {
  const auto most = static_cast<std::size_t>(most_input_bytes());
  std::array<char, 64 * 1024> piece{};
  std::string text;
  while (in) {
    in.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > most)
      throw_fault({name, ""},
                  fmt::format("expected at most {} of input", humanise(static_cast<double>(most), Unit::bytes)),
                  fmt::format("{} raises that", kInputLimit));
  }
  return text;
}

std::string read_whole(const std::filesystem::path& path, const std::string& what) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw_fault({path.string(), ""}, fmt::format("expected a {}, got a folder", what));
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const bool there = std::filesystem::exists(path, ignored);
    throw_fault({path.string(), ""}, there ? fmt::format("expected a {} that can be read, got no permission", what)
                                           : fmt::format("expected a readable {}, found none", what));
  }
  return read_all(file, path.string());
}

}  // namespace orrery::sim
