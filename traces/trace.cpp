#include "traces/trace.hpp"

#include <fmt/format.h>

#include <numeric>

#include "sim/base/fault.hpp"

namespace orrery::traces {

std::int64_t SkipCounts::total() const {
  return std::accumulate(by_reason.begin(), by_reason.end(), std::int64_t{0});
}

std::string SkipCounts::text() const {
  std::string text;
  for (std::size_t i = 0; i < by_reason.size(); ++i)
    if (by_reason[i] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", by_reason[i], sim::names_of<SkipReason>[i].first);
  return text;
}

namespace {

class Rest final : public TraceSource {
 public:
  Rest(std::unique_ptr<TraceSource> source, std::int64_t count, std::string where)
      : source_(std::move(source)), left_(count), where_(std::move(where)) {}

  bool next(TraceRecord& record) override {
    const std::int64_t all = left_;
    for (; left_ > 0; --left_) {
      if (!source_->next(record))
        sim::throw_fault({where_, ""},
                         fmt::format("expected more than the {} requests that are left out, got {}", all, all - left_));
      begin_ns_ = record.arrival_ns;
    }
    if (!source_->next(record)) {
      if (first_ && all > 0)
        sim::throw_fault({where_, ""},
                         fmt::format("expected more than the {} requests that are left out, got {}", all, all));
      return false;
    }
    first_ = false;
    record.arrival_ns -= begin_ns_;
    return true;
  }
  const SkipCounts& skipped() const override { return source_->skipped(); }
  TraceColumns columns() const override { return source_->columns(); }

 private:
  std::unique_ptr<TraceSource> source_;
  std::int64_t left_, begin_ns_ = 0;
  std::string where_;
  bool first_ = true;
};

}  // namespace

std::unique_ptr<TraceSource> without_first(std::unique_ptr<TraceSource> source, std::int64_t count, std::string where) {
  return std::make_unique<Rest>(std::move(source), count, std::move(where));
}

}  // namespace orrery::traces
