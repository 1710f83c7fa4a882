// Package advantage holds the advantage estimators: functions from the rewards
// of a batch of episodes to one advantage for every sampled token. Each is one
// file that opens with its formula, its source and what differs from it, and is
// found by name in Estimators.
//
// It knows no tensors. An estimator is pure but for the fields of the rows that
// it fills; it may not depend on the order of a map.
package advantage
