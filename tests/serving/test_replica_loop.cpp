// A replica under a policy that does what the test says: what decisions change, what iterations book, what is told.
#include "tests/serving/replica_parts.hpp"

namespace test_replica_loop {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::BatchDecision;
using policies::BatchView;
using policies::Phase;
using policies::Preempt;
using policies::SeqId;

namespace {

using Decide = std::function<void(const BatchView&, BatchDecision&)>;

/// Decides as the test says; counts how often it was asked.
class Told final : public policies::Batching {
 public:
  explicit Told(Decide decide) : decide_(std::move(decide)) {}
  std::int64_t asked = 0;
  std::optional<std::string_view> refuses;
  void decide(const BatchView& view, BatchDecision& out) override {
    ++asked;
    decide_(view, out);
  }
  std::optional<std::string_view> reject(const policies::Sequence&, const policies::KvView&,
                                         const policies::ReplicaLimits&) const override {
    return refuses;
  }

 private:
  Decide decide_;
};

/// Everybody comes in with the whole prompt at once and then decodes; nothing changes until something ends.
void all_in(const BatchView& view, BatchDecision& out) {
  for (const SeqId id : view.waiting) {
    const std::int64_t tokens = policies::tokens_to_compute(view, id);
    out.admit.push_back({id, view[id].prefill_tokens});
    out.items.push_back({.seq = id, .new_tokens = tokens});
  }
  for (const SeqId id : view.prefilling) out.items.push_back({.seq = id, .new_tokens = view[id].prefill_left()});
  out.stable_iterations = policies::kStable;
}

/// Writes down each step that a request takes.
class Steps final : public RunObserver {
 public:
  std::vector<std::string> steps, chunks;
  std::vector<IterationRun> runs;  ///< without what they point to
  bool wants_steps() const override { return true; }
  void request_step(const RequestStep& step) override {
    steps.push_back(std::to_string(step.at.ticks) + " " + std::to_string(step.request) + " " +
                    std::string(sim::to_string(step.phase)) + " " + std::to_string(step.replica) + "/" +
                    std::to_string(step.stream));
  }
  void chunks_planned(std::int32_t stream, std::span<const ChunkStep> planned) override {
    std::string text = std::to_string(stream) + ":";
    for (const ChunkStep& chunk : planned)
      text += " " + std::to_string(chunk.request) + "x" + std::to_string(chunk.tokens);
    chunks.push_back(text);
  }
  void iterations_ended(const IterationRun& run) override { runs.push_back(run); }
};

/// A replica of index 3 and stream 5 with iterations of 10 ps, over blocks of 4 tokens.
struct Loop : sim::EventHandler {
  explicit Loop(Decide decide, const std::function<void(Loop&)>& set_up = {}) {
    auto policy = std::make_shared<Told>(std::move(decide));
    told = policy.get();
    model.horizon = 1000;
    model.cost_ps = [](const BatchShape&) { return 10; };
    parts.engine = &engine;
    parts.instants = &instants;
    parts.model = &model;
    parts.metrics = &metrics;
    parts.sink = &ends;
    parts.observer = &steps;
    parts.batching = std::move(policy);
    parts.kv = kv;
    parts.limits = {.max_context = 100, .layers = 32};
    parts.index = 3;
    parts.stream = 5;
    if (set_up) set_up(*this);
    replica = std::make_unique<Replica>(parts);
  }
  Request& ask(std::int64_t at, std::int64_t prompt, std::int64_t output) {
    Request& request = requests.emplace_back();
    request.id = std::ssize(requests) - 1;
    request.prompt_tokens = prompt;
    request.output_tokens = output;
    engine.schedule_at(sim::Time{at}, *this, static_cast<std::uint64_t>(request.id));
    return request;
  }
  void on_event(std::uint64_t number) override {
    if (number >= 1000) return actions[number - 1000]();
    Request& request = requests[number];
    request.arrived = engine.now();
    replica->submit(request);
    replica->wake();
  }
  /// Does something at that time.
  void at(std::int64_t time, std::function<void()> action) {
    actions.push_back(std::move(action));
    engine.schedule_at(sim::Time{time}, *this, 999 + actions.size());
  }
  std::int64_t last(std::int64_t id) const { return requests[static_cast<std::size_t>(id)].last_token.ticks; }

