// Graphs: recorded operations of a device that are submitted together. A GPU's are CUDA graphs, in a library of their own,
// libopenmanus_cudagraph; those of the protected device are in libopenmanus_protected. graph.cc loads the library before the
// first graph.
#pragma once

#include <ATen/ATen.h>

namespace om {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // From begin to end, the operations of the calling thread on its current stream are recorded instead of run, and the tensors
  // that they make have memory of the graph.
  virtual void begin() = 0;
  virtual void end() = 0;

  // Submits the operations to the current stream. Their operands must be at the addresses of the recording.
  virtual void launch() = 0;
};

}  // namespace om

// Returns a new graph of a device, which the caller deletes.
extern "C" om::DeviceGraph *om_new_device_graph(at::Device device);
