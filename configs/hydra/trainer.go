package hydra

import (
	"fmt"
	"slices"
	"strings"
)

// trainer is one of the two programs whose command lines are read. Its keys
// tell which it is where no program is named.
type trainer struct {
	name  string
	table []row
}

var (
	ppoTrainer = trainer{"the reinforcement learning trainer (main_ppo)", ppoKeys}
	sftTrainer = trainer{"the SFT trainer (fsdp_sft_trainer)", sftKeys}
)

func (im *importer) trainer() trainer {
	if im.supervised {
		return sftTrainer
	}
	return ppoTrainer
}

func (im *importer) otherTrainer() trainer {
	if im.supervised {
		return ppoTrainer
	}
	return sftTrainer
}

// hasRow reports whether a table says something of a key.
func hasRow(table []row, key string) bool {
	return slices.ContainsFunc(table, func(entry row) bool {
		return slices.ContainsFunc(spread(entry.key), func(k string) bool {
			all, many := strings.CutSuffix(k, "*")
			return k == key || many && strings.HasPrefix(key, all)
		})
	})
}

// ownKeys are the keys of a command line that only one of the trainers has.
type ownKeys struct{ ppo, sft []string }

// ownOf sorts them out. A setting may be a table of keys.
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

// supervised reports whether a command line is the SFT trainer's. Its program
// says it, or else the keys: of a mixture the more.
func (own ownKeys) supervised(program string) bool {
	if program != "" {
		return strings.Contains(program, "sft")
	}
	return len(own.sft) > len(own.ppo)
}

// mixed says that keys of the other trainer are among those of a command line,
// or "".
func (own ownKeys) mixed(supervised bool) string {
	others, of := own.sft, sftTrainer
	if supervised {
		others, of = own.ppo, ppoTrainer
	}
	switch n := len(others); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s is not, only %s has it", others[0], of.name)
	default:
		return fmt.Sprintf("%s and %d more are not, only %s has them", others[0], n-1, of.name)
	}
}
