// As long as it lives, no file of this process grows past so many bytes: what a full disk looks like to a writer.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <cstddef>

namespace ebb::tests {

class SmallDisk {
 public:
  explicit SmallDisk(std::size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;  // puts back what it found
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace ebb::tests
