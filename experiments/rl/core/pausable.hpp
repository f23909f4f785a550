// A run that stops in the middle of whatever it does, and goes on from there when it is told to.
//
// Environments are asked step by step; engines run from end to end and call policies as they go. The run has a stack of
// its own (Boost.Context), so that a policy deep inside it can give control back to whoever steps the environment: some
// 50 ns a change, no thread, no copy of the engine. A run that is dropped in the middle is unwound: destructors run.
#pragma once

#include <boost/context/fiber.hpp>
#include <exception>
#include <functional>

namespace orrery::experiments::rl {

class PausableRun {
 public:
  using Body = std::function<void(PausableRun&)>;
  /// Nothing of `body` runs before the first resume().
  explicit PausableRun(Body body);
  ~PausableRun();
  PausableRun(const PausableRun&) = delete;
  PausableRun& operator=(const PausableRun&) = delete;

  /// Runs to the next pause() or to the end: true at a pause. Throws what the body throws. Not after the end.
  bool resume();
  /// Gives control back; for the body, and whatever it calls.
  void pause();

 private:
  Body body_;
  boost::context::fiber inside_, outside_;
  std::exception_ptr error_;
  bool over_ = false;
};

}  // namespace orrery::experiments::rl
