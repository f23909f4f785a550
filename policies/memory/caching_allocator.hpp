// The caching allocator of PyTorch 2 (the constants of its class CUDACachingAllocator, its defaults), without streams.
//
// A request is rounded to 512 bytes. One of up to 1 MiB comes from segments of 2 MiB, one below 10 MiB from segments of
// 20 MiB, a larger one from a segment of its own, rounded to 2 MiB. The smallest free block that holds it is taken, of
// equal ones the one with the lowest address, and is split where more than 1 MiB (of a small segment: 512 bytes) is
// left. A freed block joins its free neighbours of the same segment. Segments stay, unless a new one does not fit the
// device: then those that are free as a whole go back.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace orrery::policies {

class CachingAllocator {
 public:
  using Block = std::int32_t;
  /// `capacity`: bytes of the device that segments may take.
  explicit CachingAllocator(std::int64_t capacity = std::numeric_limits<std::int64_t>::max()) : capacity_(capacity) {}

  /// A block of at least so many bytes (> 0). Beyond the capacity it is given all the same, and `exceeded` says so.
  Block allocate(std::int64_t bytes);
  void free(Block block);

  /// Address of a block: segments lie one behind the other, in the order in which they were made.
  std::int64_t address(Block block) const;
  std::int64_t allocated() const { return allocated_; }
  std::int64_t reserved() const { return reserved_; }
  std::int64_t peak_allocated() const { return peak_allocated_; }
  std::int64_t peak_reserved() const { return peak_reserved_; }
  bool exceeded() const { return exceeded_; }

 private:
  struct Piece {
    std::int64_t address = 0, bytes = 0;
    Block before = -1, after = -1;  ///< neighbours in the segment
    bool free = false, small = false;
  };
  using Free = std::set<std::tuple<std::int64_t, std::int64_t, Block>>;  ///< by bytes, then address

  Free& pool(const Piece& piece) { return piece.small ? small_ : large_; }
  void put(Block block);
  void drop(Block block);
  Block make(Piece piece);
  Block new_segment(std::int64_t bytes, bool small);
  void give_back();

  std::int64_t capacity_;
  std::int64_t next_address_ = 0, allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  bool exceeded_ = false;
  std::vector<Piece> pieces_;
  std::vector<Block> unused_;  ///< numbers of pieces that are no more
  Free small_, large_;
};

}  // namespace orrery::policies
