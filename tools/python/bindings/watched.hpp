// Long work of the core: on a thread of its own, while the calling one tells how far it is and notices Ctrl-C.
//
// Signals come to Python's main thread alone, and that one would wait for the others; so it only watches. Works on
// several threads need no lock of the interpreter to report.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "experiments/base/experiment.hpp"
#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {

class Watched {
 public:
  /// `tell` is None or is called with the fields of a Progress, ten times a second at most.
  explicit Watched(py::object tell) : tell_(std::move(tell)) {}

  /// Runs `work` to its end. Needs the lock, and lets it go meanwhile. What `tell` raises, or a signal's handler, makes
  /// stopped() true and is raised once the work has ended; else what the work throws.
  void run(const std::function<void()>& work);

  /// For the work, from any thread.
  void report(const experiments::Progress& progress);
  bool stopped() const { return stopped_; }

 private:
  void look();

  py::object tell_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::optional<experiments::Progress> latest_;
};

}  // namespace orrery::python
