// Deployments under closed loops of clients, and what a row of the measured table stands for.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/deployment_loop.hpp"
#include "models/transformer/hf_config.hpp"
#include "tests/measured.hpp"

namespace test_table_silicon {

using namespace orrery;
using namespace orrery::experiments;
using experiments::test::shelf;

namespace {

DeploymentModel deployment(const std::string& model, const models::Split& split = {}) {
  DeploymentParams p;
  p.model = models::load_model("catalog:" + model, home_folder() / "models/catalog");
  p.gpu = shelf().for_table<hw::GpuParams>("h200_sxm").entry->part;
  p.formats.dtype = hw::DType::bf16;
  p.split = split;
  return DeploymentModel(std::move(p));
}

LoopLatency looped(const DeploymentModel& model, const ClosedLoop& loop) {
  policies::BatchingRegistry registry("batching");
  policies::register_batching_policies(registry);
  sim::Faults faults;
  const sim::Node params = sim::parse_json(R"({"max_num_batched_tokens": 8192, "max_num_seqs": 8192})", "batching");
  return simulate_loop(model, loop, registry.prepare("vllm_v1", &params, {}, faults));
}

constexpr const char* kHeader =
    "id,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,moe_quant_mode,batch_size,"
    "tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,prefill_num_workers,prefill_tp_size,prefill_pp_size,"
    "prefill_attention_dp_size,prefill_moe_tp_size,prefill_moe_ep_size,decode_batch_size,decode_num_workers,"
    "decode_tp_size,decode_pp_size,decode_attention_dp_size,decode_moe_tp_size,decode_moe_ep_size,silicon_ttft_ms,"
    "silicon_tpot_ms\n";

Predictions predict(const std::string& rows) {
  return experiments::test::predict(*silicon_tables(), "serving/silicon_ttft_tpot.csv", kHeader + rows);
}

std::string agg(const std::string& model, const std::string& batch, const std::string& ranks,
                const std::string& system = "h200_sxm") {
  return "x,sglang,0,deepseek-ai/" + model + "," + system + ",fp8,agg,1024,1024,fp8,fp8," + batch + "," + ranks +
         ",,,,,,,,,,,,,,100,10\n";
}

const Predictions::Column& column(const Predictions& out, const std::string& metric) {
  for (const Predictions::Column& c : out.columns())
    if (c.metric == metric) return c;
  throw std::logic_error("no such metric");
}

}  // namespace

TEST_CASE("a single client decodes alone: TPOT is the step, TTFT its prompt's step", "[theory]") {
  const DeploymentModel d = deployment("llama-3.1-8b");
  const LoopLatency one = looped(d, {.clients = 1, .prompt_tokens = 1024, .output_tokens = 500, .spread = 0});
  CHECK(one.tpot_s == Approx(d.step_s(1, 1274, 0, 0)).epsilon(2e-3));  // tabulated between contexts
  CHECK(one.ttft_s == Approx(d.step_s(0, 0, 1, 1024)).epsilon(1e-6));  // a size at a knot
}

TEST_CASE("more clients wait longer and slow each other, and together get more", "[prop]") {
  for (const char* model : {"llama-3.1-8b", "qwen3-30b-a3b"}) {
    const DeploymentModel d = deployment(model);
    LoopLatency before{};
    double rate_before = 0;
    for (const double clients : {1.0, 4.0, 16.0, 64.0, 128.0}) {
      CAPTURE(model, clients);
      const LoopLatency now = looped(d, {.clients = clients, .prompt_tokens = 1000, .output_tokens = 1000});
      CHECK(now.tpot_s > before.tpot_s);
      CHECK(now.ttft_s > before.ttft_s);
      const double rate = clients / (now.ttft_s + 1000 * now.tpot_s);
      CHECK(rate > rate_before);
      rate_before = rate;
      before = now;
    }
  }
}

TEST_CASE("clients of fixed lengths keep the order that the first round left", "[theory]") {
  // Eight prompts of 8,000 tokens come at once, one a step. From then on each client's next request comes when its last
  // one ends, a prompt's time after the one before. The engine has decided on the next step by then: that computes the
  // prompt of the client before, and the one behind it the new one: two prompts' time.
  const DeploymentModel d = deployment("llama-3.1-8b");
  const ClosedLoop loop{.clients = 8, .prompt_tokens = 8000, .output_tokens = 400, .spread = 0};
  ClosedLoop once = loop;
  once.rounds = 1;
  const double prompt = d.step_s(0, 0, 1, 8000);
  const double first = looped(d, once).ttft_s, all = looped(d, loop).ttft_s;
  CHECK(first > 4.2 * prompt);  // 1 to 8 prompts, 4.5 in the mean: a step has room for 192 tokens of the next
  CHECK(first < 5.5 * prompt);
  const double later = (10 * all - first) / 9;  // of the nine rounds behind the first
  CHECK(later > 1.7 * prompt);
  CHECK(later < 2.3 * prompt);
}

TEST_CASE("clients beyond the cache wait for a place", "[unit]") {
  const DeploymentModel d = deployment("llama-3.1-70b");  // 141 GB in bf16 do not fit one device of 141 GB
  CHECK(d.capacity(2000) < 0);
  const DeploymentModel two = deployment("llama-3.1-70b", {.tp = 2, .attention_dp = 1, .expert_parallel = 1});
  const double room = two.capacity(10000);
  REQUIRE(room > 1);
  const LoopLatency fits = looped(two, {.clients = std::floor(room), .prompt_tokens = 9500, .output_tokens = 1000});
  const LoopLatency waits =
      looped(two, {.clients = 2 * std::floor(room), .prompt_tokens = 9500, .output_tokens = 1000});
  // As many again as fit wait a whole cycle.
  CHECK(waits.ttft_s > 1000 * fits.tpot_s);
  // Those in the cache decode as before, but for who is preempted as the last blocks go.
  CHECK(waits.tpot_s == Approx(fits.tpot_s).epsilon(0.25));
}

TEST_CASE("decodes of a disaggregated deployment are not stretched by prompts", "[unit]") {
  const DeploymentModel d = deployment("llama-3.1-8b");
  const ClosedLoop loop{.clients = 32, .prompt_tokens = 7000, .output_tokens = 1000};
  const LoopLatency together = looped(d, loop);
  const LoopLatency apart = d.disaggregated(loop, d, {.split = {}, .workers = 2, .decode_workers = 1});
  CHECK(apart.tpot_s < 0.8 * together.tpot_s);
  // With a third of the workers prompts queue.
  const LoopLatency few = d.disaggregated(loop, d, {.split = {}, .workers = 0.5, .decode_workers = 1});
  CHECK(few.ttft_s > apart.ttft_s);
}

TEST_CASE("a label of ranks that are counted twice is one node", "[unit]") {
  // "TP 8, EP 8" with 64 clients, written as 64 ranks and as 8.
  const Predictions out = predict(agg("DeepSeek-R1", "64", "64,1,1,8,8") + agg("DeepSeek-R1", "64", "8,1,1,1,8") +
                                  agg("DeepSeek-R1", "2", "1,1,64,8,8") + agg("DeepSeek-R1", "16", "1,1,8,1,8"));
  CHECK(column(predict(agg("DeepSeek-R1-0528-FP8", "64", "8,1,1,1,8")), "tpot").rows.at(0).predicted ==
        column(out, "tpot").rows.at(0).predicted);  // publishers add to a name
  for (const char* metric : {"tpot", "ttft"}) {
    const auto& rows = column(out, metric).rows;
    REQUIRE(rows.size() == 4);
    CHECK(rows[0].predicted == rows[1].predicted);
    CHECK(rows[2].predicted == rows[3].predicted);  // 128 clients over 8 groups
  }
  // "tp 4, attention_dp 4, moe_ep 16" with 8 clients a rank is four ranks with 32 clients.
  const Predictions four =
      predict(agg("DeepSeek-R1", "8", "4,1,4,1,16", "b300_sxm") + agg("DeepSeek-R1", "32", "4,1,1,1,4", "b300_sxm"));
  const auto& rows = column(four, "ttft").rows;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].predicted == rows[1].predicted);
}

