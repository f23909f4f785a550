// Traces in files: the parameters, the table of formats, and the source that turns a file's lines into records.
//
// A format is a LineParser: it reads the first line if that names columns, and makes a record of each line after it.
// What holds for every format is done here, once: decompression, line numbers, the check of tokens and of order, what
// to do with a faulty line, and the fault of a trace without a request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/fault.hpp"
#include "sim/base/params.hpp"
#include "traces/line_source.hpp"
#include "traces/trace.hpp"

namespace orrery::traces {

enum class OnError : std::uint8_t { stop, skip };
constexpr auto enum_names(OnError) {
  using enum OnError;
  return sim::names<OnError>({{"stop", stop}, {"skip", skip}});
}

enum class OnFailed : std::uint8_t { skip, error, send };
constexpr auto enum_names(OnFailed) {
  using enum OnFailed;
  return sim::names<OnFailed>({{"skip", skip}, {"error", error}, {"send", send}});
}

/// `workload.trace` of a config: which file, and how to read it.
struct TraceParams {
  std::string path;
  std::optional<std::string> format;
  OnError on_error = OnError::stop;
  OnFailed failed = OnFailed::skip;
  std::int64_t prefix_block_tokens = 512;
  static constexpr auto fields();
};

/// Why a line is no record.
struct Rejection {
  SkipReason reason = SkipReason::malformed;
  std::string message;
  std::string hint;
};

/// Reads the lines of one format. Holds no line and no file: the source gives it both.
class LineParser {
 public:
  virtual ~LineParser() = default;
  /// Sees the first line, at `where`; true if it is a header and no record. Throws sim::ConfigError if it must be one
  /// and is not, or lacks a column.
  virtual bool read_header(std::string_view line, const sim::Origin& where) = 0;
  /// Fills arrival, tokens, session and prefix of `record` (both of these are empty before), or says false and fills
  /// `rejection`. The line has LineSource::kPadding readable bytes behind it.
  virtual bool parse(std::string_view line, TraceRecord& record, Rejection& rejection) = 0;
  /// After the header.
  virtual TraceColumns columns() const = 0;
  /// True if arrivals are times of day: records then count from the first one.
  virtual bool wall_clock() const { return false; }
  /// True if lines stand in the order of something else than arrivals (a log is written as requests end): the trace is
  /// then read whole and sorted.
  virtual bool any_order() const { return false; }
};

/// One trace format.
struct Format {
  std::string name;
  std::string doc;  ///< one line
  bool (*matches)(std::string_view first_line);
  std::function<std::unique_ptr<LineParser>(const TraceParams&)> make;
};

/// The formats by name.
class FormatTable {
 public:
  /// Throws std::logic_error on a name that is taken.
  void add(Format format);
  /// The format of that name, or null.
  const Format* find(std::string_view name) const;
  /// The first format added whose `matches` accepts the first line of a file, or null.
  const Format* guess(std::string_view first_line) const;
  /// Names in sorted order.
  std::vector<std::string> names() const;
  const std::vector<Format>& all() const { return formats_; }

 private:
  std::vector<Format> formats_;
};

/// Adds every format of formats/.
void register_formats(FormatTable& table);

/// Reads `workload.trace`; an unknown format is a fault at its place in the config. Opens no file.
TraceParams parse_trace(const sim::Node& node, const FormatTable& formats, sim::Faults& faults);
/// What the field table does not say: reports an unknown format. `node` is the trace as written.
void check_trace(const sim::Node& node, const TraceParams& params, const FormatTable& formats, sim::Faults& faults);

/// Opens a trace and reads its header. Throws sim::ConfigError if the file cannot be read, has no request, lacks a
/// column, or names no known format and looks like none.
std::unique_ptr<TraceSource> open_trace(const TraceParams& params, const FormatTable& formats);

/// Throws sim::ConfigError if the records of `source`, read from `path`, carry no arrivals of their own.
void require_arrivals(const TraceSource& source, const std::string& path);

constexpr auto TraceParams::fields() {
  return sim::FieldTable{
      sim::required(sim::field("path", &TraceParams::path, sim::Unit::path, sim::any_value(),
                               "Trace file, plain or compressed with gzip or zstd.")),
      sim::annotated(sim::field("format", &TraceParams::format,
                                "Format: azure_llm, vidur, mooncake, burstgpt, vllm_log, orrery_csv or orrery_jsonl. "
                                "Null: recognised by the first line."),
                     [](sim::FieldInfo& info, const sim::RegistrySet* registries) {
                       if (registries != nullptr) info.choices = registries->get<FormatTable>().names();
                     }),
      sim::field("on_error", &TraceParams::on_error,
                 "What to do with a line that is faulty or out of order: stop and report it, or skip and count it."),
      sim::field("failed", &TraceParams::failed,
                 "Requests recorded as failed (BurstGPT, no response tokens): skip and count them, treat them as "
                 "faulty lines, or send them for one output token. They loaded the system before they failed."),
      sim::field("prefix_block_tokens", &TraceParams::prefix_block_tokens, sim::Unit::tokens, sim::between(1, 1e9),
                 "Number of tokens that a prefix block stands for (512 in Mooncake's traces).")};
}

}  // namespace orrery::traces
