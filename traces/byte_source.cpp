#include "traces/byte_source.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "sim/base/fault.hpp"
#include "sim/base/input_limits.hpp"

namespace orrery::traces {
namespace {

constexpr std::size_t kChunk = 64 * 1024;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// The bytes as they lie in the file.
class PlainFile final : public ByteSource {
 public:
  explicit PlainFile(std::string path) : path_(std::move(path)) {
    if (path_.empty()) sim::throw_fault({"trace", ""}, "expected the path of a trace file, got none");
    std::error_code ignored;
    if (std::filesystem::is_directory(path_, ignored))
      sim::throw_fault({path_, ""}, "cannot read the trace: expected a file, got a folder");
    file_.reset(std::fopen(path_.c_str(), "rb"));
    if (!file_) sim::throw_fault({path_, ""}, fmt::format("cannot read the trace: {}", std::strerror(errno)));
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // reads are in large pieces already
  }

  std::size_t read(char* out, std::size_t size) override {
    std::size_t got = 0;
    if (kept_ < head_.size()) {  // bytes that were looked at to tell the kind of file
      got = std::min(size, head_.size() - kept_);
      std::memcpy(out, head_.data() + kept_, got);
      kept_ += got;
      return got;
    }
    got = std::fread(out, 1, size, file_.get());
    bytes_ += got;
    if (got == 0 && std::ferror(file_.get()) != 0)
      sim::throw_fault({path_, ""}, fmt::format("cannot read the trace: {}", std::strerror(errno)));
    return got;
  }

  /// The first four bytes (fewer in a shorter file), which `read` gives again. Call it first.
  std::string_view peek() {
    char bytes[4];
    std::string head;
    while (head.size() < sizeof bytes) {
      const std::size_t got = read(bytes, sizeof bytes - head.size());
      if (got == 0) break;
      head.append(bytes, got);
    }
    head_ = std::move(head);
    return head_;
  }

  const std::string& path() const { return path_; }
  /// Bytes that were read of it.
  std::size_t bytes() const { return bytes_; }

 private:
  std::string path_;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::string head_;
  std::size_t kept_ = 0;
};

/// Counts what a stream becomes, and refuses one that was made to fill memories.
class Inflation {
 public:
  void add(std::size_t bytes, const PlainFile& file) {
    bytes_ += bytes;
    if (bytes_ > sim::kFreeBytes + sim::kMostInflation * file.bytes())
      sim::throw_fault(
          {file.path(), ""},
          fmt::format("expected a stream that becomes at most {} times as long, got a longer one", sim::kMostInflation),
          "decompress it first if that is meant");
  }

 private:
  std::size_t bytes_ = 0;
};

class GzipFile final : public ByteSource {
 public:
  explicit GzipFile(std::unique_ptr<PlainFile> file) : file_(std::move(file)), input_(kChunk) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) sim::throw_fault({file_->path(), ""}, "cannot start to read gzip");
  }
  ~GzipFile() override { inflateEnd(&stream_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  std::size_t read(char* out, std::size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1U << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0 && !refill()) {
        if (inside_member_) sim::throw_fault({file_->path(), ""}, "the gzip stream is cut off: the file is not whole");
        return 0;
      }
      if (!inside_member_) inflateReset(&stream_);
      inside_member_ = true;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        inside_member_ = false;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        sim::throw_fault({file_->path(), ""}, fmt::format("the gzip stream is damaged: {}",
                                                          stream_.msg != nullptr ? stream_.msg : "unknown reason"));
      }
    }
    inflation_.add(wanted - stream_.avail_out, *file_);
    return wanted - stream_.avail_out;
  }

 private:
  bool refill() {
    const std::size_t got = file_->read(input_.data(), input_.size());
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  std::unique_ptr<PlainFile> file_;
  std::vector<char> input_;
  z_stream stream_{};
  Inflation inflation_;
  bool inside_member_ = false;
};

class ZstdFile final : public ByteSource {
 public:
  explicit ZstdFile(std::unique_ptr<PlainFile> file)
      : file_(std::move(file)), buffer_(kChunk), stream_(ZSTD_createDStream()) {
    if (!stream_) sim::throw_fault({file_->path(), ""}, "cannot start to read zstd");
  }

  std::size_t read(char* out, std::size_t size) override {
    ZSTD_outBuffer output{out, size, 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !drain_) {
        input_ = {buffer_.data(), file_->read(buffer_.data(), buffer_.size()), 0};
        if (input_.size == 0) {
          if (inside_frame_) sim::throw_fault({file_->path(), ""}, "the zstd stream is cut off: the file is not whole");
          return 0;
        }
      }
      const std::size_t code = ZSTD_decompressStream(stream_.get(), &output, &input_);
      if (ZSTD_isError(code) != 0)
        sim::throw_fault({file_->path(), ""}, fmt::format("the zstd stream is damaged: {}", ZSTD_getErrorName(code)));
      inside_frame_ = code != 0;
      drain_ = output.pos == output.size && inside_frame_;  // the decoder may hold more without any new input
    }
    inflation_.add(output.pos, *file_);
    return output.pos;
  }

 private:
  struct FreeStream {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<PlainFile> file_;
  std::vector<char> buffer_;
  std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  Inflation inflation_;
  bool inside_frame_ = false;
  bool drain_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  auto file = std::make_unique<PlainFile>(path);
  const std::string_view head = file->peek();
  if (head.starts_with("\x1f\x8b")) return std::make_unique<GzipFile>(std::move(file));
  if (head == "\x28\xb5\x2f\xfd") return std::make_unique<ZstdFile>(std::move(file));
  return file;
}

}  // namespace orrery::traces
