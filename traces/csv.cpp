#include "traces/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "traces/decimal.hpp"

namespace orrery::traces {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class CsvParser final : public LineParser {
 public:
  explicit CsvParser(const CsvFormat& format) : format_(format) {}

  bool read_header(std::string_view line, const sim::Origin& where) override {
    std::vector<std::string_view> views(
        std::max<std::size_t>(1, static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1));
    views.resize(split_csv(line, views));
    for (const std::string_view view : views) names_.emplace_back(trim(view));
    for (auto name = names_.begin(); name != names_.end(); ++name)
      if (!name->empty() && std::find(names_.begin(), name, *name) != name)
        sim::throw_fault(where, fmt::format("column '{}' is there twice", *name));
    prompt_ = column(format_.prompt, where);
    output_ = column(format_.output, where);
    arrival_ = find(format_.arrival);
    const bool slip =
        !sim::nearest_name(format_.arrival, names_).empty();  // a misspelt optional column is not "absent"
    if (arrival_ == kNone && (slip || !format_.arrival_optional)) (void)column(format_.arrival, where);
    session_ = format_.session.empty() ? kNone : find(format_.session);
    if (format_.extras) {
      prefix_ = find("prefix_blocks");
      priority_ = find("priority");
      tenant_ = find("tenant");
      predicted_ = find("predicted_tokens");
    }
    fields_.resize(names_.size());
    return true;
  }

  bool parse(std::string_view line, TraceRecord& record, Rejection& rejection) override {
    const std::size_t count = split_csv(line, fields_);
    if (count != fields_.size()) return reject_count(count, rejection);
    if (arrival_ != kNone && !read_arrival(record.arrival_ns, rejection)) return false;
    if (!read_tokens(prompt_, record.prompt_tokens, rejection) ||
        !read_tokens(output_, record.output_tokens, rejection))
      return false;
    if (format_.zero_output_is_failed && record.output_tokens == 0) {
      rejection.reason = SkipReason::failed;
      return false;
    }
    if (format_.zero_output_is_sent && record.output_tokens == 0) {
      rejection.reason = SkipReason::failed;
      if (record.prompt_tokens < 1) return false;
      record.output_tokens = 1;
    }
    if (session_ != kNone) read_session(record.session);
    return !format_.extras || read_extras(record, rejection);
  }

  TraceColumns columns() const override {
    return {.arrivals = arrival_ != kNone,
            .sessions = session_ != kNone,
            .prefixes = prefix_ != kNone,
            .priorities = priority_ != kNone,
            .tenants = tenant_ != kNone,
            .predictions = predicted_ != kNone};
  }
  bool wall_clock() const override { return format_.clock == CsvFormat::Clock::utc || format_.from_first; }
  bool any_order() const override { return format_.any_order; }

 private:
  /// The column of a name, or of the first of "several|names" that is there.
  std::size_t find(std::string_view name) const {
    while (true) {
      const std::size_t bar = std::min(name.find('|'), name.size());
      const auto found = std::find(names_.begin(), names_.end(), name.substr(0, bar));
      if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
      if (bar == name.size()) return kNone;
      name.remove_prefix(bar + 1);
    }
  }

  std::size_t column(std::string_view name, const sim::Origin& where) const {
    const std::size_t index = find(name);
    name = name.substr(0, name.find('|'));
    if (index == kNone) sim::throw_fault(where, fmt::format("missing column '{}'", name), sim::name_hint(name, names_));
    return index;
  }

  bool read_arrival(std::int64_t& arrival_ns, Rejection& rejection) const {
    const std::string_view text = fields_[arrival_];
    const bool utc = format_.clock == CsvFormat::Clock::utc;
    const std::optional<std::int64_t> value = utc ? parse_utc(text) : parse_decimal(text, 9);
    if (!value) {
      const char* expected = utc ? "a time such as 2023-11-16 18:15:46.68" : "a number of seconds";
      rejection = {
          SkipReason::bad_value, fmt::format("{}: expected {}, got {}", format_.arrival, expected, quoted(text)), {}};
      return false;
    }
    arrival_ns = *value;
    return true;
  }

