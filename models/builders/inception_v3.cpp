// Inception v3 (Szegedy et al., 2016) as torchvision has it: modules of branches that run side by side, with
// convolutions of 1x7 and 7x1. Left out: the classifier of training.
#include <fmt/format.h>

#include "models/builders/images.hpp"

namespace orrery::models {
namespace {

struct InceptionParams : ImageParams {
  InceptionParams() { image = 299; }
  static constexpr auto fields() { return fields_of<InceptionParams>(); }
};

constexpr ConvSpec kThree{.kernel = 3, .pad = 1}, kStep{.kernel = 3, .stride = 2};
constexpr ConvSpec kFive{.kernel = 5, .pad = 2};

/// height x 1 or 1 x width, padded to keep the size.
constexpr ConvSpec tall(std::int64_t height) {
  return {.kernel = height, .pad = height / 2, .kernel_w = 1, .pad_w = 0};
}
constexpr ConvSpec flat(std::int64_t width) {
  return {.kernel = 1, .kernel_w = width, .pad_w = width / 2};
}

class InceptionWriter {
 public:
  explicit InceptionWriter(const InceptionParams& p) : p_(p), net_("inception_v3", element_type(p.dtype)) {}

  OpGraph write() {
    TensorId x = net_.images(3, p_.image);
    net_.scope("stem");
    x = conv(conv(conv(x, 32, kStep), 32, {.kernel = 3}), 64, kThree);
    x = conv(conv(net_.pool(x, OpKind::max_pool2d, 3, 2, 0), 80, {}), 192, {.kernel = 3});
    x = net_.pool(x, OpKind::max_pool2d, 3, 2, 0);
    for (const std::int64_t pooled : {32, 64, 64}) x = module_a(x, pooled);
    x = module_b(x);
    for (const std::int64_t inner : {128, 160, 160, 192}) x = module_c(x, inner);
    x = module_d(x);
    for (int i = 0; i < 2; ++i) x = module_e(x);
    return net_.classify(x, p_);
  }

 private:
  TensorId conv(TensorId x, std::int64_t out, const ConvSpec& spec) {
    return net_.conv_norm(x, out, spec, std::to_string(++convs_));
  }
  TensorId pooled(TensorId x, std::int64_t out) { return conv(net_.pool(x, OpKind::avg_pool2d, 3, 1, 1), out, {}); }
  void next() {
    net_.scope(fmt::format("module.{}", modules_++));
    convs_ = 0;
  }

  TensorId module_a(TensorId x, std::int64_t last) {
    next();
    const TensorId first = conv(x, 64, {}), second = conv(conv(x, 48, {}), 64, kFive);
    const TensorId third = conv(conv(conv(x, 64, {}), 96, kThree), 96, kThree);
    return net_.concat({first, second, third, pooled(x, last)}, 1);
  }

  TensorId module_b(TensorId x) {
    next();
    const TensorId first = conv(x, 384, kStep), second = conv(conv(conv(x, 64, {}), 96, kThree), 96, kStep);
    return net_.concat({first, second, net_.pool(x, OpKind::max_pool2d, 3, 2, 0)}, 1);
  }

  TensorId module_c(TensorId x, std::int64_t inner) {
    next();
    const TensorId first = conv(x, 192, {});
    const TensorId second = conv(conv(conv(x, inner, {}), inner, flat(7)), 192, tall(7));
    TensorId third = conv(conv(conv(x, inner, {}), inner, tall(7)), inner, flat(7));
    third = conv(conv(third, inner, tall(7)), 192, flat(7));
    return net_.concat({first, second, third, pooled(x, 192)}, 1);
  }

  TensorId module_d(TensorId x) {
    next();
    const TensorId first = conv(conv(x, 192, {}), 320, kStep);
    const TensorId second = conv(conv(conv(conv(x, 192, {}), 192, flat(7)), 192, tall(7)), 192, kStep);
    return net_.concat({first, second, net_.pool(x, OpKind::max_pool2d, 3, 2, 0)}, 1);
  }

  TensorId module_e(TensorId x) {
    next();
    const TensorId first = conv(x, 320, {});
    const TensorId second = conv(x, 384, {}), third = conv(conv(x, 448, {}), 384, kThree);
    const TensorId wide = net_.concat({conv(second, 384, flat(3)), conv(second, 384, tall(3))}, 1);
    const TensorId deep = net_.concat({conv(third, 384, flat(3)), conv(third, 384, tall(3))}, 1);
    return net_.concat({first, wide, deep, pooled(x, 192)}, 1);
  }

  const InceptionParams& p_;
  ImageNet net_;
  int convs_ = 0, modules_ = 0;
};

class Inception final : public GraphBuilder {
 public:
  explicit Inception(const InceptionParams& params) : p_(params) {}
  OpGraph build() const override {
    if (p_.image < 75)
      sim::throw_fault(builder_origin("inception_v3", "image"),
                       "expected images of at least 75 x 75, got " + std::to_string(p_.image));
    return InceptionWriter(p_).write();
  }

 private:
  InceptionParams p_;
};

}  // namespace

void add_inception_v3(BuilderRegistry& registry) {
  registry.add<InceptionParams>("inception_v3",
                                "Inception v3, with modules of branches that have 1x7 and 7x1 convolutions.",
                                [](const InceptionParams& params) { return std::make_unique<Inception>(params); });
}

}  // namespace orrery::models
