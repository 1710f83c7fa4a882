// Package dist connects the processes of one training run, and does collectives on their tensors.
//
// It owns the environment variables by which launchers describe a process ([ReadEnv]), the group of processes ([Join],
// [Group]), and the start of several processes on one machine ([Launch]). It does not own the distribution of work: episodes,
// micro-batches and shards are dealt by its callers.
//
// The work is done by libtorch's c10d: a TCPStore on rank 0, through which the ranks find each other, ProcessGroupGloo for
// tensors on the CPU, and ProcessGroupNCCL for tensors on GPUs. The store and the connections have neither authentication nor encryption, like PyTorch's: the network
// between the processes must be private.
//
// # Use
//
//	env, found, err := dist.ReadEnv(os.Getenv)
//	g, err := dist.Join(ctx, env, time.Minute)
//	defer g.Abort() // without effect after Close
//	err = torch.Run(ctx, thread, func(s *torch.Scope) error { return g.AllReduce(ctx, gradient) })
//	err = g.Close(ctx)
//
// # Order
//
// All ranks call the same collectives in the same order, with operands of the same shape and type. One goroutine at a time
// may use a group, except for Abort.
//
// # Failures
//
// A rank that dies, hangs or fails ends the group: the call in progress and all later ones return an error that names the
// collective, this rank, the time-out, and the ranks that have not noticed the failure. A rank that ends without Close
// makes the others fail at once, a rank that hangs after the time-out of the group. The naming of the ranks takes up to
// 8 more seconds. A group that has failed cannot be repaired: the processes end and are started again.
package dist
