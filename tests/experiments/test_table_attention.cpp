// Attention tables of fidelity: what a row stands for, and what it does not say.
#include <catch2/catch.hpp>
#include <string>

#include "hw/tiled/tiled.hpp"
#include "tests/measured.hpp"

namespace test_table_attention {

using namespace orrery;
using namespace orrery::experiments;
using experiments::test::predict;
using experiments::test::shelf;

TEST_CASE("a row of attention is a write into the cache and attention over it", "[unit]") {
  const auto kind = attention_tables();
  const hw::GpuParams& gpu = shelf().for_table<hw::GpuParams>("a100_sxm").entry->part;
  const hw::AttentionConditions repeated{.resident = true};
  // 3 prompts of 100 tokens: 300 queries, 3 * 5050 pairs, one tile of 128 each; 2 key heads of 128 elements a token.
  const auto context = predict(*kind, "attention/a100_sxm.context.csv",
                               "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n3,100,8,2,128,50\n");
  const hw::AttentionPrefill prompts{3, 300, 300, 15150, 3, 8, 2, 128};
  const double prompts_s = hw::tiled_prefill(gpu, prompts, hw::DType::bf16, repeated).time_s +
                           hw::tiled_cache_write(gpu, 300, 256, hw::DType::bf16, repeated).time_s;
  REQUIRE(context.columns().size() == 1);
  CHECK(context.columns()[0].rows[0].predicted == Approx((prompts_s + 2 * gpu.launch_graph_s) * 1e6));
  CHECK(context.columns()[0].rows[0].measured == 50);
  // 3 sequences of 100 tokens of context: three tokens are written.
  const auto generation = predict(*kind, "attention/a100_sxm.generation.csv",
                                  "batch,num_heads,num_kv_heads,head_dim,context,time_us\n3,8,2,128,100,50\n");
  const double decode_s = hw::tiled_decode(gpu, {3, 300, 8, 2, 128}, hw::DType::bf16, repeated).time_s +
                          hw::tiled_cache_write(gpu, 3, 256, hw::DType::bf16, repeated).time_s;
  CHECK(generation.columns()[0].rows[0].predicted == Approx((decode_s + 2 * gpu.launch_graph_s) * 1e6));
}

TEST_CASE("a row that PyTorch measured is attention alone, by its library", "[unit]") {
  const auto kind = attention_tables();
  const hw::GpuParams& gpu = shelf().for_table<hw::GpuParams>("h100_pytorch").entry->part;
  const std::string row = "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n3,100,8,2,128,50\n";
  hw::AttentionPrefill prompts{3, 300, 300, 15150, 3, 8, 2, 128};
  const auto alone = [&](const hw::GpuParams& part) {
    return (hw::tiled_prefill(part, prompts, hw::DType::bf16, {.resident = true}).time_s + part.launch_graph_s) * 1e6;
  };
  const hw::GpuParams second = hw::with_attention(gpu, hw::AttentionLibrary::flash2);
  const auto forward = predict(*kind, "attention/h100_pytorch.context.csv", row);
  CHECK(forward.columns()[0].metric == "flash2");
  CHECK(forward.columns()[0].rows[0].predicted == Approx(alone(second)));
  CHECK(predict(*kind, "attention/h100_cudnn.context.csv", row).columns()[0].rows[0].predicted == Approx(alone(gpu)));
  prompts.backward = true;
  const auto backward = predict(*kind, "attention/h100_pytorch.backward.csv", row);
  CHECK(backward.columns()[0].metric == "flash2 gradient");
  CHECK(backward.columns()[0].rows[0].predicted == Approx(alone(second)));
  const auto cudnn = predict(*kind, "attention/h100_cudnn.backward.csv", row);
  CHECK(cudnn.columns()[0].metric == "gradient");
  CHECK(cudnn.columns()[0].rows[0].predicted == Approx(alone(gpu)));
}

TEST_CASE("predictions of attention do not depend on what was measured", "[prop]") {
  const auto kind = attention_tables();
  const std::string header = "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n";
  const auto one = predict(*kind, "attention/l40s.context.csv", header + "8,512,32,8,128,50\n");
  const auto other = predict(*kind, "attention/l40s.context.csv", header + "8,512,32,8,128,5000\n");
  CHECK(one.columns()[0].rows[0].predicted == other.columns()[0].rows[0].predicted);
}

TEST_CASE("attention tables of parts that nobody knows are left out with a reason", "[unit]") {
  const auto kind = attention_tables();
  const auto out = predict(*kind, "attention/nobody.context.csv",
                           "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n1,1,1,1,64,9\n1,2,1,1,64,9\n");
  CHECK(out.columns()[0].uncovered == 2);
  CHECK(out.columns()[0].reasons == std::vector<std::string>{"no part of the catalog stands for it"});
  CHECK(kind->reads("attention/b200_sxm.generation.csv"));
  CHECK_FALSE(kind->reads("attention/README.csv"));
  // Parts without measured attention have an answer too.
  const auto b200 = predict(*kind, "attention/b200_sxm.context.csv",
                            "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n1,16384,32,8,128,1\n");
  const auto h200 = predict(*kind, "attention/h100_sxm.context.csv",
                            "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n1,16384,32,8,128,1\n");
  CHECK(b200.columns()[0].rows[0].predicted < h200.columns()[0].rows[0].predicted);
}

TEST_CASE("a table whose launches were planned for other heads costs more", "[unit]") {
  const auto kind = attention_tables();
  const std::string text = "batch,tokens,num_heads,num_kv_heads,head_dim,time_us\n4,4096,32,32,128,1\n";
  const double h200 = predict(*kind, "attention/h200_sxm.context.csv", text).columns()[0].rows[0].predicted;
  const double h100 = predict(*kind, "attention/h100_sxm.context.csv", text).columns()[0].rows[0].predicted;
  CHECK(h200 > 1.8 * h100);  // a second, idle tile for every tile, each over all keys: 0.5 + 1 of 0.5
}

TEST_CASE("rows of Jetson attention name splits and packing", "[unit]") {
  const auto kind = edge_attention_tables();
  const std::string header =
      "seq_len_q,seq_len_kv,num_heads_q,num_heads_kv,head_dim,num_splits,is_causal,pack_gqa,precision,output_dtype,"
      "min_runtime\n";
  const auto out = predict(*kind, "edge/flashattn_orin.csv",
                           header +
                               "64,1536,16,4,128,2,False,True,fp16,fp16,0.06\n"
                               "64,1536,16,4,128,2,False,True,int3,int3,0.06\n");
  const hw::GpuParams& gpu = shelf().for_table<hw::GpuParams>("flashattn_orin").entry->part;
  const hw::AttentionPrefill shape{1, 64, 1536, 64 * 1536, 1, 16, 4, 128, 0, false};
  const double s = hw::tiled_prefill(gpu, shape, hw::DType::fp16, {.resident = true, .splits = 2, .pack = 4}).time_s +
                   gpu.launch_graph_s;
  CHECK(out.columns()[0].rows[0].predicted == Approx(s));
  CHECK(out.columns()[0].rows[0].measured == Approx(0.06e-3));
  CHECK(out.columns()[0].uncovered == 1);
  CHECK(kind->reads("edge/power_log_thor.csv"));
}

}  // namespace test_table_attention
