// Image builders: parameters and multiply-adds against published counts, shapes and faults.
#include <catch2/catch.hpp>

#include "builder_support.hpp"
#include "models/builders/net.hpp"

namespace test_builders_images {

using namespace orrery;
using namespace orrery::models;
using models::test::built;
using models::test::count;
using models::test::matrix_flops;

namespace {

std::int64_t params(const OpGraph& graph) {
  return models::test::parameters(graph);
}
/// Thousand millions of multiply-adds of an image.
double gmac(const OpGraph& graph) {
  return static_cast<double>(matrix_flops(graph, {{"batch", 1}})) / 2e9;
}

}  // namespace

TEST_CASE("image classifiers: parameters and multiply-adds as published", "[golden]") {
  struct Case {
    const char* builder;
    const char* params;
    std::int64_t parameters;
    double gmac;
  };
  // torchvision's model table (num_params and GFLOPS, which are multiply-adds); Inception v3 and GoogLeNet without the
  // classifiers of training: 23,834,568 and 6,624,904.
  const Case cases[] = {
      {"resnet", "{}", 25'557'032, 4.09},
      {"resnet", R"({"blocks": [3, 4, 23, 3]})", 44'549'160, 7.80},
      {"resnet", R"({"groups": 32, "group_width": 4})", 25'028'904, 4.23},
      {"mobilenet_v2", "{}", 3'504'872, 0.30},
      {"densenet", "{}", 7'978'856, 2.83},
      {"googlenet", "{}", 6'624'904, 1.50},
      {"inception_v3", "{}", 23'834'568, 5.71},
      {"vit", "{}", 86'567'656, 17.56},
      {"vit", R"({"layers": 24, "hidden": 1024, "heads": 16, "intermediate": 4096})", 304'326'632, 61.55},
  };
  for (const Case& one : cases) {
    INFO(one.builder << " " << one.params);
    const OpGraph graph = built(one.builder, one.params);
    CHECK(verify(graph).empty());
    CHECK(params(graph) == one.parameters);
    CHECK(gmac(graph) == Approx(one.gmac).margin(0.006));
    REQUIRE(graph.outputs().size() == 1);
    CHECK(graph.tensor(graph.outputs()[0]).shape == Shape{SymExpr::dim("batch"), 1000});
    // Lowering computes the same: work of kernels against work of ops.
    double flops = 0;
    for (const GraphKernel& launch : lower(graph, {{"batch", 2}}).kernels)
      if (hw::uses_matrix_units(launch.kernel)) flops += hw::work_of(launch.kernel).flops;
    CHECK(flops == static_cast<double>(matrix_flops(graph, {{"batch", 2}})));
  }
}

TEST_CASE("resnet: convolution, norm and activation are ops of their own", "[unit]") {
  // 53 convolutions and norms; an activation after each but the third of a block and the shortcuts, and one a block.
  const OpGraph graph = built("resnet");
  CHECK(count(graph, OpKind::conv2d) == 53);
  CHECK(count(graph, OpKind::batch_norm) == 53);
  CHECK(count(graph, OpKind::relu) == 49);
  CHECK(count(graph, OpKind::add) == 16);
}

TEST_CASE("unet: Stable Diffusion 1.5", "[golden]") {
  // 859,520,964 parameters; 339 thousand million multiply-adds a call at 64 x 64 (Kim et al., BK-SDM, table 1), counted
  // by modules, so without the products inside attention, which are another 62.
  const OpGraph graph = built("unet");
  CHECK(verify(graph).empty());
  CHECK(params(graph) == 859'520'964);
  double attention = 0;
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == OpKind::attention)
      attention += static_cast<double>(work(graph, id, {{"batch", 1}}).matrix_flops.constant().value()) / 2e9;
  CHECK(gmac(graph) - attention == Approx(339).epsilon(0.005));
  // Self and cross attention in 16 transformer blocks.
  CHECK(count(graph, OpKind::attention) == 32);
  CHECK(graph.tensor(graph.outputs()[0]).shape == Shape{SymExpr::dim("batch"), 4, 64, 64});
  CHECK(verify(built("unet", R"({"loss": true, "attention": "eager"})")).empty());
}

TEST_CASE("mlp: widths", "[unit]") {
  const OpGraph graph = built("mlp", R"({"widths": [8, 16, 4], "activation": "tanh", "loss": true})");
  CHECK(verify(graph).empty());
  CHECK(params(graph) == 8 * 16 + 16 + 16 * 4 + 4);
  CHECK(matrix_flops(graph, {{"batch", 10}}) == 2 * 10 * (8 * 16 + 16 * 4));
  CHECK(count(graph, OpKind::tanh) == 1);
}

TEST_CASE("image builders: faults", "[unit]") {
  CHECK_THROWS_WITH(built("vit", R"({"patch": 15})"),
                    "builder vit:/patch: expected a divisor of the image's 224, got 15");
  CHECK_THROWS_WITH(built("mlp", R"({"widths": [3]})"), "builder mlp:/widths: expected at least two widths, got 1");
  CHECK_THROWS_WITH(built("unet", R"({"latent": 60})"),
                    "builder unet:/latent: expected a size that halves 3 times, got 60");
  CHECK_THROWS_WITH(built("unet", R"({"channels": [100]})"),
                    "builder unet:/channels: expected channels that 32 groups and 8 heads divide, got 100");
  CHECK_THROWS_WITH(built("inception_v3", R"({"image": 64})"),
                    "builder inception_v3:/image: expected images of at least 75 x 75, got 64");
}

}  // namespace test_builders_images
