// Loads that are programs: what calls a language model next depends on what has ended before.
//
// A program is a coroutine a run of it ("instance"): it sends calls, waits for their answers when it needs them, waits
// for tools and people, and ends. One kind of program is one file of this folder, registered in register.cpp:
//
//   sim::Task<bool> run(sim::Engine& engine, Client& client) override {
//     Dialogue path;
//     path.append(client.fresh(200));                                   // 200 tokens like no other text
//     Future answer = co_await client.call(engine, path.ask(100));      // sent; goes on at once
//     co_return co_await client.answer(engine, answer);                 // waits: true if it was completed
//   }
//
// What the output of a call says has a name too, so a later prompt that contains it finds its keys and values in a
// prefix cache. Every instance draws from a stream of its own, so what one asks does not depend on how fast others were
// served.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/base/types.hpp"
#include "sim/base/params.hpp"
#include "sim/base/registry.hpp"
#include "sim/process.hpp"
#include "sim/resources.hpp"
#include "sim/statistics.hpp"
#include "traces/asked.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments {

class Client;
class ProgramLoad;

/// Ids of text, by who gives them: equal ids are equal text (policies/base/types.hpp). `number` below 2^56.
enum class TextOwner : std::uint64_t { block = 1, request = 2, answer = 3, program = 4, shared = 5 };
constexpr std::uint64_t text_id(TextOwner owner, std::uint64_t number) {
  return (static_cast<std::uint64_t>(owner) << 56) | (number & ((1ULL << 56) - 1));
}

/// A distribution of token counts: log-normal with this mean and coefficient of variation; cv 0 is the mean itself.
struct TokenLaw {
  double mean = 100, cv = 0;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("mean", &TokenLaw::mean, sim::Unit::tokens, sim::between(1, 1e8), "Mean."),
                           sim::field("cv", &TokenLaw::cv, sim::Unit::ratio, sim::between(0, 10),
                                      "Coefficient of variation of a log-normal distribution; 0: always the mean.")};
  }
  /// At least 1.
  std::int64_t draw(sim::RandomStream& random) const;
};
/// The same for durations.
struct TimeLaw {
  double mean_s = 0, cv = 0;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("mean", &TimeLaw::mean_s, sim::Unit::seconds, sim::between(0, 1e9), "Mean."),
                           sim::field("cv", &TimeLaw::cv, sim::Unit::ratio, sim::between(0, 10),
                                      "Coefficient of variation of a log-normal distribution; 0: always the mean.")};
  }
  double draw_s(sim::RandomStream& random) const;
};

/// One call of the model. Its prompt is as long as its text; what it predicts is told where the run has no predictor.
struct Call : traces::Asked {
  policies::Text text;    ///< the prompt
  std::int32_t kind = 0;  ///< stage or step, for policies that look at it
};

struct ProgramRecord;

/// What the load keeps of a call.
struct CallState {
  explicit CallState(sim::Engine& engine) : ended(engine, "answer") {}
  sim::Signal ended;
  ProgramLoad* load = nullptr;
  ProgramRecord* record = nullptr;
  Call call;
  policies::TextSpan output;
  std::int64_t causal_ticks = 0;  ///< length of the chain of causes up to its start, then up to its end
  bool completed = false;
  bool held = false, live = false;  ///< by a Future; until it ends
};

