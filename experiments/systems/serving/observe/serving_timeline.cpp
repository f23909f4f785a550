#include "experiments/systems/serving/observe/serving_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/systems/serving/pricing/operator_times.hpp"

namespace orrery::experiments {
namespace {

constexpr std::size_t kMostRequestLanes = 512;
constexpr std::size_t kMostPhases = 256;  // of one request: one that is preempted for ever fills no memory
constexpr double kGiB = 1073741824.0;

}  // namespace

ServingTimeline::ServingTimeline(const std::filesystem::path& path, const TimelineFacts& facts,
                                 const sim::TickScale& scale, const std::vector<StreamFacts>& streams)
    : facts_(facts), scale_(scale), writer_(path, facts.options) {
  std::vector<sim::TrackId> groups;
  for (const StreamFacts& of : streams) {
    Stream& stream = streams_.emplace_back();
    stream.replica = of.replica;
    stream.operators_left = facts.operators;
    stream.group = writer_.group(of.name);
    stream.iterations = writer_.track(stream.group, "iterations");
    stream.running.track = writer_.counter(stream.group, "running", "sequences");
    stream.waiting.track = writer_.counter(stream.group, "waiting", "sequences");
    stream.tokens.track = writer_.counter(stream.group, "batch tokens", "tokens");
    stream.kv.track = writer_.counter(stream.group, "KV cache", "GiB");
    stream.power.track = writer_.counter(stream.group, "power", "W");
    if (static_cast<std::size_t>(of.replica) < first_lane_.size()) continue;
    first_lane_.push_back(streams_.size() - 1);
    groups.push_back(stream.group);
    for (std::int64_t s = 0; of.stages > 1 && s < of.stages; ++s)
      stream.stages.push_back(writer_.track(stream.group, fmt::format("stage {}", s)));
  }
  if (groups.size() > 1) cluster_.emplace(writer_, scale, groups);
  requests_ = writer_.group("requests");
  lanes_.emplace(requests_, "slot", kMostRequestLanes);
}

std::int64_t ServingTimeline::ns(sim::Time time) const {
  return nanoseconds(time, scale_);
}

// ---- requests

void ServingTimeline::request_step(const RequestStep& step) {
  if (over_) return;
  const std::int64_t at_ns = ns(step.at);
  auto at = under_way_.find(step.request);
  if (at == under_way_.end()) {
    if (at_ns >= facts_.options.window.end_ns) return;
    at = under_way_.emplace(step.request, Way{.arrived_ns = at_ns, .flow = writer_.new_flow()}).first;
  }
  Way& way = at->second;
  if (step.stream >= 0) way.stream = step.stream;
  if (way.phases.size() < kMostPhases) way.phases.push_back({at_ns, step.phase});
}

void ServingTimeline::chunks_planned(std::int32_t stream, std::span<const ChunkStep> chunks) {
  if (!over_) streams_[static_cast<std::size_t>(stream)].chunks.assign(chunks.begin(), chunks.end());
}

void ServingTimeline::request_ended(const RequestRecord& record) {
  if (over_) return;
  const auto at = under_way_.find(record.id);
  if (at == under_way_.end()) return;
  if (!record.finished) {
    if (record.status == "unfinished") return;  // drawn at the end
    reject(record);
  } else {
    draw_request(record.id, at->second, ns(*record.finished), &record);
    end_arrow(at->second, ns(*record.finished));
  }
  under_way_.erase(at);
}

/// At the beginning of its last phase: how far the clock of iterations is by then differs between leaps and steps.
void ServingTimeline::reject(const RequestRecord& record) {
  const Way& way = under_way_.at(record.id);
  rejections_.push_back({std::max(way.arrived_ns, way.phases.back().at_ns), record.id, record.prompt_tokens, way.flow,
                         std::string(record.status)});
}

void ServingTimeline::draw_rejections() {
  if (rejections_.empty()) return;
  const sim::TrackId track = writer_.track(requests_, "rejected");
  for (const Rejection& one : rejections_)
    writer_.instant(track, one.at_ns, one.status, {{"request", one.request}, {"prompt_tokens", one.prompt_tokens}},
                    {.id = one.flow, .last = true});
  rejections_.clear();
}

/// A slice from arrival to end, and in it one for each phase. `record`: null for one that is not over.
void ServingTimeline::draw_request(std::int64_t id, const Way& way, std::int64_t end_ns, const RequestRecord* record) {
  const auto track = lanes_->take(writer_, way.arrived_ns, end_ns);
  if (!track) return;
  // At the same time the viewer takes what stands first in the file for the beginning: the arrow is not to lead from
  // an iteration back to the request.
  const sim::TimelineFlow flow{.id = way.arrived_ns < way.first_chunk_ns ? way.flow : 0};
  bool decoded = false;
  const std::string name = fmt::format("request {}", id);
  if (record != nullptr) {
    writer_.slice(*track, way.arrived_ns, end_ns, name,
                  {{"request", id},
                   {"prompt_tokens", record->prompt_tokens},
                   {"output_tokens", record->output_tokens},
                   {"cached_tokens", record->cached_tokens},
                   {"preemptions", record->preemptions},
                   {"replica", record->replica}},
                  flow);
  } else {
    writer_.slice(*track, way.arrived_ns, end_ns, name, {{"request", id}, {"goes_on", 1}}, flow);
  }
  for (std::size_t p = 0; p < way.phases.size(); ++p) {
    const Phase& phase = way.phases[p];
    // One phase may be told again (a request that is queued and then routed): it is one slice.
    const std::int64_t begin_ns = phase.at_ns;
    while (p + 1 < way.phases.size() && way.phases[p + 1].phase == phase.phase) ++p;
    const std::int64_t until_ns = std::min(end_ns, p + 1 < way.phases.size() ? way.phases[p + 1].at_ns : end_ns);
    if (until_ns <= begin_ns) continue;
    const bool passes = phase.phase == RequestPhase::decode && !decoded;
    decoded |= passes;
    writer_.slice(*track, begin_ns, until_ns, sim::to_string(phase.phase), {}, {.id = passes ? way.flow : 0});
  }
}

/// The arrow of a request that ends now ends at the iteration that has just ended where it was.
void ServingTimeline::end_arrow(const Way& way, std::int64_t finished_ns) {
  if (way.stream < 0) return;
  Stream& stream = streams_[static_cast<std::size_t>(way.stream)];
  // Its last event is to be written last.
  if (way.chunk_stream >= 0 && way.chunk_stream != way.stream)
    flush(streams_[static_cast<std::size_t>(way.chunk_stream)]);
  if (!stream.held.any || ns(stream.held.record.end) != finished_ns) return;
  std::vector<sim::TimelineFlow>& flows = stream.held.flows;
  const auto known =
      std::find_if(flows.begin(), flows.end(), [&](const sim::TimelineFlow& flow) { return flow.id == way.flow; });
  if (known != flows.end()) {
    known->last = true;
  } else {
    flows.push_back({.id = way.flow, .last = true});
  }
}

// ---- iterations

void ServingTimeline::iterations_ended(const IterationRun& run, double idle_watts) {
  if (over_) return;
  Stream& stream = streams_[static_cast<std::size_t>(run.stream)];
  const sim::TimelineWindow& window = facts_.options.window;
  const std::int64_t ps_per_tick = scale_.ps_per_tick();
  const bool outside =
      ns(iteration(run, run.count - 1, ps_per_tick).end) <= window.begin_ns || ns(run.start) >= window.end_ns;
  for (std::int64_t i = 0; i < run.count && !outside; ++i) {
    const IterationRecord record = iteration(run, i, ps_per_tick);
    if (ns(record.end) <= window.begin_ns || ns(record.start) >= window.end_ns) continue;
    if (drawn_ >= facts_.iterations) return cut();
    ++drawn_;
    hold(stream, record, idle_watts);
    draw_operators(stream, run, i, record);
    if (i == 0 && !run.stages.empty()) draw_stages(stream, run);
  }
  stream.chunks.clear();
}

/// Draws what was held back, and holds the next.
void ServingTimeline::hold(Stream& stream, const IterationRecord& record, double idle_watts) {
  flush(stream);
  stream.held.any = true;
  stream.held.record = record;
  stream.held.idle_watts = idle_watts;
  last_ns_ = std::max(last_ns_, ns(record.end));
  for (const ChunkStep& chunk : stream.chunks) {
    const auto way = under_way_.find(chunk.request);
    if (way == under_way_.end()) continue;
    // One that moved on from elsewhere: what was held there is not to come after what is held here.
    const std::int32_t before = way->second.chunk_stream;
    if (before >= 0 && &streams_[static_cast<std::size_t>(before)] != &stream)
      flush(streams_[static_cast<std::size_t>(before)]);
    if (way->second.first_chunk_ns < 0) {
      way->second.first_chunk_ns = ns(record.start);
      stream.held.arrivals.push_back({chunk.request, way->second.arrived_ns, way->second.flow});
    }
    way->second.chunk_stream = static_cast<std::int32_t>(&stream - streams_.data());
    stream.held.flows.push_back({.id = way->second.flow});
  }
}

void ServingTimeline::count(Level& level, std::int64_t at_ns, double value) {
  if (level.last == value) return;
  level.last = value;
  writer_.count(level.track, at_ns, value);
}

void ServingTimeline::flush(Stream& stream) {
  if (!stream.held.any) return;
  const IterationRecord& record = stream.held.record;
  const std::int64_t begin_ns = ns(record.start);
  const std::int64_t end_ns = ns(record.end);
  for (const Arrival& arrival : stream.held.arrivals) {
    if (!arrivals_) arrivals_ = writer_.track(requests_, "arrivals");
    writer_.instant(*arrivals_, arrival.at_ns, fmt::format("request {}", arrival.request),
                    {{"request", arrival.request}}, {.id = arrival.flow});
  }
  std::string_view name = "mixed";
  if (record.decodes == 0) name = "prefill";
  if (record.prefill_tokens == 0) name = "decode";
  writer_.slice(stream.iterations, begin_ns, end_ns, name,
                {{"prefill_tokens", record.prefill_tokens},
                 {"chunks", record.chunks},
                 {"decodes", record.decodes},
                 {"waiting", record.waiting}},
                stream.held.flows);
  count(stream.running, begin_ns, static_cast<double>(record.running));
  count(stream.waiting, begin_ns, static_cast<double>(record.waiting));
  count(stream.tokens, begin_ns, static_cast<double>(record.prefill_tokens + record.decodes));
  count(stream.kv, begin_ns, static_cast<double>(record.kv_used_bytes) / kGiB);
  const double seconds = scale_.seconds(record.end - record.start);
  const double joules = static_cast<double>(record.energy_pj) * 1e-12;
  count(stream.power, begin_ns, stream.held.idle_watts + (seconds > 0 ? joules / seconds : 0));
  stream.held.any = false;
  stream.held.flows.clear();
  stream.held.arrivals.clear();
}

/// Operators of iteration i of a run, by layer: they fill what is left of it after the host.
void ServingTimeline::draw_operators(Stream& stream, const IterationRun& run, std::int64_t i,
                                     const IterationRecord& record) {
  const std::int64_t begin_ns = ns(record.start);
  if (stream.operators_left == 0 || run.shape == nullptr || !run.stages.empty() || begin_ns < facts_.operators_begin_ns)
    return;
  --stream.operators_left;
  if (!stream.operators) stream.operators = writer_.track(stream.group, "operators");
  BatchShape shape = *run.shape;
  if (i > 0) advance(shape, i);
  const std::vector<OperatorTime> times = operator_times(*run.model, shape);
  if (times.empty()) return;
  const std::int64_t end_ns = ns(record.end);
  const std::int64_t devices_ns = std::min(end_ns - begin_ns, times.back().end_ps / 1000);
  const std::int64_t from_ns = end_ns - devices_ns;
  if (from_ns > begin_ns) writer_.slice(*stream.operators, begin_ns, from_ns, "host and waiting");
  const auto at = [&](std::int64_t ps) { return std::min(end_ns, from_ns + ps / 1000); };
  for (std::size_t first = 0; first < times.size();) {
    std::size_t last = first;
    while (last + 1 < times.size() && times[last + 1].layer == times[first].layer) ++last;
    const std::int32_t layer = times[first].layer;
    const std::string name = layer >= 0                         ? fmt::format("layer {}", layer)
                             : layer == OperatorTime::kDrafting ? std::string("drafting")
                                                                : std::string("head");
    writer_.slice(*stream.operators, at(times[first].begin_ps),
                  last + 1 == times.size() ? end_ns : at(times[last].end_ps), name);
    for (; first <= last; ++first)
      writer_.slice(*stream.operators, at(times[first].begin_ps),
                    first + 1 == times.size() ? end_ns : at(times[first].end_ps), hw::to_string(times[first].op));
  }
}

/// Micro-batches on the stages that they passed, cut where the iteration was.
void ServingTimeline::draw_stages(Stream& stream, const IterationRun& run) {
  const Stream& first = streams_[first_lane_[static_cast<std::size_t>(stream.replica)]];
  const std::int64_t end_ns = ns(iteration(run, 0, scale_.ps_per_tick()).end);
  const auto lane = static_cast<std::int64_t>(run.stream) - static_cast<std::int64_t>(&first - streams_.data());
  for (std::size_t s = 0; s < run.stages.size() && s < first.stages.size(); ++s) {
    const StageTime& time = run.stages[s];
    const std::int64_t until_ns = std::min(time.end_ns, end_ns);
    if (time.begin_ns >= until_ns) continue;
    writer_.slice(first.stages[s], time.begin_ns, until_ns, fmt::format("lane {}", lane),
                  {{"prefill_tokens", run.prefill_tokens}, {"decodes", run.decodes}});
  }
}

// ---- the cluster, and the end

void ServingTimeline::cluster_event(const ClusterEvent& event) {
  if (over_ || !cluster_) return;
  const auto way = under_way_.find(event.request);
  cluster_->draw(event, way != under_way_.end() ? way->second.flow : 0);
}

/// All that is to be shown is: whoever is under way is drawn up to here.
void ServingTimeline::cut() {
  for (Stream& stream : streams_) flush(stream);
  draw_rejections();
  for (const auto& [id, way] : under_way_) draw_request(id, way, std::max(last_ns_, way.phases.back().at_ns), nullptr);
  if (cluster_) cluster_->finish(last_ns_);
  under_way_.clear();
  over_ = true;
}

void ServingTimeline::finish(sim::Time end) {
  last_ns_ = std::max(last_ns_, ns(end));
  const bool truncated = over_;
  if (!over_) cut();
  over_ = truncated;
  writer_.close();
}

std::vector<std::string> ServingTimeline::notes(std::int64_t iterations) const {
  std::vector<std::string> notes;
  if (over_)
    notes.push_back(fmt::format("timeline.pftrace shows the first {} of {} iterations (run.timeline.iterations)",
                                drawn_, iterations));
  if (lanes_->left_out() > 0)
    notes.push_back(fmt::format("timeline.pftrace shows {} requests at once: {} are left out", kMostRequestLanes,
                                lanes_->left_out()));
  if (const auto full = timeline_note(writer_, facts_.options.max_bytes)) notes.push_back(*full);
  return notes;
}

}  // namespace orrery::experiments
