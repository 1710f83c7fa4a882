// Package curriculum selects the tasks of a training step and the limit on turns of
// its episodes: tasks by their success rate, a rest for tasks that fail repeatedly,
// and limits that grow in stages.
//
// Draws depend only on the seed and on the reported results, so a checkpoint needs only
// a Sampler's State. Tasks are numbers: the package does not depend on episodes and
// environments. A Sampler is used by one goroutine.
package curriculum
