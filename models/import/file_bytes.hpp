// Whole files as bytes, gunzipped on the way where they are gzip.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace orrery::models {

/// Contents of `file`, with `padding` zero bytes of room after them (not counted in size(), but readable). Throws
/// sim::ConfigError that names the file if it cannot be read or is damaged.
std::string read_bytes(const std::filesystem::path& file, std::size_t padding = 0);

}  // namespace orrery::models
