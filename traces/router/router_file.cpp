// Files of router traces. Binary, all numbers little-endian:
//   "ORROUTE1"   experts u32   top_k u32   context u32   layers u32   tokens u64   scores u32 (0 or 1)
//   then for each layer: its number u32, the choices (u8 up to 256 experts, else u16), the scores (u16)
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>

#include "sim/base/fault.hpp"
#include "sim/base/input_limits.hpp"
#include "traces/line_source.hpp"
#include "traces/output_file.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::traces {
namespace {

constexpr std::string_view kMagic = "ORROUTE1";
constexpr std::int64_t kBytePerExpert = 256;  ///< up to so many experts a choice is a byte, two hex digits

[[noreturn]] void fault(const sim::Origin& where, std::string message, std::string hint = {}) {
  sim::throw_fault(where, std::move(message), std::move(hint));
}

/// The whole number that stands before (or, `after`, behind) a word of a comment: "128 experts", "contexts of 512".
std::int64_t number_beside(std::string_view text, std::string_view word, bool after) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return 0;
  std::size_t begin = at, end = at;
  if (after) {
    begin = end = at + word.size();
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  } else {
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  }
  if (begin == end || end - begin > 6) return 0;
  return std::stoll(std::string(text.substr(begin, end - begin)));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Throws if an expert is out of bounds or chosen twice; `seen` has a mark for each expert and token.
class ChoiceCheck {
 public:
  explicit ChoiceCheck(std::int64_t experts) : seen_(static_cast<std::size_t>(experts), 0) {}
  /// The fault of a token's choices; empty: none.
  std::string fault_of(std::span<const ExpertId> choices) {
    ++token_;
    for (const ExpertId e : choices) {
      if (e >= seen_.size()) return fmt::format("expected experts below {}, got {}", seen_.size(), e);
      if (seen_[e] == token_) return fmt::format("expert {} is chosen twice", e);
      seen_[e] = token_;
    }
    return {};
  }

 private:
  std::vector<std::int64_t> seen_;
  std::int64_t token_ = 0;
};

/// A CSV file: comments, a header, a line a token.
class RouterCsv {
 public:
  RouterCsv(const std::string& path, const RouterReading& reading) : lines_(path), reading_(reading) {}

  RouterTrace read() {
    std::string_view line;
    while (lines_.next(line)) {
      if (line.starts_with('#')) {
        comment(line);
      } else if (experts_column_ < 0) {
        header(line);
      } else if (!line.empty()) {
        token(line);
      }
    }
    if (experts_column_ < 0) fault({lines_.path(), ""}, "expected a column 'experts', got no header");
    return finish();
  }

 private:
  void comment(std::string_view line) {
    if (told_experts_ == 0) told_experts_ = number_beside(line, " experts", false);
    if (trace_.context == 0) trace_.context = number_beside(line, "contexts of ", true);
  }

  static std::vector<std::string_view> cells(std::string_view line) {
    std::vector<std::string_view> out;
    for (std::size_t begin = 0;;) {
      const std::size_t comma = line.find(',', begin);
      out.push_back(line.substr(begin, comma - begin));
      if (comma == std::string_view::npos) return out;
      begin = comma + 1;
    }
  }

