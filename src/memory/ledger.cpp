#include "memory/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::memory {

std::string_view tag_name(Tag tag) {
  static constexpr std::array<std::string_view, kTagCount> kNames = {
      "weights", "vision", "kv_global",   "kv_local", "prefix", "scratch", "workspace",
      "staging", "graphs", "mapped_file", "parked",   "cache",  "other"};
  return kNames[static_cast<std::size_t>(tag)];
}

std::size_t LedgerSnapshot::owner_bytes(OwnerId owner) const {
  std::size_t bytes = 0;
  for (const Entry& entry : entries) {
    if (entry.owner == owner) bytes += entry.bytes;
  }
  return bytes;
}

Ledger::Ledger() : devices_{DeviceState{"host", 0, 0, 0, std::nullopt}} {}

Ledger::~Ledger() { EBB_CHECK(accounts_.empty(), "{} accounts still have charges", accounts_.size()); }

LedgerDevice Ledger::add_device(std::string name) {
  const std::lock_guard lock(mutex_);
  devices_.push_back(DeviceState{std::move(name), 0, 0, 0, std::nullopt});
  return static_cast<LedgerDevice>(devices_.size() - 1);
}

std::size_t Ledger::DeviceState::room() const {
  const std::size_t counted_bytes = held_bytes - mapped_file_bytes;
  return *limit_bytes - std::min(*limit_bytes, counted_bytes);
}

void Ledger::set_limit(LedgerDevice device, std::optional<std::size_t> bytes) {
  const std::lock_guard lock(mutex_);
  EBB_CHECK(device < devices_.size(), "device {} of {}", device, devices_.size());
  devices_[device].limit_bytes = bytes;
}

std::optional<std::size_t> Ledger::room(LedgerDevice device) const {
  const std::lock_guard lock(mutex_);
  EBB_CHECK(device < devices_.size(), "device {} of {}", device, devices_.size());
  if (!devices_[device].limit_bytes) return std::nullopt;
  return devices_[device].room();
}

Charge Ledger::open(LedgerDevice device, Tag tag, OwnerId owner) { return open(Key{device, owner, tag}); }

Charge Ledger::open_pooled(LedgerDevice device) { return open(Key{device, kEngineOwner, std::nullopt}); }

Charge Ledger::open(const Key& key) {
  const std::lock_guard lock(mutex_);
  EBB_CHECK(key.device < devices_.size(), "device {} of {}", key.device, devices_.size());
  auto& account = *accounts_.try_emplace(key).first;
  ++account.second.charge_count;
  return Charge(*this, account);
}

LedgerSnapshot Ledger::snapshot() const {
  LedgerSnapshot snapshot;
  const std::lock_guard lock(mutex_);
  for (const DeviceState& device : devices_) {
    LedgerSnapshot::Device& sums = snapshot.devices.emplace_back();
    sums.name = device.name;
    sums.peak_bytes = device.peak_bytes;
    sums.limit_bytes = device.limit_bytes;
  }
  for (const auto& [key, account] : accounts_) {
    LedgerSnapshot::Device& sums = snapshot.devices[key.device];
    if (!key.tag) {
      sums.pooled_bytes += account.bytes;
    } else if (account.bytes != 0) {
      sums.by_tag[static_cast<std::size_t>(*key.tag)] += account.bytes;
      sums.owned_bytes += account.bytes;
      snapshot.entries.push_back({key.device, key.owner, *key.tag, account.bytes});
    }
  }
  return snapshot;
}

void Ledger::reset_peak() {
  const std::lock_guard lock(mutex_);
  for (DeviceState& device : devices_) device.peak_bytes = device.held_bytes;
}