/// A call that was sent. Let go of it freely: the call goes on, its answer is lost.
class Future {
 public:
  Future() = default;
  explicit Future(CallState& state) : state_(&state) {}
  Future(Future&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Future& operator=(Future&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Future();
  /// The answer as text, to stand in a later prompt.
  const policies::TextSpan& output() const { return state_->output; }

 private:
  friend Client;
  CallState* state_ = nullptr;
};

/// A prompt that grows.
class Dialogue {
 public:
  void append(const policies::TextSpan& span) {
    if (span.tokens > 0) text_.push_back(span);
  }
  std::int64_t tokens() const;
  const policies::Text& text() const { return text_; }
  Call ask(std::int64_t output_tokens, std::int32_t kind = 0) const {
    return {{.output_tokens = output_tokens}, text_, kind};
  }

 private:
  policies::Text text_;
};

/// What is known of an instance when it is over (a row of programs.csv).
struct ProgramRecord {
  std::int64_t id = 0;
  sim::Time started;
  std::optional<sim::Time> finished;
  bool completed = false;
  std::int64_t calls = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  ///< of completed calls
  std::int64_t call_ticks = 0;                                           ///< latencies of its calls, summed
  std::int64_t wait_ticks = 0;                                           ///< of tools, people and thinking, summed
  std::int64_t critical_ticks = 0;  ///< longest chain of calls and waits, each of which needs the one before
};

/// What an instance sees of the world.
class Client {
 public:
  Client(ProgramLoad& load, ProgramRecord& record, const sim::RandomStream& stream)
      : random(stream), load_(load), record_(record) {}

  /// Sends a call now. The caller goes on at once (or, if the program runs sequentially, when the call has ended).
  sim::Task<Future> call(sim::Engine& engine, Call call);
  /// Waits for the answer; true if the call was completed, false if it was rejected, or given up after `timeout`.
  sim::Task<bool> answer(sim::Engine& engine, Future& future);
  /// A call and its answer; the answer's text is appended to the dialogue.
  sim::Task<bool> ask(sim::Engine& engine, Dialogue& dialogue, std::int64_t output_tokens, std::int32_t kind = 0);
  /// Waits for something else than the model, for that long.
  sim::Task<bool> wait(sim::Engine& engine, double seconds);
  /// Waits for one of the servers of a pool, and then for it to serve.
  sim::Task<bool> use(sim::Engine& engine, sim::Server& server, double seconds);

  /// Text like no other.
  policies::TextSpan fresh(std::int64_t tokens);
  /// Text that all instances of the run share under this number.
  static policies::TextSpan shared(std::uint64_t number, std::int64_t tokens) {
    return {text_id(TextOwner::shared, number), tokens};
  }
  /// Adds to a figure of summary.json (`programs.figures`), a mean over instances.
  void tell(std::string_view figure, double value);
  std::int64_t instance() const { return record_.id; }
  sim::Time started() const { return record_.started; }
  /// Calls end before the next is sent, whatever the program would allow.
  bool sequential = false;
  std::optional<sim::Duration> timeout;  ///< of answers that are waited for
  sim::RandomStream random;              ///< of this instance

 private:
  void book_wait(sim::Duration time);
  ProgramLoad& load_;
  ProgramRecord& record_;
  std::int64_t causal_ticks_ = 0;  // of what the caller knows by now
  std::uint64_t texts_ = 0;
};

/// A kind of program. One object serves all instances of a run.
class Program {
 public:
  virtual ~Program() = default;
  /// Called once before the first instance.
  virtual void prepare(sim::Engine&) {}
  /// One instance; true if it reached its end, false if it gave up (a call was rejected).
  virtual sim::Task<bool> run(sim::Engine& engine, Client& client) = 0;
  /// How many instances there are to run, where the program itself knows (a trace of workflows).
  virtual std::optional<std::int64_t> instances() const { return {}; }
};

using ProgramRegistry = sim::Registry<Program>;
void register_programs(ProgramRegistry& registry);

/// `workload.program`: which program, how many instances of it, and what starts them.
struct ProgramsParams {
  std::optional<std::int64_t> instances;
  std::optional<std::int64_t> clients;
  double think_time_s = 0;
  std::optional<double> timeout_s;
  std::optional<traces::ArrivalRegistry::Choice> arrivals;
  ProgramRegistry::Choice does;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("instances", &ProgramsParams::instances, sim::Unit::count, sim::at_least(1),
                   "Number of runs of the program; null: 100, or as many as its trace has."),
        sim::field(
            "clients", &ProgramsParams::clients, sim::Unit::count, sim::between(1, 1e7),
            "Closed loop: this many clients, each of which starts its next instance when the last one has ended."),
        sim::field("think_time", &ProgramsParams::think_time_s, sim::Unit::seconds, sim::between(0, 1e9),
                   "Pause of a client between two instances."),
        sim::field("timeout", &ProgramsParams::timeout_s, sim::Unit::seconds, sim::positive(),
                   "Waiting time after which an answer is given up and its instance fails; the engine is not informed "
                   "and finishes the call. null: never."),
        sim::only_if_given(
            sim::choice("arrivals", &ProgramsParams::arrivals, "poisson",
                        "Open loop: when instances start. With neither this nor clients, all start at 0.")),
        sim::required(
            sim::choice("does", &ProgramsParams::does, "conversation", "The program that every instance runs."))};
  }
};

/// What the field table does not say. `node` is the section as written.
void check_programs(const sim::Node& node, const ProgramsParams& params, sim::Faults& faults);

/// Figures of a run of programs.
struct ProgramMetrics {
  std::int64_t started = 0, completed = 0, failed = 0;
  std::int64_t calls = 0, prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  sim::SampleStats latency;  ///< of completed instances past the warm-up, in ticks
  sim::SampleStats call_time, wait_time, critical_path;
  std::map<std::string, double, std::less<>> figures;  ///< sums
  std::vector<ProgramRecord> records;                  ///< in the order of their starts
};

}  // namespace orrery::experiments