  void header(std::string_view line) {
    const auto names = cells(line);
    columns_ = names.size();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "experts") experts_column_ = static_cast<std::ptrdiff_t>(i);
      if (names[i] == "layer") layer_column_ = static_cast<std::ptrdiff_t>(i);
    }
    if (experts_column_ < 0) fault(lines_.here(), fmt::format("expected a column 'experts', got '{}'", line));
    digits_ = std::max({told_experts_, reading_.experts, reading_.else_experts}) > kBytePerExpert ? 4 : 2;
  }

  void token(std::string_view line) {
    const auto row = cells(line);
    if (row.size() != columns_) fault(lines_.here(), fmt::format("expected {} cells, got {}", columns_, row.size()));
    std::int64_t layer = 0;
    if (layer_column_ >= 0) {
      const std::string_view text = row[static_cast<std::size_t>(layer_column_)];
      const bool number = !text.empty() && text.size() < 7 &&
                          std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
      if (!number) fault(lines_.here(), fmt::format("expected the number of a layer, got '{}'", text));
      layer = std::stoll(std::string(text));
    }
    const std::string_view hex = row[static_cast<std::size_t>(experts_column_)];
    const auto count = static_cast<std::int64_t>(hex.size()) / digits_;
    if (count == 0 || static_cast<std::int64_t>(hex.size()) % digits_ != 0)
      fault(lines_.here(), fmt::format("expected experts of {} hex digits each, got '{}'", digits_, hex));
    if (trace_.top_k == 0) trace_.top_k = count;
    if (count != trace_.top_k)
      fault(lines_.here(), fmt::format("expected {} experts as above, got {}", trace_.top_k, count));
    std::vector<ExpertId>& choices = of_layer(layer).choices;
    for (std::int64_t i = 0; i < count; ++i) {
      unsigned expert = 0;
      for (std::int64_t j = i * digits_; j < (i + 1) * digits_; ++j) {
        const int digit = hex_digit(hex[static_cast<std::size_t>(j)]);
        if (digit < 0) fault(lines_.here(), fmt::format("expected hex digits, got '{}'", hex));
        expert = expert * 16 + static_cast<unsigned>(digit);
      }
      choices.push_back(static_cast<ExpertId>(expert));
      largest_ = std::max<std::int64_t>(largest_, expert);
    }
    where_.push_back(lines_.number());
    layer_of_.push_back(layer_index_);
  }

  RouterLayer& of_layer(std::int64_t layer) {
    if (layer_index_ < trace_.layers.size() && trace_.layers[layer_index_].layer == layer)
      return trace_.layers[layer_index_];
    for (layer_index_ = 0; layer_index_ < trace_.layers.size(); ++layer_index_)
      if (trace_.layers[layer_index_].layer == layer) return trace_.layers[layer_index_];
    return trace_.layers.emplace_back(RouterLayer{.layer = layer, .choices = {}, .scores = {}});
  }

  RouterTrace finish() {
    if (trace_.layers.empty()) fault({lines_.path(), ""}, "expected at least one token, got none");
    if (reading_.context > 0) trace_.context = reading_.context;
    for (const std::int64_t told : {reading_.experts, told_experts_, reading_.else_experts})
      if (trace_.experts == 0) trace_.experts = told;
    if (trace_.experts == 0)
      trace_.experts = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(largest_ + 1)));
    std::vector<std::size_t> next(trace_.layers.size(), 0);
    ChoiceCheck check(trace_.experts);
    for (std::size_t i = 0; i < where_.size(); ++i) {
      const std::size_t l = layer_of_[i];
      const auto at = static_cast<std::int64_t>(next[l]++);
      const std::string wrong = check.fault_of(trace_.choices(l, at, at + 1));
      if (!wrong.empty()) fault({fmt::format("{}:{}", lines_.path(), where_[i]), ""}, wrong);
    }
    for (const RouterLayer& layer : trace_.layers)
      if (layer.choices.size() != trace_.layers.front().choices.size())
        fault({lines_.path(), ""}, fmt::format("expected as many tokens of layer {} as of layer {}, {}; got {}",
                                               layer.layer, trace_.layers.front().layer, trace_.tokens(),
                                               static_cast<std::int64_t>(layer.choices.size()) / trace_.top_k));
    return std::move(trace_);
  }

  LineSource lines_;
  RouterReading reading_;
  RouterTrace trace_;
  std::size_t columns_ = 0;
  std::ptrdiff_t experts_column_ = -1, layer_column_ = -1;
  std::int64_t digits_ = 2, told_experts_ = 0, largest_ = 0;
  std::size_t layer_index_ = 0;
  std::vector<std::int64_t> where_;    // line of each token …
  std::vector<std::size_t> layer_of_;  // … and its layer
};

/// Numbers out of the bytes of a file, in order.
class BinaryReader {
 public:
  explicit BinaryReader(const std::string& path) : path_(path), bytes_(open_bytes(path)) {}

  void read(char* out, std::size_t size) {
    while (size > 0) {
      const std::size_t got = bytes_->read(out, size);
      if (got == 0) fault({path_, ""}, "the router trace ends too early");
      out += got;
      size -= got;
    }
  }
  template <class T>
  T number() {
    unsigned char bytes[sizeof(T)];
    read(reinterpret_cast<char*>(bytes), sizeof(T));
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(bytes[i]) << (8 * i));
    return value;
  }
  /// So many numbers of type T, in pieces that fit the processor's cache.
  template <class T, class Each>
  void numbers(std::size_t count, Each each) {
    std::array<unsigned char, 4096 * sizeof(T)> bytes;
    while (count > 0) {
      const std::size_t now = std::min<std::size_t>(count, 4096);
      read(reinterpret_cast<char*>(bytes.data()), now * sizeof(T));
      for (std::size_t i = 0; i < now; ++i) {
        T value = 0;
        for (std::size_t b = 0; b < sizeof(T); ++b)
          value = static_cast<T>(value | static_cast<T>(bytes[i * sizeof(T) + b] << (8 * b)));
        each(value);
      }
      count -= now;
    }
  }
  std::int64_t number_in(std::string_view what, std::int64_t least, std::int64_t most) {
    const auto value = static_cast<std::int64_t>(number<std::uint32_t>());
    if (value < least || value > most)
      fault({path_, ""}, fmt::format("expected {} from {} to {}, got {}", what, least, most, value));
    return value;
  }
  bool ended() {
    char one = 0;
    return bytes_->read(&one, 1) == 0;
  }

 private:
  std::string path_;
  std::unique_ptr<ByteSource> bytes_;
};

