// Makes insertions into std::map and std::set take 1 ms, and ends the process if two threads insert into one container at the same
// time. TestGroupsOfOneProcess loads it into a process with LD_PRELOAD.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace {

std::atomic<const void *> busy{nullptr};  // the container of the last insertion, until that ends

}  // namespace

namespace std {

void _Rb_tree_insert_and_rebalance(const bool left, _Rb_tree_node_base *node, _Rb_tree_node_base *parent,
                                   _Rb_tree_node_base &header) noexcept {
  using Insert = void (*)(bool, _Rb_tree_node_base *, _Rb_tree_node_base *, _Rb_tree_node_base &);
  static const auto insert =
      reinterpret_cast<Insert>(dlsym(RTLD_NEXT, "_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_"));
  if (busy.exchange(&header) == &header) {
    std::fputs("two threads insert into one container\n", stderr);
    std::_Exit(1);
  }
  usleep(1000);
  insert(left, node, parent, header);
  busy = nullptr;
}

}  // namespace std
