#include "models/builders/images.hpp"

namespace orrery::models {

using hw::OpClass;

TensorId ImageNet::images(std::int64_t channels, std::int64_t size) {
  graph().facts.in_range(Symbol("batch"), {1, {}});
  return graph().input("images", {SymExpr::dim("batch"), channels, size, size}, type());
}

TensorId ImageNet::conv(TensorId x, std::int64_t out, const ConvSpec& spec, const std::string& name) {
  const std::int64_t width = spec.kernel_w > 0 ? spec.kernel_w : spec.kernel;
  std::vector<TensorId> inputs{x, parameter(name + ".weight", {out, channels(x) / spec.groups, spec.kernel, width})};
  if (spec.bias) inputs.push_back(parameter(name + ".bias", {out}));
  Attributes attributes{{"stride", SymExpr(spec.stride)}, {"pad", SymExpr(spec.pad)}};
  if (spec.groups > 1) attributes.emplace_back("groups", SymExpr(spec.groups));
  if (spec.pad_w >= 0) attributes.emplace_back("pad_w", SymExpr(spec.pad_w));
  return emit(OpKind::conv2d, std::move(inputs), OpClass::conv, std::move(attributes));
}

TensorId ImageNet::batch_norm(TensorId x, const std::string& name) {
  const Shape width{channels(x)};
  return emit(OpKind::batch_norm,
              {x, parameter(name + ".weight", width), parameter(name + ".bias", width),
               constant(name + ".mean", width, type()), constant(name + ".var", width, type())},
              OpClass::norm);
}

TensorId ImageNet::group_norm(TensorId x, std::int64_t groups, const std::string& name) {
  const Shape width{channels(x)};
  return emit(OpKind::group_norm, {x, parameter(name + ".weight", width), parameter(name + ".bias", width)},
              OpClass::norm, {{"groups", SymExpr(groups)}});
}

TensorId ImageNet::conv_norm(TensorId x, std::int64_t out, const ConvSpec& spec, const std::string& name,
                             OpKind activation) {
  return activate(batch_norm(conv(x, out, spec, name + ".conv"), name + ".norm"), activation);
}

TensorId ImageNet::pool(TensorId x, OpKind kind, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return emit(kind, {x}, OpClass::conv,
              {{"kernel", SymExpr(kernel)}, {"stride", SymExpr(stride)}, {"pad", SymExpr(pad)}});
}

TensorId ImageNet::global_pool(TensorId x) {
  return emit(OpKind::reduce_mean, {x}, OpClass::conv, {{"axes", std::vector<SymExpr>{2, 3}}});
}

OpGraph ImageNet::classify(TensorId x, const ImageParams& params) {
  scope("head");
  const TensorId pooled = shape(x).size() == 4 ? global_pool(x) : x;
  const TensorId logits = linear(pooled, params.classes, true, OpClass::lm_head, "classes");
  if (!params.loss) return finish({logits});
  return finish({cross_entropy(logits, graph().input("labels", {size(logits, 0)}, ElementType::int64))});
}

}  // namespace orrery::models
