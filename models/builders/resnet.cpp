// ResNet with bottlenecks (He et al., 2016; the step of a stage in its 3x3 convolution, as in torchvision) and ResNeXt,
// whose 3x3 convolutions are in groups (Xie et al., 2017: `groups` 32, `group_width` 4). `blocks` gives the depth:
// [3, 4, 6, 3] is 50 layers, [3, 4, 23, 3] 101.
#include <fmt/format.h>

#include "models/builders/images.hpp"

namespace orrery::models {
namespace {

struct ResnetParams : ImageParams {
  std::vector<std::int64_t> blocks{3, 4, 6, 3};
  std::int64_t groups = 1, group_width = 64;

  static constexpr auto fields() {
    using R = ResnetParams;
    using sim::Unit;
    return sim::joined(sim::FieldTable{sim::field("blocks", &R::blocks, Unit::count, sim::between(1, 1000),
                                                  "Number of blocks in each stage."),
                                       sim::field("groups", &R::groups, Unit::count, sim::between(1, 1024),
                                                  "Number of groups of the 3x3 convolutions."),
                                       sim::field("group_width", &R::group_width, Unit::count, sim::between(1, 1024),
                                                  "Number of channels per group in the first stage.")},
                       fields_of<R>());
  }
};

TensorId bottleneck(ImageNet& net, TensorId x, std::int64_t inner, std::int64_t out, std::int64_t stride,
                    std::int64_t groups) {
  TensorId y = net.conv_norm(x, inner, {}, "1");
  y = net.conv_norm(y, inner, {.kernel = 3, .stride = stride, .pad = 1, .groups = groups}, "2");
  y = net.batch_norm(net.conv(y, out, {}, "3.conv"), "3.norm");
  if (net.channels(x) != out)
    x = net.batch_norm(net.conv(x, out, {.stride = stride}, "shortcut.conv"), "shortcut.norm");
  return net.activate(net.add(y, x));
}

class Resnet final : public GraphBuilder {
 public:
  explicit Resnet(const ResnetParams& params) : p_(params) {}

  OpGraph build() const override {
    ImageNet net("resnet", element_type(p_.dtype));
    TensorId x = net.images(3, p_.image);
    net.scope("stem");
    x = net.conv_norm(x, 64, {.kernel = 7, .stride = 2, .pad = 3}, "1");
    x = net.pool(x, OpKind::max_pool2d, 3, 2, 1);
    for (std::size_t stage = 0; stage < p_.blocks.size(); ++stage) {
      const std::int64_t wide = std::int64_t{1} << stage;
      for (std::int64_t block = 0; block < p_.blocks[stage]; ++block) {
        net.scope(fmt::format("stage.{}.block.{}", stage, block));
        const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        x = bottleneck(net, x, p_.groups * p_.group_width * wide, 256 * wide, stride, p_.groups);
      }
    }
    return net.classify(x, p_);
  }

 private:
  ResnetParams p_;
};

}  // namespace

void add_resnet(BuilderRegistry& registry) {
  registry.add<ResnetParams>("resnet", "ResNet and ResNeXt with bottlenecks, of 50 layers and deeper.",
                             [](const ResnetParams& params) { return std::make_unique<Resnet>(params); });
}

}  // namespace orrery::models
