// Part of sim/timeline/timeline: the file, whose packets are gathered in blocks, compressed and appended.
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>

#include "sim/base/write_fault.hpp"
#include "timeline.pb.h"

namespace orrery::sim {

inline void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

/// Field 1 of Trace, length-delimited: what Trace with this one packet would serialise to.
inline void put_packet(std::string& out, const timeline::TracePacket& packet) {
  put_varint(out, (1U << 3) | 2U);
  put_varint(out, packet.ByteSizeLong());
  packet.AppendToString(&out);
}

/// The file: packets are gathered in a block, compressed and appended.
class BlockFile {
  // A block before compression. The viewer wants compressed packets below 512 KiB; deflate never adds that much.
  static constexpr std::size_t kBlockBytes = 128 << 10;
  // Of a million slices with two arguments level 3 makes 18 bytes each in 0.4 s, level 6 17 bytes in 1.8 s.
  static constexpr int kLevel = 3;
  static constexpr std::int64_t kBlockHead = 128;  // what a block that does not shrink adds to its bytes, at most

 public:
  explicit BlockFile(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path_.string()));
    if (deflateInit(&stream_, kLevel) != Z_OK) throw std::bad_alloc();
    block_.reserve(kBlockBytes + (kBlockBytes >> 3));
    packed_.resize(deflateBound(&stream_, static_cast<uLong>(block_.capacity())));
  }
  ~BlockFile() { deflateEnd(&stream_); }
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  void write(const timeline::TracePacket& packet) {
    put_packet(block_, packet);
    if (block_.size() >= kBlockBytes) flush();
  }
  void flush() {
    if (block_.empty()) return;
    packed_.resize(std::max<std::size_t>(packed_.size(), deflateBound(&stream_, static_cast<uLong>(block_.size()))));
    stream_.next_in = reinterpret_cast<Bytef*>(block_.data());
    stream_.avail_in = static_cast<uInt>(block_.size());
    stream_.next_out = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_out = static_cast<uInt>(packed_.size());
    if (deflate(&stream_, Z_FINISH) != Z_STREAM_END) throw std::logic_error("timeline: a block did not fit its bound");
    const std::size_t size = packed_.size() - stream_.avail_out;
    deflateReset(&stream_);
    // Packet with the one field compressed_packets = 50, written by hand: the bytes are not copied.
    head_.clear();
    std::string field;
    put_varint(field, (50U << 3) | 2U);
    put_varint(field, size);
    put_varint(head_, (1U << 3) | 2U);
    put_varint(head_, field.size() + size);
    head_ += field;
    file_.write(head_.data(), static_cast<std::streamsize>(head_.size()));
    file_.write(packed_.data(), static_cast<std::streamsize>(size));
    written_ += static_cast<std::int64_t>(head_.size() + size);
    block_.clear();
  }
  /// Of the file, at most, if nothing more came.
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(block_.size()) + kBlockHead; }
  void close() {
    flush();
    file_.flush();
    if (!file_) throw WriteFault(path_);
  }
  std::size_t memory() const { return block_.capacity() + packed_.capacity() + head_.capacity(); }

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  z_stream stream_{};
  std::string block_, packed_, head_;
  std::int64_t written_ = 0;
};

}  // namespace orrery::sim
