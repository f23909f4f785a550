// The `profile` model: measured times back, interpolation between them, refusal or scaling outside.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "hw/cost/profile_table.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/parts.hpp"

namespace test_profile {

using namespace orrery;
using namespace orrery::hw;
using orrery::hw::test::part;

namespace {

namespace fs = std::filesystem;

/// A folder of tables that goes away with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / "orrery_test_profile";
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

std::unique_ptr<CostModel> profile(const std::string& params) {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test.json");
  const auto choice = registry.prepare("profile", &node, {}, faults);
  faults.throw_if_any();
  return choice.make(device_of(part("a100-sxm4-80gb")));
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "no fault";
}

Kernel product(std::int64_t m, std::int64_t n = 4096, std::int64_t k = 1024) {
  return {OpClass::ffn_up, DType::fp16, Gemm{m, n, k}};
}

constexpr const char* kGemm =
    "dtype,m,n,k,time_us\nfp16,16,4096,1024,10\nfp16,64,4096,1024,20\nfp16,256,4096,1024,80\n";

}  // namespace

TEST_CASE("times between points are linear in the logarithms", "[unit][profile]") {
  ProfileTable table;
  table.add({{1, 2, 3}, 1, 16, 10e-6});
  table.add({{1, 2, 3}, 1, 64, 20e-6});
  table.add({{1, 2, 3}, 4, 16, 40e-6});
  table.add({{1, 2, 3}, 4, 64, 80e-6});
  CHECK(table.size() == 4);
  CHECK(table.at({1, 2, 3}, 1, 16).value() == Approx(10e-6));
  CHECK(table.at({1, 2, 3}, 1, 32).value() == Approx(std::sqrt(10e-6 * 20e-6)));  // half way in log y
  CHECK(table.at({1, 2, 3}, 2, 16).value() == Approx(20e-6));                     // sqrt(10 * 40)
  CHECK(table.at({1, 2, 3}, 2, 32).value() == Approx(std::sqrt(std::sqrt(10e-6 * 20e-6) * std::sqrt(40e-6 * 80e-6))));
  for (const auto& [x, y] : {std::pair{1.0, 15.0}, {1.0, 65.0}, {0.5, 32.0}, {5.0, 32.0}})
    CHECK_FALSE(table.at({1, 2, 3}, x, y).has_value());
  CHECK_FALSE(table.at({1, 2, 4}, 1, 16).has_value());
  const auto near = table.nearest({1, 2, 3}, 5, 100);
  CHECK(near->x == Approx(4));
  CHECK(near->y == Approx(64));
  CHECK(table.nearest({1, 2, 4}, 1, 16)->group == ProfileTable::Group{1, 2, 3});
  CHECK_FALSE(ProfileTable().nearest({}, 1, 1).has_value());
}

TEST_CASE("interpolation stays between its neighbours", "[prop][profile]") {
  sim::RandomStream random(3, "profile");
  ProfileTable table;
  std::vector<double> times;
  for (int i = 0; i < 12; ++i) {
    times.push_back(random.uniform(1e-6, 1e-3));
    table.add({{}, 1, std::pow(2.0, i), times.back()});
  }
  for (int round = 0; round < 2000; ++round) {
    const double at = random.uniform(0, 10.999);
    const auto low = static_cast<std::size_t>(at);
    const double time = table.at({}, 1, std::pow(2.0, at)).value();
    CHECK(time >= std::min(times[low], times[low + 1]) * (1 - 1e-9));
    CHECK(time <= std::max(times[low], times[low + 1]) * (1 + 1e-9));
  }
}

TEST_CASE("a measured kernel costs what was measured", "[unit][profile]") {
  const Folder folder;
  const auto model = profile(R"({"gemm": ")" + folder.file("gemm.csv", kGemm) + R"("})");
  CHECK(model->cost(product(64)).time_s == Approx(20e-6));
  CHECK(model->cost(product(128)).time_s == Approx(40e-6));  // sqrt(20 * 80)
  CHECK(model->cost(product(64)).flops == 2.0 * 64 * 4096 * 1024);
  CHECK(model->cost(product(0)).time_s == 0);
}

TEST_CASE("outside its tables the profile refuses, and says where it ends", "[unit][profile]") {
  const Folder folder;
  const auto model = profile(R"({"gemm": ")" + folder.file("gemm.csv", kGemm) + R"("})");
  CHECK(message_of([&] { (void)model->cost(product(512)); }) ==
        "profile: a matrix product (4096, 1024, 2) at 1 x 512: it lies outside the measured points (measure it, or set "
        "\"outside\": \"scale\")");
  CHECK(message_of([&] {
          (void)model->cost({OpClass::norm, DType::fp16, Streaming{1000, 1000}});
        }).find("a pass over memory (1, 0, 0) at 1 x 2000: no table was given for it") != std::string::npos);
}

TEST_CASE("scaling keeps the ratio that the tiled model sees", "[unit][profile]") {
  const Folder folder;
  const auto model = profile(R"({"outside": "scale", "gemm": ")" + folder.file("gemm.csv", kGemm) + R"("})");
  const auto tiled = hw::test::model("tiled", part("a100-sxm4-80gb"));
  const double ratio = tiled->cost(product(1024)).time_s / tiled->cost(product(256)).time_s;
  CHECK(model->cost(product(1024)).time_s == Approx(80e-6 * ratio));
  const Kernel norm{OpClass::norm, DType::fp16, Streaming{1'000'000, 1'000'000}};
  CHECK(model->cost(norm).time_s == tiled->cost(norm).time_s);
}

TEST_CASE("a pass that is scaled keeps its rows as long as they were", "[unit][profile]") {
  const Folder folder;
  const auto model = profile(R"({"outside": "scale", "stream": ")" +
                             folder.file("s.csv", "op,bytes,time_us\nnorm,1000000,5\n") + R"("})");
  const auto tiled = hw::test::model("tiled", part("a100-sxm4-80gb"));
  // 4,000 rows of 1,000 bytes in and out, four times what was measured: there, 500 rows of the same length.
  const auto norm = [](std::int64_t rows) {
    return Kernel{OpClass::norm, DType::fp16, Streaming{rows * 1000, rows * 1000, rows * 4000, rows}};
  };
  const double ratio = tiled->cost(norm(4000)).time_s / tiled->cost(norm(500)).time_s;
  CHECK(model->cost(norm(4000)).time_s == Approx(5e-6 * ratio));
  CHECK(model->cost(norm(500)).time_s == Approx(5e-6));
}

