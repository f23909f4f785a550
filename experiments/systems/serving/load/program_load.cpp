#include "experiments/systems/serving/load/program_load.hpp"

#include <fmt/format.h>

namespace orrery::experiments {
namespace {

constexpr std::int64_t kInstances = 100;  // where neither the config nor the program says

}  // namespace

std::int64_t instances_of(const ProgramsParams& params, const Program& program) {
  const std::int64_t wanted = params.instances.value_or(program.instances().value_or(kInstances));
  return std::min(wanted, program.instances().value_or(wanted));
}

ProgramLoad::ProgramLoad(const ProgramsParams& params, std::uint64_t seed, double rate_scale, Predictor predictor,
                         sim::Time warmup)
    : program_(params.does.make()),
      arrivals_(params.arrivals ? params.arrivals->make() : nullptr),
      arrival_random_(seed, "trace/arrivals"),
      program_random_(seed, "programs"),
      predictor_(std::move(predictor)),
      clients_(params.clients),
      think_time_s_(params.think_time_s),
      timeout_s_(params.timeout_s),
      rate_scale_(rate_scale),
      instances_(instances_of(params, *program_)),
      warmup_(warmup) {}

ProgramLoad::~ProgramLoad() {
  for (const sim::ProcessHandle& process : processes_) process.cancel();
}

void ProgramLoad::start(sim::Engine& engine, RequestPort& port) {
  engine_ = &engine;
  port_ = &port;
  program_->prepare(engine);
  if (arrivals_) {
    spawn("arrivals", arrive(engine));
  } else if (clients_) {
    for (std::int64_t i = 0; i < std::min(*clients_, instances_); ++i) spawn("client", client(engine));
  } else {
    while (const auto id = next_instance()) spawn("instance", instance(engine, *id));
  }
}

/// Processes may wait when the run is over (a call that never ended), which is no deadlock.
void ProgramLoad::spawn(std::string_view name, sim::Process process) {
  processes_.push_back(engine_->processes().spawn_daemon(name, std::move(process)));
}

std::optional<std::int64_t> ProgramLoad::next_instance() {
  if (next_ == instances_) return std::nullopt;
  return next_++;
}

sim::Process ProgramLoad::arrive(sim::Engine& engine) {
  std::int64_t at_ns = 0;
  while (const auto id = next_instance()) {
    at_ns = arrivals_->next(at_ns, arrival_random_);
    const sim::Time at = engine.scale().from_ns(at_ns, rate_scale_);
    if (at > engine.now()) co_await engine.delay(at - engine.now());
    spawn("instance", instance(engine, *id));
  }
}

sim::Process ProgramLoad::client(sim::Engine& engine) {
  while (const auto id = next_instance()) {
    co_await run(engine, *id);
    if (think_time_s_ > 0) co_await engine.delay(engine.scale().duration(think_time_s_));
  }
}

sim::Process ProgramLoad::instance(sim::Engine& engine, std::int64_t id) {
  co_await run(engine, id);
}

sim::Task<bool> ProgramLoad::run(sim::Engine& engine, std::int64_t id) {
  ProgramRecord& record = records_.emplace_back();
  record.id = id;
  record.started = engine.now();
  Client client(*this, record, program_random_.child(static_cast<std::uint64_t>(id)));
  if (timeout_s_) client.timeout = engine.scale().duration(*timeout_s_);
  const bool completed = co_await program_->run(engine, client);
  record.completed = completed;
  record.finished = engine.now();
  ++over_;
  co_return completed;
}

CallState& ProgramLoad::send(Call call, const policies::TextSpan& output, ProgramRecord& record,
                             std::int64_t causal_ticks) {
  CallState* state = nullptr;
  if (free_.empty()) {
    state = &states_.emplace_back(*engine_);
  } else {
    state = free_.back();
    free_.pop_back();
    state->ended.reset();
  }
  state->load = this;
  state->record = &record;
  state->call = std::move(call);
  state->output = output;
  state->causal_ticks = causal_ticks;
  state->completed = false;
  state->held = state->live = true;
  pending_.push_back(state);
  if (!flush_due_) {
    flush_due_ = true;
    engine_->schedule_in({}, *this, 0, sim::Rank::last);
  }
  return *state;
}

void ProgramLoad::on_event(std::uint64_t) {
  // Programs that go on at this very instant do so first, and whoever decides does: what is sent together, and what it
  // finds decided, does not depend on the order of events.
  if (engine_->more_now(sim::Rank::last)) {
    engine_->schedule_in({}, *this, 0, sim::Rank::last);
    return;
  }
  flush_due_ = false;
  port_->after_decisions();
  std::vector<CallState*> calls;
  calls.swap(pending_);
  for (CallState* state : calls) {
    Request& request = port_->make_request();
    std::int64_t tokens = 0;
    for (const policies::TextSpan& span : state->call.text) tokens += span.tokens;
    request.asked() = state->call.asked();
    request.prompt_tokens = std::max<std::int64_t>(1, tokens);
    if (const std::int64_t tells = predictor_.predict(request.output_tokens); tells != 0)
      request.predicted_tokens = tells;
    request.session = state->record->id;
    request.kind = state->call.kind;
    request.text = state->call.text;
    request.text.push_back(state->output);
    in_flight_.emplace(request.id, state);
    port_->send(request);
  }
  port_->flush();
}

void ProgramLoad::request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) {
  const auto found = in_flight_.find(request.id);
  if (found == in_flight_.end()) return;
  CallState& state = *found->second;
  in_flight_.erase(found);
  state.live = false;
  ProgramRecord& record = *state.record;
  ++record.calls;
  if (finished) {
    state.completed = true;
    const std::int64_t latency = (*finished - request.arrived).ticks;
    state.causal_ticks += latency;
    record.call_ticks += latency;
    record.prompt_tokens += request.prompt_tokens;
    record.cached_tokens += request.cached_tokens;
    record.output_tokens += request.output_tokens;
  }
  if (!state.held) return release(state);
  if (status != "unfinished") state.ended.set();  // else the run is over
}

void ProgramLoad::tell(std::string_view figure, double value) {
  const auto found = figures_.find(figure);
  if (found == figures_.end()) {
    figures_.emplace(figure, value);
  } else {
    found->second += value;
  }
}

ProgramMetrics ProgramLoad::finish() {
  ProgramMetrics metrics;
  metrics.started = std::ssize(records_);
  for (const ProgramRecord& record : records_) {
    metrics.records.push_back(record);
    metrics.calls += record.calls;
    metrics.prompt_tokens += record.prompt_tokens;
    metrics.cached_tokens += record.cached_tokens;
    metrics.output_tokens += record.output_tokens;
    if (!record.finished) continue;
    ++(record.completed ? metrics.completed : metrics.failed);
    if (!record.completed || record.started < warmup_) continue;
    metrics.latency.add((*record.finished - record.started).ticks);
    metrics.call_time.add(record.call_ticks);
    metrics.wait_time.add(record.wait_ticks);
    metrics.critical_path.add(record.critical_ticks);
  }
  metrics.figures = figures_;
  return metrics;
}

}  // namespace orrery::experiments
