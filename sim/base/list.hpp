// A doubly linked list whose nodes live inside their elements: joining and leaving cost no allocation, constant time.
//
// An element leaves its list when it is destroyed. The list must not move; it lets go of its elements when it ends.
#pragma once

namespace orrery::sim {

/// Base of whatever stands in a List; in one list at most at a time.
class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  bool linked() const { return next_ != nullptr; }
  /// Leaves its list, if it is in one.
  void unlink() {
    if (next_ == nullptr) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    prev_ = next_ = nullptr;
  }

 protected:
  ~ListNode() { unlink(); }
  /// Takes the place of `other`, which leaves its list.
  void replace(ListNode& other) {
    unlink();
    if (other.next_ == nullptr) return;
    insert_before(*other.next_);
    other.unlink();
  }

 private:
  template <class T>
  friend class List;
  void insert_before(ListNode& node) {
    prev_ = node.prev_;
    next_ = &node;
    prev_->next_ = this;
    node.prev_ = this;
  }

  ListNode* prev_ = nullptr;
  ListNode* next_ = nullptr;
};

/// The elements in the order in which they joined. T derives from ListNode.
template <class T>
class List : private ListNode {
 public:
  List() { prev_ = next_ = this; }
  ~List() {
    while (!empty()) front().ListNode::unlink();
    prev_ = next_ = nullptr;
  }
  bool empty() const { return next_ == this; }
  T& front() const { return static_cast<T&>(*next_); }
  void push_back(T& element) {
    ListNode& node = element;
    node.insert_before(*this);
  }
  void push_front(T& element) {
    ListNode& node = element;
    node.insert_before(*next_);
  }
  /// The element behind `element`, or nothing.
  T* after(const T& element) const {
    ListNode* const next = static_cast<const ListNode&>(element).next_;
    return next == this ? nullptr : static_cast<T*>(next);
  }
  T* first() const { return empty() ? nullptr : &front(); }
};

}  // namespace orrery::sim
