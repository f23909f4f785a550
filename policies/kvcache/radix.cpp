// RadixAttention: prefixes of any length, kept in a tree.
//
// A node of the tree is a run of text that no two kept texts divide; a prompt takes over the longest path that it
// begins with, but for its last token, which is computed. Sequences that run count as users of every node of their
// path; a node without users may go, leaves first, the least recently used of them first, whole, so that what many
// texts begin with lasts longest. Cache and running sequences share one pool: nothing is set aside for either. Text
// enters the tree when it is computed (`publish`: as SGLang does) or only when a sequence ends (as its paper says); the
// output enters at the end, if the request's text names it. What somebody else has entered meanwhile is given back.
// Source: SGLang (NeurIPS 2024, arXiv 2312.07104v2), section 3, and mem_cache/radix_cache.py; pages of 1 token unless
// `page_tokens` says otherwise. Branches as in branches.hpp.
// Cost: O(spans of the text + nodes on its path), O(log leaves) a node that is used or evicted.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "policies/kvcache/prefix_cache.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class Publish : std::uint8_t { computed, end };
constexpr auto enum_names(Publish) {
  using enum Publish;
  return sim::names<Publish>({{"computed", computed}, {"end", end}});
}

struct RadixParams {
  std::int64_t page_tokens = 1;
  Publish publish = Publish::computed;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("page_tokens", &RadixParams::page_tokens, sim::Unit::tokens, sim::between(1, 65536),
                   "Number of tokens in a page; prefixes are shared in whole pages."),
        sim::field("publish", &RadixParams::publish,
                   "When other requests may find a prompt in the cache: as it is computed, or when its request ends.")};
  }
};

/// A run of text inside a span: tokens [at, at + tokens) of the stream `id`.
struct Piece {
  std::uint64_t id = 0;
  std::int64_t at = 0, tokens = 0;
};

struct BranchKey {
  std::uint32_t parent = 0;
  std::uint64_t id = 0;
  std::int64_t at = 0;
  friend bool operator==(const BranchKey&, const BranchKey&) = default;
};
struct BranchHash {
  std::size_t operator()(const BranchKey& key) const {
    std::uint64_t x =
        key.id * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(key.at) * 0xbf58476d1ce4e5b9U + key.parent;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    return static_cast<std::size_t>(x ^ (x >> 31));
  }
};

/// A place in a text.
class Cursor {
 public:
  Cursor(const Text& text, std::int64_t tokens) : text_(text), left_(tokens) { normalise(); }
  /// Tokens up to the end of the text, or of what is asked for.
  bool done() const { return left_ <= 0 || span_ >= text_.size(); }
  /// What stands here, up to the end of its span.
  Piece piece() const { return {text_[span_].id, at_, std::min(text_[span_].tokens - at_, left_)}; }
  void advance(std::int64_t tokens) {
    left_ -= tokens;
    at_ += tokens;
    normalise();
  }
  /// Over any number of spans.
  void skip(std::int64_t tokens) {
    while (tokens > 0 && !done()) {
      const std::int64_t step = std::min(tokens, piece().tokens);
      advance(step);
      tokens -= step;
    }
  }

 private:
  void normalise() {
    while (span_ < text_.size() && at_ >= text_[span_].tokens) {
      ++span_;
      at_ = 0;
    }
  }
  const Text& text_;
  std::size_t span_ = 0;
  std::int64_t at_ = 0, left_ = 0;
};

/// What a sequence holds.
struct RadixHoldings : PrefixHoldings {
  std::uint32_t node = 0;  // the end of its path in the tree
  std::int64_t path = 0;   // pages of that path

  std::int64_t shared() const { return path; }
  std::int64_t matched() const { return path; }
};

class RadixCache final : public PrefixCache<RadixCache, RadixHoldings> {
 public:
  RadixCache(const RadixParams& params, const KvGeometry& geometry)
      : PrefixCache("radix cache", params.page_tokens, geometry), publish_(params.publish) {
    free_ = total_;
    nodes_.resize(1);  // the root, which is used for ever
    nodes_[0].users = 1;
  }

  std::int64_t releasable_blocks(SeqId id) const override {
    if (id.index >= owns_.size()) return 0;
    std::int64_t pages = owns_[id.index].plain;
    for (std::uint32_t node = owns_[id.index].node; node != 0 && nodes_[node].users == 1; node = nodes_[node].parent)
      pages += nodes_[node].tokens / block_tokens_;
    return pages;
  }
  std::int64_t match_prefix(const Sequence& seq) const override {
    return seq.text == nullptr ? 0 : match(*seq.text, matchable(seq) * block_tokens_).tokens;
  }
  std::int64_t match_text(const Text& text) const override { return match(text, tokens_of(text)).tokens; }

