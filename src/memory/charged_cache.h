// A cache with two bounds, entries and bytes, whose entries hold memory that no pool gave: captured graphs, which the
// driver allocates by itself, and things on the heap. Each entry is charged before it is made.
// Refuses nothing but what cannot fit: the entry that was not used for longest makes room. Called by whoever makes such
// entries; the engine's levels empty it through its owner.
// Invariant: entries and bytes never pass the bounds, and the ledger says the same bytes.
// Threads  one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "memory/ledger.h"

namespace ebb::memory {

/// `Key` is compared with ==: a shape, a hash of contents; never an address, which changes. A `Value` gives its memory
/// back when it is destroyed.
template <class Key, class Value>
class ChargedCache {
 public:
  struct Bounds {
    std::size_t entries = 0;
    std::size_t bytes = 0;
  };

  /// `account` is empty and gets what the entries take.
  ChargedCache(Charge account, Bounds bounds) : account_(std::move(account)), bounds_(bounds) {}
  ChargedCache(const ChargedCache&) = delete;  // values are owned once
  ChargedCache& operator=(const ChargedCache&) = delete;
  ~ChargedCache() { keep(0); }

  /// The entry, which is now the one used last; nullptr when there is none. Valid until the next add() or keep().
  [[nodiscard]] Value* find(const Key& key) {
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    return &found->value;
  }

  /// Makes room, charges `bytes`, and takes what `make()`, a Result<Value>, gives. There is no entry of this key yet.
  /// Errors   InvalidArgument when `bytes` alone pass the bound; OutOfMemory as Charge::add, with the cache empty; those of make().
  template <class Make>
  [[nodiscard]] Result<Value*> add(const Key& key, std::size_t bytes, Make&& make) {
    if (bounds_.entries == 0 || bytes > bounds_.bytes) {
      return fail(ErrorCode::InvalidArgument,
                  "an entry of " + format_bytes(bytes) + " is larger than its whole cache of " + format_bytes(bounds_.bytes));
    }
    while (entries_.size() >= bounds_.entries || account_.bytes() + bytes > bounds_.bytes) drop_oldest();
    Status charged = account_.add(bytes);
    while (!charged && !entries_.empty()) {
      drop_oldest();
      charged = account_.add(bytes);
    }
    if (!charged) return tl::unexpected<Error>(std::move(charged).error());
    auto made = std::forward<Make>(make)();
    if (!made) {
      account_.remove(bytes);
      return tl::unexpected<Error>(std::move(made).error());
    }
    entries_.push_front(Entry{key, bytes, *std::move(made)});
    return &entries_.front().value;
  }

  /// Drops all but the `count` entries used last.
  void keep(std::size_t count) {
    while (entries_.size() > count) drop_oldest();
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const { return account_.bytes(); }

 private:
  struct Entry {
    Key key;
    std::size_t bytes;
    Value value;
  };

  void drop_oldest() {
    const std::size_t bytes = entries_.back().bytes;
    entries_.pop_back();  // the memory first, then its charge: the ledger never says less than there is
    account_.remove(bytes);
  }

  Charge account_;
  const Bounds bounds_;
  std::list<Entry> entries_;  // used last first
};

}  // namespace ebb::memory
