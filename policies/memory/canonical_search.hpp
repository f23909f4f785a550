// Exact search for a plan below a capacity: depth first over the canonical plans.
//
// A plan is canonical if every buffer lies at its floor (the end of a buffer below it that is live at some step with
// it, or 0). Letting all buffers fall makes any plan canonical without raising it, and a canonical plan is built by
// placing buffers in order of offset, each at its floor: so that is all that is searched. A branch ends where
//  - some group of buffers that are all live together needs more than the capacity (lowest floor + sum of bytes);
//  - a buffer fits wholly below the one to be placed (then it may as well be placed first);
//  - two neighbours in the order have equal offsets and stand in the wrong one of two equal orders;
//  - a buffer missed its turn (its floor is below the last offset) and nothing that is left can lift it.
// What is left falls apart where no buffer lives on: the parts are searched one by one, each with its own order.
// Method: Moffitt, "MiniMalloc" (ASPLOS 2023), rewritten from its description. Alignment is kept, but plans whose
// floors are aligned are only all plans if the alignments are equal: `no` is a proof in that case alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/memory/planner.hpp"

namespace orrery::policies {

enum class SearchEnd : std::uint8_t { found, none, out_of_budget };

class CanonicalSearch {
 public:
  /// Of `buffers`, which must outlive it and hold > 0 bytes each.
  explicit CanonicalSearch(std::span<const Buffer> buffers);

  /// Looks for offsets with a peak <= `capacity`, trying buffers of one floor in the order of `rank` (lower first).
  /// `budget` counts down the elementary steps that it may still take.
  SearchEnd run(std::int64_t capacity, std::span<const std::uint32_t> rank, std::int64_t& budget);
  /// What run() found.
  const std::vector<std::int64_t>& offsets() const { return offsets_; }

 private:
  struct Undo {
    std::uint32_t buffer;
    std::int64_t floor;
  };
  struct Placed {
    std::uint32_t buffer;
    std::size_t undo_mark;  ///< size of undo_ before
  };
  /// Buffers that are left and belong together (in order of begin), and the last one placed before them.
  struct Part {
    std::vector<std::uint32_t> left;
    std::int64_t last_offset = 0;
    std::uint32_t last_rank = 0;
  };

  /// Places what is left, part by part; takes everything back unless it finds a place for all.
  SearchEnd solve_parts(const std::vector<std::uint32_t>& left, std::int64_t last_offset, std::uint32_t last_rank);
  SearchEnd solve(const Part& part);
  /// Whether a buffer that is left may be the next one.
  bool in_order(const Part& part, std::uint32_t buffer) const;
  /// Sets least_ of what is left; false if something can no longer be placed below the capacity.
  bool raise_floors(const Part& part);
  bool groups_fit(std::span<const std::uint32_t> left);
  void place(std::uint32_t buffer, std::int64_t offset);
  void take_back(std::size_t mark);

  std::span<const Buffer> buffers_;
  std::vector<std::vector<std::uint32_t>> overlaps_;    // live at a common step
  std::vector<std::uint32_t> first_group_, end_group_;  // groups a buffer belongs to: [first, end)
  std::vector<std::int64_t> group_left_, group_floor_;  // bytes not yet placed; scratch
  std::vector<std::int64_t> floor_;  // the lowest offset above all placed buffers that are live together with it
  std::vector<std::int64_t> least_;  // the same, where a buffer that missed its turn must lie on one that is left
  std::vector<std::int64_t> offsets_;
  std::vector<bool> placed_;
  std::vector<Undo> undo_;
  std::vector<Placed> order_;
  std::span<const std::uint32_t> rank_;
  std::int64_t capacity_ = 0;
  std::int64_t* budget_ = nullptr;
};

}  // namespace orrery::policies
