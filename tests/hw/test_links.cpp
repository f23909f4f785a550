// Links, adapters and memory tiers of the catalog: arithmetic by hand, properties, published figures, faults.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "hw/parts/catalog.hpp"
#include "hw/parts/link_part.hpp"
#include "hw/parts/memory_tier.hpp"
#include "hw/parts/nic.hpp"
#include "sim/base/random.hpp"

namespace test_links {

using namespace orrery;
using namespace orrery::hw;

namespace {

template <class P>
P shipped(const std::string& name) {
  return read_part<P>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json").part;
}

template <class P>
std::string faults_of(const std::string& text) {
  sim::Faults faults;
  parse_part<P>(sim::parse_json(text, "part.json"), faults);
  std::string all;
  for (const sim::Fault& fault : faults.all()) all += fault.text() + "\n";
  return all;
}

constexpr const char* kLinks[]{"nvlink2",     "nvlink3",   "nvlink4",   "nvlink5",   "nvlink-c2c", "xgmi-mi250x",
                               "xgmi-mi300x", "pcie3-x16", "pcie4-x16", "pcie5-x16", "pcie6-x16"};
constexpr const char* kNics[]{"ib-edr-4x", "ib-hdr-4x", "ib-ndr-4x", "ib-xdr-4x",    "roce-25g",
                              "roce-100g", "roce-200g", "roce-400g", "ethernet-10g", "ethernet-25g"};
constexpr const char* kTiers[]{"ddr4-3200-channel", "ddr5-4800-channel", "hbm2-stack", "hbm2e-stack",
                               "hbm3-stack",        "hbm3e-stack",       "hbm4-stack", "cxl-expander-x16",
                               "cxl-switched-x16",  "nvme-gen4",         "nvme-gen5"};

}  // namespace

TEST_CASE("a link by hand", "[unit]") {
  // 1 GB/s at 0.5, packets of 100 + 25 bytes, 1 us. 1,000 bytes: 10 packets, 1,250 bytes on the wire, 2.5 us: 3.5 us.
  LinkPart link{.bandwidth = 1e9, .latency_s = 1e-6, .payload_bytes = 100, .header_bytes = 25, .efficiency = 0.5};
  link.byte_j = 2e-12;
  CHECK(wire_bytes(link, 1000) == 1250);
  CHECK(transfer_time(link, 1000) == Approx(3.5e-6));
  CHECK(transfer_energy(link, 1000) == Approx(2.5e-9));
  CHECK(achieved_bandwidth(link) == Approx(0.4e9));
  // Three messages of 334, 333 and 333 bytes: 4 packets each, 300 bytes of headers.
  CHECK(wire_bytes(link, 1000, 3) == 1300);
  CHECK(transfer_time(link, 1000, 3) == Approx(3.6e-6));
  CHECK(transfer_time(link, 0) == 0);
  CHECK(transfer_time(link, 1000, 1, LinkDirection::reverse) == Approx(3.5e-6));
  link.reverse_efficiency = 0.25;
  CHECK(transfer_time(link, 1000, 1, LinkDirection::reverse) == Approx(6e-6));
}

TEST_CASE("an adapter by hand", "[unit]") {
  // 1 GB/s, packets of 1,000 + 50 bytes, 2 us, 1 million messages a second, 0.5 us of work for each.
  NicPart nic{.bandwidth = 1e9,
              .latency_s = 2e-6,
              .message_rate = 1e6,
              .mtu_bytes = 1000,
              .header_bytes = 50,
              .cpu_per_message_s = 0.5e-6};
  // One of 10,000 bytes: 10 packets, 10.5 us on the wire: 13 us.
  CHECK(transfer_time(nic, 10'000) == Approx(13e-6));
  // 100 of 100 bytes: 15,000 bytes on the wire, 15 us; the queue takes 99 us, the host 99 * 0.5 us: 101.5 us.
  CHECK(transfer_time(nic, 10'000, 100) == Approx(101.5e-6));
  // The host copies at 0.1 GB/s: a message of 10,000 bytes takes it 100.5 us before the wire has any.
  nic.rdma = false;
  nic.copy_bandwidth = 0.1e9;
  CHECK(transfer_time(nic, 10'000) == Approx(113e-6));
  // Ten of them: 2 + 100.5 + max(105, 9, 9 * 100.5) us.
  CHECK(transfer_time(nic, 100'000, 10) == Approx(1007e-6));
  CHECK(achieved_bandwidth(nic) == Approx(0.1e9));
  CHECK(transfer_time(nic, 0) == Approx(2e-6 + 0.5e-6 + 50e-9));  // a packet without data
  CHECK(transfer_time(nic, 0, 0) == 0);
}

TEST_CASE("a tier by hand", "[unit]") {
  // 1 GB/s, 1 us, granules of 100 bytes, 4 under way: 0.4 GB/s by Little's law.
  MemoryTier tier{.capacity_bytes = 1 << 20, .granule_bytes = 100, .outstanding = 4};
  tier.read = {.bandwidth = 1e9, .latency_s = 1e-6, .iops = 0, .byte_j = 1e-12};
  tier.write = {.bandwidth = 0.5e9, .latency_s = 1e-6, .iops = 1e5, .byte_j = 2e-12};
  CHECK(transfer_time(tier, TierDirection::read, 1) == Approx(1.1e-6));  // a granule
  CHECK(transfer_time(tier, TierDirection::read, 400) == Approx(1.4e-6));
  CHECK(transfer_time(tier, TierDirection::read, 10'000) == Approx(1e-6 + 96.0 / 4 * 1e-6));
  CHECK(transfer_time(tier, TierDirection::read, 10'000, 1, 1) == Approx(1e-6 + 99e-6));  // pointer chasing
  tier.outstanding = 1000;
  CHECK(transfer_time(tier, TierDirection::read, 10'000) == Approx(11e-6));
  // Ten requests of 10 bytes move ten granules; 1e5 writes a second: 10 us of ten against 2 us of bytes.
  CHECK(moved_bytes(tier, 100, 10) == 1000);
  CHECK(transfer_time(tier, TierDirection::write, 100, 10) == Approx(101e-6));
  CHECK(transfer_energy(tier, TierDirection::write, 100, 10) == Approx(2e-9));
  CHECK(transfer_time(tier, TierDirection::write, 0) == 0);
}

TEST_CASE("more bytes and more messages never take less", "[prop]") {
  std::vector<LinkPart> links;
  std::vector<NicPart> nics;
  std::vector<MemoryTier> tiers;
  for (const char* name : kLinks) links.push_back(shipped<LinkPart>(name));
  for (const char* name : kNics) nics.push_back(shipped<NicPart>(name));
  for (const char* name : kTiers) tiers.push_back(shipped<MemoryTier>(name));
  sim::RandomStream random(11, "links");
  const auto draw = [&](std::int64_t below) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(below)));
  };
  for (std::size_t i = 0; i < 3000; ++i) {
    const std::int64_t messages = 1 + draw(1000), bytes = messages * (1 + draw(1 << 20));
    const std::int64_t more = bytes + messages * (1 + draw(1 << 16));
    const LinkPart& link = links[i % links.size()];
    CHECK(transfer_time(link, more, messages) > transfer_time(link, bytes, messages));
    CHECK(transfer_time(link, bytes, messages) >= transfer_time(link, bytes, 1));
    CHECK(transfer_time(link, bytes) > static_cast<double>(bytes) / link.bandwidth);
    CHECK(static_cast<double>(bytes) / transfer_time(link, bytes) <= achieved_bandwidth(link));
    const NicPart& nic = nics[i % nics.size()];
    CHECK(transfer_time(nic, more, messages) >= transfer_time(nic, bytes, messages));
    CHECK(transfer_time(nic, bytes) > static_cast<double>(bytes) / nic.bandwidth + message_latency(nic));
    const MemoryTier& tier = tiers[i % tiers.size()];
    for (const TierDirection direction : {TierDirection::read, TierDirection::write}) {
      CHECK(transfer_time(tier, direction, more, messages) >= transfer_time(tier, direction, bytes, messages));
      CHECK(transfer_time(tier, direction, bytes, messages, 1) >= transfer_time(tier, direction, bytes, messages));
      CHECK(transfer_time(tier, direction, bytes, messages) >=
            moved_bytes(tier, bytes, messages) / (direction == TierDirection::read ? tier.read : tier.write).bandwidth);
    }
  }
}

TEST_CASE("published figures of links and adapters", "[golden]") {
  // NVLink-C2C: 375 GB/s to the device, 297 GB/s back (Schieffer et al.; published_points.csv).
  const auto c2c = shipped<LinkPart>("nvlink-c2c");
  CHECK(achieved_bandwidth(c2c) == Approx(375e9).epsilon(0.002));
  CHECK(achieved_bandwidth(c2c, LinkDirection::reverse) == Approx(297e9).epsilon(0.002));
  // NVLink 3: 282 GB/s behind headers; two bridged A100 reach 285 GB/s (Vidur's send_recv above its buffers' 48 MiB).
  CHECK(achieved_bandwidth(shipped<LinkPart>("nvlink3")) == Approx(285e9).epsilon(0.02));
  // EDR: ib_write_bw levels off at 96.6 Gb/s, and a write of 2 MiB takes 176 us (forums.developer.nvidia.com 273376).
  const auto edr = shipped<NicPart>("ib-edr-4x");
  CHECK(8 * achieved_bandwidth(edr) == Approx(96.6e9).epsilon(0.003));
  CHECK(transfer_time(edr, 2 << 20) == Approx(176e-6).epsilon(0.02));
  // The kernel's TCP: some 50 us from kernel to kernel.
  CHECK(transfer_time(shipped<NicPart>("ethernet-25g"), 64) == Approx(50e-6).epsilon(0.05));
  // PCIe 4 x16 copies at 25 to 27 GB/s in practice.
  const double pcie4 = achieved_bandwidth(shipped<LinkPart>("pcie4-x16"));
  CHECK(pcie4 > 25e9);
  CHECK(pcie4 < 28e9);
}

TEST_CASE("tiers reach their bandwidth and keep their order", "[golden]") {
  double before = 0;
  for (const char* name : {"hbm3-stack", "cxl-expander-x16", "cxl-switched-x16", "nvme-gen4"}) {
    const auto tier = shipped<MemoryTier>(name);
    const double line = transfer_time(tier, TierDirection::read, 64);
    if (std::string(name) != "cxl-expander-x16") CHECK(line > before);  // HBM's latency is that of a GPU's whole path
    before = line;
    constexpr std::int64_t kBytes = std::int64_t{1} << 30;
    CHECK(static_cast<double>(kBytes) / transfer_time(tier, TierDirection::read, kBytes) ==
          Approx(tier.read.bandwidth).epsilon(0.01));
  }
  // 4 KiB at random: a drive is bound by its operations, 1e6 a second, not by 6.8 GB/s.
  const auto nvme = shipped<MemoryTier>("nvme-gen4");
  CHECK(transfer_time(nvme, TierDirection::read, 4096LL * 1'000'000, 1'000'000) == Approx(1.0).epsilon(0.001));
}

TEST_CASE("every link, adapter and tier says where its figures come from", "[unit]") {
  const auto check = [](const std::string& name, const char* kind) {
    const AnyPart part = read_any_part(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json");
    CHECK(part.kind == kind);
    CHECK(part.name == name);
    CHECK(!part.sources.empty());
  };
  for (const char* name : kLinks) check(name, "link");
  for (const char* name : kNics) check(name, "nic");
  for (const char* name : kTiers) check(name, "memory");
}

TEST_CASE("faults of links, adapters and tiers", "[unit]") {
  CHECK_THAT(faults_of<LinkPart>(R"({"kind": "link", "version": 1, "name": "x", "doc": "x", "bandwidth": "0 GB/s",
                                     "latency": "1 us"})"),
             Catch::Contains("part.json:/bandwidth: expected > 0"));
  CHECK_THAT(faults_of<LinkPart>(R"({"kind": "link", "version": 1, "name": "x", "doc": "x", "bandwidth": "1 GB",
                                     "latency": "1 us"})"),
             Catch::Contains("part.json:/bandwidth"));
  CHECK_THAT(faults_of<NicPart>(R"({"kind": "nic", "version": 1, "name": "x", "doc": "x", "bandwidth": "1 GB/s",
                                    "latency": "1 us", "rdma": false})"),
             Catch::Contains("part.json:/copy_bandwidth: expected > 0 B/s where the host copies"));
  CHECK_THAT(faults_of<MemoryTier>(R"({"kind": "memory", "version": 1, "name": "x", "doc": "x", "capacity": "1 GB",
                                       "granule": "0 B", "outstanding": 1,
                                       "read": {"bandwidth": "1 GB/s", "latency": "1 us"},
                                       "write": {"bandwidth": "1 GB/s", "latency": "1 us"}})"),
             Catch::Contains("part.json:/granule: expected >= 1"));
}

}  // namespace test_links
