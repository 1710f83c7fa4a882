// The graphs of GPUs: libtorch_cuda's at::cuda::CUDAGraph, with memory of the caching allocator that belongs to graphs. It is
// compiled like nccl/backend.cc, with the headers of the CUDA runtime and the declarations of nccl/declarations.
#include <ATen/cuda/CUDAGraph.h>

#include <memory>

#include "graph.h"

namespace {

static_assert(sizeof(at::cuda::CUDAGraph) == 104 && sizeof(at::cuda::CUDAStream) == 16 && sizeof(at::cuda::MempoolId_t) == 16);
static_assert(cudaStreamCaptureModeThreadLocal == 1 && sizeof(cudaStreamCaptureMode) == 4);

// Memory that the graphs of a thread share. They run one after another, and each is used up before the next is launched.
struct Pool {
  at::cuda::MempoolId_t id = at::cuda::graph_pool_handle();
};

// The pool of this thread. The allocator does not accept the name of a pool again after its last graph, so the next graph then
// makes a new one.
std::shared_ptr<Pool> pool() {
  static thread_local std::weak_ptr<Pool> last;
  std::shared_ptr<Pool> p = last.lock();
  if (!p) last = p = std::make_shared<Pool>();
  return p;
}

class Graph final : public om::DeviceGraph {
 public:
  // Other threads may use the GPU in the meantime, such as those of NCCL.
  void begin() override { graph_.capture_begin(pool_->id, cudaStreamCaptureModeThreadLocal); }
  void end() override { graph_.capture_end(); }
  void launch() override { graph_.replay(); }

 private:
  std::shared_ptr<Pool> pool_ = pool();  // freed after the graph
  at::cuda::CUDAGraph graph_;
};

}  // namespace

extern "C" om::DeviceGraph *om_new_device_graph(at::Device) { return new Graph; }