RouterTrace read_binary(const std::string& path, const RouterReading& reading) {
  BinaryReader in(path);
  char magic[kMagic.size()];
  in.read(magic, sizeof magic);
  RouterTrace trace;
  trace.experts = in.number_in("experts", 1, kMostExpertsOfLayer);
  trace.top_k = in.number_in("experts a token", 1, trace.experts);
  trace.context = in.number_in("tokens of a text", 0, std::int64_t{1} << 31);
  const std::int64_t layers = in.number_in("layers", 1, 1 << 16);
  const auto tokens = in.number<std::uint64_t>();
  const bool scores = in.number_in("a mark of scores", 0, 1) == 1;
  const std::int64_t a_token = trace.top_k + (scores ? trace.experts : 0);
  if (tokens == 0 || tokens > static_cast<std::uint64_t>(sim::most_input_bytes() / (a_token * layers)))
    fault({path, ""}, fmt::format("{} tokens of {} layers are more than a router trace may have", tokens, layers),
          "ORRERY_INPUT_LIMIT raises the limit");
  const std::size_t choices = tokens * static_cast<std::size_t>(trace.top_k);
  ChoiceCheck check(trace.experts);
  for (std::int64_t l = 0; l < layers; ++l) {
    RouterLayer layer;
    layer.layer = in.number_in("the number of a layer", 0, 1 << 16);
    layer.choices.reserve(choices);
    const auto keep = [&](auto choice) { layer.choices.push_back(choice); };
    if (trace.experts <= kBytePerExpert)
      in.numbers<std::uint8_t>(choices, keep);
    else
      in.numbers<std::uint16_t>(choices, keep);
    if (scores)
      in.numbers<std::uint16_t>(tokens * static_cast<std::size_t>(trace.experts),
                                [&](std::uint16_t score) { layer.scores.push_back(score); });
    trace.layers.push_back(std::move(layer));
    for (std::int64_t t = 0; t < trace.tokens(); ++t) {
      const std::string wrong = check.fault_of(trace.choices(trace.layers.size() - 1, t, t + 1));
      if (!wrong.empty()) fault({path, ""}, fmt::format("layer {}, token {}: {}", trace.layers.back().layer, t, wrong));
    }
  }
  if (!in.ended()) fault({path, ""}, "expected the end of the router trace, got more bytes");
  if (reading.experts > 0 && reading.experts != trace.experts)
    fault({path, ""}, fmt::format("expected {} experts, got a trace of {}", reading.experts, trace.experts));
  if (reading.context > 0) trace.context = reading.context;
  return trace;
}

bool starts_with_magic(const std::string& path) {
  char head[kMagic.size()] = {};
  const auto bytes = open_bytes(path);
  std::size_t size = 0;
  while (size < sizeof head) {
    const std::size_t got = bytes->read(head + size, sizeof head - size);
    if (got == 0) break;
    size += got;
  }
  return std::string_view(head, size) == kMagic;
}

template <class T>
void append_number(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

void write_csv(const RouterTrace& trace, OutputFile& file) {
  std::string out = fmt::format("# router trace: {} experts", trace.experts);
  if (trace.context > 0) out += fmt::format(", contexts of {} tokens", trace.context);
  out += "\nlayer,experts\n";
  for (std::size_t l = 0; l < trace.layers.size(); ++l) {
    for (std::int64_t t = 0; t < trace.tokens(); ++t) {
      out += fmt::format("{},", trace.layers[l].layer);
      for (const ExpertId e : trace.choices(l, t, t + 1))
        out += trace.experts <= kBytePerExpert ? fmt::format("{:02x}", e) : fmt::format("{:04x}", e);
      out += '\n';
    }
    file.write(out);
    out.clear();
  }
}

void write_binary(const RouterTrace& trace, OutputFile& file) {
  const bool scores = !trace.layers.front().scores.empty();
  std::string out(kMagic);
  for (const std::int64_t value :
       {trace.experts, trace.top_k, trace.context, static_cast<std::int64_t>(trace.layers.size())})
    append_number(out, static_cast<std::uint32_t>(value));
  append_number(out, static_cast<std::uint64_t>(trace.tokens()));
  append_number(out, static_cast<std::uint32_t>(scores));
  for (const RouterLayer& layer : trace.layers) {
    append_number(out, static_cast<std::uint32_t>(layer.layer));
    for (const ExpertId e : layer.choices) {
      if (trace.experts <= kBytePerExpert) {
        out += static_cast<char>(e);
      } else {
        append_number(out, e);
      }
    }
    for (const std::uint16_t score : layer.scores) append_number(out, score);
    file.write(out);
    out.clear();
  }
}

}  // namespace

RouterTrace read_router_trace(const std::string& path, const RouterReading& reading) {
  return starts_with_magic(path) ? read_binary(path, reading) : RouterCsv(path, reading).read();
}

bool is_router_trace(const std::string& path) {
  if (starts_with_magic(path)) return true;
  LineSource lines(path);
  std::string_view line;
  while (lines.next(line))
    if (!line.starts_with('#')) return line == "experts" || line == "layer,experts" || line.ends_with(",experts");
  return false;
}

void write_router_trace(const RouterTrace& trace, const std::string& path) {
  OutputFile file(path);
  if (path.ends_with(".csv")) {
    write_csv(trace, file);
  } else {
    write_binary(trace, file);
  }
  file.finish();
}

}  // namespace orrery::traces
