// Least loaded: the replica with the least load of a chosen kind (load.hpp); loads are divided by weights.
#include "policies/routing/load.hpp"

namespace orrery::policies {
namespace {

struct LeastLoadedParams {
  LoadOf load = LoadOf::tokens;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("load", &LeastLoadedParams::load, "What counts as load of a replica.")};
  }
};

class LeastLoaded final : public Router {
 public:
  explicit LeastLoaded(const LeastLoadedParams& params) : params_(params) {}
  std::size_t route(const RouteView& view) override { return least_loaded(view.replicas, params_.load); }
  bool reads_live() const override { return is_live(params_.load); }

 private:
  LeastLoadedParams params_;
};

}  // namespace

void add_least_loaded(RouterRegistry& registry) {
  registry.add<LeastLoadedParams>(
      "least_loaded", "The replica with the least load, by a chosen measure.",
      [](const LeastLoadedParams& params, sim::RandomStream) { return std::make_unique<LeastLoaded>(params); });
}

}  // namespace orrery::policies
