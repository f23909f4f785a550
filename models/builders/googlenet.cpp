// GoogLeNet (Szegedy et al., 2015) with batch norms, as torchvision has it: four branches a module, their results
// joined; the branch that the paper calls 5x5 has a 3x3 kernel there. Left out: the two classifiers of training.
#include <fmt/format.h>

#include "models/builders/images.hpp"

namespace orrery::models {
namespace {

struct GooglenetParams : ImageParams {
  static constexpr auto fields() { return fields_of<GooglenetParams>(); }
};

/// Channels of a module: 1x1; 1x1 and 3x3 of the second branch; of the third; after the pool.
using Branches = std::array<std::int64_t, 6>;

TensorId inception(ImageNet& net, TensorId x, const Branches& b) {
  const ConvSpec three{.kernel = 3, .pad = 1};
  const TensorId first = net.conv_norm(x, b[0], {}, "branch1");
  const TensorId second = net.conv_norm(net.conv_norm(x, b[1], {}, "branch2.1"), b[2], three, "branch2.2");
  const TensorId third = net.conv_norm(net.conv_norm(x, b[3], {}, "branch3.1"), b[4], three, "branch3.2");
  const TensorId fourth = net.conv_norm(net.pool(x, OpKind::max_pool2d, 3, 1, 1), b[5], {}, "branch4");
  return net.concat({first, second, third, fourth}, 1);
}

class Googlenet final : public GraphBuilder {
 public:
  explicit Googlenet(const GooglenetParams& params) : p_(params) {}

  OpGraph build() const override {
    constexpr std::array<Branches, 9> kModules{{{64, 96, 128, 16, 32, 32},
                                                {128, 128, 192, 32, 96, 64},
                                                {192, 96, 208, 16, 48, 64},
                                                {160, 112, 224, 24, 64, 64},
                                                {128, 128, 256, 24, 64, 64},
                                                {112, 144, 288, 32, 64, 64},
                                                {256, 160, 320, 32, 128, 128},
                                                {256, 160, 320, 32, 128, 128},
                                                {384, 192, 384, 48, 128, 128}}};
    ImageNet net("googlenet", element_type(p_.dtype));
    TensorId x = net.images(3, p_.image);
    net.scope("stem");
    // Pools that round up where the sizes are even: the same as one row and column of padding.
    x = net.pool(net.conv_norm(x, 64, {.kernel = 7, .stride = 2, .pad = 3}, "1"), OpKind::max_pool2d, 3, 2, 1);
    x = net.conv_norm(net.conv_norm(x, 64, {}, "2"), 192, {.kernel = 3, .pad = 1}, "3");
    x = net.pool(x, OpKind::max_pool2d, 3, 2, 1);
    for (std::size_t i = 0; i < kModules.size(); ++i) {
      net.scope(fmt::format("module.{}", i));
      if (i == 2) x = net.pool(x, OpKind::max_pool2d, 3, 2, 1);
      if (i == 7) x = net.pool(x, OpKind::max_pool2d, 2, 2, 0);
      x = inception(net, x, kModules[i]);
    }
    return net.classify(x, p_);
  }

 private:
  GooglenetParams p_;
};

}  // namespace

void add_googlenet(BuilderRegistry& registry) {
  registry.add<GooglenetParams>("googlenet", "GoogLeNet, with modules of four branches.",
                                [](const GooglenetParams& params) { return std::make_unique<Googlenet>(params); });
}

}  // namespace orrery::models
