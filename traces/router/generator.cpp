#include "traces/router/generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/input_limits.hpp"
#include "sim/base/random.hpp"

namespace orrery::traces {
namespace {

using Shares = std::vector<double>;

void normalise(Shares& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = sum > 0 ? share / sum : 1 / static_cast<double>(shares.size());
}

/// A draw from Dirichlet(alpha), one alpha an expert.
Shares dirichlet(const Shares& alpha, sim::RandomStream& random) {
  Shares out;
  for (const double a : alpha) out.push_back(a > 0 ? random.gamma(a, 1) : 0);
  normalise(out);
  return out;
}

/// Experts of a layer, their popularity, and who follows whom from the layer before.
struct Layer {
  std::vector<Shares> popularity;  ///< by domain
  std::vector<ExpertId> by_rank;   ///< of the first domain: the most popular first
  std::vector<ExpertId> follower;  ///< by expert of the layer before
};

/// The tokens of one layer, drawn one after the other.
class LayerDraw {
 public:
  LayerDraw(const RouterGenerator& p, const Layer& layer, sim::RandomStream random)
      : p_(p), layer_(layer), random_(random), weights_(size()), clocks_(size()), recent_(size(), 0), order_(size()) {}

  /// Appends the choices of all tokens; `before`: those of the layer before, empty for the first.
  void draw(const std::vector<ExpertId>& before, RouterLayer& out) {
    for (std::int64_t t = 0; t < p_.tokens; ++t) {
      const std::int64_t at = p_.context > 0 ? t % p_.context : t;
      if (at == 0) begin_text(p_.context > 0 ? t / p_.context : 0);
      weigh(t, at, before, out.choices);
      choose(out);
      remember(t, at, out.choices);
    }
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(p_.experts); }
  std::span<const ExpertId> token(const std::vector<ExpertId>& choices, std::int64_t t) const {
    return std::span(choices).subspan(static_cast<std::size_t>(t * p_.top_k), static_cast<std::size_t>(p_.top_k));
  }

  void begin_text(std::int64_t text) {
    const Shares& domain = layer_.popularity[static_cast<std::size_t>(text) % layer_.popularity.size()];
    Shares alpha = domain;
    for (double& a : alpha) a *= p_.concentration;
    const Shares own = dirichlet(alpha, random_);
    mix_.resize(size());
    for (std::size_t e = 0; e < size(); ++e) mix_[e] = p_.common * domain[e] + (1 - p_.common) * own[e];
    std::ranges::fill(recent_, 0);
  }

  /// Counts of the tokens from `window` to 2 back: the one before the last comes in, the oldest goes.
  void remember(std::int64_t t, std::int64_t at, const std::vector<ExpertId>& choices) {
    if (at >= 1)
      for (const ExpertId e : token(choices, t - 1)) ++recent_[e];
    if (at >= p_.window)
      for (const ExpertId e : token(choices, t - p_.window)) --recent_[e];
  }

  void weigh(std::int64_t t, std::int64_t at, const std::vector<ExpertId>& before,
             const std::vector<ExpertId>& choices) {
    const double k = static_cast<double>(p_.top_k);
    const double follow = before.empty() ? 0 : p_.follow, previous = at >= 1 ? p_.previous : 0;
    const std::int64_t past = std::min(at, p_.window) - 1;
    const double earlier = past >= 1 ? p_.earlier : 0;
    const double rest = std::max(0.0, 1 - follow - previous - earlier);
    for (std::size_t e = 0; e < size(); ++e) weights_[e] = rest * mix_[e];
    if (previous > 0)
      for (const ExpertId e : token(choices, t - 1)) weights_[e] += previous / k;
    if (earlier > 0) {
      const double each = earlier / (k * static_cast<double>(past));
      for (std::size_t e = 0; e < size(); ++e) weights_[e] += each * recent_[e];
    }
    if (follow > 0)
      for (const ExpertId e : token(before, t)) weights_[layer_.follower[e]] += follow / k;
  }

