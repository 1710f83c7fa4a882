// Runs the threads of a block as fibers, which change places only where they wait for each other. kernels.cc includes it after the
// kernels.
//
// It finds a missing barrier only if the fibers' order shows it: a fiber runs until it waits, thread 0 first.

// The threads that wait at a barrier, and the number of times that the barrier has opened.
struct Barrier {
  int waiting = 0;
  unsigned opened = 0;
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 << 10);
  bool ended = false;
};

// The running block.
struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;  // kept for later blocks
  ucontext_t scheduler;
  Barrier all, warps[1024 / kLanes];
  int threads = 0;
  int64_t progress = 0;  // barriers opened and threads ended
  float slots[2][1024];  // the operands of warp_sum, of even and odd calls
  unsigned calls[1024];
  Kernel kernel = nullptr;
  void **args = nullptr;
};

static thread_local Block block;

static void wait_at(Barrier &b, int members) {
  const unsigned opened = b.opened;
  if (++b.waiting == members) {
    b.waiting = 0;
    b.opened++;
    block.progress++;
    return;
  }
  while (b.opened == opened) swapcontext(&block.fibers[threadIdx.x]->context, &block.scheduler);
}

static void __syncthreads() { wait_at(block.all, block.threads); }

// The slots of a call are overwritten two calls later, when every lane has read them.
static float warp_sum(float x) {
  const unsigned t = threadIdx.x, first = t / kLanes * kLanes;
  float *slots = block.slots[block.calls[t]++ % 2];
  slots[t] = x;
  wait_at(block.warps[t / kLanes], kLanes);
  float sum[kLanes];  // in the order of the shuffles of a GPU
  std::copy(slots + first, slots + first + kLanes, sum);
  for (int d = kLanes / 2; d > 0; d /= 2)
    for (int i = 0; i < d; i++) sum[i] += sum[i + d];
  return sum[0];
}

static void run_fiber() {
  block.kernel(block.args);
  block.fibers[threadIdx.x]->ended = true;
  block.progress++;
}

static void run_block(Kernel kernel, unsigned threads, void **args) {
  block.kernel = kernel;
  block.args = args;
  block.threads = static_cast<int>(threads);
  block.all = {};
  std::fill(std::begin(block.warps), std::end(block.warps), Barrier{});
  std::fill(std::begin(block.calls), std::end(block.calls), 0);
  while (block.fibers.size() < threads) block.fibers.push_back(std::make_unique<Fiber>());
  for (unsigned i = 0; i < threads; i++) {
    Fiber &f = *block.fibers[i];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = &block.scheduler;
    f.ended = false;
    makecontext(&f.context, run_fiber, 0);
  }
  for (bool running = true; running;) {
    running = false;
    const int64_t before = block.progress;
    for (unsigned i = 0; i < threads; i++) {
      if (block.fibers[i]->ended) continue;
      running = true;
      threadIdx.x = i;
      swapcontext(&block.scheduler, &block.fibers[i]->context);
    }
    TORCH_CHECK(!running || block.progress > before, "the threads of a block wait at different barriers");
  }
}
