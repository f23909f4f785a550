// Counts what the program takes from the general allocator, so that tests can show that a steady state takes nothing.
#pragma once

#include <cstdint>

namespace orrery::test {

/// Calls of operator new since the program started.
std::int64_t allocations();

}  // namespace orrery::test
