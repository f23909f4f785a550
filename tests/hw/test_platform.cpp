// Platforms: the micro-benchmarks that their constants come from, end to end through the event model; copies and page
// migration by hand; faults of catalog files.
#include <catch2/catch.hpp>

#include "hw/coupling/launch_figures.hpp"
#include "hw/coupling/launch_program.hpp"
#include "tests/hw/parts.hpp"

namespace test_platform {

using namespace orrery;
using namespace orrery::hw;
using Catch::Contains;

namespace {

const std::string kCatalog = std::string(ORRERY_SOURCE_DIR) + "/hw/catalog";
constexpr const char* kPlatforms[] = {"platform-a100-epyc7313", "platform-h100pcie-xeon8468v", "platform-gh200"};
const sim::TickScale kScale{1};

/// A kernel that does nothing, launched by a loop without a framework.
std::vector<LaunchedKernel> null_kernels(std::size_t count) {
  return std::vector<LaunchedKernel>(
      count, {.name = "null", .kernel = {.op = OpClass::residual, .shape = Streaming{}}, .starts_operator = false});
}

LaunchFigures run(const Platform& platform, const std::vector<LaunchedKernel>& kernels, LaunchStyle style) {
  const auto cost = hw::test::model("roofline", platform.gpu);
  const std::vector<Command> program = build_program(platform, *cost, kernels, style, kScale);
  return analyse(program, run_launches(limits_of(platform, kScale), program).timings, kScale);
}

/// Time a kernel of a long stretch of null kernels.
double floor_us(const Platform& platform, LaunchStyle style) {
  constexpr std::size_t kFew = 100, kMany = 5100;  // past the queue's entries
  const double few = run(platform, null_kernels(kFew), style).il_s;
  const double many = run(platform, null_kernels(kMany), style).il_s;
  return (many - few) / static_cast<double>(kMany - kFew) * 1e6;
}

}  // namespace

TEST_CASE("platform: launch floors of RRZE-HPC/gpu-benches gpu-small-kernels", "[golden]") {
  const Platform a100 = read_platform(kPlatforms[0], kCatalog);
  CHECK(floor_us(a100, LaunchStyle::stream) == Approx(2.62).epsilon(1e-6));
  CHECK(floor_us(a100, LaunchStyle::graph) == Approx(1.34).epsilon(1e-6));
  const Platform gh200 = read_platform(kPlatforms[2], kCatalog);
  CHECK(floor_us(gh200, LaunchStyle::stream) == Approx(2.43).epsilon(1e-6));
  CHECK(floor_us(gh200, LaunchStyle::graph) == Approx(1.26).epsilon(1e-6));
  CHECK(floor_us(gh200, LaunchStyle::persistent) == Approx(1.13).epsilon(1e-6));
  // MI210: 2.05 us in a stream and in a graph, from its own catalog entry.
  Platform mi210 = a100;
  mi210.gpu = hw::test::part("mi210");
  mi210.params.launch.call_s = mi210.gpu.launch_stream_s;
  mi210.params.launch.graph_node_s = mi210.gpu.launch_graph_s;
  CHECK(floor_us(mi210, LaunchStyle::stream) == Approx(2.05).epsilon(0.005));
  CHECK(floor_us(mi210, LaunchStyle::graph) == Approx(2.05).epsilon(0.005));
}

TEST_CASE("platform: null kernels of Table V", "[golden]") {
  // One null kernel: TKLQT is the latency, AKD the duration (arXiv 2504.11750).
  const double latency_ns[] = {2260.5, 2374.6, 2771.6};
  const double duration_ns[] = {1440.0, 1235.2, 1171.2};
  for (int i = 0; i < 3; ++i) {
    const LaunchFigures figures = run(read_platform(kPlatforms[i], kCatalog), null_kernels(1), LaunchStyle::stream);
    CHECK(figures.tklqt_s * 1e9 == Approx(latency_ns[i]));
    CHECK(figures.akd_s * 1e9 == Approx(duration_ns[i]));
  }
}

TEST_CASE("platform: copies reach the published bandwidths", "[golden]") {
  constexpr std::int64_t kBytes = 1 << 30;
  const auto rate = [](const Platform& platform, CopyDirection direction) {
    Command copy{.kind = CommandKind::copy, .direction = direction};
    copy.device = kScale.duration(copy_time(platform, direction, HostMemory::pinned, kBytes));
    const LaunchRun done = run_launches(limits_of(platform, kScale), std::vector<Command>{copy});
    return static_cast<double>(kBytes) / kScale.seconds(done.timings[0].end - done.timings[0].begin) * 1e-9;
  };
  const Platform gh200 = read_platform(kPlatforms[2], kCatalog);
  CHECK(rate(gh200, CopyDirection::to_device) == Approx(375).epsilon(1e-3));
  CHECK(rate(gh200, CopyDirection::to_host) == Approx(297).epsilon(1e-3));
  CHECK(rate(read_platform(kPlatforms[0], kCatalog), CopyDirection::to_device) == Approx(25).epsilon(1e-3));
  CHECK(rate(read_platform(kPlatforms[1], kCatalog), CopyDirection::to_host) == Approx(50).epsilon(1e-3));
}

TEST_CASE("platform: pinned, pageable and managed memory by hand", "[unit]") {
  Platform platform = read_platform(kPlatforms[0], kCatalog);
  CopyParams& copies = platform.params.copies;
  copies.to_device = {1e-6, 10e9};
  copies.staging_bandwidth = 5e9;
  copies.staging_bytes = 1'000'000;
  const auto to_device = CopyDirection::to_device;
  // 10 MB: 1 us + 1 ms pinned. Pageable: the first MB staged in 200 us, nine more at 5 GB/s in 1.8 ms, the last sent in
  // 100 us.
  CHECK(copy_time(platform, to_device, HostMemory::pinned, 10'000'000) == Approx(1.001e-3));
  CHECK(copy_time(platform, to_device, HostMemory::pageable, 10'000'000) == Approx(2.101e-3));
  CHECK(copy_cpu_time(platform, to_device, HostMemory::pageable, 10'000'000) == Approx(2.101e-3));
  CHECK(copy_cpu_time(platform, to_device, HostMemory::pinned, 10'000'000) == 0);
  CHECK(copy_time(platform, to_device, HostMemory::pinned, 0) == Approx(1e-6));
  // Without a rate of its own a core stages at half of what it draws from memory.
  copies.staging_bandwidth = 0;
  platform.cpu.core_bandwidth = 10e9;
  CHECK(copy_time(platform, to_device, HostMemory::pageable, 10'000'000) == Approx(2.101e-3));
  // 1 MB of pages of 100 kB: ten faults of 20 us and 10 us each; one byte more is a page more. A prefetch: 5 us, 1 us
  // and 100 us.
  platform.params.migration = {100'000, 20e-6, 5e-6};
  CHECK(managed_time(platform, to_device, ManagedAccess::fault, 1'000'000) == Approx(300e-6));
  CHECK(managed_time(platform, to_device, ManagedAccess::fault, 1'000'001) == Approx(330e-6));
  CHECK(managed_time(platform, to_device, ManagedAccess::prefetch, 1'000'000) == Approx(106e-6));
  CHECK(managed_time(platform, to_device, ManagedAccess::in_place, 1'000'000) == Approx(300e-6));
  // A coherent link reads pageable and managed memory in place.
  platform.params.link = HostLink::nvlink_c2c;
  CHECK(managed_time(platform, to_device, ManagedAccess::in_place, 1'000'000) == Approx(100e-6));
  CHECK(copy_time(platform, to_device, HostMemory::pageable, 10'000'000) == Approx(1.001e-3));
}

TEST_CASE("platform: styles of launching by hand", "[unit]") {
  Platform platform = read_platform(kPlatforms[0], kCatalog);
  platform.params.dispatch = {10e-6, 2e-6};
  platform.cpu.single_thread = 0.5;
  platform.params.launch.call_s = 3e-6;
  platform.params.launch.graph_capture_s = 1e-6;
  const auto cost = hw::test::model("roofline", platform.gpu);
  // An operator after two views, of two kernels: (10 + 2 x 2) / 0.5 = 28 us of framework, then two calls.
  std::vector<LaunchedKernel> kernels = null_kernels(4);
  kernels[0].starts_operator = kernels[2].starts_operator = true;
  kernels[0].views = 2;
  const auto stream = build_program(platform, *cost, kernels, LaunchStyle::stream, kScale);
  CHECK(kScale.seconds(stream[0].host) == Approx(28e-6));
  CHECK(stream[1].host == sim::Duration{});
  CHECK(kScale.seconds(stream[2].host) == Approx(20e-6));
  // A tracer adds its time once an operator, whatever its views and kernels: (10 + 5 + 2 x 2) / 0.5 and (10 + 5) / 0.5.
  Platform traced = platform;
  traced.params.dispatch.tracer_s = 5e-6;
  const auto recorded = build_program(traced, *cost, kernels, LaunchStyle::stream, kScale);
  CHECK(kScale.seconds(recorded[0].host) == Approx(38e-6));
  CHECK(recorded[1].host == sim::Duration{});
  CHECK(kScale.seconds(recorded[2].host) == Approx(30e-6));
  CHECK(recorded[2].device == stream[2].device);
  CHECK(stream[1].call == kScale.duration(3e-6));
  CHECK(stream[1].device == kScale.duration(1440e-9));
  const auto graph = build_program(platform, *cost, kernels, LaunchStyle::graph, kScale);
  CHECK((!graph[0].chained && graph[1].chained && graph[3].chained));
  CHECK(graph[0].host == sim::Duration{});
  CHECK(graph[3].device == kScale.duration(1.34e-6));
  const auto fused = build_program(platform, *cost, kernels, LaunchStyle::stream, kScale, 3);
  CHECK((!fused[0].chained && fused[1].chained && fused[2].chained && !fused[3].chained));
  // The same three joined, as chains that a policy finds: one operator with its two views, one call.
  const std::vector<std::size_t> starts{0};
  const auto joined = join_launches(platform, stream, kernels, starts, 3, kScale);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(joined[i].chained == fused[i].chained);
    CHECK(joined[i].host == fused[i].host);
    CHECK(joined[i].call == fused[i].call);
    CHECK(joined[i].device == fused[i].device);
  }
  CHECK(joined[3].call == stream[3].call);
  const std::vector<std::size_t> over{0, 2}, past{2};
  CHECK_THROWS_WITH(join_launches(platform, stream, kernels, over, 3, kScale), Contains("do not overlap"));
  CHECK_THROWS_WITH(join_launches(platform, stream, kernels, past, 3, kScale), Contains("within the program"));
  CHECK_THROWS_WITH(join_launches(platform, fused, null_kernels(2), starts, 2, kScale), Contains("a command a kernel"));
  // Capturing dispatches every operator: 28 + 20 us, four calls of 3 us, four nodes of 1 us.
  CHECK(capture_time(platform, kernels) == Approx(64e-6));
  CHECK_THROWS_WITH(build_program(platform, *cost, kernels, LaunchStyle::stream, kScale, 0), Contains("a chain"));
}

TEST_CASE("platform: a fault in a file is one clear line", "[unit]") {
  const auto fault_of = [](const std::vector<std::string>& assignments) {
    sim::Faults faults;
    parse_platform(sim::read_config(kCatalog + "/platform-gh200.json", assignments), kCatalog, faults);
    REQUIRE(faults.size() == 1);
    return faults.all().front().where.pointer + ": " + faults.all().front().message;
  };
  CHECK(fault_of({"gpu=gh300"}) == "/gpu: expected a part of the catalog, found no 'gh300'");
  CHECK_THAT(fault_of({"copies.to_host.bandwidth=500 GB/s"}),
             Contains("/copies/to_host/bandwidth: expected at most 450 GB/s, the peak of the link per direction"));
  CHECK_THAT(fault_of({"launch.queue_entries=0"}), Contains("/launch/queue_entries: expected") && Contains("got 0"));
  CHECK_THAT(fault_of({"launch.call=2"}), Contains("/launch/call: expected"));
  CHECK_THAT(fault_of({"link=pcie9"}), Contains("/link: expected"));
}

}  // namespace test_platform
