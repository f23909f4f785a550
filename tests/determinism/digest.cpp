// Prints `name hash` of every scenario. Compiled twice, without and with optimisation; the tests compare
// (CMakeLists.txt). With --control it prints a hash of the C library's own functions instead, to show that a masked
// processor feature has changed which of them run.
#include "tests/determinism/digest.hpp"

#include <cstdio>
#include <exception>
#include <string_view>

namespace {

using namespace orrery::determinism;

struct Scenario {
  const char* name;
  void (*run)(Digest&);
};

constexpr Scenario kScenarios[] = {
    {"math/exponentials", exponentials},
    {"math/circular", circular},
    {"math/special", special},
    {"math/powers", powers},
    {"random/streams", streams},
    {"random/continuous", continuous_draws},
    {"random/discrete", discrete_draws},
    {"engine/hold_with_cancellations", hold_with_cancellations},
    {"engine/queue_with_statistics", queue_with_statistics},
    {"engine/components_in_any_order", components_in_any_order},
    {"statistics/samples", sample_statistics},
    {"statistics/batch_means", batch_means},
    {"processes/on_resources", processes_on_resources},
    {"tasks/graphs", task_graphs},
    {"tasks/graph_that_grows", task_graph_that_grows},
    {"flows/max_min_under_changes", max_min_under_changes},
    {"flows/network_under_changes", flows_under_changes},
    {"network/routes", routes},
    {"network/collectives_that_share_links", collectives_that_share_links},
    {"network/failures", network_with_failures},
};

void print_control() {
  Digest digest;
  for (int i = 1; i < 200'000; ++i) {
    const double x = i * 0.000617;
    digest.add(std::exp(x));
    digest.add(std::log(x));
    digest.add(std::sin(x));
    digest.add(std::pow(x, 1.37));
  }
  std::printf("control %016llx\n", static_cast<unsigned long long>(digest.value()));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && std::string_view(argv[1]) == "--control") {
    print_control();
    return 0;
  }
  for (const Scenario& scenario : kScenarios) {
    Digest digest;
    scenario.run(digest);
    std::printf("%s %016llx\n", scenario.name, static_cast<unsigned long long>(digest.value()));
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