Status Ledger::admit_locked(const Key& key, std::size_t bytes) const {
  const DeviceState& device = devices_[key.device];
  if (!device.limit_bytes || key.tag == Tag::MappedFile || bytes <= device.room()) return {};
  const auto pooled = accounts_.find(Key{key.device, kEngineOwner, std::nullopt});
  MemoryFacts facts;
  facts.wanted_bytes = bytes;
  facts.free_bytes = device.room();
  facts.reclaimable_bytes = pooled == accounts_.end() ? 0 : pooled->second.bytes;
  facts.device = key.device;
  facts.tag = key.tag ? tag_name(*key.tag) : "pooled";
  return tl::unexpected<Error>(Error{ErrorCode::OutOfMemory,
                                     fmt::format("the limit of {} for {} leaves {}, {} more of {} were wanted. Raise the "
                                                 "limit, or close a conversation.",
                                                 format_bytes(*device.limit_bytes), device.name,
                                                 format_bytes(facts.free_bytes), format_bytes(bytes), facts.tag),
                                     facts});
}

void Ledger::add_locked(Accounts::value_type& account, std::size_t bytes) {
  account.second.bytes += bytes;
  DeviceState& device = devices_[account.first.device];
  device.held_bytes += bytes;
  if (account.first.tag == Tag::MappedFile) device.mapped_file_bytes += bytes;
  device.peak_bytes = std::max(device.peak_bytes, device.held_bytes);
}

void Ledger::remove_locked(Accounts::value_type& account, std::size_t bytes) {
  account.second.bytes -= bytes;
  DeviceState& device = devices_[account.first.device];
  device.held_bytes -= bytes;
  if (account.first.tag == Tag::MappedFile) device.mapped_file_bytes -= bytes;
}

Charge::Charge(Charge&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      account_(std::exchange(other.account_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this != &other) {
    close();
    ledger_ = std::exchange(other.ledger_, nullptr);
    account_ = std::exchange(other.account_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Charge::~Charge() { close(); }

void Charge::close() {
  if (ledger_ == nullptr) return;
  EBB_CHECK(bytes_ == 0, "a charge ends with {} bytes of owner {}", bytes_, account_->first.owner);
  const std::lock_guard lock(ledger_->mutex_);
  if (--account_->second.charge_count == 0) ledger_->accounts_.erase(account_->first);
  ledger_ = nullptr;
}

Status Charge::add(std::size_t bytes) {
  EBB_CHECK(ledger_ != nullptr, "{} bytes charged to no ledger", bytes);
  const std::lock_guard lock(ledger_->mutex_);
  EBB_TRY(ledger_->admit_locked(account_->first, bytes));
  ledger_->add_locked(*account_, bytes);
  bytes_ += bytes;
  return {};
}

void Charge::remove(std::size_t bytes) {
  EBB_CHECK(bytes <= bytes_, "{} of {} bytes removed", bytes, bytes_);
  if (bytes == 0) return;
  const std::lock_guard lock(ledger_->mutex_);
  ledger_->remove_locked(*account_, bytes);
  bytes_ -= bytes;
}

void Charge::move_to(Charge& target, std::size_t bytes) {
  EBB_CHECK(bytes <= bytes_, "{} of {} bytes moved", bytes, bytes_);
  if (bytes == 0) return;
  EBB_CHECK(target.ledger_ == ledger_ && target.account_->first.device == account_->first.device,
            "{} bytes moved to another device", bytes);
  const std::lock_guard lock(ledger_->mutex_);
  ledger_->remove_locked(*account_, bytes);  // first, so that the peak does not count them twice
  ledger_->add_locked(*target.account_, bytes);
  bytes_ -= bytes;
  target.bytes_ += bytes;
}

Result<HostLease> HostLease::take(Ledger& ledger, Tag tag, OwnerId owner, std::size_t bytes) {
  HostLease lease(ledger.open(kHostMemory, tag, owner));
  EBB_TRY(lease.resize(bytes));
  return lease;
}

HostLease& HostLease::operator=(HostLease&& other) noexcept {
  if (this != &other) {
    charge_.remove(charge_.bytes());
    charge_ = std::move(other.charge_);
  }
  return *this;
}

HostLease::~HostLease() { charge_.remove(charge_.bytes()); }

Status HostLease::resize(std::size_t bytes) {
  if (bytes > charge_.bytes()) return charge_.add(bytes - charge_.bytes());
  charge_.remove(charge_.bytes() - bytes);
  return {};
}

}  // namespace ebb::memory
