// Who holds each byte: one owner and one tag for every byte of a device, charged before it exists.
// Refuses a charge that would pass the device's limit, and to let a charge end at anything but zero. Called by memory/
// and by whoever reports memory.
// Invariant: bytes by tag, bytes by owner and the sum of all live charges are the same number on every device.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ebb::memory {

/// What bytes are for. The first nine are device kinds, the rest host kinds.
enum class Tag : std::uint8_t {
  Weights,
  Vision,
  KvGlobal,
  KvLocal,
  Prefix,
  Scratch,
  Workspace,
  Staging,
  Graphs,
  MappedFile,
  Parked,
  Cache,
  Other
};
inline constexpr std::size_t kTagCount = 13;
[[nodiscard]] std::string_view tag_name(Tag tag);  // "kv_global"

/// Who answers for bytes: 0 is the engine itself, others are conversations and models, in order of creation.
using OwnerId = std::uint64_t;
inline constexpr OwnerId kEngineOwner = 0;

/// Index into LedgerSnapshot::devices. 0 is ordinary host memory; devices follow in the order they were added.
using LedgerDevice = std::uint32_t;
inline constexpr LedgerDevice kHostMemory = 0;

/// All sums of one instant.
struct LedgerSnapshot {
  struct Device {
    std::string name;
    std::array<std::size_t, kTagCount> by_tag{};
    std::size_t owned_bytes = 0;   // sum of by_tag
    std::size_t pooled_bytes = 0;  // pages kept ready, nobody's
    std::size_t peak_bytes = 0;    // highest owned + pooled since the start or reset_peak()
    std::optional<std::size_t> limit_bytes;
  };
  struct Entry {
    LedgerDevice device = kHostMemory;
    OwnerId owner = kEngineOwner;
    Tag tag = Tag::Other;
    std::size_t bytes = 0;
  };
  std::vector<Device> devices;
  std::vector<Entry> entries;  // none is zero; ordered by device, owner, tag

  /// What one owner holds on all devices together.
  [[nodiscard]] std::size_t owner_bytes(OwnerId owner) const;
};

class Charge;

/// Threads  every member is safe from any thread.
class Ledger {
 public:
  Ledger();
  Ledger(const Ledger&) = delete;  // charges point into it
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();  // a charge that is still there is a failed check

  [[nodiscard]] LedgerDevice add_device(std::string name);

  /// From now on charges to `device` are refused where all its tags but MappedFile, pooled pages included, would come to
  /// more than `bytes`; nothing: no limit. What is held already stays, even over the limit.
  /// Source   docs/decisions/0009-budget-in-the-ledger.md
  void set_limit(LedgerDevice device, std::optional<std::size_t> bytes);
  /// What the limit leaves; nothing without a limit.
  [[nodiscard]] std::optional<std::size_t> room(LedgerDevice device) const;

  /// An empty charge; bytes are added before they are committed and removed after they are gone.
  [[nodiscard]] Charge open(LedgerDevice device, Tag tag, OwnerId owner);
  /// The charge of pages that a pool keeps ready.
  [[nodiscard]] Charge open_pooled(LedgerDevice device);

  [[nodiscard]] LedgerSnapshot snapshot() const;
  /// From now on peak_bytes starts at what is held.
  void reset_peak();

 private:
  friend class Charge;
  struct Key {
    LedgerDevice device;
    OwnerId owner;
    std::optional<Tag> tag;  // none: pooled
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Account {
    std::size_t bytes = 0;
    std::size_t charge_count = 0;
  };
  struct DeviceState {
    std::string name;
    std::size_t held_bytes = 0;
    std::size_t mapped_file_bytes = 0;  // of held_bytes: the system drops and rereads them as it likes
    std::size_t peak_bytes = 0;
    std::optional<std::size_t> limit_bytes;

    [[nodiscard]] std::size_t room() const;  // with a limit only
  };
  using Accounts = std::map<Key, Account>;

  [[nodiscard]] Charge open(const Key& key);
  [[nodiscard]] Status admit_locked(const Key& key, std::size_t bytes) const;
  void add_locked(Accounts::value_type& account, std::size_t bytes);
  void remove_locked(Accounts::value_type& account, std::size_t bytes);

  mutable std::mutex mutex_;
  std::vector<DeviceState> devices_;
  Accounts accounts_;  // nodes stay where they are; charges point at them
};

/// A share of one account. Move-only; destroying one that is not zero is a failed check.
/// Threads  one thread at a time for one charge; different charges are independent.
class Charge {
 public:
  Charge() = default;  // belongs to no ledger, holds nothing
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();

  /// Errors   OutOfMemory{wanted, free = what the limit leaves, reclaimable = pooled, tag}: nothing was charged.
  [[nodiscard]] Status add(std::size_t bytes);
  /// Removing more than bytes() is a failed check.
  void remove(std::size_t bytes);
  /// Changes owner or tag of `bytes`; no snapshot sees them twice or not at all. Both are of one device. No limit
  /// refuses it: the bytes are there already.
  void move_to(Charge& target, std::size_t bytes);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  friend class Ledger;
  Charge(Ledger& ledger, Ledger::Accounts::value_type& account) : ledger_(&ledger), account_(&account) {}
  void close();

  Ledger* ledger_ = nullptr;
  Ledger::Accounts::value_type* account_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Bytes of host memory that are no pool's pages: the mapped model file, caches, parked KV. Move-only; dropping it
/// takes them out of the ledger, so whoever holds the memory holds the lease beside it.
class HostLease {
 public:
  HostLease() = default;
  /// Errors   OutOfMemory as Charge::add.
  [[nodiscard]] static Result<HostLease> take(Ledger& ledger, Tag tag, OwnerId owner, std::size_t bytes);
  HostLease(HostLease&&) noexcept = default;
  HostLease& operator=(HostLease&& other) noexcept;
  ~HostLease();

  /// Errors   OutOfMemory as Charge::add: the size is as before. Shrinking never fails.
  [[nodiscard]] Status resize(std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const { return charge_.bytes(); }

 private:
  explicit HostLease(Charge charge) : charge_(std::move(charge)) {}

  Charge charge_;
};

}  // namespace ebb::memory
