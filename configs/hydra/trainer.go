package hydra

import (
	"fmt"
	"slices"
	"strings"
)

// trainer is one of the two programs whose command lines are imported. If the
// program is not named, the keys identify it.
type trainer struct {
	name  string
	table []row
}

var (
	ppoTrainer = trainer{"the reinforcement learning trainer (main_ppo)", ppoKeys}
	sftTrainer = trainer{"the SFT trainer (fsdp_sft_trainer)", sftKeys}
)

// hasRow reports whether a table has a key.
func hasRow(table []row, key string) bool {
	return slices.ContainsFunc(table, func(entry row) bool { return covers(entry.key, key) })
}

// covers reports whether a key is one of those that pattern stands for.
func covers(pattern, key string) bool {
	return slices.ContainsFunc(spread(pattern), func(k string) bool {
		all, many := strings.CutSuffix(k, "*")
		return k == key || many && strings.HasPrefix(key, all)
	})
}

// ownKeys has the keys of a command line that only one of the trainers has.
type ownKeys struct{ ppo, sft []string }

// ownOf returns the own keys of overrides.
func ownOf(overrides []Override) ownKeys {
	var own ownKeys
	for _, o := range overrides {
		switch ppo, sft := hasRow(ppoKeys, o.Key), hasRow(sftKeys, o.Key); {
		case ppo && !sft && !slices.Contains(own.ppo, o.Key):
			own.ppo = append(own.ppo, o.Key)
		case sft && !ppo && !slices.Contains(own.sft, o.Key):
			own.sft = append(own.sft, o.Key)
		}
	}
	return own
}

// supervised reports whether a command line is one of the SFT trainer, by its
// program if it is named, otherwise by the majority of own keys.
func (own ownKeys) supervised(program string) bool {
	if program != "" {
		return strings.Contains(program, "sft")
	}
	return len(own.sft) > len(own.ppo)
}

// mixed describes the keys of the other trainer in a command line; "" if it has
// none.
func (own ownKeys) mixed(supervised bool) string {
	others, of := own.sft, sftTrainer
	if supervised {
		others, of = own.ppo, ppoTrainer
	}
	switch n := len(others); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("only %s has %s", of.name, others[0])
	default:
		return fmt.Sprintf("only %s has %s and %d more", of.name, others[0], n-1)
	}
}