  void computed(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    if (publish_ == Publish::computed && seq.text != nullptr)
      enter(owned(id), *seq.text, common_to_branches(seq, tokens));
  }

  void release(SeqId id, const Sequence& seq, std::int64_t tokens, Leave leave) override {
    if (id.index >= owns_.size()) return;
    RadixHoldings& own = owns_[id.index];
    if (leave == Leave::keep && seq.text != nullptr) enter(own, *seq.text, common_to_branches(seq, tokens));
    leave_path(own.node);
    free_ += own.plain;
    own = {};
    if (free_ + evictable_ > total_) broken("more blocks free than there are");
  }

 private:
  friend PrefixCache<RadixCache, RadixHoldings>;

  struct Node {
    std::uint32_t parent = 0;
    std::int32_t users = 0, children = 0;
    std::int64_t tokens = 0;  // of all pieces: whole pages
    std::int64_t last_used = 0;
    std::vector<Piece> pieces;
  };
  struct Match {
    std::int64_t tokens = 0;  // whole pages
    std::int64_t used = 0;    // of these, in nodes with users
    std::uint32_t node = 0;   // the last one on the path, …
    std::int64_t rest = 0;    // … of whose end so many tokens do not match
  };
  using Leaf = std::pair<std::int64_t, std::uint32_t>;  // last use, node

  std::int64_t whole_pages(std::int64_t tokens) const { return tokens / block_tokens_ * block_tokens_; }
  BranchKey key(std::uint32_t parent, const Piece& piece) const { return {parent, piece.id, piece.at}; }

  /// Longest path along `text`, `most` tokens at most, from `start` on, which ends at `cursor`.
  Match match_from(std::uint32_t start, Cursor cursor) const {
    Match found;
    found.node = start;
    while (!cursor.done()) {
      const auto child = children_.find(key(found.node, cursor.piece()));
      if (child == children_.end()) return found;
      const Node& node = nodes_[child->second];
      std::int64_t same = 0;
      for (const Piece& piece : node.pieces) {
        if (cursor.done()) break;
        const Piece here = cursor.piece();
        if (here.id != piece.id || here.at != piece.at) break;
        const std::int64_t common = std::min(here.tokens, piece.tokens);
        same += common;
        cursor.advance(common);
        if (common < piece.tokens) break;
      }
      same = whole_pages(same);
      if (same == 0) return found;
      found.tokens += same;
      if (node.users > 0) found.used += same;
      found.node = child->second;
      found.rest = node.tokens - same;
      if (found.rest > 0) return found;
    }
    return found;
  }
  Match match(const Text& text, std::int64_t most) const { return match_from(0, Cursor(text, most)); }

  std::int64_t in_use(const Text& text, std::int64_t pages) const {
    return match(text, pages * block_tokens_).used / block_tokens_;
  }
  void hold(RadixHoldings& own, const Text& text, std::int64_t pages) {
    const Match found = match(text, pages * block_tokens_);
    own.node = found.tokens == 0 ? 0
               : found.rest == 0 ? found.node
                                 : split(found.node, nodes_[found.node].tokens - found.rest);
    own.path = found.tokens / block_tokens_;
    use(own.node, 0);
  }

  /// Cuts a node after `tokens` tokens; returns the new one that holds the head.
  std::uint32_t split(std::uint32_t tail, std::int64_t tokens) {
    const std::uint32_t head = new_node();
    Node& below = nodes_[tail];
    Node& above = nodes_[head];
    above.parent = below.parent;
    above.users = below.users;
    above.children = 1;
    above.tokens = tokens;
    above.last_used = below.last_used;
    children_[key(below.parent, below.pieces.front())] = head;
    std::size_t whole = 0;
    std::int64_t left = tokens;
    while (left >= below.pieces[whole].tokens) left -= below.pieces[whole++].tokens;
    above.pieces.assign(below.pieces.begin(), below.pieces.begin() + static_cast<std::ptrdiff_t>(whole));
    below.pieces.erase(below.pieces.begin(), below.pieces.begin() + static_cast<std::ptrdiff_t>(whole));
    if (left > 0) {
      Piece& cut = below.pieces.front();
      above.pieces.push_back({cut.id, cut.at, left});
      cut.at += left;
      cut.tokens -= left;
    }
    below.tokens -= tokens;
    below.parent = head;
    children_[key(head, below.pieces.front())] = tail;
    return head;
  }

