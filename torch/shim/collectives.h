// The collectives on tensors of one type of device, which are in a library of their own: libopenmanus_nccl for GPUs,
// libopenmanus_protected for the protected device. dist.cc loads it before the first collective on such tensors.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace om {

struct Collectives {
  // Returns a name of the hardware behind a device. Two ranks with the same name share it.
  std::string (*hardware)(at::Device device);

  // Connects the devices of all ranks, each of which calls it. The back end must not have a time-out: dist.cc has it, and
  // then calls abort(), which ends the collectives in progress.
  c10::intrusive_ptr<c10d::Backend> (*connect)(c10::intrusive_ptr<c10d::Store> store, int rank, int size, at::Device device);
};

}  // namespace om

extern "C" const om::Collectives *om_collectives(void);
