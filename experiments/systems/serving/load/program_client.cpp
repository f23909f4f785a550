#include <algorithm>
#include <cmath>

#include "experiments/systems/serving/load/program_load.hpp"
#include "sim/base/math.hpp"
#include "sim/when.hpp"

namespace orrery::experiments {
namespace {

/// A log-normal draw of this mean and coefficient of variation.
double draw_law(double mean, double cv, sim::RandomStream& random) {
  if (cv == 0 || mean == 0) return mean;
  const double variance = sim::det_log1p(cv * cv);
  return random.log_normal(sim::det_log(mean) - variance / 2, std::sqrt(variance));
}

}  // namespace

std::int64_t TokenLaw::draw(sim::RandomStream& random) const {
  return traces::to_tokens(draw_law(mean, cv, random));
}

double TimeLaw::draw_s(sim::RandomStream& random) const {
  return draw_law(mean_s, cv, random);
}

std::int64_t Dialogue::tokens() const {
  std::int64_t sum = 0;
  for (const policies::TextSpan& span : text_) sum += span.tokens;
  return sum;
}

Future::~Future() {
  if (state_ == nullptr) return;
  state_->held = false;
  if (!state_->live) state_->load->release(*state_);
}

sim::Task<Future> Client::call(sim::Engine&, Call call) {
  const policies::TextSpan output{text_id(TextOwner::answer, (static_cast<std::uint64_t>(record_.id) << 24) | texts_++),
                                  call.output_tokens};
  Future future(load_.send(std::move(call), output, record_, causal_ticks_));
  if (sequential) co_await future.state_->ended.wait();
  co_return future;
}

sim::Task<bool> Client::answer(sim::Engine& engine, Future& future) {
  if (timeout) {
    const auto first = co_await sim::when_any(future.state_->ended.wait(), engine.delay(*timeout));
    if (first.index == 1) {
      tell("timeouts", 1);
      co_return false;
    }
  } else {
    co_await future.state_->ended.wait();
  }
  causal_ticks_ = std::max(causal_ticks_, future.state_->causal_ticks);
  record_.critical_ticks = std::max(record_.critical_ticks, causal_ticks_);
  co_return future.state_->completed;
}

sim::Task<bool> Client::ask(sim::Engine& engine, Dialogue& dialogue, std::int64_t output_tokens, std::int32_t kind) {
  Future future = co_await call(engine, dialogue.ask(output_tokens, kind));
  const bool completed = co_await answer(engine, future);
  dialogue.append(future.output());
  co_return completed;
}

sim::Task<bool> Client::wait(sim::Engine& engine, double seconds) {
  const sim::Time since = engine.now();
  if (seconds > 0) co_await engine.delay(engine.scale().duration(seconds));
  book_wait(engine.now() - since);
  co_return true;
}

sim::Task<bool> Client::use(sim::Engine& engine, sim::Server& server, double seconds) {
  const sim::Time since = engine.now();
  co_await server.use(engine.scale().duration(seconds));
  book_wait(engine.now() - since);
  co_return true;
}

void Client::book_wait(sim::Duration time) {
  record_.wait_ticks += time.ticks;
  causal_ticks_ += time.ticks;
  record_.critical_ticks = std::max(record_.critical_ticks, causal_ticks_);
}

policies::TextSpan Client::fresh(std::int64_t tokens) {
  return {text_id(TextOwner::program, (static_cast<std::uint64_t>(record_.id) << 24) | texts_++), tokens};
}

void Client::tell(std::string_view figure, double value) {
  load_.tell(figure, value);
}

}  // namespace orrery::experiments
