package configs

import (
	"strings"
)

// faults returns all faults of c.
func (c *Config) faults() Faults {
	fs := c.valueFaults()
	// Rules across keys are skipped for keys with invalid values.
	var across Faults
	c.checkModel(&across)
	c.checkEnvs(&across)
	c.checkRollout(&across)
	c.checkReward(&across)
	c.checkUpdate(&across)
	c.checkSFT(&across)
	c.checkDump(&across)
	c.checkEvol(&across)
	c.checkServe(&across)
	c.checkAsync(&across)
	c.checkWorkers(&across)
	return fs.with(across)
}

// valueFaults returns the faults of single values, independent of other keys.
func (c *Config) valueFaults() Faults {
	var fs Faults
	for _, e := range c.Schema.table {
		if e.status != Ready {
			continue
		}
		for _, path := range c.paths(e.name) {
			if msg := e.rule.Problem(c.field(path).Interface()); msg != "" {
				fs.add(path, "%s", msg)
			}
		}
	}
	return fs
}

// paths returns the paths of a key in c: one, or one for every [[env]] table or
// component.
func (c *Config) paths(name string) []string {
	if leaf, ok := strings.CutPrefix(name, components); ok {
		out := make([]string, len(c.Reward.Components))
		for i, p := range c.Reward.Components {
			out[i] = components + p.Name + "." + leaf
		}
		return out
	}
	if instance(name, 0) == name {
		return []string{name}
	}
	out := make([]string, len(c.Env))
	for i := range out {
		out[i] = instance(name, i)
	}
	return out
}
