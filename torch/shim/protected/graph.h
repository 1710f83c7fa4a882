// Graphs of the protected device. A recording keeps every operation with its operands, and a launch runs the operations again, with
// no other code of the host: as for a CUDA graph, values and addresses of the time of the recording stay, and everything that
// varies must be in the device's memory.
//
// Memory that existed before the recording is kept by its address. A launch fails if it was freed or allocated again since; on a
// GPU the graph would use whatever is there then.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "../graph.h"

namespace om {

class ProtectedGraph final : public DeviceGraph {
 public:
  void begin() override;
  void end() override;
  void launch() override;

  // The graph that the calling thread records, or null.
  static ProtectedGraph *recording();

  // Adds an operation.
  void add(std::function<void()> operation) { operations_.push_back(std::move(operation)); }

  // hold returns t for use in an operation of the graph.
  at::Tensor hold(const at::Tensor &t);

 private:
  struct Outside {
    const void *address;
    uint64_t allocation;
  };
  std::vector<std::function<void()>> operations_;
  std::vector<Outside> outside_;
  uint64_t first_ = 0;  // number of the first allocation of the recording
};

// The number of the allocation that begins at an address of the device, counted from 1; 0: there is none.
uint64_t allocation_at(const void *address);
// The number of the latest allocation.
uint64_t last_allocation();
// Runs f as one operation with a name.
void as_operation(const char *name, const std::function<void()> &f);

}  // namespace om
