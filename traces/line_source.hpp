// Lines of a file, with their numbers: LF or CRLF ends, a missing last line end, a byte-order mark, and lines of any
// length are all taken as they come. No allocation per line: a line is a view into the read buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sim/base/fault.hpp"
#include "traces/byte_source.hpp"

namespace orrery::traces {

class LineSource {
 public:
  /// Bytes after a line that may be read (not used) past its end, as simdjson asks for.
  static constexpr std::size_t kPadding = 64;

  /// Opens `path` (see open_bytes). `chunk` is the first size of the buffer, which only a longer line makes grow.
  explicit LineSource(std::string path, std::size_t chunk = 256 * 1024);

  /// The next line without its end; it is valid until the next call, with kPadding readable bytes behind it. False at
  /// the end. Throws sim::ConfigError as ByteSource does.
  bool next(std::string_view& line);
  /// Number of the line that `next` gave last, from 1; 0 before the first.
  std::int64_t number() const { return number_; }
  const std::string& path() const { return path_; }
  /// Where the current line stands: "PATH:LINE".
  sim::Origin here() const;

 private:
  bool refill();
  void widen();

  std::string path_;
  std::unique_ptr<ByteSource> bytes_;
  std::size_t size_;                // of the buffer
  std::unique_ptr<char[]> buffer_;  // not cleared: that would touch all of it
  std::size_t begin_ = 0;           // unread part of it
  std::size_t end_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace orrery::traces
