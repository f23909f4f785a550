#include "tools/orrery/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace orrery::tools {
namespace {

std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(std::max(0.0, seconds) + 0.5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

ProgressBar::ProgressBar(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

ProgressBar::~ProgressBar() {
  if (drawn_ && terminal_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::update(const experiments::Progress& progress) {
  if (quiet_) return;
  const auto now = Clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  if (since < (terminal_ ? 0.1 : 10.0)) return;
  last_ = now;
  drawn_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(progress.done) / elapsed;
  std::string line =
      fmt::format("{} {} ({:.3g}/s), simulated {:.6g} s", progress.done, progress.what, rate, progress.simulated_s);
  if (progress.total && *progress.total > 0) {
    const double share = std::min(1.0, static_cast<double>(progress.done) / static_cast<double>(*progress.total));
    const auto filled = static_cast<std::size_t>(share * 30);
    const double left = rate > 0 ? static_cast<double>(*progress.total - progress.done) / rate : 0;
    line = fmt::format("[{}{}] {:3.0f}% {}, {} left", std::string(filled, '='), std::string(30 - filled, ' '),
                       share * 100, line, clock_text(left));
  }
  if (terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", line);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

}  // namespace orrery::tools
