#include "experiments/systems/serving/load/load.hpp"

#include <algorithm>

#include "experiments/systems/serving/programs/program.hpp"
#include "sim/base/math.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments {

std::int64_t Predictor::predict(std::int64_t tokens) {
  if (!sigma_) return 0;
  if (*sigma_ == 0) return tokens;
  return traces::to_tokens(static_cast<double>(tokens) * sim::det_exp(*sigma_ * random_.normal()));
}

void TraceLoad::start(sim::Engine& engine, RequestPort& port) {
  engine_ = &engine;
  port_ = &port;
  if (!clients_) {
    read_next();
    return;
  }
  for (std::int64_t i = 0; i < *clients_; ++i) engine.schedule_in({}, *this, 0, sim::Rank::late);
}

void TraceLoad::on_event(std::uint64_t) {
  if (clients_) return send_for_client();
  // All requests of one instant reach the replicas before any of them decides.
  do send();
  while (read_next());
  port_->flush();
}

void TraceLoad::send_for_client() {
  if (!read()) return;
  send();
  port_->flush();
}

void TraceLoad::request_ended(Request&, std::string_view status, std::optional<sim::Time>) {
  if (!clients_ || status == "unfinished") return;
  engine_->schedule_in(engine_->scale().duration(think_time_s_), *this, 0, sim::Rank::late);
}

void TraceLoad::send() {
  Request& request = port_->make_request();
  request.asked() = record_.asked();
  if (request.predicted_tokens <= 0) request.predicted_tokens = predictor_.predict(request.output_tokens);
  if (!record_.session.empty() || !record_.prefix_blocks.empty()) write_text(request);
  ++delivered_;
  port_->send(request);
}

void TraceLoad::write_text(Request& request) {
  if (record_.prefix_blocks.empty()) return write_turn(request);
  if (!record_.session.empty()) {
    const auto [session, is_new] = sessions_.try_emplace(record_.session);
    if (is_new) session->second.index = std::ssize(sessions_) - 1;
    request.session = session->second.index;
  }
  std::int64_t left = request.prompt_tokens;
  for (const std::int64_t block : record_.prefix_blocks) {
    const std::int64_t tokens = std::min(left, block_tokens_);
    if (tokens == 0) break;
    request.text.push_back({text_id(TextOwner::block, static_cast<std::uint64_t>(block)), tokens});
    left -= tokens;
  }
  const auto number = static_cast<std::uint64_t>(delivered_);
  if (left > 0) request.text.push_back({text_id(TextOwner::request, number), left});
  request.text.push_back({text_id(TextOwner::answer, number), request.output_tokens});
}

void TraceLoad::write_turn(Request& request) {
  const auto [entry, is_new] = sessions_.try_emplace(record_.session);
  Session& session = entry->second;
  if (is_new) session.index = std::ssize(sessions_) - 1;
  request.session = session.index;
  if (request.prompt_tokens <= session.tokens) {  // its head was cut off, or it is another conversation by that name
    session.text.clear();
    session.tokens = 0;
  }
  const auto number = static_cast<std::uint64_t>(delivered_);
  session.text.push_back({text_id(TextOwner::request, number), request.prompt_tokens - session.tokens});
  session.text.push_back({text_id(TextOwner::answer, number), request.output_tokens});
  session.tokens = request.prompt_tokens + request.output_tokens;
  request.text = session.text;
}

/// Reads the next record, if there is one.
bool TraceLoad::read() {
  exhausted_ = exhausted_ || (limit_ && delivered_ >= *limit_) || !source_.next(record_);
  return !exhausted_;
}

/// Reads the next request; true if it arrives now, else its arrival is scheduled (if there is one).
bool TraceLoad::read_next() {
  if (!read()) return false;
  const sim::Time at = engine_->scale().from_ns(record_.arrival_ns, rate_scale_);
  if (delivered_ > 0 && at <= engine_->now()) return true;
  engine_->schedule_at(at, *this, 0, sim::Rank::late);
  return false;
}

}  // namespace orrery::experiments
