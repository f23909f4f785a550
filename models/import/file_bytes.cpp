#include "models/import/file_bytes.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <memory>

#include "sim/base/fault.hpp"
#include "sim/base/input_limits.hpp"

namespace orrery::models {

std::string read_bytes(const std::filesystem::path& file, std::size_t padding) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    sim::throw_fault({file.string(), ""}, std::filesystem::is_directory(file, error)
                                              ? "expected a readable file, found a folder"
                                              : "expected a readable file, found none");
  // zlib reads files that are not gzip as they are.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> source(gzopen(file.string().c_str(), "rb"), gzclose);
  if (source == nullptr) sim::throw_fault({file.string(), ""}, "expected a readable file");
  gzbuffer(source.get(), 1U << 20);
  std::string bytes;
  std::size_t size = 0;
  int got = 0;
  const auto most = static_cast<std::size_t>(sim::most_input_bytes());
  do {
    if (size > most)
      sim::throw_fault({file.string(), ""}, fmt::format("expected at most {} MiB, decompressed", most >> 20),
                       "ORRERY_INPUT_LIMIT raises that");
    bytes.resize(size + (std::size_t{4} << 20));
    got = gzread(source.get(), bytes.data() + size, 4U << 20);
    if (got > 0) size += static_cast<std::size_t>(got);
  } while (got > 0);
  int code = Z_OK;
  gzerror(source.get(), &code);
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
    sim::throw_fault({file.string(), ""}, "expected whole gzip data, found it damaged or cut off");
  bytes.resize(size + padding);
  bytes.resize(size);
  return bytes;
}

}  // namespace orrery::models
