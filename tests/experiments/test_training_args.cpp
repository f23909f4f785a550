// Arguments of Megatron-LM, torchtitan and DeepSpeed as training configs; and a plan's own arguments as that plan
// again.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "experiments/base/experiment.hpp"
#include "experiments/import/training_args.hpp"
#include "experiments/systems/training/launch_flags.hpp"
#include "sim/base/random.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_args {

using namespace orrery;
using namespace orrery::experiments;
using Catch::Matchers::Contains;
using training::Recompute;
using training::Zero;

namespace {

using Words = std::vector<std::string>;

std::string text(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  CAPTURE(path);
  REQUIRE(value != nullptr);
  return value->is_string() ? value->as_string() : value->dump();
}

/// Words between spaces.
Words words_of(const std::string& line) {
  Words words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool runs(const sim::Node& config) {
  return read_experiment(test_systems(), sim::parse_json(config.dump(), "imported"))->run({}).feasible();
}

training::PlanParams plan_of(const ImportedConfig& imported) {
  sim::Faults faults;
  const auto plan = sim::parse_params<training::PlanParams>(*imported.config.find("plan"), faults);
  faults.throw_if_any();
  return plan;
}

std::string fault_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "";
}

template <class T>
T one_of(sim::RandomStream& random, std::initializer_list<T> all) {
  return *(all.begin() + random.below(all.size()));
}

/// A plan on so many GPUs, drawn; `chunks` where it has a pipeline.
training::PlanParams drawn(sim::RandomStream& random, std::int64_t chunks) {
  training::PlanParams plan;
  plan.tensor_parallel = one_of<std::int64_t>(random, {1, 2, 8});
  plan.context_parallel = one_of<std::int64_t>(random, {1, 2});
  plan.pipeline_parallel = one_of<std::int64_t>(random, {1, 2, 4});
  plan.micro_batch = one_of<std::int64_t>(random, {1, 2, 4});
  plan.interleave = plan.pipeline_parallel > 1 ? chunks : 1;
  plan.zero = one_of(random, {Zero::none, Zero::gradients, Zero::weights});
  plan.recompute = one_of(random, {Recompute::none, Recompute::full});
  plan.async_tensor_parallel = plan.tensor_parallel > 1 && random.below(2) == 1;
  return plan;
}

/// What both programs have arguments for.
void check_shares(const training::PlanParams& back, const training::PlanParams& given) {
  CHECK(back.tensor_parallel == given.tensor_parallel);
  CHECK(back.context_parallel == given.context_parallel);
  CHECK(back.pipeline_parallel == given.pipeline_parallel);
  CHECK(back.expert_parallel == given.expert_parallel);
  CHECK(back.micro_batch == given.micro_batch);
  CHECK(back.interleave == given.interleave);
  CHECK(back.zero == given.zero);
  CHECK(back.recompute == given.recompute);
  if (given.context_parallel > 1) CHECK(back.context_exchange == given.context_exchange);
}

}  // namespace

TEST_CASE("Megatron-LM's arguments become a config that runs, as the shipped study has it", "[unit][training]") {
  const auto arguments = launch_arguments(words_of(
      "torchrun --nproc-per-node 8 --nnodes 8 pretrain_gpt.py --num-layers 96 --hidden-size 12288 "
      "--num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
      "--global-batch-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 "
      "--num-layers-per-virtual-pipeline-stage 4 --sequence-parallel --recompute-activations --vocab-size 51200 --fp16 "
      "--attention-backend unfused --overlap-grad-reduce --data-path 0.5 a 0.5 b --lr=1e-4 "
      "--expert-tensor-parallel-size 2"));
  const ImportedConfig imported = import_megatron(arguments, {.part = "a100-sxm4-80gb"});
  CHECK(imported.ignored == Words{"expert_tensor_parallel_size=2"});  // told, not dropped
  sim::Node config = imported.config;
  CHECK(config.find("machine")->find("devices")->items().front().find("count")->as_integer() == 64);
  const sim::Node shipped = sim::read_config(home_folder() / "experiments/studies/training_gpt3.json");
  for (const auto& [name, value] : shipped.at("model.builder.gpt2")->members()) {
    CAPTURE(name);
    CHECK(config.at("model.builder.gpt2." + name)->dump() == value.dump());
  }
  for (const auto& [name, value] : shipped.find("plan")->members()) {
    CAPTURE(name);
    CHECK(config.at("plan." + name)->dump() == value.dump());
  }
  CHECK(
      config.find("policies")->dump() ==
      R"({"passes":{"order":["loop_fusion"],"loop_fusion":{"epilogues":false}},"schedule":{"policy":"interleaved","interleaved":{}}})");
  sim::assign(config, "model.builder.gpt2.layers=24");  // a quarter, to be quick
  CHECK(runs(config));
}

