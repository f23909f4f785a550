// Runs programs against a cluster: starts their instances, sends their calls, books them.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "experiments/systems/serving/load/load.hpp"
#include "experiments/systems/serving/programs/program.hpp"

namespace orrery::experiments {

/// How many instances of a program start: as the config says, and no more than the program has.
std::int64_t instances_of(const ProgramsParams& params, const Program& program);

class ProgramLoad final : public Load, public sim::EventHandler {
 public:
  /// Instances that arrive before `warmup` are left out of latencies.
  ProgramLoad(const ProgramsParams& params, std::uint64_t seed, double rate_scale, Predictor predictor,
              sim::Time warmup);
  ~ProgramLoad() override;

  void start(sim::Engine& engine, RequestPort& port) override;
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override;
  /// Sends the calls of this instant, together.
  void on_event(std::uint64_t payload) override;
  bool exhausted() const override { return over_ >= instances_; }
  /// What came of it; call after the run.
  ProgramMetrics finish();

  // For Client and Future.
  CallState& send(Call call, const policies::TextSpan& output, ProgramRecord& record, std::int64_t causal_ticks);
  void release(CallState& state) { free_.push_back(&state); }
  void tell(std::string_view figure, double value);

 private:
  sim::Process arrive(sim::Engine& engine);
  sim::Process client(sim::Engine& engine);
  sim::Process instance(sim::Engine& engine, std::int64_t id);
  sim::Task<bool> run(sim::Engine& engine, std::int64_t id);
  void spawn(std::string_view name, sim::Process process);
  std::optional<std::int64_t> next_instance();

  std::unique_ptr<Program> program_;
  std::unique_ptr<traces::ArrivalProcess> arrivals_;
  sim::RandomStream arrival_random_, program_random_;
  Predictor predictor_;
  std::optional<std::int64_t> clients_;
  double think_time_s_;
  std::optional<double> timeout_s_;
  double rate_scale_;
  std::int64_t instances_;
  sim::Time warmup_;
  sim::Engine* engine_ = nullptr;
  RequestPort* port_ = nullptr;
  std::deque<CallState> states_;
  std::vector<CallState*> free_, pending_;
  bool flush_due_ = false;
  std::unordered_map<std::int64_t, CallState*> in_flight_;  // by request; never walked
  std::vector<sim::ProcessHandle> processes_;
  std::deque<ProgramRecord> records_;
  std::map<std::string, double, std::less<>> figures_;
  std::int64_t next_ = 0, over_ = 0;  // instances that started, or are about to; that have ended
};

}  // namespace orrery::experiments
