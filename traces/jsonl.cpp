#include "traces/jsonl.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include "traces/decimal.hpp"

namespace orrery::traces {
namespace {

static_assert(simdjson::SIMDJSON_PADDING <= LineSource::kPadding);

/// A line that is not the JSON it should be; thrown and caught inside this file, on faulty lines only.
struct BadLine {
  SkipReason reason;
  std::string message;
  std::string hint;
};

class JsonlParser final : public LineParser {
 public:
  explicit JsonlParser(const JsonlFormat& format) : format_(format) {}

  bool read_header(std::string_view, const sim::Origin&) override { return false; }

  bool parse(std::string_view line, TraceRecord& record, Rejection& rejection) override {
    try {
      read_line(line, record);
      return true;
    } catch (const simdjson::simdjson_error& error) {
      rejection = {
          SkipReason::malformed, fmt::format("expected a JSON object, got {}: {}", quoted(line), error.what()), {}};
    } catch (const BadLine& bad) {
      rejection = {bad.reason, bad.message, bad.hint};
    }
    return false;
  }

  bool wall_clock() const override { return format_.any_order; }
  bool any_order() const override { return format_.any_order; }
  TraceColumns columns() const override {
    return {true, !format_.session.empty(), !format_.prefix.empty(), format_.extras, format_.extras, format_.extras};
  }

 private:
  using Value = simdjson::ondemand::value;

  /// Whether the key is the name, or one of "several|names".
  static bool is(std::string_view key, std::string_view names) {
    if (key == names) return true;
    for (std::size_t bar; (bar = names.find('|')) != std::string_view::npos; names.remove_prefix(bar + 1))
      if (key == names.substr(0, bar)) return true;
    return key == names;
  }

  void read_line(std::string_view line, TraceRecord& record) {
    simdjson::ondemand::document document =
        parser_.iterate(line.data(), line.size(), line.size() + LineSource::kPadding);
    bool arrival = false, prompt = false, output = false;
    for (auto member : document.get_object()) {
      const std::string_view key = member.unescaped_key();
      Value value = member.value();
      if (is(key, format_.arrival)) {
        record.arrival_ns = number(value, key, format_.arrival_shift, "a number");
        arrival = true;
      } else if (is(key, format_.prompt)) {
        record.prompt_tokens = whole(value, key, "a whole number of tokens");
        prompt = true;
      } else if (is(key, format_.output)) {
        record.output_tokens = whole(value, key, "a whole number of tokens");
        output = true;
      } else if (!format_.session.empty() && key == format_.session) {
        read_session(value, record.session);
      } else if (format_.extras && key == "priority") {
        record.priority = small(value, key, -kMaxLabel);
      } else if (format_.extras && key == "tenant") {
        record.tenant = small(value, key, 0);
      } else if (format_.extras && key == "predicted_tokens") {
        record.predicted_tokens = small(value, key, 0);
      } else if (!format_.prefix.empty() && key == format_.prefix) {
        record.prefix_blocks.clear();
        for (auto id : value.get_array())
          record.prefix_blocks.push_back(whole(id.value(), key, "an array of whole numbers"));
      }
    }
    if (document.current_location().error() == simdjson::SUCCESS)  // at the end there is no location
      throw BadLine{SkipReason::malformed, fmt::format("expected one JSON object, got more in {}", quoted(line)), {}};
    if (!arrival) missing(line, format_.arrival);
    if (!prompt) missing(line, format_.prompt);
    if (!output) missing(line, format_.output);
  }

  [[noreturn]] static void bad_value(std::string_view key, const char* expected, std::string_view got) {
    throw BadLine{SkipReason::bad_value, fmt::format("{}: expected {}, got {}", key, expected, quoted(got)), {}};
  }

  /// The digits of a number as they stand in the text, so that no double comes in between.
  static std::string_view number_text(Value value, std::string_view key, const char* expected) {
    const std::string_view text = trim(value.raw_json_token());
    if (value.type() != simdjson::ondemand::json_type::number) bad_value(key, expected, text);
    return text;
  }
  static std::int64_t number(Value value, std::string_view key, int shift, const char* expected) {
    const std::string_view text = number_text(value, key, expected);
    const std::optional<std::int64_t> parsed = parse_decimal(text, shift);
    if (!parsed) bad_value(key, expected, text);
    (void)value.get_double().value();  // moves past the number, and checks its syntax
    return *parsed;
  }
  static std::int64_t whole(Value value, std::string_view key, const char* expected) {
    const std::string_view text = number_text(value, key, expected);
    const std::optional<std::int64_t> parsed = parse_whole(text);
    if (!parsed) bad_value(key, expected, text);
    (void)value.get_double().value();
    return *parsed;
  }

  static std::int32_t small(Value value, std::string_view key, std::int64_t least) {
    const std::int64_t number = whole(value, key, "a whole number");
    if (number < least || number > kMaxLabel)
      throw BadLine{
          SkipReason::bad_value, fmt::format("{}: expected {} to {}, got {}", key, least, kMaxLabel, number), {}};
    return static_cast<std::int32_t>(number);
  }

  void read_session(Value value, std::string& session) const {
    switch (value.type()) {
      case simdjson::ondemand::json_type::null:
        session.clear();
        break;
      case simdjson::ondemand::json_type::string:
        session.assign(value.get_string().value());
        break;
      default:
        session = fmt::format("{}", whole(value, format_.session, "a string"));
        break;
    }
  }

  /// Reads the line again for its keys, to name the nearest one.
  [[noreturn]] void missing(std::string_view line, std::string_view key) {
    key = key.substr(0, key.find('|'));
    std::vector<std::string> keys;
    simdjson::ondemand::document document =
        parser_.iterate(line.data(), line.size(), line.size() + LineSource::kPadding);
    for (auto member : document.get_object()) keys.emplace_back(std::string_view(member.unescaped_key()));
    throw BadLine{SkipReason::malformed, fmt::format("missing key '{}'", key),
                  keys.empty() ? std::string{} : sim::name_hint(key, std::move(keys))};
  }

  JsonlFormat format_;
  simdjson::ondemand::parser parser_;
};

}  // namespace

bool has_key(std::string_view line, std::string_view key) {
  return trim(line).starts_with('{') && line.find(fmt::format("\"{}\"", key)) != std::string_view::npos;
}

std::unique_ptr<LineParser> make_jsonl_parser(const JsonlFormat& format) {
  return std::make_unique<JsonlParser>(format);
}

}  // namespace orrery::traces
