// One card and the process's one context on it (the primary one), shared by every CudaDevice of that card. Keeps what is
// common to them: whether the context is lost, and how many bytes were created on the card.
// Called by the CUDA device. Invariant: once a call has said that the context is lost, no further call is made on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "base/error.h"
#include "device/cuda/driver.h"
#include "device/device.h"

namespace ebb::device::cuda {

/// Threads   any.
class CudaCard {
 public:
  /// The card's one object while anybody holds it.
  /// Errors   InvalidArgument: there is no such card; Unsupported: it cannot map pages; what the driver says.
  [[nodiscard]] static Result<std::shared_ptr<CudaCard>> open(const Driver& driver, int ordinal);
  CudaCard(const CudaCard&) = delete;
  CudaCard& operator=(const CudaCard&) = delete;
  ~CudaCard();

  [[nodiscard]] const Driver& driver() const { return driver_; }
  [[nodiscard]] Ordinal ordinal() const { return ordinal_; }
  [[nodiscard]] std::size_t page_bytes() const { return page_bytes_; }
  /// "NVIDIA H200"
  [[nodiscard]] const std::string& model() const { return model_; }

  /// Makes the context current on this thread. Errors: DeviceLost.
  [[nodiscard]] Status enter();
  /// The error of a call, or nothing. `verb` and `bytes` (0: not said) tell what was asked.
  [[nodiscard]] Status check(Code code, const char* verb, std::size_t bytes = 0);

  void count_created(std::size_t bytes) { created_bytes_ += bytes; }
  void count_released(std::size_t bytes) { created_bytes_ -= bytes; }
  /// As the driver counts it, with `ours_bytes` of the device that asks.
  [[nodiscard]] Result<MemInfo> mem_info(std::size_t ours_bytes);

 private:
  CudaCard(const Driver& driver, Ordinal ordinal) : driver_(driver), ordinal_(ordinal) {}
  [[nodiscard]] Status start();

  const Driver& driver_;
  const Ordinal ordinal_;
  Context context_ = nullptr;
  std::size_t page_bytes_ = 0;
  std::string model_;
  std::string pci_bus_id_;
  std::atomic<Code> lost_{kSuccess};
  std::atomic<std::size_t> created_bytes_{0};
};

}  // namespace ebb::device::cuda
