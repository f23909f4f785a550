// MobileNetV2: inverted residual blocks, a convolution a channel between two of 1x1 (Sandler et al., 2018; stages as in
// its table 2). Its activation is a ReLU that ends at 6 (a clamp).
#include <fmt/format.h>

#include "models/builders/images.hpp"

namespace orrery::models {
namespace {

struct MobilenetParams : ImageParams {
  static constexpr auto fields() { return fields_of<MobilenetParams>(); }
};

TensorId inverted(ImageNet& net, TensorId x, std::int64_t expand, std::int64_t out, std::int64_t stride) {
  const std::int64_t in = net.channels(x), inner = in * expand;
  TensorId y = x;
  if (expand > 1) y = net.conv_norm(y, inner, {}, "expand", OpKind::clamp);
  y = net.conv_norm(y, inner, {.kernel = 3, .stride = stride, .pad = 1, .groups = inner}, "depthwise", OpKind::clamp);
  y = net.batch_norm(net.conv(y, out, {}, "project.conv"), "project.norm");
  return stride == 1 && in == out ? net.add(x, y) : y;
}

class Mobilenet final : public GraphBuilder {
 public:
  explicit Mobilenet(const MobilenetParams& params) : p_(params) {}

  OpGraph build() const override {
    struct Stage {
      std::int64_t expand, out, blocks, stride;
    };
    constexpr std::array<Stage, 7> kStages{
        {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}};
    ImageNet net("mobilenet_v2", element_type(p_.dtype));
    TensorId x = net.images(3, p_.image);
    net.scope("stem");
    x = net.conv_norm(x, 32, {.kernel = 3, .stride = 2, .pad = 1}, "1", OpKind::clamp);
    for (std::size_t stage = 0; stage < kStages.size(); ++stage)
      for (std::int64_t block = 0; block < kStages[stage].blocks; ++block) {
        net.scope(fmt::format("stage.{}.block.{}", stage, block));
        x = inverted(net, x, kStages[stage].expand, kStages[stage].out, block == 0 ? kStages[stage].stride : 1);
      }
    net.scope("top");
    return net.classify(net.conv_norm(x, 1280, {}, "1", OpKind::clamp), p_);
  }

 private:
  MobilenetParams p_;
};

}  // namespace

void add_mobilenet(BuilderRegistry& registry) {
  registry.add<MobilenetParams>("mobilenet_v2", "MobileNetV2, with inverted residual blocks.",
                                [](const MobilenetParams& params) { return std::make_unique<Mobilenet>(params); });
}

}  // namespace orrery::models
