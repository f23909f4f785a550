// Where requests come from: a trace replayed, or programs that send the next request when the last one has ended.
#pragma once

#include <optional>
#include <string_view>

#include "experiments/serving/config.hpp"
#include "experiments/serving/request.hpp"
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
};

class Load {
 public:
  virtual ~Load() = default;
  /// Schedules what comes first. Called once.
  virtual void start(sim::Engine& engine, RequestPort& port) = 0;
  /// A request of this load is over (completed, rejected or unfinished at the end of the run). It may send others,
  /// now or later; the request is recycled after the call.
  virtual void request_ended(Request&, std::string_view /*status*/, std::optional<sim::Time> /*finished*/) {}
};

/// Requests at times of their own: a trace or a generator.
class TraceLoad final : public Load, public sim::EventHandler {
 public:
  TraceLoad(traces::TraceSource& source, const WorkloadParams& params)
      : source_(source), rate_scale_(params.rate_scale), limit_(params.limit) {}
  void start(sim::Engine& engine, RequestPort& port) override;
  void on_event(std::uint64_t payload) override;

 private:
  bool read_next();
  void write_text(Request& request);

  traces::TraceSource& source_;
  double rate_scale_;
  std::optional<std::int64_t> limit_;
  sim::Engine* engine_ = nullptr;
  RequestPort* port_ = nullptr;
  traces::TraceRecord record_;
  std::int64_t delivered_ = 0;
  bool deferred_ = false;
};

}  // namespace orrery::experiments
