// Package ranks exchanges decisions, values and errors between the processes of a run.
//
// Every process (rank) runs the same program on the same configuration. A decision that depends on the
// time, a signal, the disk or the network is made on rank 0 and sent to the others (Share), or the ranks exchange their
// parts of the work (Gather). Both take a function. If the function fails on one rank, all ranks get an error, so that they
// leave the loop at the same place. Package torch/dist owns the processes and their connections.
//
// A nil *Ranks stands for a run of one process: the functions are called, and nothing is exchanged.
package ranks
