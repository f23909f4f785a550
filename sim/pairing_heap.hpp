// Pairing heaps over the rows of a table: many small heaps, no storage of their own, any member can leave.
//
// A row holds `HeapLinks heap` and `bool before(const Row&) const`; a heap is the index of its root (kNoRow: empty).
// Fredman, Sedgewick, Sleator and Tarjan, "The pairing heap: a new form of self-adjusting heap", 1986. Joining costs a
// comparison, taking the root out is logarithmic in the long run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::sim {

inline constexpr std::uint32_t kNoRow = ~0U;

struct HeapLinks {
  std::uint32_t child = kNoRow;
  std::uint32_t next = kNoRow;      // sibling
  std::uint32_t previous = kNoRow;  // sibling before, or the parent of a first child
};

/// The heap of both; either may be empty.
template <class Row>
std::uint32_t heap_merge(std::vector<Row>& rows, std::uint32_t a, std::uint32_t b) {
  if (a == kNoRow) return b;
  if (b == kNoRow) return a;
  if (rows[b].before(rows[a])) std::swap(a, b);
  HeapLinks& parent = rows[a].heap;
  HeapLinks& child = rows[b].heap;
  child.next = parent.child;
  child.previous = a;
  if (parent.child != kNoRow) rows[parent.child].heap.previous = b;
  parent.child = b;
  parent.next = parent.previous = kNoRow;
  return a;
}

/// The heap with a new row in it; what stood in the row's links before does not matter.
template <class Row>
std::uint32_t heap_insert(std::vector<Row>& rows, std::uint32_t root, std::uint32_t row) {
  rows[row].heap = {};
  return heap_merge(rows, root, row);
}

/// The heap without its root.
template <class Row>
std::uint32_t heap_pop(std::vector<Row>& rows, std::uint32_t root) {
  // Children are merged in pairs, and the pairs from the last to the first.
  std::uint32_t pairs = kNoRow;
  for (std::uint32_t child = rows[root].heap.child; child != kNoRow;) {
    const std::uint32_t second = rows[child].heap.next;
    const std::uint32_t rest = second == kNoRow ? kNoRow : rows[second].heap.next;
    const std::uint32_t pair = heap_merge(rows, child, second);
    rows[pair].heap.next = pairs;
    pairs = pair;
    child = rest;
  }
  if (pairs == kNoRow) return kNoRow;
  std::uint32_t heap = pairs;
  std::uint32_t rest = rows[pairs].heap.next;
  rows[heap].heap.next = rows[heap].heap.previous = kNoRow;
  while (rest != kNoRow) {
    const std::uint32_t next = rows[rest].heap.next;
    heap = heap_merge(rows, heap, rest);
    rest = next;
  }
  return heap;
}

/// The heap without one of its rows.
template <class Row>
std::uint32_t heap_erase(std::vector<Row>& rows, std::uint32_t root, std::uint32_t row) {
  if (row == root) return heap_pop(rows, root);
  const HeapLinks links = rows[row].heap;
  HeapLinks& before = rows[links.previous].heap;
  (before.child == row ? before.child : before.next) = links.next;
  if (links.next != kNoRow) rows[links.next].heap.previous = links.previous;
  return heap_merge(rows, root, heap_pop(rows, row));
}

}  // namespace orrery::sim