TEST_CASE("A plan's own arguments for Megatron-LM are that plan again", "[property][training]") {
  sim::RandomStream random(7, "plans");
  for (int i = 0; i < 300; ++i) {
    training::PlanParams given = drawn(random, one_of<std::int64_t>(random, {1, 2, 3}));
    given.sequence_parallel = given.async_tensor_parallel || random.below(2) == 1;
    given.context_exchange = one_of(random, {training::ContextExchange::ring, training::ContextExchange::all_gather,
                                             training::ContextExchange::all_to_all});
    if (random.below(4) == 0) given.zero = Zero::optimizer;
    if (random.below(4) == 0) given.recompute = Recompute::selective;
    given.expert_parallel = one_of<std::int64_t>(random, {1, 2});
    given.overlap_gradients = random.below(2) == 1;
    if (given.zero != Zero::none && random.below(4) == 0) given.offload_optimizer = {one_of<double>(random, {0.25, 1})};
    const std::int64_t gpus = 2 * given.tensor_parallel * given.context_parallel * given.pipeline_parallel;
    std::optional<std::string> why;
    const training::Plan plan = training::make_plan(given, gpus, 64, why);
    CAPTURE(why.value_or(""));
    REQUIRE(!why);
    Words words = words_of("--num-layers 24 --hidden-size 1024 --num-attention-heads 16");
    for (const std::string& flag : training::megatron_flags(plan, {.global_batch = 64, .sequence = 512, .layers = 24}))
      for (std::string& word : words_of(flag)) words.push_back(std::move(word));
    const ImportedConfig imported =
        import_megatron(launch_arguments(words), {.part = "h100-sxm5-80gb", .devices = gpus});
    const training::PlanParams back = plan_of(imported);
    CAPTURE(words);
    CHECK(imported.ignored.empty());
    check_shares(back, given);
    CHECK(back.sequence_parallel == plan.sequence);
    CHECK(back.async_tensor_parallel == plan.async_tensor);
    CHECK(back.overlap_gradients == given.overlap_gradients);
    CHECK(back.offload_optimizer == given.offload_optimizer);
    // All 24 layers run again, as many a stage: what `block` says of a chunk, for all chunks.
    if (given.recompute == Recompute::full) CHECK(*back.recompute_layers == 24 / given.pipeline_parallel);
    CHECK(text(imported.config, "workload.global_batch") == "64");
    CHECK(text(imported.config, "workload.sequence") == "512");
  }
}

