// The classes of Gloo that c10d's ProcessGroupGloo.hpp names. libtorch's wheel contains Gloo's code but not its headers.
//
// Only declarations are needed: ProcessGroupGloo holds these classes by pointer, so their layout does not matter here, and
// the shim calls no virtual function of theirs. The linker checks names and parameters of the functions, and the tests of
// torch/dist call them. The other headers of this folder have the names that ProcessGroupGloo.hpp includes.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

namespace transport {

class Device;
class Pair;  // the connection to one rank

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

namespace tcp {

// The Pair of TCP devices, which is derived from transport::Pair, at the same address.
class Pair {
 public:
  // Closes the connection; the operation in progress and all later ones throw the exception that is returned.
  std::exception_ptr signalExceptionExternal(const std::string &message);
  bool isConnected();
};

}  // namespace tcp
}  // namespace transport

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  std::unique_ptr<transport::Pair> &getPair(int rank);  // empty for this rank
};

namespace rendezvous {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string &key, const std::vector<char> &value) = 0;
  virtual std::vector<char> get(const std::string &key) = 0;
  virtual void wait(const std::vector<std::string> &keys) = 0;
  virtual void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &timeout) = 0;
};

}  // namespace rendezvous
}  // namespace gloo
