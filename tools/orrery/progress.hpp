// Progress on stderr: a bar with rate and time left on a terminal, a plain line now and then otherwise.
#pragma once

#include <chrono>
#include <cstdint>

#include "experiments/base/experiment.hpp"

namespace orrery::tools {

class ProgressBar {
 public:
  /// Silent if `quiet`.
  explicit ProgressBar(bool quiet);
  ~ProgressBar();
  void update(const experiments::Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_, last_;
};

}  // namespace orrery::tools
