// Package advantage holds the advantage estimators: functions from the rewards
// of a batch of episodes to one advantage for every sampled token. Each
// estimator is one file, which opens with the formula, its source and the
// differences from the source. Estimators holds them by name.
//
// The package does not use tensors. An estimator writes only the advantages and
// returns of the rows, and must not depend on the iteration order of a map.
package advantage
