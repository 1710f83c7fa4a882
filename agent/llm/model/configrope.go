package model

import (
	"encoding/json"
	"errors"
	"fmt"
)

// rope reads rope_theta and rope_scaling (transformers 4) and rope_parameters
// (transformers 5). A file may have both layouts, where they say the same.
func (r *configReader) rope(c *Config) {
	c.RopeTheta = 10000
	top := r.get("rope_theta", &c.RopeTheta)
	var old, current map[string]json.RawMessage
	hasOld := r.get("rope_scaling", &old)
	hasNew := r.get("rope_parameters", &current)
	faults := len(r.errs)
	second := *c
	if hasOld {
		r.ropeObject("rope_scaling", old, c, top)
	}
	if hasNew {
		r.ropeObject("rope_parameters", current, &second, top)
		if hasOld && len(r.errs) == faults && (second.RopeScaling != c.RopeScaling || second.RopeTheta != c.RopeTheta) {
			r.errs = append(r.errs, errors.New("rope_scaling and rope_parameters differ: keep the one that is right"))
		}
		c.RopeScaling, c.RopeTheta = second.RopeScaling, second.RopeTheta
	}
}

func (r *configReader) ropeObject(key string, raw map[string]json.RawMessage, c *Config, haveTheta bool) {
	o := &configReader{raw: raw, seen: map[string]bool{}}
	s := &c.RopeScaling
	if !o.get("rope_type", &s.Type) {
		o.get("type", &s.Type)
	}
	o.seen["type"] = true // both are written by some releases
	theta := c.RopeTheta
	if o.get("rope_theta", &theta) {
		if haveTheta && theta != c.RopeTheta {
			o.errs = append(o.errs, fmt.Errorf("rope_theta is %v here and %v at the top", theta, c.RopeTheta))
		}
		c.RopeTheta = theta
	}
	switch s.Type {
	case "linear":
		o.must("factor", &s.Factor)
	case "llama3":
		o.must("factor", &s.Factor)
		o.must("low_freq_factor", &s.LowFreqFactor)
		o.must("high_freq_factor", &s.HighFreqFactor)
		o.must("original_max_position_embeddings", &s.OriginalMaxPositionEmbeddings)
	case "default":
	default:
		o.errs = append(o.errs, fmt.Errorf("rope_type %q is not supported (default, linear and llama3 are)", s.Type))
		r.fold(key, o)
		return
	}
	if factor := 1.0; o.get("partial_rotary_factor", &factor) && factor != 1 {
		o.errs = append(o.errs, fmt.Errorf("partial_rotary_factor %v is not supported", factor))
	}
	for k := range raw {
		if !o.seen[k] {
			o.errs = append(o.errs, fmt.Errorf("key %q is not known with rope_type %s", k, s.Type))
		}
	}
	r.fold(key, o)
}
