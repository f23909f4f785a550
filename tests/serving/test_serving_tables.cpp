// Tables of measured iterations: rows with known answers.
#include <catch2/catch.hpp>

#include "tests/measured.hpp"

namespace test_serving_tables {

using namespace orrery;
using namespace orrery::experiments;

namespace {

Predictions predict(const TableKind& kind, const std::string& text, const std::string& name) {
  return experiments::test::predict(kind, name, text);
}

const Predictions::Column& column(const Predictions& out, const std::string& metric) {
  for (const Predictions::Column& c : out.columns())
    if (c.metric == metric) return c;
  throw std::logic_error("no such metric");
}

const std::string kSplitwise =
    "model,hardware,prompt_size,batch_size,token_size,prompt_time,token_time,tensor_parallel\n";
const std::string kSarathi = "batch_num_decode_tokens,batch_num_prefill_tokens,Batch Id,batch_execution_time\n";
const char* const kFile = "serving/sarathi_osdi24/x.csv";

}  // namespace

TEST_CASE("Splitwise rows: a token costs the weights and the host, prompts their batch", "[unit]") {
  const auto kind = serving_splitwise_tables();
  REQUIRE(kind->reads("serving/splitwise_perf_power.csv"));
  const Predictions out = predict(*kind,
                                  kSplitwise +
                                      "llama2-70b,a100-80gb,512,1,128,100,30,4\n"
                                      "llama2-70b,a100-80gb,512,2,128,200,30,4\n"
                                      "llama2-70b,h100-80gb,512,1,128,50,20,4\n"
                                      "llama2-70b,a100-80gb,512,64,128,100,30,2\n"
                                      "llama2-70b,h100-80gb-pcap,512,1,128,100,30,4\n"
                                      "bloom-176b,a100-80gb,512,1,128,100,30,4\n",
                                  "serving/splitwise_perf_power.csv");
  const Predictions::Column &prompt = column(out, "prompt"), &token = column(out, "token");
  // Launches are the floor: 80 layers of 14 kernels and collectives or so at 38 us, 1.6 ms an iteration, 0.27 a
  // sequence.
  CHECK(token.rows.at(0).predicted > 80 * 13 * 0.038 + 1.87);
  CHECK(token.rows.at(0).predicted < 80 * 15 * 0.038 + 1.87);
  CHECK(token.rows.at(0).measured == 30);
  // 2 x 69e9 x 512 FLOP / 4 ranks / 312 TFLOP/s = 57 ms at the peak, of which they reach 40 % at least; and the
  // request.
  CHECK(prompt.rows.at(0).predicted > 15.87 + 57);
  CHECK(prompt.rows.at(0).predicted < 15.87 + 57 * 2.5);
  CHECK(prompt.rows.at(1).predicted > 1.6 * prompt.rows.at(0).predicted);
  CHECK(token.rows.at(1).predicted < 1.1 * token.rows.at(0).predicted);
  CHECK(prompt.rows.at(2).predicted < prompt.rows.at(0).predicted);
  // Beside H100 the host is faster: 24 us.
  CHECK(token.rows.at(2).predicted - 1.87 == Approx((token.rows.at(0).predicted - 1.87) * 24 / 38).epsilon(1e-6));
  // Not covered: a batch that did not run as one, another model. A part under a cap stands apart.
  CHECK(prompt.rows.size() == 3);
  CHECK(prompt.uncovered == 2);
  CHECK(token.rows.size() == 3);
  CHECK(token.uncovered == 2);
  CHECK(column(out, "prompt (capped)").rows.size() == 1);
  CHECK(column(out, "prompt (capped)").rows.at(0).predicted > prompt.rows.at(2).predicted);
  CHECK(column(out, "token (capped)").rows.at(0).predicted == token.rows.at(2).predicted);
}

TEST_CASE("Sarathi rows: decodes, prompts and both; the first batch warms up", "[unit]") {
  const auto kind = serving_sarathi_tables();
  REQUIRE(kind->reads(kFile));
  const Predictions out =
      predict(*kind, kSarathi + "1,0,0,9\n1,0,1,0.05\n128,0,2,0.2\n0,2048,3,0.3\n128,2048,4,0.5\n", kFile);
  const Predictions::Column& time = column(out, "time");
  REQUIRE(time.rows.size() == 4);
  CHECK(time.uncovered == 1);
  CHECK(time.rows[0].regimes == std::vector<std::string_view>{"decode only"});
  CHECK(time.rows[2].regimes == std::vector<std::string_view>{"prefill only"});
  CHECK(time.rows[3].regimes == std::vector<std::string_view>{"hybrid"});
  // One decode is paced by the launches of 60 layers, 0.78 ms each, and its own 1.15 ms.
  CHECK(time.rows[0].predicted == Approx(60 * 0.78e-3 + 1.15e-3).epsilon(0.05));
  // 127 more decodes: 1.15 ms each on the host, and what the devices take past the pace of launches.
  CHECK(time.rows[1].predicted - time.rows[0].predicted > 127 * 1.15e-3 - 1e-9);
  // Both together take longer than each, and less than one after the other.
  CHECK(time.rows[3].predicted > time.rows[1].predicted);
  CHECK(time.rows[3].predicted > time.rows[2].predicted);
  CHECK(time.rows[3].predicted < time.rows[1].predicted + time.rows[2].predicted);
}

TEST_CASE("Sarathi rows: a table without the columns is left out with a reason", "[unit]") {
  const Predictions out = predict(*serving_sarathi_tables(), "a,b\n1,2\n3,4\n", kFile);
  CHECK(column(out, "time").uncovered == 2);
  CHECK(column(out, "time").reasons.size() == 1);
}

TEST_CASE("Layered Prefill rows: a prompt by chunk, on both boards that it may have been", "[unit]") {
  const auto kind = serving_layered_tables();
  const std::string file = "systems/layered_prefill_repo.csv";
  REQUIRE(kind->reads(file));
  CHECK_FALSE(kind->reads("systems/layered_prefill.csv"));
  const Predictions out = predict(*kind,
                                  "item,x,metric,value\n"
                                  "duration_vs_chunk_size,512,prefill_runtime_total,560\n"
                                  "duration_vs_chunk_size,8192,prefill_runtime_total,209\n"
                                  "duration_vs_chunk_size,512,moe_weight_bytes_total,764\n"
                                  "duration_vs_chunk_size,0,prefill_runtime_total,9\n"
                                  "readme,1.5,ttft_mean,1018\n",
                                  file);
  const Predictions::Column& sxm = column(out, "prompt (SXM)");
  const Predictions::Column& pcie = column(out, "prompt (PCIe)");
  REQUIRE(sxm.rows.size() == 2);
  REQUIRE(pcie.rows.size() == 2);
  CHECK(sxm.uncovered == 3);
  CHECK(sxm.rows[0].measured == Approx(0.56));
  CHECK(sxm.rows[0].regimes == std::vector<std::string_view>{"chunk < 2048"});
  // 96 all-reduces of 8,192 x 2,048 values of two bytes, each as long as its 33.6 MB take over PCIe at its best, 63 GB/s,
  // where NVLink has 900: that much the boards differ by at least, whatever else they do.
  CHECK(pcie.rows[1].predicted - sxm.rows[1].predicted > 96 * 33.55e6 * (1 / 63e9 - 1 / 450e9));
  // Sixteen chunks read experts sixteen times: no board makes them one.
  CHECK(sxm.rows[0].predicted > 2 * sxm.rows[1].predicted);
  CHECK(pcie.rows[0].predicted > 2 * pcie.rows[1].predicted);
}

TEST_CASE("vLLM runs of parts and models nobody knows are left out with a reason", "[unit]") {
  const Predictions out =
      predict(*serving_vllm_tables(), "arrived_at,num_prefill_tokens\n0,1\n", "serving/vllm_NOPART_Llama-3.1-8B.csv");
  REQUIRE(column(out, "ttft").reasons.size() == 1);
  CHECK_THAT(column(out, "ttft").reasons.front(), Catch::Contains("NOPART"));
}

}  // namespace test_serving_tables
