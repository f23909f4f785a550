#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "experiments/base/text_file.hpp"
#include "experiments/systems/training/summary.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments::training {

void write_passes(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result) {
  const sim::TickScale scale = tick_scale(config.params.run.tick_s);
  BufferedFile file(path);
  file.buffer() += "stage,chunk,micro_batch,kind,start_s,end_s\n";
  file.line_done();
  for (const PassRun& run : result.run.passes) {
    std::string& out = file.buffer();
    append(out, "{},{},{},{},", run.stage, run.pass.chunk, run.pass.micro_batch, sim::to_string(run.pass.kind));
    append_seconds(out, run.start, scale);
    out += ',';
    append_seconds(out, run.end, scale);
    out += '\n';
    file.line_done();
  }
  file.close();
}

void write_activations(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result) {
  const sim::TickScale scale = tick_scale(config.params.run.tick_s);
  BufferedFile file(path);
  file.buffer() += "stage,time_s,kept_bytes\n";
  file.line_done();
  const auto stages = kept_over_time(result.costs, result.run.passes);
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const KeptBytes& held : stages[s]) {
      std::string& out = file.buffer();
      append(out, "{},", s);
      append_seconds(out, held.at, scale);
      append(out, ",{}\n", held.bytes);
      file.line_done();
    }
  file.close();
}

void write_stages(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result) {
  const sim::TickScale scale = tick_scale(config.params.run.tick_s);
  BufferedFile file(path);
  file.buffer() +=
      "stage,layers,parameters,forward_s,backward_s,busy_s,gradients_s,optimizer_s,weight_bytes,gradient_bytes,"
      "optimizer_bytes,activation_bytes,working_bytes,buffer_bytes,host_weight_bytes,host_gradient_bytes,host_"
      "optimizer_bytes,host_activation_bytes,passes_end_s,gradients_end_s,end_s\n";
  file.line_done();
  for (std::size_t s = 0; s < result.costs.stages.size(); ++s) {
    const StageCosts& stage = result.costs.stages[s];
    const StageMemory& memory = result.memory[s];
    append(file.buffer(), "{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{},{},{},{},{},{},{},{},{},{}", s,
           result.layers[s], stage.parameters, stage.forward_s(), stage.backward_s(), result.run.busy_s[s],
           stage.gradients_s, stage.optimizer_s + stage.gathers_s, memory.weights, memory.gradients, memory.optimizer,
           memory.activations, memory.working, memory.buffers, stage.host_weight_bytes, stage.host_gradient_bytes,
           stage.host_state_bytes, result.run.peak_host_bytes[s]);
    for (const sim::Time end : {result.run.passes_end[s], result.run.gradients_end[s], result.run.end[s]}) {
      file.buffer() += ',';
      append_seconds(file.buffer(), end, scale);
    }
    file.buffer() += '\n';
    file.line_done();
  }
  file.close();
}

namespace {

using policies::PassKind;

/// Whether a pass makes, or waits for, what goes that way between stages.
bool goes(const PassRun& run, bool forward) {
  if (forward) return run.pass.kind == PassKind::forward;
  return run.pass.kind == PassKind::backward || run.pass.kind == PassKind::backward_input;
}

/// The passes of every stage, micro-batch and direction in order of their start, by number.
class PassIndex {
 public:
  explicit PassIndex(const std::vector<PassRun>& passes) : passes_(passes) {
    for (std::size_t i = 0; i < passes.size(); ++i)
      for (const bool forward : {true, false})
        if (goes(passes[i], forward)) by_[{passes[i].stage, passes[i].pass.micro_batch, forward}].push_back(i);
    for (auto& [key, of] : by_)
      std::sort(of.begin(), of.end(), [&](std::size_t a, std::size_t b) { return passes[a].start < passes[b].start; });
  }

  /// The last pass that had ended when the message left; none where there was none.
  std::optional<std::size_t> sender(const MessageRun& message) const {
    std::optional<std::size_t> found;
    for (const std::size_t i : of(message.from, message))
      if (passes_[i].end <= message.start) found = i;
    return found;
  }
  /// The first that began once it was there.
  std::optional<std::size_t> receiver(const MessageRun& message) const {
    for (const std::size_t i : of(message.to, message))
      if (passes_[i].start >= message.end) return i;
    return {};
  }

