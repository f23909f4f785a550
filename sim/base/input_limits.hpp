// How much one input may ask for, so that no file, however made, fills the memory or never ends. Honest files stay far
// below; the environment's ORRERY_INPUT_LIMIT, a size such as "4 GiB", raises what a whole file may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>

namespace orrery::sim {

/// Bytes of a file that is read whole: 512 MiB, or what the environment says. Throws ConfigError for a text there that
/// is no size.
std::int64_t most_input_bytes();

/// Values in one JSON document: a 128th of most_input_bytes(), 4 million.
std::int64_t most_json_values();

/// Bytes of a line of text; the field's longest, a prompt's token ids in JSON, have some 1 MB.
inline constexpr std::size_t kMostLineBytes = std::size_t{64} << 20;

/// Files that configs build on, all in all.
inline constexpr std::size_t kMostBases = 1000;

/// What a compressed stream may become: so many bytes for each that was read, and kFreeBytes more. Traces of numbers
/// shrink to a tenth, constant ones to a hundredth.
inline constexpr std::size_t kMostInflation = 500;
inline constexpr std::size_t kFreeBytes = std::size_t{64} << 20;

/// All bytes of a stream. Throws ConfigError at `name` where there are more than most_input_bytes().
std::string read_all(std::istream& in, const std::string& name);

/// All bytes of a file; `what` it should be, for messages ("JSON file"). Throws ConfigError where it cannot be read or
/// has more than most_input_bytes().
std::string read_whole(const std::filesystem::path& path, const std::string& what);

}  // namespace orrery::sim
