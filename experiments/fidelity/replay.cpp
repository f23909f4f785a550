#include "experiments/fidelity/replay.hpp"

#include <cmath>

#include "experiments/systems/serving/observe/metrics.hpp"
#include "experiments/systems/serving/replica/lock_step.hpp"
#include "experiments/systems/serving/replica/replica.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {
namespace {

class Rig final : public RequestSink, public sim::EventHandler {
 public:
  Rig(const ReplayParts& parts, const std::vector<ReplayRequest>& requests)
      : requests_(requests), live_(requests.size()), times_(requests.size()) {
    for (std::int64_t i = 0; i < parts.replicas; ++i) {
      ReplicaParts own;
      own.engine = &engine_;
      own.instants = &instants_;
      own.model = parts.model;
      own.metrics = &metrics_;
      own.sink = this;
      own.host = parts.host;
      own.batching = parts.batching.make();
      own.kv = parts.kvcache.make(parts.geometry);
      own.limits = parts.limits;
      own.leap = parts.leap;
      own.index = static_cast<std::int32_t>(i);
      if (parts.lock_step) own.lock_step = &lock_step_;
      replicas_.push_back(std::make_unique<Replica>(std::move(own)));
      if (parts.lock_step) lock_step_.add(*replicas_.back());
    }
    request_ps_ = parts.host == nullptr ? 0 : std::llround(parts.host->request_s() * 1e12);
    next_.assign(requests.size(), 0);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].after) {
        next_[*requests[i].after] = i;
      } else {
        send(i);
      }
    }
  }

  std::vector<std::optional<ReplayTimes>> run() {
    engine_.run(sim::kNever);
    return std::move(times_);
  }

  void on_event(std::uint64_t payload) override {
    const auto i = static_cast<std::size_t>(payload);
    Request& request = live_[i];
    request.id = static_cast<std::int64_t>(payload);
    request.arrived = engine_.now() - sim::Duration{request_ps_};
    request.prompt_tokens = requests_[i].prompt_tokens;
    request.output_tokens = requests_[i].output_tokens;
    request.text = {{payload + 1, request.prompt_tokens + request.output_tokens}};
    Replica& replica = *replicas_[i % replicas_.size()];
    replica.submit(request);
    replica.wake();
  }

  void request_ended(Request& request, std::string_view, std::optional<sim::Time> finished) override {
    if (const std::size_t next = next_[static_cast<std::size_t>(request.id)]; next > 0) send(next);
    if (!finished || !request.first_token) return;
    const auto seconds = [&](sim::Time at) { return static_cast<double>((at - request.arrived).ticks) * 1e-12; };
    times_[static_cast<std::size_t>(request.id)] = {seconds(*request.first_token), seconds(*finished),
                                                    request.preemptions};
  }

 private:
  /// Its client sends it so long from now.
  void send(std::size_t i) {
    const auto delay = static_cast<std::int64_t>(std::llround(requests_[i].arrived_s * 1e12)) + request_ps_;
    engine_.schedule_at(engine_.now() + sim::Duration{delay}, *this, i);
  }

  const std::vector<ReplayRequest>& requests_;
  sim::Engine engine_{1, sim::TickScale{1}};
  Instants instants_{engine_};
  LockStep lock_step_{instants_};
  ServingMetrics metrics_;
  std::int64_t request_ps_ = 0;  ///< before the scheduler sees a request
  std::vector<Request> live_;
  std::vector<std::size_t> next_;  ///< of the same client; 0: none
  std::vector<std::optional<ReplayTimes>> times_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace

std::vector<std::optional<ReplayTimes>> replay(const ReplayParts& parts, const std::vector<ReplayRequest>& requests) {
  return Rig(parts, requests).run();
}

}  // namespace orrery::experiments
