#include "hw/network/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace orrery::hw {
namespace {

constexpr std::size_t kMost = DeviceMesh::kMost;
constexpr int kMostTries = 200'000;  // of adding a ring: bounds the work that a mesh can ask for

using Links = std::array<std::array<int, kMost>, kMost>;
using Ring = std::vector<std::size_t>;

/// The device of the first n with most links to both; n: none has any.
std::size_t between(const Links& links, std::size_t a, std::size_t b, std::size_t n) {
  std::size_t best = n;
  int most = 0;
  for (std::size_t m = 0; m < n; ++m) {
    if (m == a || m == b) continue;
    const int both = std::min(links[a][m], links[m][b]);
    if (both > most) most = both, best = m;
  }
  return best;
}

/// Takes a link each way of every pair that the ring passes; false, and `links` spoilt, where one lacks.
bool take(Links& links, const Links& whole, const Ring& ring) {
  const auto one = [&](std::size_t a, std::size_t b) {
    --links[b][a];
    return --links[a][b] >= 0;
  };
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::size_t a = ring[i], b = ring[(i + 1) % ring.size()];
    if (whole[a][b] > 0) {
      if (!one(a, b)) return false;
      continue;
    }
    const std::size_t m = between(whole, a, b, ring.size());
    if (m == ring.size() || !one(a, m) || !one(m, b)) return false;
  }
  return true;
}

/// Rings through the first n devices, each once: they begin at 0 and go the way round that has the lower end first.
std::vector<Ring> rings_of(const Links& links, std::size_t n, bool relayed) {
  std::vector<Ring> rings;
  Ring ring(n);
  std::iota(ring.begin(), ring.end(), std::size_t{0});
  do {
    if (ring[1] > ring[n - 1]) continue;
    bool closes = true;
    for (std::size_t i = 0; i < n && closes && !relayed; ++i) closes = links[ring[i]][ring[(i + 1) % n]] > 0;
    if (closes) rings.push_back(ring);
  } while (std::next_permutation(ring.begin() + 1, ring.end()));
  return rings;
}

class RingSearch {
 public:
  RingSearch(const Links& links, std::size_t n, bool relayed)
      : whole_(links), n_(n), rings_(rings_of(links, n, relayed)) {
    extend(0, links, 0);
  }
  std::int64_t most() const { return most_; }

 private:
  /// Adds rings from number `from` on to `found` that have left `links`.
  void extend(std::size_t from, const Links& links, std::int64_t found) {
    most_ = std::max(most_, found);
    if (found + bound(links) <= most_) return;
    for (std::size_t i = from; i < rings_.size() && tries_ < kMostTries; ++i) {
      ++tries_;
      Links left = links;
      if (take(left, whole_, rings_[i])) extend(i, left, found + 1);
    }
  }

  /// A ring takes two links of every device.
  std::int64_t bound(const Links& links) const {
    int least = std::numeric_limits<int>::max();
    for (std::size_t a = 0; a < n_; ++a)
      least = std::min(least, std::accumulate(links[a].begin(), links[a].begin() + static_cast<std::ptrdiff_t>(n_), 0));
    return least / 2;
  }

  const Links& whole_;
  std::size_t n_;
  std::vector<Ring> rings_;
  std::int64_t most_ = 0;
  int tries_ = 0;
};

double peer_rate(const Links& links, std::size_t n) {
  Links load{};
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      if (links[a][b] > 0) {
        ++load[a][b];
        continue;
      }
      const std::size_t m = between(links, a, b, n);
      if (m == n) return 0;
      ++load[a][m], ++load[m][b];
    }
  }
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (load[a][b] > 0) rate = std::min(rate, static_cast<double>(links[a][b]) / load[a][b]);
  return rate;
}

MeshRates rates_of(const Links& links, std::size_t n) {
  MeshRates rates;
  rates.peer = peer_rate(links, n);
  if (n == 2) return rates;  // a pair's rings are its links, which peer holds
  rates.rings = RingSearch(links, n, false).most();
  if (rates.rings == 0) rates.rings = RingSearch(links, n, true).most();
  return rates;
}

std::vector<std::string_view> rows_of(std::string_view text) {
  std::vector<std::string_view> rows;
  for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    rows.push_back(text.substr(at, end - at));
    at = end;
  }
  return rows;
}

}  // namespace

std::optional<DeviceMesh> DeviceMesh::parse(std::string_view text, std::string& fault) {
  const std::vector<std::string_view> rows = rows_of(text);
  const std::size_t n = rows.size();
  if (n < 2 || n > kMost) {
    fault = fmt::format("expected rows of 2 to {} devices, got {}", kMost, n);
    return {};
  }
  Links links{};
  for (std::size_t a = 0; a < n; ++a) {
    if (rows[a].size() != n || rows[a].find_first_not_of("0123456789") != std::string_view::npos) {
      fault = fmt::format("expected {} digits a row, the links to each device, got '{}'", n, rows[a]);
      return {};
    }
    for (std::size_t b = 0; b < n; ++b) links[a][b] = rows[a][b] - '0';
  }
  DeviceMesh mesh;
  mesh.rates_.resize(n + 1);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      if (links[a][b] == links[b][a] && (a != b || links[a][a] == 0)) continue;
      fault = a == b ? fmt::format("expected no links of device {} to itself, got {}", a, links[a][a])
                     : fmt::format("expected as many links from {} to {} as back, got {} and {}", a, b, links[a][b],
                                   links[b][a]);
      return {};
    }
  }
  for (std::size_t ranks = 2; ranks <= n; ++ranks) mesh.rates_[ranks] = rates_of(links, ranks);
  if (mesh.rates_[n].peer == 0) {
    fault = "expected every device to reach every other over a link, or over two";
    return {};
  }
  return mesh;
}

const MeshRates& DeviceMesh::rates(std::int64_t ranks) const {
  return rates_.at(static_cast<std::size_t>(std::clamp<std::int64_t>(ranks, 2, devices())));
}

const DeviceMesh& mesh_of(const std::string& text) {
  struct Kept {
    std::string text;
    DeviceMesh mesh;
  };
  thread_local Kept last;
  if (last.text != text) {
    std::string fault;
    last = {text, DeviceMesh::parse(text, fault).value_or(DeviceMesh{})};
  }
  return last.mesh;
}

}  // namespace orrery::hw
