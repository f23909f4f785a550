// What a fuzzer drives: each target reads one input as a parser of ours would, and must end.
//
// A fault of the input is an exception that the command tells as one (tools/orrery/ending.cpp); run_target() takes
// those. Whatever else comes out ends the program, and a fuzzer keeps the input.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace orrery::fuzz {

struct Target {
  std::string_view name;  ///< of its folder of seeds too: corpus/NAME
  void (*run)(std::string_view input);
};

/// All of them, in the order of their names.
std::span<const Target> targets();
/// Null if there is none of that name.
const Target* find_target(std::string_view name);

/// Runs a target on an input whose faults may be told. What is no fault of the input goes through.
void run_target(const Target& target, std::string_view input);

/// A property that does not hold ends the program with this line.
void require(bool holds, std::string_view what);

/// The input as a file, for parsers that open one: the same path every time, in memory, rewritten. `name` is the last
/// part of the path, for parsers that look at it.
std::filesystem::path as_file(std::string_view input, std::string_view name = "input");

}  // namespace orrery::fuzz