  bool read_tokens(std::size_t index, std::int64_t& tokens, Rejection& rejection) const {
    const std::optional<std::int64_t> value = parse_whole(fields_[index]);
    if (!value) {
      rejection = {SkipReason::bad_value,
                   fmt::format("{}: expected a whole number of tokens, got {}", names_[index], quoted(fields_[index])),
                   {}};
      return false;
    }
    tokens = *value;
    return true;
  }

  bool read_extras(TraceRecord& record, Rejection& rejection) const {
    std::int64_t priority = 0, tenant = 0;
    if (!read_number(priority_, -kMaxLabel, priority, rejection) || !read_number(tenant_, 0, tenant, rejection) ||
        !read_number(predicted_, 0, record.predicted_tokens, rejection))
      return false;
    record.priority = static_cast<std::int32_t>(priority);
    record.tenant = static_cast<std::int32_t>(tenant);
    if (prefix_ == kNone) return true;
    std::string_view text = trim(fields_[prefix_]);
    while (!text.empty()) {
      const std::string_view id = text.substr(0, text.find(' '));
      const std::optional<std::int64_t> value = parse_whole(id);
      if (!value) {
        rejection = {
            SkipReason::bad_value, fmt::format("prefix_blocks: expected whole numbers, got {}", quoted(id)), {}};
        return false;
      }
      record.prefix_blocks.push_back(*value);
      text = trim(text.substr(id.size()));
    }
    return true;
  }

  /// An optional whole number; an empty field is 0.
  bool read_number(std::size_t index, std::int64_t least, std::int64_t& number, Rejection& rejection) const {
    if (index == kNone || trim(fields_[index]).empty()) return true;
    const std::optional<std::int64_t> value = parse_whole(fields_[index]);
    if (!value || *value < least || *value > kMaxLabel) {
      rejection = {SkipReason::bad_value,
                   fmt::format("{}: expected a whole number from {} to {}, got {}", names_[index], least, kMaxLabel,
                               quoted(fields_[index])),
                   {}};
      return false;
    }
    number = *value;
    return true;
  }

  void read_session(std::string& session) const {
    const std::string_view text = fields_[session_];
    session.assign(text);
    for (std::size_t at = 0; (at = session.find("\"\"", at)) != std::string::npos; ++at) session.erase(at, 1);
  }

  bool reject_count(std::size_t count, Rejection& rejection) const {
    rejection = {SkipReason::malformed,
                 fmt::format("expected {} fields ({}), got {}", names_.size(), fmt::join(names_, ", "), count),
                 "a stray line, or one cut off; set on_error to \"skip\" to leave such lines out"};
    return false;
  }

  CsvFormat format_;
  std::vector<std::string> names_;
  std::vector<std::string_view> fields_;
  std::size_t arrival_ = kNone, prompt_ = kNone, output_ = kNone, session_ = kNone;
  std::size_t prefix_ = kNone, priority_ = kNone, tenant_ = kNone, predicted_ = kNone;
};

}  // namespace

std::size_t split_csv(std::string_view line, std::vector<std::string_view>& out) {
  std::size_t count = 0;
  const char* at = line.data();
  const char* const stop = at + line.size();
  while (true) {
    std::string_view field;
    if (at != stop && *at == '"') {  // up to the quote that is not doubled
      const char* const start = ++at;
      while (at != stop && (*at != '"' || (at + 1 != stop && at[1] == '"'))) at += *at == '"' ? 2 : 1;
      field = {start, static_cast<std::size_t>(at - start)};
      while (at != stop && *at != ',') ++at;
    } else {
      const char* const start = at;
      while (at != stop && *at != ',') ++at;
      field = {start, static_cast<std::size_t>(at - start)};
    }
    if (count < out.size()) out[count] = field;
    ++count;
    if (at == stop) return count;
    ++at;
  }
}

bool has_columns(std::string_view line, std::initializer_list<std::string_view> names) {
  if (trim(line).starts_with('{')) return false;  // JSON, whose keys could pass for quoted columns
  std::vector<std::string_view> fields(static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1);
  fields.resize(std::min(fields.size(), split_csv(line, fields)));
  for (std::string_view& field : fields) field = trim(field);
  return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
    return std::find(fields.begin(), fields.end(), name) != fields.end();
  });
}

std::unique_ptr<LineParser> make_csv_parser(const CsvFormat& format) {
  return std::make_unique<CsvParser>(format);
}

}  // namespace orrery::traces
