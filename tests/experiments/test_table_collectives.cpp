// The five layouts of collectives' tables: which rows are covered, by which part, under which measuring conditions.
#include <catch2/catch.hpp>

#include "experiments/fidelity/aceso_sizes.hpp"
#include "hw/network/library_collective.hpp"
#include "tests/measured.hpp"

namespace test_table_collectives {

using namespace orrery;
using namespace orrery::experiments;
using experiments::test::shelf;
using hw::LibraryCall;

namespace {

hw::LinkParams link(const std::string& part) {
  return shelf().find<hw::GpuParams>(part)->part.link;
}

Predictions::Column predict(const std::string& text, const std::string& name, const std::string& metric = "time") {
  const Predictions out = experiments::test::predict(*collective_tables(), name, text);
  for (const Predictions::Column& column : out.columns())
    if (column.metric == metric) return column;
  throw std::logic_error("no such metric");
}

double us(const hw::LinkParams& params, LibraryCall call, std::int64_t ranks, std::int64_t bytes) {
  return hw::library_collective(params, call, ranks, bytes).time_s * 1e6;
}

}  // namespace

TEST_CASE("NCCL's tables count elements of two bytes", "[unit]") {
  const auto column =
      predict("collective,num_gpus,message_elements,time_us\nall_gather,4,4096,7\nalltoall,8,512,7\nbarrier,8,1,7\n",
              "collectives/nccl_h200_sxm.csv");
  REQUIRE(column.rows.size() == 2);
  CHECK(column.rows[0].predicted == Approx(us(link("h200-sxm-141gb"), LibraryCall::all_gather, 4, 8192)));
  CHECK(column.rows[1].predicted == Approx(us(link("h200-sxm-141gb"), LibraryCall::all_to_all, 8, 1024)));
  CHECK(column.rows[0].measured == 7);
  CHECK(column.uncovered == 1);
  CHECK(column.reasons == std::vector<std::string>{"collective 'barrier' is not modelled"});
  CHECK(predict("collective,num_gpus,message_elements,time_us\nall_gather,4,4096,7\n", "collectives/nccl_x9.csv")
            .reasons == std::vector<std::string>{"no part of the catalog stands for it"});
}

TEST_CASE("Vidur's tables have a host's pace and a sender's view", "[unit]") {
  const std::string head = "collective,num_gpus,bytes,devices_per_node,time_us\n";
  const std::string name = "collectives/vidur_a100_dgx_all_reduce.csv";
  const std::string rows = head + "all_reduce,8,1024,8,60\nall_reduce,8,1024,4,60\nall_reduce,8,67108864,8,60\n";
  const auto reduce = predict(rows, name);
  REQUIRE(reduce.rows.size() == 2);
  CHECK(reduce.rows[0].predicted == Approx(36));  // the interval between launches of eight ranks
  CHECK(reduce.rows[1].predicted == Approx(us(link("a100-sxm4-80gb"), LibraryCall::all_reduce, 8, 67108864)));
  // Ranks on two nodes are a metric of their own: four a node of eight never wait less than the host.
  const auto across = predict(rows, name, "time across nodes");
  REQUIRE(across.rows.size() == 1);
  CHECK(across.rows[0].row == 1);
  CHECK(across.rows[0].predicted > 36);
  const auto two =
      predict(head + "all_reduce,4,8388608,2,1246\nall_reduce,4,16777216,2,4230\n", name, "time across nodes");
  // A tree of S at 7.45 GB/s from 8 MiB, a ring of 1.5 S at 0.797 of it from 16 MiB, and some 200 us of both.
  CHECK(two.rows.at(0).predicted == Approx(1126 + 180).epsilon(0.05));
  CHECK(two.rows.at(1).predicted == Approx(4238 + 120).epsilon(0.05));
  const auto send = predict(head + "send_recv,2,1048576,2,17\n", "collectives/vidur_a100_dgx_send_recv.csv");
  const auto cost = hw::library_collective(link("a100-sxm4-80gb"), LibraryCall::send_recv, 2, 1 << 20);
  CHECK(cost.sender_s < cost.time_s);
  CHECK(send.rows.at(0).predicted == Approx(cost.sender_s * 1e6));
  // Two A40 that share no bridge: 64 MiB at 0.128 of 32 GB/s take 16.4 ms.
  const auto apart =
      predict(head + "send_recv,2,67108864,2,17\n", "collectives/vidur_a40_pairwise_nvlink_send_recv.csv");
  CHECK(apart.rows.at(0).predicted == Approx(16385).epsilon(0.001));
}

TEST_CASE("tables of other sources", "[unit]") {
  const auto vtrain = predict(
      "gpu,num_gpus,size_bytes,outofplace_ns\na100,3,3145728,77000\nv100,3,3145728,77000\nk80,3,3145728,77000\n",
      "collectives/vtrain_allreduce.csv");
  REQUIRE(vtrain.rows.size() == 2);
  CHECK(vtrain.rows[0].measured == Approx(77));
  CHECK(vtrain.rows[1].predicted == Approx(us(link("v100-sxm2-32gb"), LibraryCall::all_reduce, 3, 3145728)));
  CHECK(vtrain.uncovered == 1);
  const auto four = predict("bytes,latency_us_measured\n1048576,60\n", "collectives/llmcompass_4xa100_allreduce.csv");
  CHECK(four.rows.at(0).predicted == Approx(us(link("a100-sxm4-40gb"), LibraryCall::all_reduce, 4, 1 << 20)));
  const auto clusters = predict(
      "cluster,collective,gpus,data_size_MB,time_ms\na100-sxm4-40gb-larger-model,all_reduce,8,64,0.6\n"
      "a100-sxm4-40gb,all_gather,8,64,3\nl4,all_reduce,2,64,1000000000\nk80,all_reduce,2,64,1\n",
      "collectives/aceso.csv");
  REQUIRE(clusters.rows.size() == 2);
  // The host: 22 us for a call, 14 us for each tensor of a list.
  CHECK(clusters.rows[0].predicted ==
        Approx(0.022 + 1e-3 * us(link("a100-sxm4-40gb"), LibraryCall::all_reduce, 8, 64 << 20)));
  // A list of tensors: 8 parts of 64 MiB, and 1 GiB through a memory of 0.85 * 1,555 GB/s: 0.81 ms.
  CHECK(
      clusters.rows[1].predicted ==
      Approx(1e-3 * us(link("a100-sxm4-40gb"), LibraryCall::all_gather, 8, 512 << 20) + 0.8123 + 0.134).epsilon(0.001));
  CHECK(clusters.reasons ==
        std::vector<std::string>{"the measurement failed", "no part of the catalog stands for cluster 'k80'"});
}

TEST_CASE("Aceso's whole MiB stand for tensors of their own size", "[unit]") {
  CHECK(aceso_tensor_bytes("l4", 64) == 64 << 20);
  CHECK(aceso_tensor_bytes("v100-sxm2-32gb-seq2048", 13) == 14417920);  // 13.75 MiB
  CHECK(aceso_tensor_bytes("a100-sxm4-40gb", 44) == 2 * 23070769);      // 44.004 MiB, 23,070,769 halves
  CHECK(aceso_tensor_bytes("a100-sxm4-40gb-larger-model", 44) == 44 << 20);
  CHECK(aceso_tensor_bytes("l4", 5000) == std::int64_t{5000} << 20);
  // So the first row is off 16 bytes and slower than its larger neighbour.
  const auto rows = predict(
      "cluster,collective,gpus,data_size_MB,time_ms\na100-sxm4-40gb,all_gather,2,44,0.816\n"
      "a100-sxm4-40gb,all_gather,2,45,0.56\n",
      "collectives/aceso.csv");
  CHECK(rows.rows.at(0).predicted > 1.3 * rows.rows.at(1).predicted);
}

}  // namespace test_table_collectives
