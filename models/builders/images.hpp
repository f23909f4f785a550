// Layers of networks on images [batch, channels, height, width], beside those of net.hpp. Convolution, norm and
// activation are ops of their own, as frameworks run them, so that fusers have something to do.
#pragma once

#include <string>

#include "models/builders/net.hpp"

namespace orrery::models {

/// Kernel, step and padding of a convolution; widths that differ from heights are given apart.
struct ConvSpec {
  std::int64_t kernel = 1, stride = 1, pad = 0, groups = 1;
  bool bias = false;
  std::int64_t kernel_w = 0;  ///< 0: as high as wide
  std::int64_t pad_w = -1;    ///< -1: as above
};

/// Parameters that all image classifiers have.
struct ImageParams {
  std::int64_t image = 224, classes = 1000;
  FloatType dtype = FloatType::fp32;
  bool loss = false;

  /// A member as one of the derived struct.
  template <class P, class M>
  static constexpr M P::*as(M ImageParams::*member) {
    return member;
  }
  template <class P>
  static constexpr auto fields_of() {
    using sim::Unit;
    using I = ImageParams;
    return sim::FieldTable{
        sim::field("image", as<P>(&I::image), Unit::count, sim::between(32, 1 << 14),
                   "Height and width of an image, in pixels."),
        sim::field("classes", as<P>(&I::classes), Unit::count, sim::between(1, 1 << 24), "Number of classes."),
        sim::field("dtype", as<P>(&I::dtype), "Type of weights and activations."),
        sim::field("loss", as<P>(&I::loss), "Whether the graph ends in the cross entropy with labels."),
    };
  }
};

/// An image network in the making.
class ImageNet : public Net {
 public:
  using Net::Net;
  /// [batch, channels, size, size].
  TensorId images(std::int64_t channels, std::int64_t size);
  std::int64_t channels(TensorId x) const { return shape(x)[1].constant().value_or(0); }
  TensorId conv(TensorId x, std::int64_t out, const ConvSpec& spec, const std::string& name);
  TensorId batch_norm(TensorId x, const std::string& name);
  TensorId group_norm(TensorId x, std::int64_t groups, const std::string& name);
  TensorId activate(TensorId x, OpKind kind = OpKind::relu) { return emit(kind, {x}, hw::OpClass::activation); }
  /// Convolution, norm and activation.
  TensorId conv_norm(TensorId x, std::int64_t out, const ConvSpec& spec, const std::string& name,
                     OpKind activation = OpKind::relu);
  TensorId pool(TensorId x, OpKind kind, std::int64_t kernel, std::int64_t stride, std::int64_t pad);
  /// Mean over all pixels, [batch, channels].
  TensorId global_pool(TensorId x);
  /// Pooled, classified, and compared with labels where there is a loss.
  OpGraph classify(TensorId x, const ImageParams& params);
};

}  // namespace orrery::models
