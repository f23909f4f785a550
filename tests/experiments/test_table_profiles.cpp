// Tables of modules (vLLM profiles): what a path and a row stand for.
#include <catch2/catch.hpp>
#include <string>

#include "hw/base/kernel_builders.hpp"
#include "hw/tiled/grouped.hpp"
#include "hw/tiled/stream.hpp"
#include "hw/tiled/tiled.hpp"
#include "tests/measured.hpp"

namespace test_table_profiles {

using namespace orrery;
using namespace orrery::experiments;
using experiments::test::shelf;

namespace {

constexpr hw::DType kType = hw::DType::bf16;

const hw::GpuParams& part() {
  return shelf().for_table<hw::GpuParams>("RTX4090").entry->part;
}

Predictions predict(const std::string& name, const std::string& text) {
  return experiments::test::predict(*profile_tables(), name, text);
}

double only(const Predictions& out) {
  REQUIRE(out.columns().size() == 1);
  REQUIRE(out.columns()[0].rows.size() == 1);
  return out.columns()[0].rows[0].predicted;
}

}  // namespace

TEST_CASE("products of a profile are a rank's part of the model, without launch and power limit", "[unit]") {
  // Llama 3.1 8B: 32 query and 8 key heads of 128 on hidden 4096. Two ranks: (16 + 2 * 4) * 128 = 3072 columns.
  const std::string row = "layer,tokens,time_us\nqkv_proj,64,50\n";
  const hw::GemmConditions cold{.weight_copies = 0, .activity = 0};
  const double one = hw::plan_gemm(part(), {64, 6144, 4096}, kType, cold).time.time_s + part().launch_graph_s;
  const double two = hw::plan_gemm(part(), {64, 3072, 4096}, kType, cold).time.time_s + part().launch_graph_s;
  CHECK(only(predict("profiles/RTX4090/Llama-3.1-8B/tp1/dense.csv", row)) == Approx(one * 1e6));
  CHECK(only(predict("profiles/RTX4090/Llama-3.1-8B/tp2/dense.csv", row)) == Approx(two * 1e6));
}

TEST_CASE("the norm of a layer is the mean of the first and of the one that adds the residual", "[unit]") {
  const auto norm = [](std::int64_t reads, std::int64_t writes, std::int64_t flops) {
    const hw::Streaming pass{reads, writes, flops, 0, hw::Pass::elementwise};  // 16 bytes a thread
    return part().launch_graph_s + hw::tiled_streaming(part(), pass, hw::OpClass::norm, kType).time_s;
  };
  // 10 rows of 4096 in 2 bytes are 81,920 bytes; the weight is 8,192 more. 4 FLOPs an element and 4 a row; one more to
  // add.
  const double plain = norm(90112, 81920, 4 * 40960 + 40), added = norm(172032, 163840, 5 * 40960 + 40);
  const std::string path = "profiles/RTX4090/Llama-3.1-8B/tp1/dense.csv", header = "layer,tokens,time_us\n";
  CHECK(only(predict(path, header + "layernorm,10,2\n")) == Approx((plain + added) / 2 * 1e6));
  CHECK(only(predict(path, header + "final_layernorm,10,2\n")) == Approx(added * 1e6));
}

TEST_CASE("attention of a profile is a cache write and one launch over chunk and decodes", "[unit]") {
  const std::string path = "profiles/RTX4090/Llama-3.1-8B/tp1/attention.csv";
  const std::string header = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  const auto expected = [](std::int64_t tokens, double attention_s) {
    return (attention_s + hw::tiled_cache_write(part(), tokens, 1024, kType).time_s + 2 * part().launch_graph_s) * 1e6;
  };
  // 3 decodes of 100 cached tokens attend to 303; a chunk of 200 after 50: 200 * 50 + 200 * 201 / 2 = 30,100 pairs.
  const hw::AttentionDecode decodes{3, 303, 32, 8, 128};
  const hw::AttentionPrefill chunk{1, 200, 250, 30100, 2, 32, 8, 128};
  CHECK(only(predict(path, header + "0,0,3,100,9\n")) ==
        Approx(expected(3, hw::tiled_decode(part(), decodes, kType).time_s)));
  CHECK(only(predict(path, header + "200,50,0,0,9\n")) ==
        Approx(expected(200, hw::tiled_prefill(part(), chunk, kType).time_s)));
  CHECK(only(predict(path, header + "200,50,3,100,9\n")) ==
        Approx(expected(203, hw::tiled_mixed(part(), chunk, decodes, kType).time_s)));
}

TEST_CASE("experts of a profile share the routed rows evenly", "[unit]") {
  // 5 tokens of 8 experts are 40 rows over 12 experts: four of 4 and eight of 3.
  const std::vector<std::int64_t> rows{4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3};
  const hw::GpuParams& gpu = shelf().for_table<hw::GpuParams>("RTXPRO6000").entry->part;
  const hw::MoeLayer layer{.tokens = 5, .hidden = 2048, .intermediate = 384, .top_k = 8};
  const std::string path = "profiles/RTXPRO6000/Qwen3-30B-A3B-Instruct-2507/tp2/moe.csv";
  const std::string header = "tokens,activated_experts,time_us\n";
  CHECK(only(predict(path, header + "5,12,90\n")) == Approx(hw::moe_layer_time(gpu, layer, rows, kType) * 1e6));
  CHECK(predict(path, header + "1,9,90\n").columns()[0].uncovered == 1);  // one token reaches eight
}

TEST_CASE("profiles of what nobody knows are left out with a reason", "[unit]") {
  const std::string text = "layer,tokens,time_us\nqkv_proj,1,9\nmystery,1,9\n";
  const auto part_out = predict("profiles/NOBODY/Llama-3.1-8B/tp1/dense.csv", text);
  CHECK(part_out.columns()[0].uncovered == 2);
  CHECK(part_out.columns()[0].reasons == std::vector<std::string>{"no part of the catalog stands for it"});
  const auto model = predict("profiles/RTX4090/Unheard-1B/tp1/dense.csv", text);
  CHECK(model.columns()[0].reasons == std::vector<std::string>{"layers of model 'Unheard-1B' are not known"});
  const auto module = predict("profiles/RTX4090/Llama-3.1-8B/tp1/dense.csv", text);
  CHECK(module.columns()[0].rows.size() == 1);
  CHECK(module.columns()[0].reasons == std::vector<std::string>{"module 'mystery' is not known"});
  CHECK(profile_tables()->reads("profiles/RTX4090/Llama-3.1-8B/tp1/moe.csv"));
  CHECK_FALSE(profile_tables()->reads("profiles/RTX4090/meta.csv"));
}

}  // namespace test_table_profiles
