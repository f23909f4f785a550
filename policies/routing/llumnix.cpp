// Llumnix: a new request goes to the replica with the highest freeness (load_report.hpp); `memory`, which is INFaaS++
// of its evaluation, to that with the least memory in use and asked for by its queue. Ties go to the first. Source:
// Llumnix (OSDI 2024, section 4.4.3; baselines in 6.1).
#include "policies/routing/load_report.hpp"
#include "policies/routing/routing.hpp"

namespace orrery::policies {
namespace {

class FreenessRouter final : public Router {
 public:
  explicit FreenessRouter(const FreenessParams& params) : params_(params) {}
  bool reads_live() const override { return true; }
  bool reads_reports() const override { return true; }
  std::size_t route(const RouteView& view) override {
    const RoomFor who = view.request.priority > 0 ? RoomFor::high : RoomFor::normal;
    std::size_t best = 0;
    double most = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const double free = freeness(view.replicas[i].load, params_, who);
      if (i > 0 && free <= most) continue;
      most = free;
      best = i;
    }
    return best;
  }

 private:
  FreenessParams params_;
};

struct InfaasParams {
  static constexpr auto fields() { return sim::FieldTable<InfaasParams, 0>(); }
};

class InfaasRouter final : public Router {
 public:
  explicit InfaasRouter(const InfaasParams&) {}
  bool reads_live() const override { return true; }
  bool reads_reports() const override { return true; }
  std::size_t route(const RouteView& view) override {
    std::size_t best = 0;
    double least = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const LoadReport& load = view.replicas[i].load;
      const double used = static_cast<double>(load.used_blocks + load.waiting_blocks) /
                          static_cast<double>(std::max<std::int64_t>(1, load.total_blocks));
      if (i > 0 && used >= least) continue;
      least = used;
      best = i;
    }
    return best;
  }
};

}  // namespace

void add_llumnix(RouterRegistry& registry) {
  registry.add<FreenessParams>(
      "llumnix", "The replica with the highest freeness (Llumnix, OSDI 2024).",
      [](const FreenessParams& params, sim::RandomStream) { return std::make_unique<FreenessRouter>(params); });
}
void add_infaas(RouterRegistry& registry) {
  registry.add<InfaasParams>(
      "infaas",
      "The replica with the least memory in use or asked for by its queue (INFaaS++ in Llumnix's evaluation).",
      [](const InfaasParams& params, sim::RandomStream) { return std::make_unique<InfaasRouter>(params); });
}

}  // namespace orrery::policies
