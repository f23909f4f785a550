#include "experiments/base/buffer_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "experiments/base/text_file.hpp"
#include "traces/csv.hpp"
#include "traces/decimal.hpp"
#include "traces/line_source.hpp"

namespace orrery::experiments {
namespace {

constexpr std::size_t kMostFaults = 20;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
// Sizes and offsets of a plan are sums of bytes: this leaves room for a million of them in 64 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 42;

enum Column : std::size_t { kId, kLower, kUpper, kSize, kAlignment, kColumns };
constexpr std::array<const char*, kColumns> kNames{"id", "lower", "upper", "size", "alignment"};

class Reader {
 public:
  explicit Reader(const std::string& path) : lines_(path) {}

  BufferTable read() {
    std::string_view line;
    if (!lines_.next(line))
      sim::throw_fault({lines_.path(), ""}, "expected a header (id,lower,upper,size), got nothing");
    read_header(line);
    while (lines_.next(line) && faults_.size() < kMostFaults)
      if (!traces::trim(line).empty()) read_row(line);
    faults_.throw_if_any();
    return std::move(table_);
  }

 private:
  void read_header(std::string_view line) {
    fields_.resize(static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1);
    fields_.resize(traces::split_csv(line, fields_));
    for (const std::string_view field : fields_) names_.emplace_back(traces::trim(field));
    for (std::size_t c = 0; c < kColumns; ++c) {
      const auto found = std::find(names_.begin(), names_.end(), kNames[c]);
      at_[c] = found == names_.end() ? kNone : static_cast<std::size_t>(found - names_.begin());
      if (at_[c] == kNone && c != kAlignment)
        faults_.add(lines_.here(), fmt::format("missing column '{}'", kNames[c]), sim::name_hint(kNames[c], names_));
    }
    faults_.throw_if_any();
  }

  void read_row(std::string_view line) {
    const std::size_t count = traces::split_csv(line, fields_);
    if (count != names_.size()) {
      faults_.add(lines_.here(),
                  fmt::format("expected {} fields ({}), got {}", names_.size(), fmt::join(names_, ", "), count));
      return;
    }
    const std::size_t before = faults_.size();
    policies::Buffer buffer{.begin = number(kLower), .end = number(kUpper), .bytes = number(kSize)};
    if (at_[kAlignment] != kNone) buffer.alignment = number(kAlignment);
    std::string id(traces::trim(fields_[at_[kId]]));
    const auto [first, is_new] = lines_by_id_.emplace(id, lines_.number());
    if (!is_new) faults_.add(lines_.here(), fmt::format("id: '{}' stands on line {} too", id, first->second));
    if (faults_.size() == before)
      if (const auto fault = policies::buffer_fault(std::span(&buffer, 1), 0)) faults_.add(lines_.here(), *fault);
    table_.ids.push_back(std::move(id));
    table_.buffers.push_back(buffer);
  }

  std::int64_t number(Column column) {
    const std::string_view text = traces::trim(fields_[at_[column]]);
    const auto value = traces::parse_whole(text);
    if (value && *value >= 0 && *value <= kMost) return *value;
    faults_.add(lines_.here(), fmt::format("{}: expected a whole number from 0 to 2^42, got {}", kNames[column],
                                           traces::quoted(text)));
    return 0;
  }

  traces::LineSource lines_;
  std::vector<std::string> names_;
  std::vector<std::string_view> fields_;
  std::array<std::size_t, kColumns> at_{};
  std::map<std::string, std::int64_t> lines_by_id_;
  sim::Faults faults_;
  BufferTable table_;
};

}  // namespace

BufferTable read_buffers(const std::string& path) {
  return Reader(path).read();
}

std::string plan_csv(const BufferTable& table, const policies::Plan& plan) {
  std::string out = "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < table.buffers.size(); ++i) {
    const policies::Buffer& buffer = table.buffers[i];
    append(out, "{},{},{},{},{}\n", table.ids[i], buffer.begin, buffer.end, buffer.bytes, plan.offsets[i]);
  }
  return out;
}

}  // namespace orrery::experiments