  sim::Engine engine;
  Instants instants{engine};
  FakeModel model;
  ServingMetrics metrics;
  Ends ends;
  Steps steps;
  std::shared_ptr<PlainKv> kv = std::make_shared<PlainKv>(100, 4);
  ReplicaParts parts;
  Told* told = nullptr;
  std::deque<Request> requests;
  std::vector<std::function<void()>> actions;
  std::unique_ptr<Replica> replica;
};

using Ended = std::vector<std::pair<std::int64_t, std::string>>;
using Texts = std::vector<std::string>;

constexpr const char* kBroken = "the batching policy broke its contract: ";

}  // namespace

TEST_CASE("a request that is longer than the context is rejected, one that fills it is not", "[unit]") {
  Loop loop(all_in);
  loop.ask(0, 90, 10);
  loop.ask(0, 90, 11);
  loop.engine.run();
  CHECK(loop.ends.ended == Ended{{1, "rejected:context_exceeded"}, {0, "completed"}});
  CHECK(loop.requests[1].replica == 3);
  loop.told->refuses = "too_sad";
  loop.ask(500, 1, 1);
  loop.engine.run();
  CHECK(loop.ends.ended.back() == std::pair<std::int64_t, std::string>{2, "rejected:too_sad"});
  CHECK(loop.kv->used == 0);
  CHECK(loop.replica->idle());
}

TEST_CASE("what a run of decodes books, leaping and stepping", "[unit]") {
  // Iterations of 10 ps. A: 6 prompt tokens, 8 of output; its prompt in [0,10), a token each from there on, the last
  // at 80. B: 3 and 4, its last at 40. Blocks of 4 tokens: A fills 2, its 9th token is written in [30,40), its 13th in
  // [70,80). B fills 1, its 5th token is written in [20,30).
  for (const bool leap : {true, false}) {
    CAPTURE(leap);
    Loop loop(all_in, [&](Loop& set) {
      set.parts.leap = leap;
      set.kv->splits = true;
    });
    loop.ask(0, 6, 8);
    loop.ask(0, 3, 4);
    loop.engine.run();
    CHECK(loop.ends.ended == Ended{{1, "completed"}, {0, "completed"}});
    CHECK(loop.last(0) == 80);
    CHECK(loop.last(1) == 40);
    CHECK(loop.told->asked == (leap ? 3 : 8));
    const ReplicaCounts& counts = loop.replica->counts();
    CHECK(counts.iterations == 8);
    CHECK(counts.processed_tokens == 9 + 3 * 2 + 4);
    CHECK(static_cast<std::int64_t>(counts.busy_ps) == 80);
    CHECK(counts.kv_peak_bytes == 5 * 4);  // three of A, two of B in [30,40)
    CHECK(counts.prompt_tokens == 9);
    CHECK(counts.device_tokens == 0);
    CHECK(counts.preemptions == 0);
    // Places over eight iterations: 400 each. Held: 12 in the first two, 16, 20, then A's 12 for three and 16. Tokens
    // of an iteration are those at its begin: 0, 9, 11, 13, then of A 9 to 12.
    CHECK(static_cast<std::int64_t>(counts.split.total) == 8 * 400);
    CHECK(static_cast<std::int64_t>(counts.split.token) == 0 + 9 + 11 + 13 + 9 + 10 + 11 + 12);
    // A has 13 tokens in the end, B 6: 19 together. Spare places: 12, 3, 5, 7, 3, 2, 1, 4; to come: 19, 10, 8, 6, then
    // 4, 3, 2, 1.
    CHECK(static_cast<std::int64_t>(counts.split.reserved) == 12 + 3 + 5 + 6 + 3 + 2 + 1 + 1);
    CHECK(static_cast<std::int64_t>(counts.split.internal) == 0 + 0 + 0 + 1 + 0 + 0 + 0 + 3);
    CHECK(loop.metrics.tbt.count() == 7 + 3);
    CHECK(loop.metrics.tbt.sum() == 100);
    // What is kept of each as it leaves: all that is in the cache, the last token is not.
    CHECK(loop.kv->released == std::vector<std::pair<std::int64_t, bool>>{{6, true}, {13, true}});
    CHECK(loop.kv->used == 0);
    CHECK(static_cast<std::int64_t>(loop.replica->cost().time_ps) == 80);
  }
}

TEST_CASE("whoever watches sees each iteration with what it had, leaping and stepping", "[unit]") {
  for (const bool leap : {true, false}) {
    CAPTURE(leap);
    Loop loop(all_in, [&](Loop& set) { set.parts.leap = leap; });
    loop.ask(0, 6, 8);
    loop.ask(0, 3, 4);
    loop.ask(55, 4, 1);  // waits for the iteration under way, until 60
    std::vector<IterationRecord> all;
    loop.engine.run();
    std::vector<std::string> seen;
    for (const IterationRun& run : loop.steps.runs) {
      CHECK(run.replica == 3);
      CHECK(run.stream == 5);
      CHECK(run.model == &loop.model);
      CHECK(run.shape != nullptr);
      CHECK(run.time_ps == 10);
      for (std::int64_t i = 0; i < run.count; ++i) {
        IterationRun one = run;
        if (run.count == 1 || i == 0) one.kv_growth = nullptr, one.kv_period = 0;
        const IterationRecord record = iteration(one, i, 1);
        seen.push_back(std::to_string(record.start.ticks) + "-" + std::to_string(record.end.ticks) + " " +
                       std::to_string(record.prefill_tokens) + "/" + std::to_string(record.chunks) + " " +
                       std::to_string(record.decodes) + " " + std::to_string(record.running) + "+" +
                       std::to_string(record.waiting));
      }
    }
    CHECK(seen == Texts{"0-10 9/2 0 2+0", "10-20 0/0 2 2+0", "20-30 0/0 2 2+0", "30-40 0/0 2 2+0", "40-50 0/0 1 1+0",
                        "50-60 0/0 1 1+1", "60-70 4/1 1 2+0", "70-80 0/0 1 1+0"});
    CHECK(loop.steps.chunks.front() == "5: 0x6 1x3");
    CHECK(loop.steps.steps == Texts{"0 0 prefill 3/5", "0 1 prefill 3/5", "10 0 decode 3/5", "10 1 decode 3/5",
                                    "60 2 prefill 3/5", "70 2 decode 3/5"});
    CHECK(loop.ends.ended == Ended{{1, "completed"}, {2, "completed"}, {0, "completed"}});
  }
}

TEST_CASE("whoever looks in the middle of a leap finds what is over, and the block of what has begun", "[unit]") {
  // A of 6 tokens holds 2 blocks; its 9th token is written in [30,40), which takes a third.
  for (const bool leap : {true, false}) {
    CAPTURE(leap);
    Loop loop(all_in, [&](Loop& set) { set.parts.leap = leap; });
    loop.ask(0, 6, 30);
    std::vector<std::int64_t> iterations, used, generated;
    for (const std::int64_t time : {9, 10, 29, 30, 31, 40, 45})
      loop.at(time, [&] {
        loop.replica->sync();
        const BatchView view = loop.replica->view();
        iterations.push_back(loop.replica->counts().iterations);
        used.push_back(loop.kv->used);
        generated.push_back(view.generated(view.running.front()));
      });
    loop.engine.run(sim::Time{50});
    CHECK(iterations == std::vector<std::int64_t>{0, 1, 2, 3, 3, 4, 4});
    CHECK(generated == std::vector<std::int64_t>{0, 1, 2, 3, 3, 4, 4});
    CHECK(used == std::vector<std::int64_t>{2, 2, 2, 2, 3, 3, 3});  // at 30 it is about to begin
    if (leap) CHECK(loop.told->asked == 2);
  }
}

TEST_CASE("an arrival ends a leap with the iteration under way, once", "[unit]") {
  Loop loop(all_in);
  loop.ask(0, 6, 30);
  loop.ask(34, 4, 2);
  loop.ask(36, 4, 2);
  loop.ask(50, 4, 2);  // as an iteration of prompts ends
  loop.engine.run();
  CHECK(loop.requests[1].first_token->ticks == 50);
  CHECK(loop.requests[2].first_token->ticks == 50);
  CHECK(loop.requests[3].first_token->ticks == 60);
  CHECK(loop.last(1) == 60);
  CHECK(loop.last(3) == 70);
  CHECK(loop.last(0) == 300);
  CHECK(loop.metrics.iterations == 30);
}

TEST_CASE("a replica that fails loses the iteration under way, and books its part", "[unit]") {
  for (const bool leap : {true, false}) {
    CAPTURE(leap);
    Loop loop(all_in, [&](Loop& set) {
      set.parts.leap = leap;
      set.model.cost_ps = [](const BatchShape&) { return 100; };
    });
    loop.ask(0, 6, 30);
    loop.ask(0, 2, 30);
    loop.ask(250, 5, 3);
    std::vector<Request*> gone;
    loop.at(275, [&] { gone = loop.replica->evacuate(); });
    loop.engine.run();
    // Prompts until 100, tokens at 200; 75 of [200,300) are over. The third has waited since 250.
    REQUIRE(gone == std::vector<Request*>{&loop.requests[0], &loop.requests[1], &loop.requests[2]});
    CHECK(gone[0]->generated == 2);
    CHECK(gone[0]->ready_tokens == 0);
    CHECK(gone[2]->generated == 0);
    CHECK(loop.ends.ended.empty());
    CHECK(loop.replica->counts().iterations == 2);
    CHECK(static_cast<std::int64_t>(loop.replica->counts().busy_ps) == 275);
    CHECK(static_cast<std::int64_t>(loop.replica->cost().time_ps) == 275);
    CHECK(loop.replica->idle());
    CHECK(loop.kv->used == 0);
    const IterationRun& part = loop.steps.runs.back();
    CHECK(part.start.ticks == 200);
    CHECK(part.time_ps == 75);
    CHECK(part.count == 1);
    CHECK(part.decodes == 2);
    CHECK(part.running == 2);
    CHECK(part.waiting == 1);
    CHECK(part.kv_used_bytes == (2 + 1) * 4);
    // It serves on.
    loop.ask(400, 4, 2);
    loop.engine.run();
    CHECK(loop.ends.ended == Ended{{3, "completed"}});
    CHECK(loop.last(3) == 600);
  }
}

TEST_CASE("a replica that fails between two iterations, or as one ends, has no part of one to book", "[unit]") {
  Loop loop(all_in);
  loop.ask(0, 6, 30);
  loop.at(20, [&] { CHECK(loop.replica->evacuate().size() == 1); });
  loop.engine.run();
  CHECK(loop.requests[0].generated == 2);
  CHECK(static_cast<std::int64_t>(loop.replica->counts().busy_ps) == 20);
  CHECK(loop.replica->evacuate().empty());
  // Nobody is told that it has ended; a run that is cut short tells it.
  CHECK(loop.ends.ended.empty());
  loop.ask(100, 6, 30);
  loop.at(115, [&] { loop.replica->flush_unfinished(); });
  loop.engine.run();
  CHECK(loop.ends.ended == Ended{{1, "unfinished"}});
  CHECK(loop.requests[1].generated == 1);
}

TEST_CASE("a preempted sequence starts over with what it had generated, before those that wait", "[unit]") {
  // At 30 the first has three tokens: it is preempted, 6 + 3 are prefilled again in [30,40) with the second's 5.
  bool done = false;
  Loop loop([&](const BatchView& view, BatchDecision& out) {
    if (view.now.ticks == 30 && !done) {
      done = true;
      out.preempt.push_back({.seq = view.running.front()});
      return;
    }
    all_in(view, out);
  });
  loop.ask(0, 6, 10);
  loop.ask(25, 5, 1);
  loop.engine.run();
  const Request& first = loop.requests[0];
  CHECK(first.preemptions == 1);
  CHECK(loop.replica->counts().preemptions == 1);
  CHECK(loop.steps.chunks[2] == "5: 0x9 1x5");
  CHECK(loop.kv->released.front() == std::pair<std::int64_t, bool>{8, false});
  CHECK(loop.last(0) == 100);  // no iteration was lost: ten tokens in ten iterations
  CHECK(first.admitted->ticks == 0);
  CHECK(loop.replica->counts().prompt_tokens == 11);  // first admissions alone
  CHECK(loop.metrics.processed_tokens == 6 + 2 + 9 + 5 + 6);
  CHECK(loop.steps.steps == Texts{"0 0 prefill 3/5", "10 0 decode 3/5", "30 0 preempted 3/5", "30 0 prefill 3/5",
                                  "30 1 prefill 3/5", "40 0 decode 3/5", "40 1 decode 3/5"});
}

TEST_CASE("a paused sequence keeps its place and its blocks, and goes on where it was", "[unit]") {
  // Two prompts of 8 and 6 tokens in chunks of 4; at 20 both are paused until a third is through.
  Loop loop([](const BatchView& view, BatchDecision& out) {
    const std::int64_t now = view.now.ticks;
    if (now == 20)
      for (const SeqId id : view.running) out.preempt.push_back({.seq = id, .how = Preempt::pause});
    if (now == 30) out.resume = {view.running.begin(), view.running.begin() + 2};
    for (const SeqId id : view.waiting) {
      out.admit.push_back({id, view[id].prefill_tokens});
      out.items.push_back({.seq = id, .new_tokens = 4});
    }
    if (now == 20 || now == 30) return;
    for (const SeqId id : view.prefilling)
      out.items.push_back({.seq = id, .new_tokens = std::min<std::int64_t>(4, view[id].prefill_left())});
  });
  loop.ask(0, 8, 5);
  loop.ask(0, 12, 5);
  loop.ask(15, 4, 1);
  loop.engine.run();
  CHECK(loop.steps.steps == Texts{"0 0 prefill 3/5", "0 1 prefill 3/5", "20 0 decode 3/5", "20 0 preempted 3/5",
                                  "20 1 preempted 3/5", "20 2 prefill 3/5", "30 2 decode 3/5", "30 0 decode 3/5",
                                  "30 1 prefill 3/5", "50 1 decode 3/5"});
  CHECK(loop.requests[0].preemptions == 1);
  CHECK(loop.last(0) == 70);  // tokens at 20, then 40, 50, 60, 70
  CHECK(loop.requests[1].first_token->ticks == 50);
  CHECK(loop.kv->released.size() == 3);
  CHECK(loop.metrics.processed_tokens == 8 + 12 + 4 + 4 + 4);
}

TEST_CASE("a policy cannot admit, resume or preempt who is in another state", "[unit]") {
  const auto message = [](const Decide& then) {
    Loop loop([&](const BatchView& view, BatchDecision& out) {
      if (view.now.ticks == 20) return then(view, out);
      all_in(view, out);
    });
    loop.ask(0, 6, 9);
    loop.ask(15, 6, 9);
    try {
      loop.engine.run();
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message([](const BatchView& view, BatchDecision& out) {
          out.admit = {{view.running.front(), 4}};
        }) == kBroken + std::string("it admitted a sequence that does not wait"));
  CHECK(message([](const BatchView& view, BatchDecision& out) { out.resume = {view.running.front()}; }) ==
        kBroken + std::string("it resumed a sequence that is not paused"));
  CHECK(message([](const BatchView& view, BatchDecision& out) { out.preempt = {{view.waiting.front()}}; }) ==
        kBroken + std::string("it preempted a sequence that does not run"));
  CHECK(message([](const BatchView& view, BatchDecision& out) {
          out.admit = {{view.waiting.front(), 1000}};
        }) == kBroken + std::string("it admitted a sequence whose blocks are not free"));
  CHECK(message([](const BatchView&, BatchDecision& out) { out.decode_rest = false; }) ==
        kBroken + std::string("sequences run, but none was given work"));
}

TEST_CASE("a replica of modes switches to those that it has, and stands still meanwhile", "[unit]") {
  const auto run = [](std::optional<std::int32_t> mode, std::int32_t modes) {
    Loop loop(
        [&](const BatchView& view, BatchDecision& out) {
          all_in(view, out);
          if (view.now.ticks == 20) out.mode = mode;
        },
        [&](Loop& set) {
          set.parts.limits.modes = modes;
          set.parts.leap = false;
          set.model.switch_cost_ps = 7;
        });
    loop.ask(0, 6, 5);
    try {
      loop.engine.run();
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::to_string(loop.last(0)) + " " + std::to_string(loop.replica->switches()) + " " +
           std::to_string(loop.model.shapes.back().mode);
  };
  CHECK(run(std::nullopt, 2) == "50 0 0");
  CHECK(run(0, 2) == "50 0 0");
  CHECK(run(1, 2) == "57 1 1");
  CHECK(run(2, 2) == kBroken + std::string("it switched to mode 2, there are 2"));
  CHECK(run(-1, 2) == kBroken + std::string("it switched to mode -1, there are 2"));
  CHECK(run(5, 0) == "57 1 5");  // nobody says how many there are
}

TEST_CASE("where a preemption gives fewer blocks than counted on, who was to come in waits on", "[unit]") {
  // Six blocks. The second asks for seven where the first's two come free: it stays, and so does its item.
  Loop loop(
      [](const BatchView& view, BatchDecision& out) {
        if (view.now.ticks != 20 || view.running.empty()) return all_in(view, out);
        const SeqId second = view.waiting.front();
        out.preempt = {{view.running.front()}};
        out.admit = {{second, 28}};
        out.items = {{.seq = second, .new_tokens = 4}};
      },
      [](Loop& set) { set.kv->total = 6; });
  loop.ask(0, 6, 4);
  loop.ask(15, 4, 1);
  loop.engine.run();
  CHECK(loop.metrics.processed_tokens == 6 + 1 + (6 + 2) + 4 + 1);
  CHECK(loop.requests[1].first_token->ticks == 30);
  CHECK(loop.last(0) == 40);
  CHECK(loop.ends.ended == Ended{{1, "completed"}, {0, "completed"}});
}

TEST_CASE("who can never be scheduled is rejected once nothing else runs or leaves", "[unit]") {
  Loop loop([](const BatchView& view, BatchDecision& out) {
    for (const SeqId id : view.waiting) {
      if (view[id].prompt_tokens == 50) break;
      out.admit.push_back({id, view[id].prefill_tokens});
      out.items.push_back({.seq = id, .new_tokens = view[id].prefill_tokens});
    }
  });
  loop.ask(0, 6, 3);
  loop.ask(5, 50, 3);
  loop.ask(6, 7, 1);
  loop.engine.run();
  // Until 30 the first runs; then the second goes, and the third has its turn.
  CHECK(loop.ends.ended == Ended{{0, "completed"}, {1, "rejected:unschedulable"}, {2, "completed"}});
  CHECK(loop.last(2) == 40);
  // Where blocks are set aside, they may be what it lacks.
  const auto held = loop.replica->hold(4);
  REQUIRE(held);
  CHECK(loop.kv->used == 1);
  loop.ask(100, 50, 3);
  loop.engine.run();
  CHECK(loop.ends.ended.size() == 3);
  CHECK_FALSE(loop.replica->can_begin());
  loop.replica->drop_hold(*held);
  CHECK(loop.replica->can_begin());
  loop.replica->wake();
  CHECK(loop.ends.ended.back() == std::pair<std::int64_t, std::string>{3, "rejected:unschedulable"});
  CHECK(loop.kv->released.back() == std::pair<std::int64_t, bool>{0, false});
}

TEST_CASE("blocks are set aside if there are any, those of the iteration under way not counted", "[unit]") {
  // Of 4 blocks the first holds 2; in the iteration that begins at 30 it takes a third.
  Loop loop(all_in, [](Loop& set) { set.kv->total = 4; });
  loop.ask(0, 6, 9);
  std::vector<bool> got;
  loop.at(25, [&] {
    const auto held = loop.replica->hold(9);
    got.push_back(held.has_value());
    CHECK(loop.replica->sequences().leaving() == 0);
  });
  loop.at(32, [&] {
    const auto held = loop.replica->hold(5);
    got.push_back(held.has_value());
    const auto one = loop.replica->hold(4);
    got.push_back(one.has_value());
    CHECK(loop.kv->used == 4);
    loop.replica->drop_hold(*one);
    CHECK(loop.kv->used == 3);
    loop.replica->wake();
  });
  loop.engine.run();
  CHECK(got == std::vector<bool>{false, false, true});
  CHECK(loop.last(0) == 90);
  CHECK(loop.kv->used == 0);
}

TEST_CASE("a sequence is taken out between two iterations, and leaves its blocks until it is let go", "[unit]") {
  Loop loop(all_in);
  loop.ask(0, 6, 9);
  loop.ask(0, 7, 9);
  loop.at(25, [&] {
    CHECK_THROWS_WITH(loop.replica->take_out(loop.replica->sequences().running().front()),
                      "a sequence is taken out in the middle of an iteration");
    loop.replica->ask_boundary();
  });
  struct Sink final : RequestSink {
    Loop* loop = nullptr;
    std::optional<SeqId> out;
    std::int64_t boundaries = 0;
    void request_ended(Request&, std::string_view, std::optional<sim::Time>) override {}
    void boundary(std::int32_t replica) override {
      CHECK(replica == 3);
      ++boundaries;
      if (out) return;
      CHECK(loop->engine.now().ticks == 30);
      out = loop->replica->sequences().running().front();
      Request& request = loop->replica->take_out(*out);
      CHECK(&request == &loop->requests[0]);
      CHECK(request.generated == 3);
      CHECK(request.ready_tokens == 8);
    }
  } sink;
  sink.loop = &loop;
  loop.parts.sink = &sink;
  loop.replica = std::make_unique<Replica>(loop.parts);
  loop.at(45, [&] {
    CHECK(loop.kv->used == 2 + 3);
    loop.replica->let_go(*sink.out);
    CHECK(loop.kv->used == 3);
    CHECK(loop.kv->released.back() == std::pair<std::int64_t, bool>{8, true});
    loop.replica->wake();
  });
  loop.engine.run();
  CHECK(sink.boundaries == 1);
  CHECK(loop.last(1) == 90);
  CHECK(loop.kv->used == 0);
  loop.replica->ask_boundary();  // nothing is under way: at once
  CHECK(sink.boundaries == 2);
}

TEST_CASE("proposals that are kept come at once, and no more of them than are to come", "[unit]") {
  struct Keeps final : policies::Acceptance {
    std::int64_t keeps = 2;
    std::int64_t accepted(const policies::Sequence&, std::int64_t) override { return keeps; }
  } keeps;
  const Decide drafts = [](const BatchView& view, BatchDecision& out) {
    all_in(view, out);
    for (const SeqId id : view.running)
      if (view[id].phase == Phase::decode) out.items.push_back({.seq = id, .draft_tokens = 3});
    out.decode_rest = false;
  };
  Loop loop(drafts, [&](Loop& set) { set.parts.acceptance = &keeps; });
  loop.ask(0, 6, 6);
  loop.engine.run();
  // A token at 10, three at 20, and of three at 30 the last two.
  CHECK(loop.last(0) == 30);
  CHECK(loop.metrics.verifications == 2);
  CHECK(loop.metrics.drafted_tokens == 6);
  CHECK(loop.metrics.accepted_tokens == 4);
  CHECK(loop.metrics.tbt.count() == 5);
  CHECK(loop.metrics.tbt.sum() == 10 + 10);
  CHECK(loop.kv->released == std::vector<std::pair<std::int64_t, bool>>{{6 + 3 + 2, true}});
  for (const std::int64_t wrong : {-1, 4}) {
    keeps.keeps = wrong;
    Loop other(drafts, [&](Loop& set) { set.parts.acceptance = &keeps; });
    other.ask(0, 6, 6);
    CHECK_THROWS_WITH(other.engine.run(), "an acceptance model kept more tokens than were proposed");
  }
  for (const std::int64_t edge : {0, 3}) {
    keeps.keeps = edge;
    Loop other(drafts, [&](Loop& set) { set.parts.acceptance = &keeps; });
    other.ask(0, 6, 6);
    other.engine.run();
    CHECK(other.last(0) == (edge == 0 ? 60 : 30));
  }
  // With nobody who accepts, each proposal is lost.
  Loop nobody(drafts);
  nobody.ask(0, 6, 6);
  nobody.engine.run();
  CHECK(nobody.last(0) == 60);
  CHECK(nobody.metrics.drafted_tokens == 15);
  CHECK(nobody.metrics.accepted_tokens == 0);
}

TEST_CASE("gaps count in latencies of measured requests by branch, and in verdicts of all", "[unit]") {
  const Decide single = [](const BatchView& view, BatchDecision& out) {
    all_in(view, out);
    for (const SeqId id : view.running)
      if (view[id].phase == Phase::decode) out.items.push_back({.seq = id});
  };
  for (const std::int64_t target : {9, 10}) {
    Loop loop(single, [&](Loop& set) {
      set.metrics.warmup = sim::Time{5};
      set.metrics.slo.tbt_ps = target;
    });
    loop.ask(0, 6, 3);
    loop.ask(5, 6, 3).branches = 2;
    loop.engine.run();
    CHECK(loop.metrics.tbt.count() == 4);
    CHECK(loop.metrics.tbt.sum() == 40);
    CHECK(loop.metrics.verifications == 0);  // nothing was proposed
    for (const Request& request : loop.requests) CHECK(request.tbts.attained(target) == (target == 10));
  }
}

TEST_CASE("a swapped sequence is loaded while others go on, and is told so", "[unit]") {
  // At 30 the first (8 tokens in 2 blocks) is swapped out, copies of 20 ps a block beside iterations: until 70. It is
  // admitted again at once, and is back at 110; the second decodes meanwhile.
  ToldTier tier;
  tier.beside = true;
  tier.ps_a_block = 20;
  bool done = false;
  Loop loop(
      [&](const BatchView& view, BatchDecision& out) {
        if (view.now.ticks == 30 && !done) {
          done = true;
          out.preempt.push_back({.seq = view.running.front(), .how = Preempt::swap});
          return;
        }
        all_in(view, out);
      },
      [&](Loop& set) {
        set.parts.tier = &tier;
        set.parts.leap = false;
      });
  loop.ask(0, 6, 6);
  loop.ask(0, 5, 20);
  loop.engine.run();
  CHECK(tier.told() == Texts{"out 0 8 2 1", "in 0 8 2 2", "drop 0", "drop 1"});
  CHECK(loop.steps.steps == Texts{"0 0 prefill 3/5", "0 1 prefill 3/5", "10 0 decode 3/5", "10 1 decode 3/5",
                                  "30 0 preempted 3/5", "40 0 prefill 3/5", "40 0 loading KV 3/5", "110 0 decode 3/5"});
  CHECK(loop.last(0) == 140);  // tokens 4, 5, 6
  CHECK(loop.last(1) == 200);
  CHECK(static_cast<std::int64_t>(loop.replica->counts().swap_stall_ps) == 0);
  CHECK(loop.metrics.processed_tokens == 11 + 2 * 2 + 3 + 17);  // nothing is computed twice
}

TEST_CASE("what a turn brings from a tier counts as found at its first admission", "[unit]") {
  ToldTier tier;
  tier.turns = true;
  tier.kept = 5;
  tier.ps_a_block = 3;
  Loop loop(all_in, [&](Loop& set) { set.parts.tier = &tier; });
  Request& turn = loop.ask(0, 10, 2);
  turn.session = 4;
  turn.text = {{1, 10}};
  loop.engine.run();
  CHECK(tier.told() == Texts{"claim 0 4 9", "in 0 5 2 2", "keep 0 4 11 3 2", "drop 0"});
  CHECK(turn.cached_tokens == 5);
  CHECK(loop.replica->counts().device_tokens == 0);
  CHECK(turn.first_token->ticks == 16);  // copies of 2 blocks, then 5 tokens
  CHECK(loop.metrics.processed_tokens == 5 + 1);
}

}  // namespace test_replica_loop
