#include "experiments/rl/core/pausable.hpp"

#include <boost/context/fixedsize_stack.hpp>
#include <stdexcept>
#include <utility>

namespace orrery::experiments::rl {
namespace {

constexpr std::size_t kStackBytes = 1 << 20;  // touched pages only take memory

}  // namespace

PausableRun::PausableRun(Body body) : body_(std::move(body)) {
  inside_ = boost::context::fiber(std::allocator_arg, boost::context::fixedsize_stack(kStackBytes),
                                  [this](boost::context::fiber&& caller) {
                                    outside_ = std::move(caller);
                                    try {
                                      body_(*this);
                                    } catch (const boost::context::detail::forced_unwind&) {
                                      throw;  // the run is being dropped
                                    } catch (...) {
                                      error_ = std::current_exception();
                                    }
                                    over_ = true;
                                    return std::move(outside_);
                                  });
}

PausableRun::~PausableRun() = default;

bool PausableRun::resume() {
  if (over_) throw std::logic_error("a run that is over cannot go on");
  inside_ = std::move(inside_).resume();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return !over_;
}

void PausableRun::pause() {
  outside_ = std::move(outside_).resume();
}

}  // namespace orrery::experiments::rl
