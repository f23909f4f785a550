// How a command ends: what went wrong on one line a fault, and its exit code.
#pragma once

#include "sim/base/fault.hpp"

namespace orrery::tools {

/// Tells the faults of input on stderr, a line each: the first hundred, and how many more there are.
void tell_faults(const sim::ConfigError& error);

/// Tells the exception that is being handled: 2 for faulty input, and for input that asks for more than there is
/// (memory, 64 bits, a place that can be written); 1 for what went wrong outside of it, a full disk say, and for faults
/// of ours.
int told_exception();

/// The exit code of an action that gave `code`: 1, and a line, where what it printed could not be written.
int written(int code);

}  // namespace orrery::tools