  /// Enters the first `tokens` tokens of a sequence's text, and makes their nodes its path.
  void enter(RadixHoldings& own, const Text& text, std::int64_t tokens) {
    tokens = whole_pages(std::min(tokens, tokens_of(text)));
    const std::int64_t before = own.path * block_tokens_;
    if (tokens <= before) return;
    Cursor cursor(text, tokens);
    cursor.skip(before);
    const Match found = match_from(own.node, cursor);
    std::uint32_t node = own.node;
    if (found.tokens > 0)
      node = found.rest == 0 ? found.node : split(found.node, nodes_[found.node].tokens - found.rest);
    const std::int64_t fresh = tokens - before - found.tokens;
    if (fresh > 0) {
      cursor.skip(found.tokens);
      const std::uint32_t leaf = new_node();
      Node& added = nodes_[leaf];
      added.parent = node;
      added.tokens = fresh;
      while (!cursor.done()) {
        added.pieces.push_back(cursor.piece());
        cursor.advance(added.pieces.back().tokens);
      }
      // Two pages that begin alike and differ later hang on one key: the later one stays with its sequence.
      if (!children_.try_emplace(key(node, added.pieces.front()), leaf).second) {
        drop_node(leaf);
        if (found.tokens == 0) return;
        tokens -= fresh;
      } else {
        if (nodes_[node].children++ == 0 && node != 0 && nodes_[node].users == 0)
          leaves_.erase({nodes_[node].last_used, node});
        evictable_ += fresh / block_tokens_;  // until use() below
        leaves_.insert({0, leaf});
        node = leaf;
      }
    }
    // The path grows down to `node`: what is new on it is used from now on, what others had entered is given back.
    const std::int64_t pages = (tokens - before) / block_tokens_;
    use(node, own.node);
    own.node = node;
    own.path += pages;
    own.plain -= pages;
    free_ += found.tokens / block_tokens_;
    if (own.plain < 0) broken("more pages computed than held");
  }

  /// One more user for the nodes from `node` up to `above`, not included; all of the path was used just now.
  void use(std::uint32_t node, std::uint32_t above) {
    ++now_;
    bool counted = true;
    for (; node != 0; node = nodes_[node].parent) {
      if (node == above) counted = false;
      Node& one = nodes_[node];
      if (counted) holders_changed(one.users, one.users + 1, one.tokens);
      if (counted && one.users++ == 0) {
        evictable_ -= one.tokens / block_tokens_;
        if (one.children == 0) leaves_.erase({one.last_used, node});
      }
      one.last_used = now_;
    }
  }
  void leave_path(std::uint32_t node) {
    for (; node != 0; node = nodes_[node].parent) {
      Node& one = nodes_[node];
      holders_changed(one.users, one.users - 1, one.tokens);
      if (--one.users > 0) continue;
      if (one.users < 0) broken("a path is given back twice");
      evictable_ += one.tokens / block_tokens_;
      if (one.children == 0) leaves_.insert({one.last_used, node});
    }
  }

  /// Takes pages out of the pool, and leaves out of the tree as long as there are too few.
  void allot(std::int64_t pages) {
    while (free_ < pages) {
      if (leaves_.empty()) broken("no leaf is left to evict");
      const std::uint32_t leaf = leaves_.begin()->second;
      leaves_.erase(leaves_.begin());
      Node& gone = nodes_[leaf];
      const std::int64_t held = gone.tokens / block_tokens_;
      free_ += held;
      evictable_ -= held;
      counters_.evicted_blocks += held;
      children_.erase(key(gone.parent, gone.pieces.front()));
      Node& parent = nodes_[gone.parent];
      if (--parent.children == 0 && parent.users == 0) leaves_.insert({parent.last_used, gone.parent});
      drop_node(leaf);
    }
    free_ -= pages;
  }

  std::uint32_t new_node() {
    if (!free_nodes_.empty()) {
      const std::uint32_t node = free_nodes_.back();
      free_nodes_.pop_back();
      return node;
    }
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  void drop_node(std::uint32_t node) {
    nodes_[node] = {};
    free_nodes_.push_back(node);
  }

  Publish publish_;
  std::int64_t now_ = 0;     // counts uses
  std::vector<Node> nodes_;  // [0] is the root
  std::vector<std::uint32_t> free_nodes_;
  std::unordered_map<BranchKey, std::uint32_t, BranchHash> children_;  // looked up, never walked
  std::set<Leaf> leaves_;                                              // without users
};

}  // namespace

void add_radix(KvCacheRegistry& registry) {
  registry.add<RadixParams>(
      "radix", "Prefixes of any length are kept in a tree; the least recently used leaves are evicted first (SGLang).",
      [](const RadixParams& params, const KvGeometry& geometry) -> std::unique_ptr<KvCache> {
        return std::make_unique<RadixCache>(params, geometry);
      });
}

}  // namespace orrery::policies
