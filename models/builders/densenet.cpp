// DenseNet (Huang et al., 2017): every layer of a block reads all layers before it, joined by a copy (concat), as
// frameworks run it. `blocks` [6, 12, 24, 16] with growth 32 is DenseNet-121.
#include <fmt/format.h>

#include "models/builders/images.hpp"

namespace orrery::models {
namespace {

struct DensenetParams : ImageParams {
  std::vector<std::int64_t> blocks{6, 12, 24, 16};
  std::int64_t growth = 32;

  static constexpr auto fields() {
    using D = DensenetParams;
    using sim::Unit;
    return sim::joined(sim::FieldTable{sim::field("blocks", &D::blocks, Unit::count, sim::between(1, 1000),
                                                  "Number of layers in each block."),
                                       sim::field("growth", &D::growth, Unit::count, sim::between(1, 1024),
                                                  "Number of channels that a layer adds.")},
                       fields_of<D>());
  }
};

class Densenet final : public GraphBuilder {
 public:
  explicit Densenet(const DensenetParams& params) : p_(params) {}

  OpGraph build() const override {
    ImageNet net("densenet", element_type(p_.dtype));
    const auto norm = [&](TensorId x, const std::string& name) { return net.activate(net.batch_norm(x, name)); };
    TensorId x = net.images(3, p_.image);
    net.scope("stem");
    x = net.conv_norm(x, 2 * p_.growth, {.kernel = 7, .stride = 2, .pad = 3}, "1");
    x = net.pool(x, OpKind::max_pool2d, 3, 2, 1);
    for (std::size_t block = 0; block < p_.blocks.size(); ++block) {
      std::vector<TensorId> features{x};
      for (std::int64_t layer = 0; layer < p_.blocks[block]; ++layer) {
        net.scope(fmt::format("block.{}.layer.{}", block, layer));
        const TensorId all = features.size() == 1 ? features.front() : net.concat(features, 1);
        const TensorId narrow = net.conv(norm(all, "norm1"), 4 * p_.growth, {}, "conv1");
        features.push_back(net.conv(norm(narrow, "norm2"), p_.growth, {.kernel = 3, .pad = 1}, "conv2"));
      }
      net.scope(fmt::format("transition.{}", block));
      x = norm(net.concat(features, 1), "norm");
      if (block + 1 == p_.blocks.size()) break;
      x = net.pool(net.conv(x, net.channels(x) / 2, {}, "conv"), OpKind::avg_pool2d, 2, 2, 0);
    }
    return net.classify(x, p_);
  }

 private:
  DensenetParams p_;
};

}  // namespace

void add_densenet(BuilderRegistry& registry) {
  registry.add<DensenetParams>("densenet", "DenseNet of 121 layers and deeper.",
                               [](const DensenetParams& params) { return std::make_unique<Densenet>(params); });
}

}  // namespace orrery::models
