// Measured tables of experts: what `orrery fidelity` makes of their rows.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/experiments/support.hpp"
#include "tests/measured.hpp"

namespace test_expert_tables {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

TEST_CASE("experts: rows of measured placements and rates", "[golden]") {
  const auto placement = expert_placement_tables();
  const Predictions shares = predict(*placement, "systems/kt_expert_placement.csv",
                                     "gpu_expert_pct,random,uniform,front_loading,frequency,dynamic_update\n"
                                     "0,53,53,53,53,53\n40,53,53,53,53,53\n100,53,53,53,53,53\n");
  REQUIRE(shares.columns().size() == 5);
  const auto at = [&](std::size_t column, std::size_t row) { return shares.columns()[column].rows[row].predicted; };
  for (std::size_t column = 0; column < 4; ++column) {
    CHECK(at(column, 0) == Approx(53.0).epsilon(0.02));
    CHECK(at(column, 2) == Approx(112.3).epsilon(0.02));
  }
  CHECK(at(3, 1) > 1.1 * at(0, 1));  // frequency over uniform
  CHECK(at(2, 1) > at(0, 1));        // whole layers pay no hand-over
  const auto points = ktransformers_tables();
  const Predictions rates = predict(
      *points, "systems/ktransformers_points.csv",
      "cpu,engine,experts,prompt_tokens,decode_tok_s\n1 socket,KTransformers 0.2,8,500,8.73\n"
      "2 sockets,KTransformers 0.2,8,500,12.208\n2 sockets,llama.cpp,8,500,4.51\n1 socket,KTransformers 0.2,8,500,\n");
  REQUIRE(rates.columns().size() == 1);
  REQUIRE(rates.columns()[0].rows.size() == 2);
  CHECK(rates.columns()[0].uncovered == 2);
  CHECK(rates.columns()[0].rows[0].predicted == Approx(8.73).epsilon(0.02));
  CHECK(rates.columns()[0].rows[1].predicted == Approx(12.208).epsilon(0.05));
}

TEST_CASE("expert tables: oracles of public router traces, to the digit", "[golden]") {
  const fs::path data = ORRERY_SHARED_DIR "/data";
  if (!fs::exists(data / "systems/moe_router_cache_oracle.csv")) {
    WARN("no reference data beside the checkout");
    return;
  }
  const auto judged = [&](std::unique_ptr<TableKind> kind, const char* name) {
    Predictions out;
    kind->predict(MeasuredTable::read(data, name), shelf(), out);
    return out;
  };
  std::size_t rows = 0;
  const Predictions rows_1 = judged(moe_cache_oracle_tables(), "systems/moe_router_cache_oracle.csv");
  for (const auto& column : rows_1.columns())
    for (const auto& row : column.rows) {
      CHECK(row.predicted == row.measured);
      ++rows;
    }
  CHECK(rows >= 72);
  const Predictions rows_2 = judged(moe_router_profile_tables(), "systems/moe_router_profile_qwen3.csv");
  for (const auto& column : rows_2.columns())
    for (const auto& row : column.rows) {
      CHECK(row.predicted == Approx(row.measured).epsilon(column.metric == "figure" ? 1e-12 : 0.04));
      ++rows;
    }
  const Predictions rows_3 = judged(eplb_oracle_tables(), "systems/eplb_oracle.csv");
  for (const auto& column : rows_3.columns())
    for (const auto& row : column.rows) CHECK(row.predicted == 16);
  const Predictions rows_4 = judged(moe_ep_imbalance_tables(), "systems/moe_ep_imbalance.csv");
  for (const auto& column : rows_4.columns())
    for (const auto& row : column.rows) {
      if (column.metric == "EPLB's example") CHECK(row.predicted == row.measured);
      if (!row.regimes.empty() && row.regimes[0] == "EPLB") CHECK(std::abs(row.predicted - row.measured) < 0.1);
    }
}

TEST_CASE("expert tables: steps of wide expert parallelism", "[golden]") {
  // wide_ep_serving_points.csv: SGLang and DeepSeek's profile, tokens/s of a node; gains of two-batch overlap.
  const auto kind = wide_ep_tables();
  const Predictions out = predict(*kind, "systems/wide_ep_serving_points.csv",
                                  "system,phase,ep,batch_per_gpu,input_or_kv_len,metric,value\n"
                                  "DeepSeek profile,decode,128,128,4096,tokens_per_s_node,18598\n"
                                  "SGLang,decode,72,256,2000,tokens_per_s_node,22282\n"
                                  "DeepSeek profile,prefill,32,16384 tokens,4096,tokens_per_s_node,62713\n"
                                  "SGLang default routing,prefill,32,16384 tokens,4096,tokens_per_s_node,50302\n"
                                  "SGLang,decode,72,32,,two_batch_overlap gain,0.73\n"
                                  "SGLang,decode,72,256,2000,two_batch_overlap gain,1.255\n"
                                  "SGLang + simulated MTP,decode,72,128,4000,tokens_per_s_node,17373\n"
                                  "DeepSeek online,decode,144,,4989,tokens_per_s_node,14800\n"
                                  "DeepSeek online,decode,144,,4989,tokens_per_s_per_user,20-22\n"
                                  "Another,decode,144,,4989,tokens_per_s_node,14800\n");
  REQUIRE(out.columns().size() == 2);
  // The online row's batch is 14,800 / 8 / 21 = 88 users a GPU; without what a user gets nobody knows it.
  REQUIRE(out.columns()[0].rows.size() == 5);
  CHECK(out.columns()[0].uncovered == 3);  // with draft tokens, a user's rate, a batch that is not said
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(out.columns()[0].rows[i].predicted == Approx(out.columns()[0].rows[i].measured).epsilon(0.15));
  CHECK(out.columns()[0].rows[4].predicted == Approx(12231).epsilon(1e-3));  // 17 % short: docs/explain/wide-ep.md
  const auto& gains = out.columns()[1].rows;
  CHECK(gains[0].predicted < 1);  // small batches pay the fixed part of an exchange twice
  CHECK(gains[1].predicted > 1);
  // The profile has even routing, SGLang does not: the same step with less for everybody to wait for.
  CHECK(out.columns()[0].rows[2].predicted > out.columns()[0].rows[3].predicted);
}

}  // namespace test_expert_tables
