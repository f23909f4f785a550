// Exchanges of a mixture-of-experts layer: bytes by hand, limits, DeepEP's published times.
#include <catch2/catch.hpp>

#include "hw/network/expert_exchange.hpp"

namespace test_expert_exchange {

using namespace orrery::hw;

TEST_CASE("expert exchange: a low-latency row for each choice", "[unit]") {
  // 128 tokens, 8 experts, 7,168 bytes: 7.34 MB; of 16 GPUs half are in the node.
  const ExchangeShape shape{.tokens = 128, .top_k = 8, .gpus = 16, .node_gpus = 8, .row_bytes = 7168};
  const ExchangeTime t =
      expert_exchange(ExchangeKernel::low_latency, shape, {.nic = 10e9, .node = 100e9, .start_s = 1e-6});
  CHECK(t.logical_bytes == 128.0 * 8 * 7168);
  CHECK(t.nic_bytes == t.logical_bytes / 2);
  CHECK(t.node_bytes == t.logical_bytes / 2);
  CHECK(t.time_s == Approx(1e-6 + t.nic_bytes / 10e9));
  // In one node nothing goes over the network.
  ExchangeShape inside = shape;
  inside.gpus = 8;
  CHECK(expert_exchange(ExchangeKernel::low_latency, inside, {.nic = 1, .node = 100e9}).time_s ==
        Approx(128.0 * 8 * 7168 / 100e9));
}

TEST_CASE("expert exchange: a normal token goes once to a node, once to a GPU", "[unit]") {
  // Two experts on two nodes of two GPUs: 2 (1 - 1/4) = 1.5 nodes, 4 (1 - 9/16) = 1.75 GPUs.
  const ExchangeShape shape{.tokens = 10, .top_k = 2, .gpus = 4, .node_gpus = 2, .row_bytes = 100};
  const ExchangeTime t = expert_exchange(ExchangeKernel::normal, shape, {.nic = 1e9, .node = 1e9});
  CHECK(t.logical_bytes == Approx(1500));
  CHECK(t.nic_bytes == Approx(750));  // half of the nodes are one's own
  CHECK(t.node_bytes == Approx(1750));
  CHECK(t.time_s == Approx(1750e-9));
  // Limited to one node: that node alone, which is one's own half the time.
  ExchangeShape limited = shape;
  limited.node_limit = 1;
  CHECK(expert_exchange(ExchangeKernel::normal, limited, {.nic = 1e9, .node = 1e9}).nic_bytes == Approx(500));
}

TEST_CASE("expert exchange: nothing to send takes no time; more tokens, nodes or bytes are never quicker", "[prop]") {
  const ExchangeRates rates = deepep_v1(ExchangeKernel::low_latency);
  CHECK(expert_exchange(ExchangeKernel::normal, {.tokens = 0, .row_bytes = 10}, rates).time_s == 0);
  for (const ExchangeKernel kernel : {ExchangeKernel::normal, ExchangeKernel::low_latency}) {
    double before = 0;
    for (const std::int64_t gpus : {8, 16, 32, 64, 128, 256}) {
      const double now =
          expert_exchange(kernel, {.tokens = 512, .top_k = 8, .gpus = gpus, .row_bytes = 7168}, rates).time_s;
      CHECK(now >= before);
      before = now;
    }
    const ExchangeShape one{.tokens = 512, .top_k = 8, .gpus = 64, .row_bytes = 7168};
    ExchangeShape two = one;
    two.tokens *= 2;
    CHECK(expert_exchange(kernel, two, rates).time_s - rates.start_s ==
          Approx(2 * (expert_exchange(kernel, one, rates).time_s - rates.start_s)));
  }
  CHECK_THROWS_AS(expert_exchange(ExchangeKernel::normal, {.tokens = -1}, rates), std::invalid_argument);
  CHECK_THROWS_AS(expert_exchange(ExchangeKernel::normal, {.tokens = 1, .top_k = 0}, rates), std::invalid_argument);
}

TEST_CASE("expert exchange: DeepEP's published times", "[golden]") {
  // README of github.com/deepseek-ai/DeepEP: low latency, 128 tokens of 7,168, dispatch in fp8, combine in bf16, us.
  struct Row {
    std::int64_t gpus;
    double dispatch_us, combine_us;
  };
  const ExchangeRates rates = deepep_v1(ExchangeKernel::low_latency);
  for (const Row& row : {Row{8, 77, 114}, Row{16, 118, 195}, Row{32, 155, 273}, Row{64, 173, 314}, Row{128, 192, 369},
                         Row{256, 194, 360}}) {
    ExchangeShape shape{.tokens = 128, .top_k = 8, .gpus = row.gpus, .row_bytes = 7168};
    CHECK(1e6 * expert_exchange(ExchangeKernel::low_latency, shape, rates).time_s ==
          Approx(row.dispatch_us).epsilon(0.13));
    shape.row_bytes *= 2;
    CHECK(1e6 * expert_exchange(ExchangeKernel::low_latency, shape, rates).time_s ==
          Approx(row.combine_us).epsilon(0.11));
  }
  CHECK(deepep_v2(64).node > deepep_v2(24).node);
}

TEST_CASE("expert exchange: halves in turns", "[theory]") {
  // Rows that take nothing: both halves' kernels one after the other.
  CHECK(layer_in_turns({.attention_s = 2, .experts_s = 1}) == Approx(2 * (2 + 1)));
  // Kernels that take nothing: all rows, 1.43 times as slow.
  CHECK(layer_in_turns({.dispatch_s = 1, .combine_s = 2}) == Approx(2 * 1.43 * (1 + 2)));
  // 2 over 1.43, 1.43 over 1, 2.86 over 1, 2.86 over 2; a quarter of the cores lent: 2.67, 1.43, 2.86, 2.86.
  CHECK(layer_in_turns({.attention_s = 2, .experts_s = 1, .dispatch_s = 1, .combine_s = 2}) ==
        Approx(2 + 1.43 + 2.86 + 2.86));
  CHECK(layer_in_turns({.attention_s = 2, .experts_s = 1, .dispatch_s = 1, .combine_s = 2, .cores_share = 0.25}) ==
        Approx(2 / 0.75 + 1.43 + 2.86 + 2.86));
}

}  // namespace test_expert_exchange