TEST_CASE("A plan's own arguments for torchtitan are that plan again", "[property][training]") {
  sim::RandomStream random(8, "plans");
  for (int i = 0; i < 200; ++i) {
    training::PlanParams given = drawn(random, one_of<std::int64_t>(random, {1, 2}));
    given.sequence_parallel = given.tensor_parallel > 1;
    given.context_exchange = one_of(random, {training::ContextExchange::ring, training::ContextExchange::all_gather});
    if (given.zero != Zero::none && random.below(4) == 0)
      given.offload_weights = given.offload_gradients = given.offload_optimizer = {1};
    given.expert_parallel = one_of<std::int64_t>(random, {1, 2});
    const std::int64_t gpus = 2 * given.tensor_parallel * given.context_parallel * given.pipeline_parallel;
    std::optional<std::string> why;
    const training::Plan plan = training::make_plan(given, gpus, 64, why);
    REQUIRE(!why);
    Words words = words_of("--model.name llama3 --model.flavor 8B");
    for (const std::string& flag :
         training::torchtitan_flags(plan, {.global_batch = 64, .sequence = 512, .layers = 32}))
      for (std::string& word : words_of(flag)) words.push_back(std::move(word));
    const ImportedConfig imported =
        import_torchtitan(launch_arguments(words), {.part = "h100-sxm5-80gb", .devices = gpus});
    const training::PlanParams back = plan_of(imported);
    CAPTURE(words);
    CHECK(imported.ignored.empty());
    check_shares(back, given);
    CHECK(back.async_tensor_parallel == plan.async_tensor);
    CHECK(back.offload_weights == given.offload_weights);
    CHECK(back.offload_gradients == given.offload_gradients);
    CHECK(back.offload_optimizer == given.offload_optimizer);
    CHECK(text(imported.config, "workload.global_batch") == "64");
  }
  // Stages that differ, or some of the three, have no argument.
  std::optional<std::string> why;
  training::PlanParams some{{}, {.offload_weights = {1}, .offload_optimizer = {1}}};
  some.zero = Zero::weights;
  const auto says = [&] {
    const auto flags = training::torchtitan_flags(training::make_plan(some, 2, 2, why), {});
    return std::ranges::find(flags, "--training.enable_cpu_offload") != flags.end();
  };
  CHECK_FALSE(says());
  some.offload_gradients = {1};
  CHECK(says());
  some.zero = Zero::none;  // FSDP alone has the argument, as Megatron-LM's distributed optimizer has its own
  CHECK_FALSE(says());
  const auto megatron = training::megatron_flags(training::make_plan(some, 2, 2, why), {.layers = 2});
  CHECK(std::ranges::find(megatron, "--optimizer-cpu-offload") == megatron.end());
}

TEST_CASE("Experts by Megatron-LM's arguments", "[unit][training]") {
  const std::string shape =
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --swiglu --vocab-size 32000 --hidden-dropout 0 "
      "--attention-dropout 0 --num-experts 16 --moe-router-topk 4 --moe-ffn-hidden-size 256 "
      "--moe-shared-expert-intermediate-size 512 --moe-grouped-gemm --tensor-model-parallel-size 2 --sequence-parallel "
      "--expert-model-parallel-size 8 --global-batch-size 16 ";
  const auto imported = [&](const std::string& more) {
    return import_megatron(launch_arguments(words_of(shape + more)), {.part = "h100-sxm5-80gb", .devices = 16});
  };
  const ImportedConfig whole = imported("--expert-tensor-parallel-size 1");
  const auto model = [&](const std::string& name) { return text(whole.config, "model.builder.decoder." + name); };
  CHECK(model("experts") == "16");
  CHECK(model("experts_per_token") == "4");
  CHECK(model("expert_intermediate") == "256");
  CHECK(model("shared_intermediate") == "512");
  CHECK(text(whole.config, "plan.expert_parallel") == "8");
  CHECK(whole.ignored.empty());
  CHECK(whole.notes.size() == 1);  // of the nodes' adapters
  CHECK(runs(whole.config));
  // Megatron-LM divides experts over ranks of tensor parallelism unless told not to, and may leave layers without.
  const ImportedConfig divided = imported("--moe-layer-freq 2");
  CHECK(divided.ignored == Words{"moe_layer_freq=2"});
  REQUIRE(divided.notes.size() == 3);
  CHECK_THAT(divided.notes[1], Contains("all have them here"));
  CHECK_THAT(divided.notes[2], Contains("each is whole on its rank here"));
}

