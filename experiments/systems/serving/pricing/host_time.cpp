#include "experiments/systems/serving/pricing/host_time.hpp"

#include <algorithm>
#include <memory>

#include "experiments/systems/serving/pricing/picoseconds.hpp"

namespace orrery::experiments {
namespace {

/// Fields of the stages for parameters that are HostStages with other defaults.
template <class P>
constexpr auto stage_fields() {
  using sim::Unit;
  const auto seconds = [](const char* name, double HostStages::*member, double most, const char* doc) {
    return sim::field(name, member, Unit::seconds, sim::between(0, most), doc);
  };
  return sim::inherited<P>(sim::FieldTable{
      seconds("schedule", &HostStages::schedule_s, 60, "Fixed CPU time to schedule an iteration."),
      seconds("schedule_sequence", &HostStages::schedule_sequence_s, 1, "Scheduling time that each sequence adds."),
      seconds("prepare", &HostStages::prepare_s, 60,
              "Fixed CPU time to build the inputs of an iteration and copy them to the device."),
      seconds("prepare_sequence", &HostStages::prepare_sequence_s, 1, "Preparation time that each sequence adds."),
      seconds("prepare_token", &HostStages::prepare_token_s, 1, "Preparation time that each new token adds."),
      seconds("launch", &HostStages::launch_s, 60,
              "CPU time to launch an iteration's kernels one by one, apart from those of its layers."),
      seconds("launch_layer", &HostStages::launch_layer_s, 1, "CPU time to launch the kernels of a layer."),
      seconds("launch_kernel", &HostStages::launch_kernel_s, 1, "CPU time to launch each kernel or collective."),
      seconds("graph_launch", &HostStages::graph_launch_s, 60, "CPU time to launch an iteration as a captured graph."),
      seconds("graph_launch_layer", &HostStages::graph_launch_layer_s, 1,
              "Graph launch time that each layer adds (piecewise graphs with attention between them)."),
      sim::field("graph_tokens", &HostStages::graph_tokens, Unit::tokens, sim::between(0, 1e9),
                 "Most new tokens of an iteration that runs as a captured graph; 0: none."),
      sim::field("graph_prompts", &HostStages::graph_prompts,
                 "Whether iterations with prompt chunks run as captured graphs too."),
      seconds("sample", &HostStages::sample_s, 60,
              "CPU time per iteration after sampling, once the next tokens are known."),
      seconds("sample_sequence", &HostStages::sample_sequence_s, 1, "Sampling time that each sequence adds."),
      seconds("detokenise_sequence", &HostStages::detokenise_sequence_s, 1,
              "CPU time per sequence for text, stop conditions and streaming."),
      seconds("request", &HostStages::request_s, 60,
              "Time before the scheduler sees a request (HTTP, chat template, tokeniser); all requests in parallel.")});
}

struct SerialParams : HostStages {
  static constexpr auto fields() { return stage_fields<SerialParams>(); }
};

template <class P>
constexpr auto ahead_field() {
  return sim::field("ahead", &P::ahead,
                    "Whether an iteration is scheduled when the one before it begins, so that requests arriving in "
                    "between wait for both.");
}

struct OverlappedParams : HostStages {
  bool ahead = true;
  static constexpr auto fields() {
    return sim::joined(stage_fields<OverlappedParams>(), sim::FieldTable{ahead_field<OverlappedParams>()});
  }
};

struct StagedParams : HostStages {
  bool hide_schedule = false, hide_prepare = false, hide_sample = false, hide_detokenise = true;
  bool ahead = false;
  static constexpr auto fields() {
    using P = StagedParams;
    return sim::joined(
        stage_fields<P>(),
        sim::FieldTable{
            sim::field("hide_schedule", &P::hide_schedule, "Whether scheduling overlaps with the devices."),
            sim::field("hide_prepare", &P::hide_prepare, "Whether building the inputs overlaps with the devices."),
            sim::field("hide_sample", &P::hide_sample,
                       "Whether the host's part of sampling overlaps with the devices."),
            sim::field("hide_detokenise", &P::hide_detokenise,
                       "Whether detokenising overlaps with the devices (in a process of its own, say)."),
            ahead_field<P>()});
  }
};

/// vLLM V0 and what was made of it. Scheduler: time between batches of Sarathi-Serve's own runs (OSDI 2024 artifact,
/// osdi-experiments, Yi-34B on two A100: 52 us at one sequence, 675 us at 128). Launch: its decode iterations of 1 to 4
/// sequences all take 46.8 to 48.8 ms, 60 layers, which is the CPU's pace, not the devices'. Detokenising stands in the
/// loop (vLLM 0.6.0 release notes name it as what was moved out), 20 us a token: an assumption.
struct VllmV0Params : HostStages {
  VllmV0Params() {
    schedule_s = 47e-6;
    schedule_sequence_s = 4.9e-6;
    launch_layer_s = 780e-6;
    detokenise_sequence_s = 20e-6;
  }
  static constexpr auto fields() { return stage_fields<VllmV0Params>(); }
};

/// vLLM of 2024 (V0 from 0.5.4 on): one loop, decodes as captured graphs of up to 256 sequences, iterations with
/// prompts kernel by kernel. Constants: fitted to the rows of Llama-3.1-70B and Mistral-Large on eight ranks of
/// serving/apex_8xh100_vllm.csv, TPOT (schedule) and TTFT (kernels, request); judged on two and four ranks
/// (docs/explain/serving-fidelity.md). Models of more than 32,768 positions have their prompts cut into chunks of 512
/// tokens there (pull requests 6666 and, for 2,048 tokens, 10544 of vllm-project/vllm): policy `sarathi` with that
/// budget.
struct Vllm2024Params : HostStages {
  Vllm2024Params() {
    schedule_s = 1.6e-3;
    schedule_sequence_s = 0.27e-3;
    launch_kernel_s = 17e-6;
    graph_launch_s = 30e-6;
    graph_tokens = 256;
    graph_prompts = false;
    request_s = 14e-3;
  }
  static constexpr auto fields() { return stage_fields<Vllm2024Params>(); }
};

/// vLLM V1 (0.8 and later): scheduler in a process of its own beside API server and detokeniser, graphs up to 512
/// tokens, iterations decided ahead (asynchronous scheduling: on by default since 0.14). In the open vLLM 0.19 runs an
/// iteration of two or three sequences takes 11.505 ms where its kernels take 11.521
/// (docs/explain/serving-fidelity.md): nothing of the host shows. The times are assumptions and matter only to models
/// whose iterations are shorter than they are.
struct VllmV1Params : HostStages {
  bool ahead = true;
  VllmV1Params() {
    schedule_s = 200e-6;
    schedule_sequence_s = 5e-6;
    prepare_s = 500e-6;
    prepare_sequence_s = 2e-6;
    launch_layer_s = 60e-6;
    graph_launch_s = 200e-6;
    graph_launch_layer_s = 20e-6;
    graph_tokens = 512;
    sample_s = 100e-6;
  }
  static constexpr auto fields() {
    return sim::joined(stage_fields<VllmV1Params>(), sim::FieldTable{ahead_field<VllmV1Params>()});
  }
};

/// SGLang's overlap scheduler (release 0.4, "zero-overhead batch scheduler": the CPU prepares a batch ahead). Graphs
/// for decodes alone. The times are assumptions, as above.
struct SglangParams : HostStages {
  bool ahead = true;
  SglangParams() {
    schedule_s = 200e-6;
    schedule_sequence_s = 5e-6;
    prepare_s = 300e-6;
    launch_layer_s = 100e-6;
    graph_launch_s = 300e-6;
    graph_tokens = 160;
    graph_prompts = false;
    sample_s = 100e-6;
  }
  static constexpr auto fields() {
    return sim::joined(stage_fields<SglangParams>(), sim::FieldTable{ahead_field<SglangParams>()});
  }
};

/// The overlap scheduler prepares an iteration while the last one runs.
struct TensorRtLlmHostParams : HostStages {
  bool ahead = true;
  TensorRtLlmHostParams() : HostStages(kTensorRtLlmStages) {}
  static constexpr auto fields() {
    return sim::joined(stage_fields<TensorRtLlmHostParams>(), sim::FieldTable{ahead_field<TensorRtLlmHostParams>()});
  }
};

/// A loop in C++, no framework between it and the driver: an iteration's kernels are launched one by one, each at the
/// driver's time of a call (platform-a100-epyc7313, RRZE-HPC/gpu-benches gpu-small-kernels).
struct FasterTransformerParams : HostStages {
  FasterTransformerParams() { launch_kernel_s = 2.62e-6; }
  static constexpr auto fields() { return stage_fields<FasterTransformerParams>(); }
};

/// The same engine under a scheduler of its own process. Between iterations its control messages, gRPC on one host (Yu
/// et al., OSDI 2022, section 4.2, which gives no time): an assumption.
struct OrcaParams : FasterTransformerParams {
  OrcaParams() { schedule_s = 100e-6; }
  static constexpr auto fields() { return stage_fields<OrcaParams>(); }
};

HiddenStages all_hidden(bool ahead) {
  return {.schedule = true, .prepare = true, .sample = true, .detokenise = true, .ahead = ahead};
}

/// An engine whose stages are one loop: nothing of it runs beside the devices.
template <class Params>
void add_one_loop(HostRegistry& registry, const char* name, const char* doc) {
  registry.add<Params>(name, doc, [](const Params& p, const std::optional<LaunchCosts>& counted) {
    return std::make_unique<StagedHostTime>(p, HiddenStages{}, counted);
  });
}

std::int64_t layers_of(const BatchShape& shape) {
  std::int64_t layers = 0;
  for (const Segment& segment : shape.segments) layers += segment.last - segment.first;
  return layers;
}

}  // namespace

void lengthen(const HostWork& work, IterationPrice& price) {
  price.time_ps = std::max<std::int64_t>(0, price.time_ps + work.longer_ps);
  const std::int64_t beside = work.beside_ps();
  price.host = {.calls = work.calls,
                .exposed_ps = work.exposed_ps,
                .beside_ps = beside,
                .device_ps = price.time_ps,
                .device_step_ps = price.step_ps,
                .queued2_ps = 2 * work.calls * work.latency_ps};
  if (price.time_ps < beside) {
    // The CPU sets the pace, up to the iteration that takes the devices as long.
    if (price.step_ps > 0) {
      price.horizon = std::min(price.horizon, (beside - price.time_ps + price.step_ps - 1) / price.step_ps);
    }
    price.time_ps = beside;
    price.step_ps = 0;
  } else {
    // The devices do: calls get ahead of them evenly, the last one by all that the host is faster.
    if (price.step_ps < 0) price.horizon = std::min(price.horizon, (price.time_ps - beside) / -price.step_ps + 1);
    const std::int64_t later = std::max<std::int64_t>(0, work.calls - 1);
    price.host.queued2_ps += later * (price.time_ps - beside);
    price.host.queued2_step_ps = later * price.step_ps;
  }
  price.time_ps += work.exposed_ps;
}

StagedHostTime::StagedHostTime(const HostStages& stages, const HiddenStages& hidden,
                               const std::optional<LaunchCosts>& counted)
    : hidden_(hidden),
      graph_tokens_(stages.graph_tokens),
      request_s_(stages.request_s),
      graph_prompts_(stages.graph_prompts) {
  const double speed = counted ? counted->core_speed : 1;
  const auto put = [&](bool away, double fixed, double sequence, double token) {
    (away ? covered_ : exposed_)
        .add({picoseconds(fixed / speed), picoseconds(sequence / speed), picoseconds(token / speed)});
  };
  put(hidden.schedule, stages.schedule_s, stages.schedule_sequence_s, 0);
  put(hidden.prepare, stages.prepare_s, stages.prepare_sequence_s, stages.prepare_token_s);
  put(hidden.sample, stages.sample_s, stages.sample_sequence_s, 0);
  put(hidden.detokenise, 0, stages.detokenise_sequence_s, 0);
  stream_.calls_a_launch = 1;
  graph_.calls_a_pass = 1;
  if (stages.graph_launch_layer_s > 0) graph_.calls_a_layer = 2;  // in pieces: a graph and an attention kernel
  if (!counted) {
    stream_.pass = picoseconds(stages.launch_s);
    stream_.layer = picoseconds(stages.launch_layer_s);
    stream_.launch = picoseconds(stages.launch_kernel_s);
    graph_.pass = picoseconds(stages.graph_launch_s);
    graph_.layer = picoseconds(stages.graph_launch_layer_s);
    return;
  }
  stream_.launch = picoseconds(counted->kernel_s);
  graph_.pass = picoseconds(counted->graph_call_s);
  graph_.longer = picoseconds(counted->node_s);
  if (graph_.calls_a_layer > 0) graph_.layer = picoseconds(counted->graph_call_s) + picoseconds(counted->kernel_s);
  latency_ps_ = picoseconds(counted->latency_s);
}

HostWork StagedHostTime::work(const BatchShape& shape, const IterationPrice& price) const {
  std::int64_t tokens = 0;
  bool prompts = false;
  for (const Segment& segment : shape.segments) {
    tokens = std::max(tokens, segment.tokens);
    prompts = prompts || segment.prefill.sequences > 0;
  }
  const auto line = [&](const Line& l) { return l.fixed + l.sequence * shape.sequences + l.token * tokens; };
  const Launching& how = tokens <= graph_tokens_ && (graph_prompts_ || !prompts) ? graph_ : stream_;
  const std::int64_t passes = 1 + price.draft_passes;
  const std::int64_t layers = layers_of(shape) + price.draft_layers;
  HostWork work;
  work.exposed_ps = line(exposed_);
  work.hidden_ps = line(covered_);
  work.launch_ps = how.pass * passes + how.layer * layers + how.launch * price.launches;
  work.calls = how.calls_a_pass * passes + how.calls_a_layer * layers + how.calls_a_launch * price.launches;
  work.latency_ps = latency_ps_;
  if (!hidden_.ahead) work.exposed_ps += latency_ps_;  // devices are idle when the first kernel comes
  work.longer_ps = how.longer * price.launches;
  return work;
}

void register_host_times(HostRegistry& registry) {
  using Counted = std::optional<LaunchCosts>;
  add_one_loop<SerialParams>(registry, "serial", "Nothing overlaps: the devices wait for every stage but launching.");
  registry.add<OverlappedParams>("overlapped",
                                 "Every stage overlaps with the devices: whichever is slower sets the pace.",
                                 [](const OverlappedParams& p, const Counted& counted) {
                                   return std::make_unique<StagedHostTime>(p, all_hidden(p.ahead), counted);
                                 });
  registry.add<StagedParams>(
      "staged", "Chosen stages overlap with the devices; the devices wait for the others.",
      [](const StagedParams& p, const Counted& counted) {
        return std::make_unique<StagedHostTime>(
            p, HiddenStages{p.hide_schedule, p.hide_prepare, p.hide_sample, p.hide_detokenise, p.ahead}, counted);
      });
  add_one_loop<FasterTransformerParams>(registry, "fastertransformer",
                                        "FasterTransformer: a loop in C++, kernels one by one.");
  add_one_loop<OrcaParams>(registry, "orca",
                           "Orca's engine: like FasterTransformer, with the scheduler in a process of its own.");
  add_one_loop<VllmV0Params>(registry, "vllm_v0", "vLLM up to 0.7 without graphs, and Sarathi-Serve: all in one loop.");
  add_one_loop<Vllm2024Params>(registry, "vllm_2024", "vLLM of 2024: one loop, decodes as captured graphs.");
  registry.add<VllmV1Params>("vllm_v1", "vLLM V1 with asynchronous scheduling.",
                             [](const VllmV1Params& p, const Counted& counted) {
                               return std::make_unique<StagedHostTime>(p, all_hidden(p.ahead), counted);
                             });
  registry.add<TensorRtLlmHostParams>("tensorrt_llm", "TensorRT-LLM with its overlap scheduler.",
                                      [](const TensorRtLlmHostParams& p, const Counted& counted) {
                                        HiddenStages hidden = all_hidden(p.ahead);
                                        hidden.sample = false;
                                        return std::make_unique<StagedHostTime>(p, hidden, counted);
                                      });
  registry.add<SglangParams>("sglang", "SGLang with its overlap scheduler.",
                             [](const SglangParams& p, const Counted& counted) {
                               return std::make_unique<StagedHostTime>(p, all_hidden(p.ahead), counted);
                             });
}

}  // namespace orrery::experiments