 private:
  std::span<const std::size_t> of(std::int32_t stage, const MessageRun& message) const {
    const auto found = by_.find({stage, message.micro_batch, message.forward});
    return found == by_.end() ? std::span<const std::size_t>{} : std::span<const std::size_t>(found->second);
  }

  const std::vector<PassRun>& passes_;
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, std::vector<std::size_t>> by_;
};

/// A slice that is to be recorded, with the arrows through it.
struct TimelineSlice {
  sim::TrackId track;
  sim::Time begin, end;
  std::string name;
  std::int64_t micro_batch = -1;
  std::vector<sim::TimelineFlow> flows;
};

/// Records slices in order of time, as arrows want them. Empty ones are none.
void record(sim::TimelineWriter& writer, std::vector<TimelineSlice>& slices, sim::TickScale scale) {
  std::stable_sort(slices.begin(), slices.end(),
                   [](const TimelineSlice& a, const TimelineSlice& b) { return a.begin < b.begin; });
  for (const TimelineSlice& slice : slices)
    if (slice.begin < slice.end)
      writer.slice(slice.track, nanoseconds(slice.begin, scale), nanoseconds(slice.end, scale), slice.name,
                   {{"micro_batch", slice.micro_batch}}, slice.flows);
}

}  // namespace

void write_timeline(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result) {
  sim::TimelineWriter writer(path);
  struct Tracks {
    sim::TrackId passes, forward, backward, states;
  };
  std::vector<Tracks> tracks;
  for (std::size_t s = 0; s < result.costs.stages.size(); ++s) {
    const sim::TrackId group = writer.group(fmt::format("stage {}", s));
    tracks.push_back({writer.track(group, "passes"), writer.track(group, "activations sent"),
                      writer.track(group, "gradients sent"), writer.track(group, "gradients and optimizer")});
  }
  const StepRun& run = result.run;
  std::vector<TimelineSlice> slices;
  for (const PassRun& pass : run.passes)
    slices.push_back({tracks[static_cast<std::size_t>(pass.stage)].passes,
                      pass.start,
                      pass.end,
                      fmt::format("{} {}", sim::to_string(pass.pass.kind), pass.pass.micro_batch),
                      pass.pass.micro_batch,
                      {}});
  const PassIndex index(run.passes);
  for (const MessageRun& message : run.messages) {
    const Tracks& own = tracks[static_cast<std::size_t>(message.from)];
    TimelineSlice slice{message.forward ? own.forward : own.backward, message.start,       message.end,
                        fmt::format("to stage {}", message.to),       message.micro_batch, {}};
    const auto from = index.sender(message), to = index.receiver(message);
    if (from && to && message.start < message.end) {
      const std::uint64_t arrow = writer.new_flow();
      slices[*from].flows.push_back({arrow});
      slice.flows.push_back({arrow});
      slices[*to].flows.push_back({arrow, true});
    }
    slices.push_back(std::move(slice));
  }
  // The optimizer of every stage waits for the gradients of the slowest: their norm is one for all.
  const auto slowest = static_cast<std::size_t>(std::max_element(run.gradients_end.begin(), run.gradients_end.end()) -
                                                run.gradients_end.begin());
  const std::size_t sums = slices.size();
  for (std::size_t s = 0; s < tracks.size(); ++s)
    slices.push_back({tracks[s].states, run.passes_end[s], run.gradients_end[s], "gradients summed", -1, {}});
  for (std::size_t s = 0; s < tracks.size(); ++s) {
    TimelineSlice step{tracks[s].states, run.gradients_end[slowest], run.end[s], "optimizer", -1, {}};
    TimelineSlice& sum = slices[sums + slowest];
    if (s != slowest && sum.begin < sum.end && step.begin < step.end) {
      const std::uint64_t arrow = writer.new_flow();
      sum.flows.push_back({arrow});
      step.flows.push_back({arrow, true});
    }
    slices.push_back(std::move(step));
  }
  record(writer, slices, tick_scale(config.params.run.tick_s));
  writer.close();
}

}  // namespace orrery::experiments::training