  void choose(RouterLayer& out) {
    constexpr double kNothing = 1e-12;  // an expert that nobody likes still comes before one that is chosen twice
    for (std::size_t e = 0; e < size(); ++e) clocks_[e] = random_.exponential(1) / std::max(weights_[e], kNothing);
    std::iota(order_.begin(), order_.end(), ExpertId{0});
    std::ranges::partial_sort(order_, order_.begin() + p_.top_k,
                              [&](ExpertId a, ExpertId b) { return clocks_[a] < clocks_[b]; });
    out.choices.insert(out.choices.end(), order_.begin(), order_.begin() + p_.top_k);
    if (p_.scores != RouterScores::none) add_scores(out);
  }

  void add_scores(RouterLayer& out) {
    const double last = clocks_[order_[static_cast<std::size_t>(p_.top_k - 1)]];
    Shares scores(size());
    for (std::size_t e = 0; e < size(); ++e) {
      double clock = clocks_[e];
      if (p_.scores == RouterScores::blind && clock > last) clock = last * (1 + random_.exponential(1));
      scores[e] = std::sqrt(1 / clock);
    }
    const double most = std::ranges::max(scores);
    for (const double s : scores) out.scores.push_back(static_cast<std::uint16_t>(std::lround(65535 * s / most)));
  }

  const RouterGenerator& p_;
  const Layer& layer_;
  sim::RandomStream random_;
  Shares weights_, clocks_, mix_;
  std::vector<std::int32_t> recent_;
  std::vector<ExpertId> order_;
};

/// Popularities of a layer's domains.
std::vector<Shares> popularities(const RouterGenerator& p, std::int64_t layer, sim::RandomStream& random) {
  Shares shares = p.popularity;
  if (shares.empty()) shares = sorted_popularity(p.experts, p.spread);
  normalise(shares);
  const auto shuffled = [&] {
    Shares out = shares;
    random.shuffle(std::span(out));
    return out;
  };
  // A popularity that is given is the first layer's and domain's as it stands; elsewhere other experts have it, unless
  // experts are the same modules in every layer.
  const Shares base = p.popularity.empty() || (layer > 0 && !p.every_layer) ? shuffled() : shares;
  std::vector<Shares> out{base};
  for (std::int64_t domain = 1; domain < p.domains; ++domain) {
    Shares own = shuffled();
    for (std::size_t e = 0; e < own.size(); ++e) own[e] = p.alike * base[e] + (1 - p.alike) * own[e];
    out.push_back(std::move(own));
  }
  return out;
}

}  // namespace

std::vector<double> sorted_popularity(std::int64_t experts, double alpha) {
  constexpr int kDraws = 64;
  sim::RandomStream random(1, "router/sorted_popularity");
  Shares mean(static_cast<std::size_t>(experts), 0);
  const Shares alphas(mean.size(), alpha);
  for (int i = 0; i < kDraws; ++i) {
    Shares draw = dirichlet(alphas, random);
    std::ranges::sort(draw, std::greater{});
    for (std::size_t e = 0; e < mean.size(); ++e) mean[e] += draw[e] / kDraws;
  }
  return mean;
}

RouterTrace generate_router_trace(const RouterGenerator& p, std::uint64_t seed) {
  RouterTrace out{.experts = p.experts, .top_k = p.top_k, .context = p.context, .layers = {}};
  const sim::RandomStream root(seed, "router");
  std::vector<ExpertId> before_by_rank;
  for (std::int64_t l = 0; l < p.layers; ++l) {
    sim::RandomStream random = root.child(static_cast<std::uint64_t>(l));
    Layer layer{.popularity = popularities(p, l, random), .by_rank = {}, .follower = {}};
    layer.by_rank.resize(static_cast<std::size_t>(p.experts));
    std::iota(layer.by_rank.begin(), layer.by_rank.end(), ExpertId{0});
    const Shares& first = layer.popularity.front();
    std::ranges::stable_sort(layer.by_rank, [&](ExpertId a, ExpertId b) { return first[a] > first[b]; });
    layer.follower.resize(layer.by_rank.size());
    for (std::size_t i = 0; i < before_by_rank.size(); ++i) layer.follower[before_by_rank[i]] = layer.by_rank[i];
    RouterLayer drawn{.layer = l, .choices = {}, .scores = {}};
    LayerDraw(p, layer, random.child("tokens"))
        .draw(l > 0 ? out.layers.back().choices : std::vector<ExpertId>{}, drawn);
    out.layers.push_back(std::move(drawn));
    before_by_rank = layer.by_rank;
  }
  return out;
}

sim::FieldRows<RouterGenerator> RouterGenerator::fields() {
  using G = RouterGenerator;
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("experts", &G::experts, Unit::count, sim::between(1, kMostExpertsOfLayer),
                 "Number of experts per layer."),
      sim::field("top_k", &G::top_k, Unit::count, sim::between(1, kMostExpertsOfLayer),
                 "Number of experts that a token chooses."),
      sim::field("tokens", &G::tokens, Unit::tokens, sim::between(1, 1 << 26), "Number of tokens in the trace."),
      sim::field("layers", &G::layers, Unit::layers, sim::between(1, 1 << 12), "Number of layers with experts."),
      sim::field("context", &G::context, Unit::tokens, sim::at_least(0),
                 "Number of tokens in a text; 0: all tokens are one text."),
      sim::field("previous", &G::previous, Unit::ratio, sim::between(0, 1),
                 "Weight of the experts that the previous token chose."),
      sim::field("earlier", &G::earlier, Unit::ratio, sim::between(0, 1),
                 "Weight of the experts that tokens before the previous one chose."),
      sim::field("window", &G::window, Unit::tokens, sim::between(2, 1 << 20),
                 "How many tokens back `earlier` reaches."),
      sim::field("follow", &G::follow, Unit::ratio, sim::between(0, 1),
                 "Weight of the experts that follow those which the token chose in the previous layer."),
      sim::field("common", &G::common, Unit::ratio, sim::between(0, 1),
                 "Share of the domain's popularity in that of a text; the rest is the text's own."),
      sim::field(
          "concentration", &G::concentration, Unit::none, sim::between(1e-3, 1e9),
          "How close a text's own popularity is to the domain's: the concentration of a Dirichlet distribution."),
      sim::field("spread", &G::spread, Unit::none, sim::between(1e-2, 1e6),
                 "How even a drawn popularity is: the alpha of a symmetric Dirichlet distribution."),
      sim::field("popularity", &G::popularity, Unit::none, sim::at_least(0),
                 "Popularity of each expert in the first layer and domain; none: it is drawn."),
      sim::field("every_layer", &G::every_layer,
                 "Whether `popularity` holds for the same experts in every layer; otherwise other experts have it in "
                 "other layers."),
      sim::field("domains", &G::domains, Unit::count, sim::between(1, 1 << 10),
                 "Number of domains, whose texts take turns."),
      sim::field("alike", &G::alike, Unit::ratio, sim::between(0, 1),
                 "Share of popularity that the domains have in common."),
      sim::field(
          "scores", &G::scores,
          "Whether the trace has the router's scores; `blind` scores say nothing of experts that are not chosen.")};
  return table;
}

