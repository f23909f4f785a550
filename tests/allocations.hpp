// Counts what the program takes from the general allocator, so that tests can show that a steady state takes nothing.
// Link orrery_allocations.
#pragma once

#include <cstdint>

namespace orrery::test {

/// Calls of operator new and of std::aligned_alloc (sim/base/pages.hpp) since the program started. Stands still in
/// sanitizer builds, which have an allocator of their own.
std::int64_t allocations();

}  // namespace orrery::test
