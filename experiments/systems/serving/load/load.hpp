// Where requests come from: a trace replayed, or programs that send the next request when the last one has ended.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/load/request.hpp"
#include "sim/base/random.hpp"
#include "sim/engine.hpp"
#include "traces/trace.hpp"

namespace orrery::experiments {

/// What takes requests: the cluster.
class RequestPort {
 public:
  virtual ~RequestPort() = default;
  /// A new request to fill in; `id` and `arrived` are set.
  virtual Request& make_request() = 0;
  /// Sends it now. Requests of one instant may be sent one after the other; call flush() after the last.
  virtual void send(Request& request) = 0;
  virtual void flush() = 0;
  /// What is sent from now on at this instant comes after its decisions; nothing else is due.
  virtual void after_decisions() {}
};

class Load {
 public:
  virtual ~Load() = default;
  /// Schedules what comes first. Called once.
  virtual void start(sim::Engine& engine, RequestPort& port) = 0;
  /// A request of this load is over (completed, rejected or unfinished at the end of the run). It may send others,
  /// now or later; the request is recycled after the call.
  virtual void request_ended(Request&, std::string_view /*status*/, std::optional<sim::Time> /*finished*/) {}
  /// Whether it sends nothing any more once what it sent is over.
  virtual bool exhausted() const { return false; }
};

/// Says how long an answer will be before it is there: its length times a log-normal error with median 1.
class Predictor {
 public:
  Predictor(const std::optional<PredictorParams>& params, std::uint64_t seed)
      : sigma_(params ? std::optional(params->sigma) : std::nullopt), random_(seed, "predictor") {}
  /// At least 1; 0 without a predictor.
  std::int64_t predict(std::int64_t tokens);

 private:
  std::optional<double> sigma_;
  sim::RandomStream random_;
};

/// Requests of a trace or a generator: at times of their own, or (`workload.clients`) one after the other from as many
/// clients, each of which sends its next when the last has ended.
///
/// Texts: a record with prefix blocks says so itself. A record with a session is a turn of a conversation: a prompt
/// longer than all that was said before holds that at its head, answers included; a shorter one is like no other. What
/// has neither is like no other either, and costs no memory.
class TraceLoad final : public Load, public sim::EventHandler {
 public:
  TraceLoad(traces::TraceSource& source, const WorkloadParams& params, Predictor predictor,
            std::int64_t block_tokens = 512)
      : source_(source),
        rate_scale_(params.rate_scale),
        limit_(params.limit),
        clients_(params.clients),
        think_time_s_(params.think_time_s),
        predictor_(std::move(predictor)),
        block_tokens_(block_tokens) {}
  void start(sim::Engine& engine, RequestPort& port) override;
  void on_event(std::uint64_t payload) override;
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override;
  bool exhausted() const override { return exhausted_; }

 private:
  struct Session {
    std::int64_t index = 0, tokens = 0;
    policies::Text text;  // of all turns so far
  };
  bool read_next();
  bool read();
  void send();
  void send_for_client();
  void write_text(Request& request);
  void write_turn(Request& request);

  traces::TraceSource& source_;
  double rate_scale_;
  std::optional<std::int64_t> limit_, clients_;
  double think_time_s_;
  Predictor predictor_;
  std::int64_t block_tokens_;
  std::unordered_map<std::string, Session> sessions_;  // never walked
  sim::Engine* engine_ = nullptr;
  RequestPort* port_ = nullptr;
  traces::TraceRecord record_;
  std::int64_t delivered_ = 0;
  bool exhausted_ = false;  // there is no further record
};

}  // namespace orrery::experiments
