#include "traces/line_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "sim/base/input_limits.hpp"

namespace orrery::traces {

LineSource::LineSource(std::string path, std::size_t chunk)
    : path_(std::move(path)), bytes_(open_bytes(path_)), buffer_(std::max<std::size_t>(chunk, 1) + kPadding) {}

sim::Origin LineSource::here() const {
  return {path_ + ":" + std::to_string(number_), ""};
}

bool LineSource::refill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ > sim::kMostLineBytes)
    sim::throw_fault({path_ + ":" + std::to_string(number_ + 1), ""},
                     fmt::format("expected lines of at most {} MiB, got a longer one", sim::kMostLineBytes >> 20));
  if (end_ + kPadding == buffer_.size()) buffer_.resize(2 * end_ + kPadding);
  const std::size_t got = bytes_->read(buffer_.data() + end_, buffer_.size() - kPadding - end_);
  end_ += got;
  return got > 0;
}

bool LineSource::next(std::string_view& line) {
  std::size_t searched = 0;
  while (true) {
    const char* start = buffer_.data() + begin_;
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
    line = {buffer_.data() + begin_, end_ - begin_};  // the last line, without an end of its own
    begin_ = end_;
    break;
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (number_ == 0 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  ++number_;
  return true;
}

}  // namespace orrery::traces
