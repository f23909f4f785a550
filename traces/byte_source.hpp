// Bytes of a file, decompressed on the way: plain, gzip and Zstandard are told apart by their first bytes, not by the
// name. Streams of several members or frames (as `cat a.gz b.gz` makes) are read through.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace orrery::traces {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `size` (>= 1) bytes into `out`; 0 only at the end. Throws sim::ConfigError that names the file if it
  /// cannot be read, is damaged, or ends too early.
  virtual std::size_t read(char* out, std::size_t size) = 0;
};

/// Opens `path`. Throws sim::ConfigError if it cannot be opened or is a folder.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

}  // namespace orrery::traces
