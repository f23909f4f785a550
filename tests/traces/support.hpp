// What the tests of traces share: literal trace files in a scratch folder, and short ways to read them.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/file_trace.hpp"
#include "traces/generator.hpp"

namespace orrery::traces::test {

/// A folder that is gone when the test ends.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path(std::string_view name) const;
  /// Writes a file and returns its path.
  std::string file(std::string_view name, std::string_view content) const;

 private:
  std::string folder_;
};

std::string read_bytes(const std::string& path);
std::string gzip(std::string_view content);
std::string zstd(std::string_view content);

FormatTable all_formats();
sim::RegistrySet all_registries();

/// All records of a trace.
std::vector<TraceRecord> read_all(TraceSource& source);
std::vector<TraceRecord> read_all(const TraceParams& params);
/// Records as text, "arrival_ns/prompt/output" each, for short comparisons.
std::vector<std::string> short_form(const std::vector<TraceRecord>& records);

/// Text of the ConfigError that `run` throws; "nothing thrown" if none.
std::string fault_of(const std::function<void()>& run);
/// The same for reading a whole trace.
std::string fault_of(const TraceParams& params);

/// Reads a generator from JSON text; throws its faults.
GeneratorParams generator(std::string_view json);

}  // namespace orrery::traces::test
