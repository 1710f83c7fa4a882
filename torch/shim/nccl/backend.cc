// The collectives of GPUs: c10d's ProcessGroupNCCL, which is in libtorch_cuda. Its header names types of NCCL and of CUDA's
// libraries; declarations/ has the few that it needs, so that this file is compiled without their 600 MB. ./build.sh cuda
// downloads these libraries, and compiles this file a second time with their own headers: the assertions below hold for both.
#define USE_C10D_NCCL
#define USE_DISTRIBUTED
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <c10/util/env.h>

#include <cstddef>

#include "collectives.h"

namespace {

constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
static_assert(sizeof(ncclConfig_t) == 80 && offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, commName) == 48);
static_assert(kConfig.size == sizeof(ncclConfig_t) && kConfig.magic == 0xcafebeef && kConfig.version == 22809);
static_assert(kConfig.blocking == INT_MIN && kConfig.maxCTAs == INT_MIN && kConfig.splitShare == INT_MIN && kConfig.trafficClass == INT_MIN &&
              kConfig.collnetEnable == INT_MIN && kConfig.nvlsCTAs == INT_MIN && kConfig.nvlinkCentricSched == INT_MIN);
static_assert(kConfig.netName == nullptr && kConfig.commName == nullptr && NCCL_SPLIT_NOCOLOR == -1);
static_assert(sizeof(ncclUniqueId) == 128 && sizeof(ncclResult_t) == 4 && sizeof(ncclRedOp_t) == 4 && sizeof(ncclDataType_t) == 4);
static_assert(sizeof(c10d::NCCLComm) == 216 && sizeof(c10d::ProcessGroupNCCL::Options) == 248 && sizeof(c10d::ProcessGroupNCCL) == 1112);

// dist.cc has the time-out of collectives. After that of ProcessGroupNCCL, the process would be ended.
constexpr std::chrono::hours kNever{24 * 365};

class Nccl : public c10d::ProcessGroupNCCL {
 public:
  Nccl(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options)
      : ProcessGroupNCCL(std::move(store), rank, size, std::move(options)) {
    asyncErrorHandling_ = c10d::NoHandling;  // whatever TORCH_NCCL_ASYNC_ERROR_HANDLING is, which torchrun sets
  }

 protected:
  // Called when a thread of ProcessGroupNCCL has noticed an error. dist.cc reads it, and the process ends with a message.
  void terminateProcess(const std::string &) override {}
};

std::string hardware(at::Device device) {
  std::string s = "GPU ";
  for (const char c : at::cuda::getDeviceProperties(device.index())->uuid.bytes) {
    constexpr char digits[] = "0123456789abcdef";
    const auto b = static_cast<unsigned char>(c);
    (s += digits[b >> 4]) += digits[b & 15];
  }
  return s;
}

c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store, int rank, int size, at::Device device) {
  // No dump of the state to a file and no end of the process on an error, unless the user asks for them.
  c10::utils::set_env("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", false);
  c10::utils::set_env("TORCH_NCCL_ENABLE_MONITORING", "0", false);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kNever;
  auto b = c10::make_intrusive<Nccl>(std::move(store), rank, size, std::move(options));
  b->eagerConnectSingleDevice(device);  // waits for the other ranks
  return b;
}

}  // namespace

extern "C" const om::Collectives *om_collectives(void) {
  static constexpr om::Collectives c{hardware, connect};
  return &c;
}