TEST_CASE("A decoder by Megatron-LM's arguments: sizes that it pads and derives, stages as laid out",
          "[unit][training]") {
  const ImportedConfig imported = import_megatron(
      launch_arguments(
          words_of("--num-layers 7 --hidden-size 4096 --num-attention-heads 32 --group-query-attention "
                   "--num-query-groups 8 --swiglu "
                   "--normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights "
                   "--vocab-size 32000 "
                   "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
                   "Et*3|tttt,L "
                   "--hidden-dropout 0 --attention-dropout 0 --use-distributed-optimizer --recompute-granularity full "
                   "--recompute-method uniform --recompute-num-layers 1")),
      {.part = "h100-sxm5-80gb"});
  const auto model = [&](const std::string& name) { return text(imported.config, "model.builder.decoder." + name); };
  CHECK(model("intermediate") == "10880");  // 4 x 4096 x 2 / 3 = 10922, in steps of 64
  CHECK(model("vocab") == "32256");         // in steps of 128 x 4
  CHECK(model("kv_heads") == "8");
  CHECK(model("head_dim") == "128");
  CHECK(model("tied") == "false");
  CHECK(text(imported.config, "policies.partition.listed.layers") == "[3,4]");
  CHECK(text(imported.config, "plan.zero") == "optimizer");
  CHECK(text(imported.config, "plan.recompute") == "full");
  CHECK(imported.config.at("plan.recompute_layers") == nullptr);  // all
  CHECK(imported.config.find("machine")->find("devices")->items().front().find("count")->as_integer() == 8);
  CHECK(imported.ignored.empty());
  REQUIRE(imported.notes.size() == 1);
  CHECK_THAT(imported.notes[0], Contains("the number of devices is not among the arguments: 8"));
  CHECK(runs(imported.config));
  // A layout of three stages for two is told.
  const ImportedConfig wrong = import_megatron(
      launch_arguments(words_of("--num-layers 6 --hidden-size 512 --num-attention-heads 8 "
                                "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|t*2|t*3,L")),
      {});
  CHECK(wrong.ignored == Words{"pipeline_model_parallel_layout=Et|t*2|t*3,L"});
}

TEST_CASE("Windows and sinks by Megatron-LM's arguments, gpt-oss by torchtitan's", "[unit][training]") {
  const auto imported = [](const std::string& more) {
    return import_megatron(launch_arguments(words_of(
                               "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --swiglu --vocab-size 32000 "
                               "--hidden-dropout 0 --attention-dropout 0 --global-batch-size 8 " +
                               more)),
                           {.part = "h100-sxm5-80gb", .devices = 8});
  };
  const ImportedConfig oss = imported("--window-size 128,0 --window-attn-skip-freq 2 --softmax-type learnable");
  const auto model = [](const ImportedConfig& of, const std::string& name) {
    return text(of.config, "model.builder.decoder." + name);
  };
  CHECK(model(oss, "window") == "129");  // 128 tokens before its own
  CHECK(model(oss, "full_every") == "2");
  CHECK(model(oss, "sinks") == "true");
  CHECK(oss.ignored.empty());
  CHECK(runs(oss.config));
  CHECK(model(imported("--window-size 64,0"), "window") == "65");
  // What is no window, no frequency and no softmax of ours is listed.
  CHECK(imported("--window-size -1,0 --window-attn-skip-freq 3").ignored ==
        Words{"window_size=-1,0", "window_attn_skip_freq=3"});
  const ImportedConfig listed = imported("--window-size 64,0 --window-attn-skip-freq [1,0,1,0]");
  CHECK(listed.ignored.size() == 2);
  CHECK(listed.config.at("model.builder.decoder.window") == nullptr);
  CHECK(model(imported("--window-size 64,0 --window-attn-skip-freq 1"), "full_every") == "1");  // every layer is full
  CHECK(imported("--softmax-type off-by-one").ignored == Words{"softmax_type=off-by-one"});
  const ImportedConfig titan = import_torchtitan(
      launch_arguments(words_of("--model.name gpt_oss --model.flavor 20b --training.local_batch_size 1 "
                                "--training.seq_len 2048")),
      {.part = "h100-sxm5-80gb", .devices = 8});
  CHECK(model(titan, "config") == "catalog:gpt-oss-20b");
  CHECK(runs(titan.config));
}

