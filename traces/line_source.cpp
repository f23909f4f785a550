#include "traces/line_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "sim/base/input_limits.hpp"

namespace orrery::traces {

LineSource::LineSource(std::string path, std::size_t chunk)
    : path_(std::move(path)),
      bytes_(open_bytes(path_)),
      size_(std::max<std::size_t>(chunk, 1) + kPadding),
      buffer_(std::make_unique_for_overwrite<char[]>(size_)) {}

sim::Origin LineSource::here() const {
  return {path_ + ":" + std::to_string(number_), ""};
}

/// Twice the room for a line that fills the buffer.
void LineSource::widen() {
  size_ = 2 * end_ + kPadding;
  auto wider = std::make_unique_for_overwrite<char[]>(size_);
  std::memcpy(wider.get(), buffer_.get(), end_);
  buffer_ = std::move(wider);
}

bool LineSource::refill() {
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ > sim::kMostLineBytes)
    sim::throw_fault({path_ + ":" + std::to_string(number_ + 1), ""},
                     fmt::format("expected lines of at most {} MiB, got a longer one", sim::kMostLineBytes >> 20));
  if (end_ + kPadding == size_) widen();
  const std::size_t got = bytes_->read(buffer_.get() + end_, size_ - kPadding - end_);
  end_ += got;
  return got > 0;
}

bool LineSource::next(std::string_view& line) {
  std::size_t searched = 0;
  while (true) {
    const char* start = buffer_.get() + begin_;
    const std::size_t size = end_ - begin_;
    const void* found = size > searched ? std::memchr(start + searched, '\n', size - searched) : nullptr;
    if (found != nullptr) {
      const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - start);
      line = {start, length};
      begin_ += length + 1;
      break;
    }
    searched = size;
    if (refill()) continue;
    if (size == 0) return false;
    line = {buffer_.get() + begin_, end_ - begin_};  // the last line, without an end of its own
    begin_ = end_;
    break;
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (number_ == 0 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  ++number_;
  return true;
}

}  // namespace orrery::traces
