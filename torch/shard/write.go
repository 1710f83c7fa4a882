package shard

import "io"

// Write calls write on rank 0 and fetches the same n tensors on the other ranks. The function fetch, a collective, gathers tensor i,
// and write calls it for each tensor in order. An error of any rank aborts the group.
func (u *Unit) Write(n int, fetch func(i int, w io.Writer) error, write func() error) error {
	return u.o.Write(n, fetch, write)
}

// Write is Unit.Write for the tensors of several units.
func (o Options) Write(n int, fetch func(i int, w io.Writer) error, write func() error) (err error) {
	if o.Group.Rank() == 0 {
		err = write()
	} else {
		for i := 0; i < n && err == nil; i++ {
			err = fetch(i, io.Discard)
		}
	}
	if err != nil {
		o.Group.Abort()
	}
	return err
}

// Level returns the level of sharding.
func (u *Unit) Level() Level { return u.o.Level }
