package advantage

// Whitening over the sampled tokens of a batch:
//
//	x ← (x - mean) / √(var + 1e-8)
//
// with mean and unbiased variance over the tokens whose mask is 1. Source:
// verl's masked_whiten (spec 5).
//
// Differs from verl in: tokens outside the mask become 0, while verl whitens them
// too; fewer than two tokens, which have no variance, are unchanged.

import (
	"math"

	"github.com/openmanus/openmanus/data"
)

// whiten whitens the rows' advantages in place.
func whiten(rows []data.Row) {
	n, mean := 0.0, 0.0
	each := func(f func(a *float32)) {
		for i := range rows {
			for t := range rows[i].Advantages {
				if rows[i].Mask[t] == 1 {
					f(&rows[i].Advantages[t])
				}
			}
		}
	}
	each(func(a *float32) { n++; mean += float64(*a) })
	if n < 2 {
		return
	}
	mean /= n
	variance := 0.0
	each(func(a *float32) { variance += (float64(*a) - mean) * (float64(*a) - mean) })
	variance /= n - 1
	each(func(a *float32) { *a = float32((float64(*a) - mean) / math.Sqrt(variance+1e-8)) })
}
