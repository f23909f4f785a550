// Writing traces in Orrery's own formats: the same records give the same bytes, and reading them back gives the same
// records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/trace.hpp"

namespace orrery::traces {

/// What a writer wrote.
struct WrittenTrace {
  std::int64_t records = 0;
};

/// Formats that can be written: orrery_csv, orrery_jsonl.
const std::vector<std::string>& writable_formats();

/// Writes all of `source` to `path`, under a temporary name that becomes `path` when all is there. Throws
/// sim::ConfigError if the trace is faulty or has no arrivals and the format needs them (orrery_jsonl), the format
/// cannot be written, or the file cannot.
WrittenTrace write_trace(TraceSource& source, std::string_view format, const std::string& path);
/// As above, piece by piece into `sink`.
WrittenTrace write_trace(TraceSource& source, std::string_view format,
                         const std::function<void(std::string_view)>& sink);

}  // namespace orrery::traces