TEST_CASE("DeepSpeed's config: of batch, micro-batch, steps and copies one follows from the others",
          "[unit][training]") {
  const experiments::test::Scratch scratch;
  const auto imported = [&](const std::string& json, std::optional<std::int64_t> devices) {
    const auto file = scratch.write("ds.json", json);
    return import_deepspeed(launch_arguments(file.string(), words_of("--seq-length 4096")),
                            {.part = "a100-sxm4-80gb", .model = "catalog:llama-2-7b", .devices = devices});
  };
  const auto count = [](const ImportedConfig& one) {
    return one.config.find("machine")->find("devices")->items().front().find("count")->as_integer();
  };
  const ImportedConfig told = imported(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2,
      "gradient_accumulation_steps": 4, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
      "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e8}})",
                                       {});
  CHECK(count(told) == 4);  // 32 = 2 x 4 x 4
  CHECK(plan_of(told).zero == Zero::gradients);
  CHECK(plan_of(told).overlap_gradients);
  CHECK(plan_of(told).gradients_fp32);
  CHECK(told.ignored == Words{"zero_optimization.reduce_bucket_size=500000000"});
  CHECK(told.notes.empty());
  CHECK(text(told.config, "workload.sequence") == "4096");
  const ImportedConfig batch =
      imported(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})", 8);
  CHECK(text(batch.config, "workload.global_batch") == "64");  // 2 x 4 x 8
  CHECK(!plan_of(batch).overlap_gradients);                    // DeepSpeed's default below stage 3
  const ImportedConfig micro = imported(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4,
      "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}})",
                                        8);
  CHECK(plan_of(micro).micro_batch == 2);  // 64 / 8 / 4
  CHECK(plan_of(micro).overlap_gradients);
  CHECK(plan_of(micro).offload_optimizer == std::vector<double>{0.5});
  CHECK(text(micro.config, "machine.host_link") == "pcie5-x16");
  CHECK(text(micro.config, "policies.offload.policy") == "host");
  CHECK(runs(micro.config));
  // ZeRO-Infinity: weights too; below stage 3 there is nothing that could.
  const char* infinity =
      R"({"train_batch_size": 8, "zero_optimization": {"stage": %s, "offload_param": {"device": "cpu"}}})";
  const auto staged = [&](const std::string& stage) {
    std::string text = infinity;
    return imported(text.replace(text.find("%s"), 2, stage), 8);
  };
  CHECK(plan_of(staged("3")).offload_weights == std::vector<double>{1});
  CHECK(text(staged("3").config, "machine.host_link") == "pcie5-x16");
  CHECK(staged("3").ignored.empty());
  CHECK(runs(staged("3").config));
  CHECK(plan_of(staged("2")).offload_weights.empty());
  CHECK(staged("2").ignored == Words{"zero_optimization.offload_param.device=cpu"});
  const ImportedConfig automatic =
      imported(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})", {});
  CHECK(count(automatic) == 8);
  CHECK_THAT(automatic.notes[0], Contains("the number of devices is not in the config: 8"));
  CHECK(automatic.ignored.empty());
}

TEST_CASE("What training arguments lack is said in one line", "[unit][training]") {
  CHECK_THAT(fault_of([] { (void)import_megatron(launch_arguments(words_of("--hidden-size 8")), {}); }),
             Contains("expected --num-layers, --hidden-size and --num-attention-heads"));
  CHECK_THAT(fault_of([] { (void)import_torchtitan(launch_arguments(words_of("--model.flavor 9B")), {}); }),
             Contains("expected model llama3 of flavor 8B, 70B or 405B, or gpt_oss of 20B or 120B, got '' '9B'"));
  CHECK_THAT(fault_of([] { (void)import_deepspeed({}, {}); }),
             Contains("expected a model: DeepSpeed's config names none"));
  CHECK_THAT(fault_of([] { (void)launch_arguments(words_of("pretrain_gpt.py")); }),
             Contains("expected --NAME VALUE, got 'pretrain_gpt.py'"));
  const experiments::test::Scratch scratch;
  CHECK_THAT(fault_of([&] { (void)launch_arguments(scratch.write("x.json", "[1]"), {}); }),
             Contains("expected an object of arguments, got an array"));
  // Sizes that nobody has are no numbers.
  const ImportedConfig wild = import_torchtitan(
      launch_arguments(words_of("--model.flavor 8B --training.seq_len 1e300 --parallelism.tensor_parallel_degree -4")),
      {});
  CHECK(text(wild.config, "workload.sequence") == "2048");
  CHECK(text(wild.config, "plan.tensor_parallel") == "1");
}

}  // namespace test_training_args
