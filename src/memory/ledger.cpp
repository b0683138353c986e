#include "memory/ledger.h"

#include <algorithm>
#include <utility>

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

Ledger::Ledger() : devices_{DeviceState{"host", 0, 0}} {}

Ledger::~Ledger() { EBB_CHECK(accounts_.empty(), "{} accounts still have charges", accounts_.size()); }

LedgerDevice Ledger::add_device(std::string name) {
  const std::lock_guard lock(mutex_);
  devices_.push_back(DeviceState{std::move(name), 0, 0});
  return static_cast<LedgerDevice>(devices_.size() - 1);
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

void Ledger::add_locked(Accounts::value_type& account, std::size_t bytes) {
  account.second.bytes += bytes;
  DeviceState& device = devices_[account.first.device];
  device.held_bytes += bytes;
  device.peak_bytes = std::max(device.peak_bytes, device.held_bytes);
}

void Ledger::remove_locked(Accounts::value_type& account, std::size_t bytes) {
  account.second.bytes -= bytes;
  devices_[account.first.device].held_bytes -= bytes;
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

void Charge::add(std::size_t bytes) {
  EBB_CHECK(ledger_ != nullptr, "{} bytes charged to no ledger", bytes);
  const std::lock_guard lock(ledger_->mutex_);
  ledger_->add_locked(*account_, bytes);
  bytes_ += bytes;
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

HostLease::HostLease(Ledger& ledger, Tag tag, OwnerId owner, std::size_t bytes)
    : charge_(ledger.open(kHostMemory, tag, owner)) {
  charge_.add(bytes);
}

HostLease& HostLease::operator=(HostLease&& other) noexcept {
  if (this != &other) {
    charge_.remove(charge_.bytes());
    charge_ = std::move(other.charge_);
  }
  return *this;
}

HostLease::~HostLease() { charge_.remove(charge_.bytes()); }

void HostLease::resize(std::size_t bytes) {
  if (bytes > charge_.bytes())
    charge_.add(bytes - charge_.bytes());
  else
    charge_.remove(charge_.bytes() - bytes);
}

}  // namespace ebb::memory
