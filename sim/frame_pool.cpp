#include "sim/frame_pool.hpp"

#include <algorithm>

namespace orrery::sim {

FramePool::~FramePool() {
  for (const Chunk& chunk : chunks_) {
    unpoison(chunk.start, chunk.lines * kLine);
    PageAllocator<Line>{}.deallocate(chunk.start, chunk.lines);
  }
}

void FramePool::orphan() {
  orphaned_ = true;
  if (live_ == 0) delete this;
}

FramePool::Line* FramePool::take_chunk(std::size_t lines) {
  chunks_.reserve(chunks_.size() + 1);  // or a chunk could be lost when the list does not grow
  Line* const start = PageAllocator<Line>{}.allocate(lines);
  chunks_.push_back({start, lines});
  reserved_ += lines * kLine;
  return start;
}

// Chunks grow with the pool up to a huge page: small simulations stay small.
void* FramePool::carve(std::size_t index) {
  const std::size_t lines = class_bytes(index) / kLine;
  if (lines > left_) {
    const std::size_t chunk = std::clamp(reserved_, kFirstChunk, PageAllocator<Line>::kHuge) / kLine;
    if (lines > chunk / 4) {  // alone, so that the rest of the current chunk is not lost
      void* const block = take_chunk(lines);
      ++live_;
      return block;
    }
    next_ = take_chunk(chunk);
    left_ = chunk;
  }
  Line* const block = next_;
  next_ += lines;
  left_ -= lines;
  ++live_;
  return block;
}

}  // namespace orrery::sim
