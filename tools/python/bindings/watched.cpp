#include "tools/python/bindings/watched.hpp"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace orrery::python {

void Watched::report(const experiments::Progress& progress) {
  const std::lock_guard lock(mutex_);
  latest_ = progress;
}

/// Signals and progress; throws what Python raises.
void Watched::look() {
  std::optional<experiments::Progress> latest;
  {
    const std::lock_guard lock(mutex_);
    latest = std::exchange(latest_, std::nullopt);
  }
  const py::gil_scoped_acquire interpreter;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  if (latest && !tell_.is_none()) tell_(latest->done, latest->total, latest->simulated_s, latest->what);
}

void Watched::run(const std::function<void()>& work) {
  std::exception_ptr raised, thrown;
  {
    const py::gil_scoped_release release;
    std::thread worker([&] {
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      done_ = true;
      ended_.notify_all();
    });
    for (bool done = false; !done;) {
      {
        std::unique_lock lock(mutex_);
        done = ended_.wait_for(lock, std::chrono::milliseconds(100), [&] { return done_; });
      }
      if (stopped_) continue;
      try {
        look();
      } catch (...) {
        raised = std::current_exception();
        stopped_ = true;
      }
    }
    worker.join();
  }
  if (raised) std::rethrow_exception(raised);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace orrery::python