TEST_CASE("prompts wait for others where TensorRT-LLM was told so", "[unit]") {
  // Llama at 1024 and 1024 tokens on fewer than eight ranks: 20 steps of decodes at most. With outputs of 1200, or on
  // eight ranks, they do not.
  const auto row = [](const char* system, const char* osl, const char* batch, const char* ranks) {
    return std::string("x,trtllm,1.0,meta-llama/Llama-3.1-70B-Instruct,") + system + ",fp8,agg,1024," + osl +
           ",fp8,fp8," + batch + "," + ranks + ",1,1,1,1,,,,,,,,,,,,,,100,10\n";
  };
  const auto steps = [&](const char* system, const char* batch, const char* ranks) {
    const Predictions out = predict(row(system, "1024", batch, ranks) + row(system, "1200", batch, ranks));
    const auto &ttft = column(out, "ttft").rows, &tpot = column(out, "tpot").rows;
    return (ttft.at(0).predicted - ttft.at(1).predicted) / tpot.at(1).predicted;
  };
  CHECK(steps("b200_sxm", "16", "4") > 15);
  CHECK(steps("b200_sxm", "16", "4") < 20);
  CHECK(steps("h200_sxm", "4", "4") > 15);
  CHECK(std::abs(steps("b200_sxm", "16", "8")) < 1);
}

TEST_CASE("rows that nothing covers say why", "[unit]") {
  const std::pair<std::string, const char*> cases[] = {
      {agg("Some-Model", "4", "8,1,1,8,1"), "layers of deepseek-ai/Some-Model are not modelled"},
      {agg("DeepSeek-R1-Distill-Llama-70B", "4", "8,1,1,8,1"),
       "layers of deepseek-ai/DeepSeek-R1-Distill-Llama-70B are not modelled"},
      {agg("DeepSeek-V3.2-Exp", "4", "8,1,1,8,1"), "layers of deepseek-ai/DeepSeek-V3.2-Exp are not modelled"},
      {agg("DeepSeek-R1", "4", "8,1,1,8,1", "zx81"), "no part of the catalog stands for 'zx81'"},
      {agg("DeepSeek-R1", "4", "8,2,1,8,1"), "pipeline stages are not part of the closed form"},
      {agg("DeepSeek-R1", "4", "16,1,1,16,1"), "more ranks than devices behind one switch"},
      {agg("DeepSeek-R1", "4", "1,1,1,1,1"), "weights and one request do not fit the memory"},
      {"x,sglang,0,deepseek-ai/DeepSeek-R1,h200_sxm,fp8,disagg,1024,1024,fp8,fp8,,,,,,,,8,1,1,8,1,,,8,1,1,8,1,100,10\n",
       "disaggregated: batch and number of workers are not given"},
  };
  for (const auto& [row, why] : cases) {
    CAPTURE(why);
    const Predictions out = predict(row);
    for (const char* metric : {"tpot", "ttft"}) {
      CHECK(column(out, metric).uncovered == 1);
      CHECK(column(out, metric).reasons == std::vector<std::string>{why});
    }
  }
  CHECK(silicon_tables()->reads("serving/silicon_ttft_tpot.csv"));
  CHECK_FALSE(silicon_tables()->reads("serving/apex_8xh100_vllm.csv"));
}

}  // namespace test_table_silicon