TEST_CASE("what a table did not measure is outside it", "[unit][profile]") {
  const Folder folder;
  const std::string heads = "num_heads,num_kv_heads,head_dim";
  const auto model = profile(
      R"({"gemm": ")" + folder.file("gemm.csv", kGemm) + R"(", "attention_prefill": ")" +
      folder.file("p.csv", "batch,tokens," + heads + ",time_us\n2,128,32,8,128,30\n") + R"(", "attention_decode": ")" +
      folder.file("d.csv", "batch,context," + heads + ",time_us\n2,128,32,8,128,20\n") + R"("})");
  AttentionPrefill prompts = hw::test::prompts(2, 128, 32, 8);
  const auto prefill = [&] { return model->cost({OpClass::attention_prefill, DType::fp16, prompts}).time_s; };
  CHECK(prefill() == Approx(30e-6));
  prompts.causal = false;
  CHECK_THROWS_AS(prefill(), sim::ConfigError);
  AttentionDecode tokens{2, 256, 32, 8, 128};
  const auto decode = [&] { return model->cost({OpClass::attention_decode, DType::fp16, tokens}).time_s; };
  CHECK(decode() == Approx(20e-6));
  tokens.value_dim = 64;
  CHECK_THROWS_AS(decode(), sim::ConfigError);
  // A product in a batch has weights of its own: it is no product of as many rows.
  CHECK_THROWS_AS(model->cost({OpClass::ffn_up, DType::fp16, Gemm{16, 4096, 1024, 4}}), sim::ConfigError);
}

TEST_CASE("the power of a busy device goes with the measured time", "[unit][profile]") {
  const Folder folder;
  const GpuParams gpu = part("a100-sxm4-80gb");
  const auto model = profile(R"({"gemm": ")" + folder.file("gemm.csv", kGemm) + R"("})");
  const Cost measured = model->cost(product(64)), tiled = hw::test::model("tiled", gpu)->cost(product(64));
  CHECK(measured.compute_energy_j - gpu.power.active_w * measured.time_s ==
        Approx(tiled.compute_energy_j - gpu.power.active_w * tiled.time_s));
}

TEST_CASE("faults of a profile's tables", "[unit][profile]") {
  const Folder folder;
  const auto with = [&](const std::string& text) {
    return message_of([&] { (void)profile(R"({"gemm": ")" + folder.file("bad.csv", text) + R"("})"); });
  };
  CHECK(with("dtype,m,n,time_us\nfp16,1,2,3\n").find("expected a column 'k'") != std::string::npos);
  CHECK(with("dtype,m,n,k,time_us\nfp16,1,2,3\n").find("line 2: expected 5 cells as in the header, got 4") !=
        std::string::npos);
  CHECK(with("dtype,m,n,k,time_us\nfp16,1,2,x,3\n").find("line 2: expected a number in column 'k', got 'x'") !=
        std::string::npos);
  CHECK(with("dtype,m,n,k,time_us\nfp16,16,2,4,0\n").find("row 1: expected sizes and a time above 0") !=
        std::string::npos);
  CHECK(message_of([] { (void)profile(R"({"gemm": "/no/such/file.csv"})"); }) == "/no/such/file.csv: expected a readable table, found none");
  CHECK(message_of([&] {
          (void)profile(R"({"stream": ")" + folder.file("s.csv", "op,bytes,time_us\nnrom,10,3\n") + R"("})");
        }) == "s.csv: row 1: unknown class of kernels 'nrom' (did you mean 'norm'?)");
}

}  // namespace test_profile
