#include "traces/file_trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "traces/decimal.hpp"

namespace orrery::traces {
namespace {

constexpr const char* kSkipHint = "set on_error to \"skip\" to leave such lines out";

/// A file's lines as records, in order.
class FileTrace final : public TraceSource {
 public:
  FileTrace(const TraceParams& params, const FormatTable& formats)
      : lines_(params.path), stop_(params.on_error == OnError::stop) {
    have_line_ = next_line();
    if (!have_line_) throw_empty();
    const Format& format = choose(params, formats);
    parser_ = format.make(params);
    if (parser_->read_header(line_, lines_.here())) have_line_ = false;
    has_arrivals_ = parser_->columns().arrivals;
  }

  bool next(TraceRecord& record) override {
    while (have_line_ || next_line()) {
      have_line_ = false;
      clear_extras(record);
      if (!accept(record)) continue;
      record.line = lines_.number();
      ++records_;
      return true;
    }
    if (records_ == 0) throw_empty();
    return false;
  }

  const SkipCounts& skipped() const override { return skipped_; }
  TraceColumns columns() const override { return parser_->columns(); }
  bool any_order() const { return parser_->any_order(); }

 private:
  /// Moves to the next line that is not blank.
  bool next_line() {
    while (lines_.next(line_))
      if (!trim(line_).empty()) return true;
    return false;
  }

  const Format& choose(const TraceParams& params, const FormatTable& formats) const {
    const sim::Origin where{params.path, ""};
    if (params.format) {
      const Format* format = formats.find(*params.format);
      if (format == nullptr)
        sim::throw_fault(where, fmt::format("unknown trace format '{}'", *params.format),
                         sim::name_hint(*params.format, formats.names()));
      return *format;
    }
    const Format* format = formats.guess(line_);
    if (format == nullptr)
      sim::throw_fault(lines_.here(), fmt::format("no known trace format begins with {}", quoted(line_)),
                       fmt::format("known: {}", fmt::join(formats.names(), ", ")));
    return *format;
  }

  /// True if the current line is a good record, false if it is to be skipped; throws if faults are to stop.
  bool accept(TraceRecord& record) {
    rejection_.hint.clear();
    if (parser_->parse(line_, record, rejection_) && in_range(record) && in_order(record)) return true;
    if (stop_ && rejection_.reason != SkipReason::failed)
      sim::throw_fault(lines_.here(), rejection_.message, rejection_.hint.empty() ? kSkipHint : rejection_.hint);
    skipped_.add(rejection_.reason);
    return false;
  }

  bool in_range(const TraceRecord& record) {
    const auto tokens_ok = [this](std::int64_t tokens, const char* what) {
      if (tokens >= 1 && tokens <= kMaxTokens) return true;
      rejection_ = {
          SkipReason::bad_value, fmt::format("{} tokens: expected 1 to {}, got {}", what, kMaxTokens, tokens), {}};
      return false;
    };
    return tokens_ok(record.prompt_tokens, "prompt") && tokens_ok(record.output_tokens, "output");
  }

  bool in_order(TraceRecord& record) {
    if (!has_arrivals_) return true;
    const std::int64_t arrival = record.arrival_ns;
    if (parser_->any_order()) return true;
    if (records_ == 0) {
      if (parser_->wall_clock()) origin_ns_ = arrival;
    } else if (arrival < last_ns_) {
      rejection_ = {SkipReason::out_of_order,
                    fmt::format("trace out of order: this request arrives at {} s, the one before it at {} s",
                                format_seconds(arrival - origin_ns_), format_seconds(last_ns_ - origin_ns_)),
                    fmt::format("sort the trace by arrival, or {}", kSkipHint)};
      return false;
    }
    if (arrival - origin_ns_ < 0) {
      rejection_ = {
          SkipReason::bad_value, fmt::format("arrival: expected >= 0 s, got {} s", format_seconds(arrival)), {}};
      return false;
    }
    last_ns_ = arrival;
    record.arrival_ns = arrival - origin_ns_;
    return true;
  }

  [[noreturn]] void throw_empty() const {
    const std::int64_t left_out = skipped_.total();
    sim::throw_fault({lines_.path(), ""}, "expected at least one request, got none",
                     left_out > 0 ? fmt::format("lines left out: {}", skipped_.text()) : std::string{});
  }

  LineSource lines_;
  bool stop_;
  std::unique_ptr<LineParser> parser_;
  bool has_arrivals_ = false;
  std::string_view line_;
  bool have_line_ = false;  // line_ is read and not yet used
  Rejection rejection_;
  SkipCounts skipped_;
  std::int64_t records_ = 0;
  std::int64_t origin_ns_ = 0;
  std::int64_t last_ns_ = 0;
};

/// The records of a file in any order, by arrival and counted from the first.
class SortedTrace final : public TraceSource {
 public:
  explicit SortedTrace(std::unique_ptr<FileTrace> file) : file_(std::move(file)) {
    TraceRecord record;
    while (file_->next(record)) records_.push_back(record);
    std::stable_sort(records_.begin(), records_.end(),
                     [](const TraceRecord& a, const TraceRecord& b) { return a.arrival_ns < b.arrival_ns; });
  }

  bool next(TraceRecord& record) override {
    if (next_ == records_.size()) return false;
    record = records_[next_++];
    record.arrival_ns -= records_.front().arrival_ns;
    return true;
  }

  const SkipCounts& skipped() const override { return file_->skipped(); }
  TraceColumns columns() const override { return file_->columns(); }

 private:
  std::unique_ptr<FileTrace> file_;
  std::vector<TraceRecord> records_;
  std::size_t next_ = 0;
};

}  // namespace

void FormatTable::add(Format format) {
  if (find(format.name) != nullptr) throw std::logic_error("trace format '" + format.name + "' is registered twice");
  formats_.push_back(std::move(format));
}

const Format* FormatTable::find(std::string_view name) const {
  for (const Format& format : formats_)
    if (format.name == name) return &format;
  return nullptr;
}

const Format* FormatTable::guess(std::string_view first_line) const {
  for (const Format& format : formats_)
    if (format.matches(first_line)) return &format;
  return nullptr;
}

std::vector<std::string> FormatTable::names() const {
  std::vector<std::string> names;
  for (const Format& format : formats_) names.push_back(format.name);
  std::sort(names.begin(), names.end());
  return names;
}

TraceParams parse_trace(const sim::Node& node, const FormatTable& formats, sim::Faults& faults) {
  TraceParams params = sim::parse_params<TraceParams>(node, faults);
  check_trace(node, params, formats, faults);
  return params;
}

void check_trace(const sim::Node& node, const TraceParams& params, const FormatTable& formats, sim::Faults& faults) {
  if (params.format && formats.find(*params.format) == nullptr)
    faults.add(node.find("format")->origin(), fmt::format("unknown trace format '{}'", *params.format),
               sim::name_hint(*params.format, formats.names()));
}

std::unique_ptr<TraceSource> open_trace(const TraceParams& params, const FormatTable& formats) {
  auto file = std::make_unique<FileTrace>(params, formats);
  if (file->any_order()) return std::make_unique<SortedTrace>(std::move(file));
  return file;
}

void require_arrivals(const TraceSource& source, const std::string& path) {
  if (source.columns().arrivals) return;
  sim::throw_fault({path, ""}, "the trace has no column of arrivals",
                   "give arrivals from a generator: workload.arrivals");
}

}  // namespace orrery::traces
