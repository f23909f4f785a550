#include <fmt/format.h>

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
      "optimizer_bytes,activation_bytes,working_bytes,buffer_bytes,offloaded_bytes,passes_end_s,gradients_end_s,end_"
      "s\n";
  file.line_done();
  for (std::size_t s = 0; s < result.costs.stages.size(); ++s) {
    const StageCosts& stage = result.costs.stages[s];
    const StageMemory& memory = result.memory[s];
    append(file.buffer(), "{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{},{},{},{},{},{},{}", s, result.layers[s],
           stage.parameters, stage.forward_s(), stage.backward_s(), result.run.busy_s[s], stage.gradients_s,
           stage.optimizer_s + stage.gathers_s, memory.weights, memory.gradients, memory.optimizer, memory.activations,
           memory.working, memory.buffers, stage.offloaded_bytes);
    for (const sim::Time end : {result.run.passes_end[s], result.run.gradients_end[s], result.run.end[s]}) {
      file.buffer() += ',';
      append_seconds(file.buffer(), end, scale);
    }
    file.buffer() += '\n';
    file.line_done();
  }
  file.close();
}

void write_timeline(const std::filesystem::path& path, const TrainingConfig& config, const TrainingResult& result) {
  const sim::TickScale scale = tick_scale(config.params.run.tick_s);
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
  const auto slice = [&](sim::TrackId track, sim::Time begin, sim::Time end, const std::string& name,
                         std::int64_t micro_batch) {
    if (begin < end)
      writer.slice(track, nanoseconds(begin, scale), nanoseconds(end, scale), name, {{"micro_batch", micro_batch}});
  };
  for (const PassRun& run : result.run.passes)
    slice(tracks[static_cast<std::size_t>(run.stage)].passes, run.start, run.end,
          fmt::format("{} {}", sim::to_string(run.pass.kind), run.pass.micro_batch), run.pass.micro_batch);
  for (const MessageRun& run : result.run.messages) {
    const Tracks& own = tracks[static_cast<std::size_t>(run.from)];
    slice(run.forward ? own.forward : own.backward, run.start, run.end, fmt::format("to stage {}", run.to),
          run.micro_batch);
  }
  sim::Time all;
  for (const sim::Time end : result.run.gradients_end) all = std::max(all, end);
  for (std::size_t s = 0; s < tracks.size(); ++s) {
    slice(tracks[s].states, result.run.passes_end[s], result.run.gradients_end[s], "gradients summed", -1);
    slice(tracks[s].states, all, result.run.end[s], "optimizer", -1);
  }
  writer.close();
}

}  // namespace orrery::experiments::training