void check_router_generator(const sim::Node& node, const RouterGenerator& p, sim::Faults& faults) {
  const auto where = [&](const char* key) {
    const sim::Node* at = node.find(key);
    return at != nullptr ? at->origin() : node.origin();
  };
  if (p.top_k > p.experts)
    faults.add(where("top_k"), fmt::format("more activated experts than exist: {} of {}", p.top_k, p.experts));
  if (p.previous + p.earlier + p.follow > 1)
    faults.add(node.origin(), fmt::format("expected previous + earlier + follow of at most 1, got {:g}",
                                          p.previous + p.earlier + p.follow));
  if (!p.popularity.empty() && static_cast<std::int64_t>(p.popularity.size()) != p.experts)
    faults.add(where("popularity"),
               fmt::format("expected a popularity for each of {} experts, got {}", p.experts, p.popularity.size()));
  const std::int64_t a_token = p.top_k * 2 + (p.scores != RouterScores::none ? p.experts * 2 : 0);
  if (p.tokens > sim::most_input_bytes() / a_token / p.layers)
    faults.add(where("tokens"),
               fmt::format("{} tokens of {} layers are more than a router trace may have", p.tokens, p.layers),
               "ORRERY_INPUT_LIMIT raises the limit");
}

}  // namespace orrery::traces
